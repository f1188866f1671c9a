//! A server as a URL: `http://127.0.0.1:8080/page` in place of --protocol, --target, --tls and --path.
//!
//! Taken apart by hand: a library would encode the placeholders that a path may hold, such as {key}.

use crate::arguments::ProtocolArgument;

/// What a URL says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    pub protocol: ProtocolArgument,
    pub tls: bool,
    /// As --target takes it.
    pub target: String,
    /// Path and query, of HTTP only; None where the URL ends with the host.
    pub path: Option<String>,
}

/// Scheme, protocol, whether it is within TLS, and the port where none is named.
const SCHEMES: [(&str, ProtocolArgument, bool, Option<u16>); 8] = [
    ("http", ProtocolArgument::Http, false, Some(80)),
    ("https", ProtocolArgument::Http, true, Some(443)),
    ("redis", ProtocolArgument::Redis, false, Some(6379)),
    ("rediss", ProtocolArgument::Redis, true, Some(6379)),
    ("memcache", ProtocolArgument::Memcached, false, Some(11211)),
    ("memcached", ProtocolArgument::Memcached, false, Some(11211)),
    ("cql", ProtocolArgument::Cql, false, Some(9042)),
    ("thrift", ProtocolArgument::Thrift, false, None),
];

/// Lets a URL pass that can be taken apart: what cannot be is an error of the command line.
pub fn checked(text: &str) -> Result<String, String> {
    parse(text).map(|_| text.to_owned())
}

/// Takes a URL apart; the error says in one line what is wrong with it.
pub fn parse(text: &str) -> Result<Url, String> {
    let (scheme, rest) = text.split_once("://").ok_or_else(|| {
        format!("{text:?} is not a URL such as http://127.0.0.1:8080/, nor capacity or sweep")
    })?;
    let known = SCHEMES
        .iter()
        .find(|known| known.0.eq_ignore_ascii_case(scheme));
    let Some(&(_, protocol, tls, default_port)) = known else {
        let names: Vec<&str> = SCHEMES.iter().map(|known| known.0).collect();
        return Err(format!(
            "{scheme:?} is not a supported scheme: use {}",
            names.join(", ")
        ));
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains('@') {
        return Err("a URL cannot contain a user: use --user and --password-file (CQL)".into());
    }
    // The colons of an IPv6 address stand in brackets.
    let after_host = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    let has_port = authority[after_host..].contains(':');
    let target = match (has_port, default_port) {
        (true, _) => authority.to_owned(),
        (false, Some(port)) => format!("{authority}:{port}"),
        (false, None) => return Err(format!("{text:?} has no port")),
    };
    if authority.is_empty() || target.starts_with(':') {
        return Err(format!("{text:?} has no host"));
    }
    let is_http = protocol == ProtocolArgument::Http;
    if !is_http && !matches!(path, "" | "/") {
        return Err(format!("{text:?}: only HTTP has a path"));
    }
    let path = (is_http && !path.is_empty()).then(|| match path.starts_with('?') {
        true => format!("/{path}"),
        false => path.to_owned(),
    });
    Ok(Url {
        protocol,
        tls,
        target,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> (ProtocolArgument, bool, String, Option<String>) {
        let found = parse(text).expect(text);
        (found.protocol, found.tls, found.target, found.path)
    }

    #[test]
    fn schemes_give_protocol_tls_and_port() {
        use ProtocolArgument::{Http, Memcached, Redis, Thrift};
        let of = |target: &str, path: Option<&str>| (target.to_owned(), path.map(str::to_owned));
        for (text, protocol, tls, (target, path)) in [
            ("http://a", Http, false, of("a:80", None)),
            ("HTTPS://a/", Http, true, of("a:443", Some("/"))),
            (
                "http://a:8080/b/{key}?c=1#d",
                Http,
                false,
                of("a:8080", Some("/b/{key}?c=1")),
            ),
            (
                "http://a?c=http://b:1",
                Http,
                false,
                of("a:80", Some("/?c=http://b:1")),
            ),
            ("http://[::1]/", Http, false, of("[::1]:80", Some("/"))),
            ("http://[::1]:81", Http, false, of("[::1]:81", None)),
            ("redis://a", Redis, false, of("a:6379", None)),
            ("rediss://a:1/", Redis, true, of("a:1", None)),
            (
                "memcache://127.0.0.1",
                Memcached,
                false,
                of("127.0.0.1:11211", None),
            ),
            ("thrift://a:9", Thrift, false, of("a:9", None)),
        ] {
            assert_eq!(url(text), (protocol, tls, target, path), "{text}");
        }
    }

    #[test]
    fn what_is_no_url_of_ours_is_refused() {
        for (text, why) in [
            ("127.0.0.1:80", "is not a URL"),
            ("capcity", "is not a URL"),
            ("ftp://a", "is not a supported scheme"),
            ("redis://user:word@a", "--user"),
            ("redis://a/3", "only HTTP has a path"),
            ("thrift://a", "has no port"),
            ("http://", "has no host"),
            ("http://:80/", "has no host"),
        ] {
            let said = parse(text).expect_err(text);
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
