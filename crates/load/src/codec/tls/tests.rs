use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use tempfile::TempDir;

use super::*;
use crate::codec::{MemcachedText, Outcome};
use crate::workload::Keyspace;
use crate::workload::{GET, Popularity, SET};
use crate::{LoadError, Sizes, settings};

/// An authority, with its certificate in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        Self::named("an authority")
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A client that trusts this authority and asks for `name`.
    fn client(&self, name: &str) -> Tls<MemcachedText> {
        let tls = settings::Tls {
            ca: Some(self.file()),
            name: name.to_owned(),
            insecure: false,
            client: None,
        };
        Tls::new(MemcachedText::default(), Trust::new(&tls).unwrap())
    }

    /// A server with a certificate for `name`.
    fn server(&self, name: &str) -> ServerConnection {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        ServerConnection::new(Arc::new(config)).unwrap()
    }
}

fn ring() -> rustls::crypto::CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// A client and a server that exchange bytes in pieces of `piece`.
struct Pair {
    client: Tls<MemcachedText>,
    server: ServerConnection,
    piece: usize,
    /// From the client, not yet with the server.
    out: Vec<u8>,
    answers: Vec<Answer>,
    /// What the server has read.
    asked: Vec<u8>,
}

impl Pair {
    fn new(mut client: Tls<MemcachedText>, server: ServerConnection, piece: usize) -> Self {
        let mut out = Vec::new();
        client.open(&mut out);
        assert!(!client.ready());
        Self {
            client,
            server,
            piece,
            out,
            answers: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// Exchanges bytes until both are silent.
    fn settle(&mut self) -> Result<(), ProtocolError> {
        loop {
            let out = std::mem::take(&mut self.out);
            let mut rest = &out[..];
            while !rest.is_empty() {
                self.server.read_tls(&mut rest).unwrap();
                // An alert of the client ends the server's side too; the client's own error counts.
                let _ = self.server.process_new_packets();
                let mut asked = [0; 65_536];
                while let Ok(read @ 1..) = self.server.reader().read(&mut asked) {
                    self.asked.extend_from_slice(&asked[..read]);
                }
            }
            let mut back = Vec::new();
            while self.server.wants_write() {
                self.server.write_tls(&mut back).unwrap();
            }
            for piece in back.chunks(self.piece) {
                self.client
                    .decode(piece, &mut self.out, &mut self.answers)?;
            }
            if self.out.is_empty() && back.is_empty() {
                return Ok(());
            }
        }
    }

    fn ask(&mut self, operation: usize, workload: &Workload) {
        let request = Request::of(operation, 3);
        self.client.encode(&request, workload, &mut self.out);
    }

    fn take_outcomes(&mut self) -> Vec<Outcome> {
        self.answers.drain(..).map(|a| a.outcome).collect()
    }
}

fn workload(value_bytes: usize) -> Workload {
    let keys = Keyspace::new(10, Sizes::fixed(12), Sizes::fixed(value_bytes), true).unwrap();
    Workload::of_gets_and_sets(keys, Popularity::Uniform, 0.5).unwrap()
}

#[test]
fn requests_and_answers_pass_in_any_pieces() {
    let authority = Authority::new();
    // A value of several records, so that neither side can hold a request or an answer in one.
    let workload = workload(40_000);
    for piece in [1, 7, 1400, 100_000] {
        let (client, server) = (authority.client("localhost"), authority.server("localhost"));
        let mut pair = Pair::new(client, server, piece);
        pair.settle().unwrap();
        assert!(pair.client.ready());
        assert_eq!(pair.server.server_name(), Some("localhost"));
        pair.ask(SET, &workload);
        pair.ask(GET, &workload);
        pair.settle().unwrap();
        let mut expected = Vec::new();
        let mut plain = MemcachedText::default();
        for operation in [SET, GET] {
            let request = Request::of(operation, 3);
            plain.encode(&request, &workload, &mut expected);
        }
        assert_eq!(pair.asked, expected);
        let mut answer = b"STORED\r\nVALUE ".to_vec();
        workload.keys.write_key(3, &mut answer);
        answer.extend_from_slice(b" 0 40000\r\n");
        answer.extend(vec![b'v'; 40_000]);
        answer.extend_from_slice(b"\r\nEND\r\n");
        pair.server.writer().write_all(&answer).unwrap();
        pair.settle().unwrap();
        assert_eq!(pair.take_outcomes(), [Outcome::Stored, Outcome::Hit]);
        // The server changes its keys in between.
        pair.server.refresh_traffic_keys().unwrap();
        pair.server.writer().write_all(b"END\r\n").unwrap();
        pair.settle().unwrap();
        pair.ask(GET, &workload);
        pair.settle().unwrap();
        assert_eq!(pair.take_outcomes(), [Outcome::Miss]);
        pair.server.send_close_notify();
        let closed = pair.settle().unwrap_err();
        assert_eq!(closed.kind, "connection-closed");
    }
}

#[test]
fn who_cannot_prove_its_name_gets_nothing() {
    let (known, namesake) = (Authority::new(), Authority::new());
    let unknown = Authority::named("another");
    let workload = workload(10);
    for (server, kind, words) in [
        (
            unknown.server("localhost"),
            "tls-certificate",
            "unknown authority",
        ),
        (
            namesake.server("localhost"),
            "tls-certificate",
            "unknown authority",
        ),
        (
            known.server("elsewhere.test"),
            "tls-certificate",
            r#"not for "localhost""#,
        ),
    ] {
        let mut pair = Pair::new(known.client("localhost"), server, 500);
        assert_eq!(pair.settle().unwrap_err().kind, kind);
        let complaint = pair.client.complaint().unwrap();
        assert!(complaint.contains(words), "{complaint}");
        assert!(!pair.client.ready());
        // Even asked to, it says nothing more.
        pair.out.clear();
        pair.ask(GET, &workload);
        assert!(pair.out.len() < 50, "{} bytes", pair.out.len());
        assert_eq!(pair.asked, b"");
    }
}

#[test]
fn an_address_is_a_name_too() {
    let authority = Authority::new();
    let server = authority.server("127.0.0.1");
    let mut pair = Pair::new(authority.client("127.0.0.1"), server, 500);
    pair.settle().unwrap();
    assert!(pair.client.ready());
    // An address is no host name, and is not asked for.
    assert_eq!(pair.server.server_name(), None);
}

#[test]
fn plain_text_is_distinguished_from_tls() {
    let authority = Authority::new();
    for text in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"-ERR unknown command\r\n",
        &[0; 64],
    ] {
        let mut client = authority.client("localhost");
        let mut out = Vec::new();
        client.open(&mut out);
        let error = client.decode(text, &mut out, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind, "tls-garbage", "{:?}", client.complaint());
        assert_eq!(client.complaint(), Some("the server does not speak TLS"));
    }
}

#[test]
fn changed_records_are_noticed() {
    let authority = Authority::new();
    let server = authority.server("localhost");
    let mut pair = Pair::new(authority.client("localhost"), server, 500);
    pair.settle().unwrap();
    pair.server.writer().write_all(b"END\r\n").unwrap();
    let mut record = Vec::new();
    pair.server.write_tls(&mut record).unwrap();
    *record.last_mut().unwrap() ^= 1;
    let changed = pair
        .client
        .decode(&record, &mut Vec::new(), &mut pair.answers);
    assert_eq!(changed.unwrap_err().kind, "tls-error");
    assert_eq!(pair.answers, []);
}

/// What a client that trusts a self-signed certificate by name says of its server; None where it goes well.
fn said_of_self_signed(change: impl Fn(&mut CertificateParams)) -> Option<String> {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("c.pem");
    std::fs::write(&file, certificate.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let tls = settings::Tls {
        ca: Some(file),
        name: "localhost".to_owned(),
        insecure: false,
        client: None,
    };
    let client = Tls::new(MemcachedText::default(), Trust::new(&tls).unwrap());
    let server = ServerConnection::new(Arc::new(config)).unwrap();
    let mut pair = Pair::new(client, server, 1000);
    let shaken = pair.settle();
    shaken
        .err()
        .map(|_| pair.client.complaint().unwrap_or_default().to_owned())
}

#[test]
fn a_self_signed_certificate_is_trusted_within_its_time() {
    assert_eq!(said_of_self_signed(|_| ()), None);
    let expired = said_of_self_signed(|params| params.not_after = rcgen::date_time_ymd(2001, 1, 1));
    assert!(expired.unwrap().contains("has expired"));
    let early = said_of_self_signed(|params| params.not_before = rcgen::date_time_ymd(2999, 1, 1));
    assert!(early.unwrap().contains("not valid yet"));
}

#[test]
fn what_cannot_be_trusted_is_refused_at_once() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, "nothing\n").unwrap();
    let trust = |ca: PathBuf, name: &str| {
        Trust::new(&settings::Tls {
            ca: Some(ca),
            name: name.to_owned(),
            insecure: false,
            client: None,
        })
    };
    assert!(matches!(
        trust(file, "localhost"),
        Err(LoadError::Setting {
            name: "--tls-ca",
            ..
        })
    ));
    assert!(matches!(
        trust(folder.path().join("absent.pem"), "localhost"),
        Err(LoadError::File { .. })
    ));
    assert!(matches!(
        trust(Authority::new().file(), "no name"),
        Err(LoadError::Setting {
            name: "--tls-name",
            ..
        })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn noise_never_panics(
        noise in prop::collection::vec(any::<u8>(), 0..600),
        at in any::<prop::sample::Index>(),
        piece in 1usize..200,
    ) {
        // A whole handshake's bytes, overwritten from a place on.
        thread_local!(static AUTHORITY: Authority = Authority::new());
        AUTHORITY.with(|authority| {
            let mut client = authority.client("localhost");
            let mut server = authority.server("localhost");
            let (mut out, mut back) = (Vec::new(), Vec::new());
            client.open(&mut out);
            server.read_tls(&mut &out[..]).unwrap();
            server.process_new_packets().unwrap();
            while server.wants_write() {
                server.write_tls(&mut back).unwrap();
            }
            back.truncate(at.index(back.len()));
            back.extend(noise);
            for piece in back.chunks(piece) {
                if client.decode(piece, &mut out, &mut Vec::new()).is_err() {
                    break;
                }
            }
            assert!(!client.ready());
        });
    }
}
