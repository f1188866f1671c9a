//! As much of HTTP/1.1 as a client needs that sends small requests now and then: one request a connection, over TCP or
//! TLS, with bounds on time and size.
//!
//! In: a request. Out: the status, the body and its tag.
//!
//! Invariant: a request ends in a time that follows from what it sends and from what came, however slowly and for
//! however long its server answers.
//!
//! Not here: keeping connections, redirections, proxies.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Uri, header};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
    /// The header ETag, empty without one.
    pub tag: String,
}

/// Bytes for each of which a request has a second more.
const SLOWEST_BYTES_PER_S: usize = 64 << 10;
/// The longest that any request may take.
const LONGEST: Duration = Duration::from_secs(1800);

/// A connection whose reads and writes end at the request's deadline.
struct Timed<'s> {
    stream: &'s TcpStream,
    begin: Instant,
    /// Time for a request without a byte.
    timeout: Duration,
    /// Bytes that were sent or came.
    moved: usize,
}

impl Timed<'_> {
    /// Time that is left; an error when none is.
    fn left(&self) -> io::Result<Duration> {
        let more = Duration::from_secs((self.moved / SLOWEST_BYTES_PER_S) as u64);
        let whole = (self.timeout + more).min(LONGEST);
        match whole.checked_sub(self.begin.elapsed()) {
            Some(left) if left > Duration::ZERO => Ok(left),
            _ => Err(late()),
        }
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no whole answer in time")
}

/// What a socket says when its own time is over.
fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        let mut stream = self.stream;
        let got = stream.read(buffer).map_err(|error| match is_late(&error) {
            true => late(),
            false => error,
        })?;
        self.moved += got;
        Ok(got)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        let mut stream = self.stream;
        let sent = stream
            .write(buffer)
            .map_err(|error| match is_late(&error) {
                true => late(),
                false => error,
            })?;
        self.moved += sent;
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The URL in `text`; None where it is none such as `http://HOST[:PORT][/PATH]` or `https://...`.
pub fn parse_url(text: &str) -> Option<Uri> {
    let url: Uri = text.parse().ok()?;
    let authority = url.authority()?;
    let (named, host) = (authority.as_str(), authority.host());
    let is_port_known = authority.port_u16().is_some() || named == host;
    let is_scheme_known = matches!(url.scheme_str(), Some("http" | "https"));
    (is_scheme_known && is_port_known && !named.contains('@')).then_some(url)
}

/// Sends a request and returns the answer, within `timeout` and what 64 KiB/s take for that which is sent and comes. The
/// request's URL is whole; an answer longer than `most_bytes` is an error.
pub fn send(request: &Request<Bytes>, timeout: Duration, most_bytes: usize) -> io::Result<Answer> {
    let url = request.uri();
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what);
    let authority = url
        .authority()
        .ok_or_else(|| invalid("no server is named"))?;
    let is_tls = url.scheme_str() == Some("https");
    let name = authority.host().trim_matches(['[', ']']);
    let port = authority
        .port_u16()
        .unwrap_or(if is_tls { 443 } else { 80 });
    let begin = Instant::now();
    let stream = connect(name, port, timeout)?;
    let timed = Timed {
        stream: &stream,
        begin,
        timeout,
        moved: 0,
    };
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut head = format!("{} {path} HTTP/1.1\r\n", request.method());
    if !request.headers().contains_key(header::HOST) {
        head.push_str(&format!("host: {authority}\r\n"));
    }
    for (name, value) in request.headers() {
        let value = value.to_str().map_err(|_| invalid("a header is no text"))?;
        if name != header::CONTENT_LENGTH {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    let body = request.body();
    let length = body.len();
    head.push_str(&format!(
        "content-length: {length}\r\nconnection: close\r\n"
    ));
    if is_tls {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let client = ClientConnection::new(tls()?, name).map_err(io::Error::other)?;
        talk(
            &mut StreamOwned::new(client, timed),
            &head,
            body,
            most_bytes,
        )
    } else {
        talk(&mut { timed }, &head, body, most_bytes)
    }
}

fn connect(name: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, format!("{name} has no address"));
    let addresses: Vec<_> = (name, port).to_socket_addrs()?.collect();
    for address in &addresses {
        // All of them together have the time of one request.
        match TcpStream::connect_timeout(address, timeout / addresses.len() as u32) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn talk(
    stream: &mut (impl Read + Write),
    head: &str,
    body: &[u8],
    most_bytes: usize,
) -> io::Result<Answer> {
    stream.write_all(head.as_bytes())?;
    stream.write_all(b"\r\n")?;
    stream.write_all(body)?;
    stream.flush()?;
    let mut text = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        if let Some(answer) = parse(&text, false)? {
            return Ok(answer);
        }
        if text.len() > most_bytes {
            return Err(io::Error::other("the answer is too long"));
        }
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(got) => text.extend(&chunk[..got]),
            // A TLS peer that closes without saying so: what came tells its own length.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    parse(&text, true)?
        .ok_or_else(|| io::Error::other("the connection ended in the middle of the answer"))
}

/// The answer that `text` holds; None when more of it is to come. `is_all` says that the connection has ended.
pub fn parse(text: &[u8], is_all: bool) -> io::Result<Option<Answer>> {
    let odd = |what: &str| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("no HTTP answer: {what}"),
        )
    };
    let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") else {
        return match is_all || text.len() > 64 * 1024 {
            true => Err(odd("no end of its head")),
            false => Ok(None),
        };
    };
    let head = std::str::from_utf8(&text[..end]).map_err(|_| odd("its head is no text"))?;
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(' ');
    let status = words
        .next()
        .filter(|version| version.starts_with("HTTP/1."))
        .and_then(|_| words.next()?.parse::<u16>().ok())
        .ok_or_else(|| odd("no status"))?;
    let (mut length, mut is_chunked, mut tag) = (None, false, "");
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(
                value
                    .trim()
                    .parse::<usize>()
                    .map_err(|_| odd("its length is no number"))?,
            );
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            is_chunked = value.to_ascii_lowercase().contains("chunked");
        } else if name.eq_ignore_ascii_case("etag") {
            tag = value.trim();
        }
    }
    let rest = &text[end + 4..];
    if status == 100 {
        return parse(rest, is_all);
    }
    let whole = |body: Vec<u8>| {
        Ok(Some(Answer {
            status,
            body,
            tag: tag.to_owned(),
        }))
    };
    if status == 204 || status == 304 {
        return whole(Vec::new());
    }
    // The last chunk ends so; before it comes, a long body is not gone through again and again.
    if is_chunked && !is_all && !rest.ends_with(b"\r\n\r\n") {
        return Ok(None);
    }
    if is_chunked {
        return match chunks(rest) {
            Ok(Some(body)) => whole(body),
            Ok(None) if !is_all => Ok(None),
            _ => Err(odd("its chunks do not fit")),
        };
    }
    match length {
        Some(length) if rest.len() >= length => whole(rest[..length].to_vec()),
        None if is_all => whole(rest.to_vec()),
        _ if is_all => Err(odd("it is shorter than it says")),
        _ => Ok(None),
    }
}

/// The body in chunks; None when more is to come.
fn chunks(mut text: &[u8]) -> Result<Option<Vec<u8>>, ()> {
    let mut body = Vec::new();
    loop {
        let Some(end) = text.windows(2).position(|two| two == b"\r\n") else {
            return if text.len() > 1024 { Err(()) } else { Ok(None) };
        };
        let size = std::str::from_utf8(&text[..end]).map_err(|_| ())?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| ())?;
        text = &text[end + 2..];
        if size == 0 {
            return Ok(Some(body));
        }
        let after = size.checked_add(2).ok_or(())?;
        let Some(chunk) = text.get(..after) else {
            return Ok(None);
        };
        body.extend(&chunk[..size]);
        text = &text[after..];
    }
}

/// Where systems keep the certificates that they trust.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// TLS that trusts what the system trusts, or the file that SSL_CERT_FILE or AWS_CA_BUNDLE names.
fn tls() -> io::Result<Arc<ClientConfig>> {
    let named = ["AWS_CA_BUNDLE", "SSL_CERT_FILE"];
    let named = named
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|path| !path.is_empty()));
    let path = match named {
        Some(path) => path,
        None => BUNDLES
            .iter()
            .find(|path| std::path::Path::new(path).exists())
            .ok_or_else(|| io::Error::other("no certificates that the system trusts: install ca-certificates, or set SSL_CERT_FILE"))?
            .to_string(),
    };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(&path)
        .map_err(|error| io::Error::other(format!("{path}: {error}")))?;
    let (added, _) = roots.add_parsable_certificates(certificates.flatten());
    if added == 0 {
        return Err(io::Error::other(format!("{path} holds no certificate")));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_piece_by_piece() {
        let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let chunked = b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
        for (text, wanted) in [
            (&plain[..], (200, &b"hello"[..])),
            (chunked, (404, b"abcde")),
        ] {
            let end = (1..=text.len())
                .find(|end| parse(&text[..*end], false).unwrap().is_some())
                .unwrap();
            let answer = parse(&text[..end], false).unwrap().unwrap();
            assert_eq!((answer.status, answer.body.as_slice()), wanted);
        }
        let closed = b"HTTP/1.0 200 OK\r\n\r\nall of it";
        assert_eq!(parse(closed, false).unwrap(), None);
        assert_eq!(parse(closed, true).unwrap().unwrap().body, b"all of it");
        assert!(parse(&plain[..40], true).is_err());
        assert!(parse(b"SSH-2.0\r\n\r\n", false).is_err());
        assert_eq!(
            parse(
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
                false
            )
            .unwrap()
            .unwrap()
            .status,
            204
        );
    }

    #[test]
    fn urls() {
        let parsed = |url| parse_url(url).map(|url| url.authority().unwrap().to_string());
        for (url, authority) in [
            ("http://127.0.0.1:9000", "127.0.0.1:9000"),
            ("https://s3.example.com/x/", "s3.example.com"),
            ("http://[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(parsed(url).as_deref(), Some(authority));
        }
        for odd in [
            "",
            "ftp://x",
            "http://",
            "http://a b",
            "http://a:x",
            "/x",
            "a",
        ] {
            assert_eq!(parsed(odd), None, "{odd}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(text: Vec<u8>, is_all: bool) {
            let _ = parse(&text, is_all);
            let _ = parse(&[b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", &text[..]].concat(), is_all);
        }
    }
}
