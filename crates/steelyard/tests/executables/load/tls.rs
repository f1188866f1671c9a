//! TLS around a protocol: real servers, servers that cannot be trusted or do not play their part, and one that changes
//! its certificate under load.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::capacity::mode;
use super::support::{Server, answer, finish, load, next_request, result, whole};

/// An authority's certificate, and a server's with its key, in files.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    /// Certificates for `name` from a new authority.
    fn of(name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let folder = tempfile::tempdir().unwrap();
        // memcached gives up root before it reads them.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let write = |file, text: String| std::fs::write(folder.path().join(file), text).unwrap();
        write("ca.pem", issuer.pem());
        write("certificate.pem", certificate.pem());
        write("key.pem", key.serialize_pem());
        Self { folder }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn config(&self) -> Arc<ServerConfig> {
        let certificate = CertificateDer::from_pem_file(self.path("certificate.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.path("key.pem")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        Arc::new(config)
    }
}

/// A program that listens on a free port.
struct Program {
    child: Child,
    address: SocketAddr,
}

impl Program {
    fn start(command: impl Fn(u16) -> Command) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut command = command(address.port());
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("scripts/install-test-packages brings it");
        let program = Self { child, address };
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(
                begin.elapsed() < Duration::from_secs(10),
                "it does not listen"
            );
            thread::sleep(Duration::from_millis(10));
        }
        program
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Whether `program` is installed; in CI it must be.
fn is_here(program: &str) -> bool {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    });
    assert!(
        found || std::env::var_os("CI").is_none(),
        "{program} is missing: scripts/install-test-packages brings it"
    );
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

#[test]
fn memcached_is_loaded_through_tls() {
    if !is_here("memcached") {
        return;
    }
    let files = Files::of("localhost");
    let chain = format!(
        "ssl_chain_cert={},ssl_key={}",
        text(&files.path("certificate.pem")),
        text(&files.path("key.pem"))
    );
    let server = Program::start(|port| {
        let mut command = Command::new("memcached");
        command.args([
            "-u",
            "nobody",
            "-l",
            "127.0.0.1",
            "-t",
            "1",
            "-Z",
            "-o",
            &chain,
        ]);
        command.args(["-p", &port.to_string()]);
        command
    });
    for io in ["auto", "epoll"] {
        let ca = files.path("ca.pem");
        let flags = "--tls --tls-name localhost --prefill --keys 500 --value-sizes 30000 --depth 4 \
                     --set-ratio 0.2 --warmup 100ms --duration 500ms";
        let mut arguments: Vec<&str> = flags.split_whitespace().collect();
        arguments.extend(["--tls-ca", text(&ca), "--io", io]);
        let result = result(server.address, &arguments);
        assert_eq!(result["requests"]["errors"], 0, "{io}");
        let get = &result["operations"]["get"];
        assert!(get["completed"].as_u64().unwrap() > 100);
        assert_eq!(get["hits"], get["completed"]);
    }
}

#[test]
fn openssl_answers_or_is_refused_for_its_version() {
    if !is_here("openssl") {
        return;
    }
    let files = Files::of("127.0.0.1");
    let start = |version: &'static str| {
        Program::start(|port| {
            let mut command = Command::new("openssl");
            command.args(["s_server", "-www", "-quiet", version, "-accept"]);
            command.arg(format!("127.0.0.1:{port}"));
            command.args(["-cert", text(&files.path("certificate.pem"))]);
            command.args(["-key", text(&files.path("key.pem"))]);
            command
        })
    };
    let ca = files.path("ca.pem");
    let arguments = [
        "--protocol",
        "http",
        "--tls",
        "--tls-ca",
        text(&ca),
        "--connections",
        "1",
        "--warmup",
        "50ms",
        "--duration",
        "300ms",
    ];
    // It answers each connection once and closes it: every request shakes hands anew.
    let server = start("-tls1_3");
    let result = result(server.address, &arguments);
    assert!(result["requests"]["completed"].as_u64().unwrap() > 5);
    assert_eq!(result["requests"]["errors"], 0);
    drop(server);

    let server = start("-tls1_2");
    let refused = refused(server.address, &arguments);
    assert!(refused.contains("does not speak TLS 1.3"), "{refused}");
}

#[test]
fn urls_of_encrypted_servers_are_loaded() {
    if !is_here("openssl") || !is_here("redis-server") {
        return;
    }
    let files = Files::of("127.0.0.1");
    let (certificate, key, ca) = (
        files.path("certificate.pem"),
        files.path("key.pem"),
        files.path("ca.pem"),
    );
    let web = Program::start(|port| {
        let mut command = Command::new("openssl");
        command.args(["s_server", "-www", "-quiet", "-tls1_3", "-accept"]);
        command.arg(format!("127.0.0.1:{port}"));
        command.args(["-cert", text(&certificate), "-key", text(&key)]);
        command
    });
    let redis = Program::start(|port| {
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--tls-port", &port.to_string(), "--tls-auth-clients", "no"]);
        command.args(["--tls-cert-file", text(&certificate)]);
        command.args([
            "--tls-key-file",
            text(&key),
            "--tls-ca-cert-file",
            text(&ca),
        ]);
        command.current_dir(files.folder.path());
        command
    });
    for url in [
        format!("https://{}/", web.address),
        format!("rediss://{}", redis.address),
    ] {
        // How many handshakes fit into a time depends on the neighbours: where few did, once more for longer.
        let enough = ["300ms", "5s"].iter().any(|duration| {
            let flags = format!(
                "--json --progress none --connections 1 --warmup 50ms --duration {duration} --tls-ca"
            );
            let child = Command::new(env!("CARGO_BIN_EXE_steelyard-load"))
                .arg(&url)
                .args(flags.split_whitespace())
                .arg(&ca)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let output = finish(child, Duration::from_secs(30));
            let result = whole(&output);
            assert_eq!(result["requests"]["errors"], 0, "{url}");
            result["requests"]["completed"].as_u64().unwrap() > 2
        });
        assert!(enough, "{url}");
    }
}

/// Runs the program, which must end quickly with code 3 and one line; returns the line.
fn refused(target: SocketAddr, arguments: &[&str]) -> String {
    let child = load(target, arguments).spawn().unwrap();
    let output = finish(child, Duration::from_secs(20));
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(output.stdout.is_empty());
    line
}

/// Serves memcached's protocol in TLS on one connection, up to `requests` of them.
fn serve(stream: TcpStream, config: &Arc<ServerConfig>, requests: usize) {
    let connection = ServerConnection::new(Arc::clone(config)).unwrap();
    let mut read = BufReader::new(StreamOwned::new(connection, stream));
    for _ in 0..requests {
        let Some(request) = next_request(&mut read) else {
            return;
        };
        if read
            .get_mut()
            .write_all(answer(&request).as_bytes())
            .is_err()
        {
            return;
        }
    }
}

#[test]
fn who_cannot_be_trusted_or_does_not_speak_tls_is_refused_in_one_line() {
    let (files, other) = (Files::of("localhost"), Files::of("localhost"));
    let config = files.config();
    let secured = Server::start(move |stream| serve(stream, &config, usize::MAX));
    let (ca, wrong) = (files.path("ca.pem"), other.path("ca.pem"));
    let with = |ca: &str, name: &str, target| {
        refused(target, &["--tls", "--tls-ca", ca, "--tls-name", name])
    };
    let address = secured.address;
    let line = with(text(&wrong), "localhost", address);
    assert!(line.contains("unknown authority"), "{line}");
    let line = with(text(&ca), "elsewhere.test", address);
    assert!(line.contains(r#"not for "elsewhere.test""#), "{line}");
    // The name of --target counts where none is given: here an address that is not in the certificate.
    let line = refused(address, &["--tls", "--tls-ca", text(&ca)]);
    assert!(line.contains(r#"not for "127.0.0.1""#), "{line}");

    let plain = Server::start(|mut stream| {
        let _ = stream.write_all(b"ERROR\r\n");
        let _ = stream.read(&mut [0; 1000]);
    });
    let line = with(text(&ca), "localhost", plain.address);
    assert!(line.contains("does not speak TLS"), "{line}");
    let closing = Server::start(drop);
    let line = with(text(&ca), "localhost", closing.address);
    assert!(line.contains("connection-"), "{line}");
    let silent = Server::start(|mut stream| while let Ok(1..) = stream.read(&mut [0; 1000]) {});
    let line = with(text(&ca), "localhost", silent.address);
    assert!(line.contains("handshake-timeout"), "{line}");
}

#[test]
fn what_was_measured_is_kept_when_a_server_takes_no_more_connections() {
    let files = Files::of("localhost");
    let ca = files.path("ca.pem");
    for (name, rows) in [("capacity", "probes"), ("sweep", "points")] {
        let (config, connections) = (files.config(), AtomicUsize::new(0));
        // Two loads of two connections are served, and whatever connects later is closed at once.
        let server = Server::start(move |stream| {
            if connections.fetch_add(1, Ordering::Relaxed) < 4 {
                serve(stream, &config, usize::MAX);
            }
        });
        let flags =
            "--progress none --tls --tls-name localhost --connections 2 --warmup 0ms --duration 1s";
        let mut arguments: Vec<&str> = flags.split_whitespace().collect();
        arguments.extend(["--tls-ca", text(&ca)]);
        arguments.extend(if name == "sweep" {
            ["--rates", "100,100,100,100"].as_slice()
        } else {
            &["--slo", "p90<=10s", "--start", "100", "--probes", "9"]
        });
        let child = mode(name, server.address, &arguments).spawn().unwrap();
        let output = finish(child, Duration::from_secs(60));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{name}: {stderr}");
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result[rows].as_array().unwrap().len(), 2, "{result}");
        assert_eq!(result["verdict"]["level"], "invalid");
        let claim = result["verdict"]["checks"][0]["claim"].as_str().unwrap();
        assert!(claim.contains("has stopped answering"), "{claim}");
    }
}

#[test]
fn a_server_that_changes_its_certificate_is_not_trusted_again() {
    let (files, other) = (Files::of("localhost"), Files::of("localhost"));
    let (first, then) = (files.config(), other.config());
    let connections = AtomicUsize::new(0);
    let server = Server::start(move |stream| {
        // The first two connections serve for a while; whatever is made after them meets another authority.
        let config = if connections.fetch_add(1, Ordering::Relaxed) < 2 {
            &first
        } else {
            &then
        };
        serve(stream, config, 300);
    });
    let ca = files.path("ca.pem");
    let flags =
        "--tls --tls-name localhost --connections 2 --warmup 0ms --duration 1s --drain 100ms";
    let mut arguments: Vec<&str> = flags.split_whitespace().collect();
    arguments.extend(["--tls-ca", text(&ca)]);
    let child = load(server.address, &arguments).spawn().unwrap();
    let output = finish(child, Duration::from_secs(20));
    let result = whole(&output);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.matches("unknown authority").count(), 1, "{stderr}");
    let answered = result["requests"]["completed"].as_u64().unwrap();
    assert!((1..=600).contains(&answered), "{answered}");
    assert_ne!(result["verdict"]["level"], "valid");
}

/// A self-signed certificate as `openssl req -x509` makes it: an authority's that a server shows.
fn self_signed(name: &str) -> (tempfile::TempDir, Arc<ServerConfig>) {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("c.pem"), certificate.pem()).unwrap();
    std::fs::write(folder.path().join("k.pem"), key.serialize_pem()).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.path().join("k.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (folder, Arc::new(config))
}

#[test]
fn a_self_signed_certificate_is_trusted_where_it_is_named() {
    let (folder, config) = self_signed("localhost");
    let served = Arc::clone(&config);
    let server = Server::start(move |stream| serve(stream, &served, usize::MAX));
    let file = folder.path().join("c.pem");
    let (other, _) = self_signed("localhost");
    let other = other.path().join("c.pem");
    let short = "--connections 2 --warmup 0ms --duration 200ms --tls";
    fn with<'a>(short: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        short.split(' ').chain(more.iter().copied()).collect()
    }
    for trusted in [
        with(short, &["--tls-name", "localhost", "--tls-ca", text(&file)]),
        with(short, &["--insecure"]),
    ] {
        let result = result(server.address, &trusted);
        assert!(result["requests"]["completed"].as_u64().unwrap() > 0);
        assert_eq!(result["requests"]["errors"], 0);
    }
    for (refused_by, says) in [
        // Another certificate of that name is not this one.
        (
            with(
                short,
                &["--tls-name", "localhost", "--tls-ca", text(&other)],
            ),
            "self-signed or from an unknown authority: name it with --tls-ca, or use --insecure",
        ),
        (
            with(short, &["--tls-name", "other", "--tls-ca", text(&file)]),
            "is not for \"other\" (see --tls-name)",
        ),
    ] {
        let line = refused(server.address, &refused_by);
        assert!(line.contains(says), "{line}");
    }
}

#[test]
fn a_server_that_wants_a_certificate_gets_one() {
    let files = Files::of("localhost");
    let (folder, _) = self_signed("client");
    let mut roots = rustls::RootCertStore::empty();
    // The client's certificate is from the same authority as the server's.
    let authority = CertificateDer::from_pem_file(files.path("ca.pem")).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
        Arc::new(roots),
        Arc::clone(&provider),
    );
    let key = PrivateKeyDer::from_pem_file(files.path("key.pem")).unwrap();
    let certificate = CertificateDer::from_pem_file(files.path("certificate.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let server = Server::start(move |stream| serve(stream, &config, usize::MAX));
    let ca = files.path("ca.pem");
    let (certificate, key) = (files.path("certificate.pem"), files.path("key.pem"));
    let flags = "--connections 2 --warmup 0ms --duration 200ms --tls --tls-name localhost --tls-ca";
    let with = |more: &[&'static str]| {
        let mut all: Vec<String> = flags.split(' ').map(str::to_owned).collect();
        all.push(text(&ca).to_owned());
        all.extend(more.iter().map(|word| (*word).to_owned()));
        all
    };
    let mut known = with(&["--tls-cert"]);
    known.extend([text(&certificate).to_owned(), "--tls-key".to_owned()]);
    known.push(text(&key).to_owned());
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let served = result(server.address, &known);
    assert!(served["requests"]["completed"].as_u64().unwrap() > 0);
    let unknown = with(&[]);
    let unknown: Vec<&str> = unknown.iter().map(String::as_str).collect();
    let child = load(server.address, &unknown).spawn().unwrap();
    let output = finish(child, Duration::from_secs(20));
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    // Before the load begins (3), or where the handshakes were over already, as errors of the load (1).
    assert!(matches!(output.status.code(), Some(1 | 3)), "{said}");
    assert!(
        said.contains("tls-client-certificate") || said.contains("--tls-cert"),
        "{said}"
    );
    drop(folder);
}
