//! A server as a URL: `http://127.0.0.1:8080/page` in place of --protocol, --target, --tls and --path;
//! `redis://user:password@host/2` also in place of --user and --password-file; `redis+unix:///run/redis.sock`.
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
    /// User, empty for the default one, and password.
    pub login: Option<(String, String)>,
    /// Number of the database, of Redis only.
    pub database: Option<u32>,
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

/// Takes a URL apart; the error says in one line what is wrong with it, and repeats no password.
pub fn parse(text: &str) -> Result<Url, String> {
    let (scheme, rest) = text.split_once("://").ok_or_else(|| {
        format!("{text:?} is not a URL such as http://127.0.0.1:8080/, nor capacity or sweep")
    })?;
    let shown = without_password(text);
    let (scheme, is_unix) = match scheme.split_once('+') {
        Some((scheme, way)) if way.eq_ignore_ascii_case("unix") => (scheme, true),
        _ => (scheme, false),
    };
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
    // The last: a password may hold one, if it should not.
    let (login, authority) = match authority.rsplit_once('@') {
        None => (None, authority),
        Some((user, host)) => (
            Some(
                login(user)
                    .ok_or_else(|| format!("{shown:?}: % begins no two hexadecimal digits"))?,
            ),
            host,
        ),
    };
    let mut url = Url {
        protocol,
        tls,
        target: String::new(),
        path: None,
        login,
        database: None,
    };
    if is_unix {
        if !authority.is_empty() || path.len() < 2 {
            return Err(format!(
                "{shown:?}: a Unix socket is {scheme}+unix:///PATH, with three slashes"
            ));
        }
        url.target = format!("unix:{path}");
        return Ok(url);
    }
    // The colons of an IPv6 address stand in brackets.
    let after_host = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    let has_port = authority[after_host..].contains(':');
    url.target = match (has_port, default_port) {
        (true, _) => authority.to_owned(),
        (false, Some(port)) => format!("{authority}:{port}"),
        (false, None) => return Err(format!("{shown:?} has no port")),
    };
    if authority.is_empty() || url.target.starts_with(':') {
        return Err(format!("{shown:?} has no host"));
    }
    place(&mut url, path).map_err(|why| format!("{shown:?}: {why}"))?;
    Ok(url)
}

/// Puts what stands behind the host into its place.
fn place(url: &mut Url, path: &str) -> Result<(), &'static str> {
    match url.protocol {
        ProtocolArgument::Http if !path.is_empty() => {
            url.path = Some(match path.starts_with('?') {
                true => format!("/{path}"),
                false => path.to_owned(),
            });
        }
        ProtocolArgument::Redis if path.len() > 1 => {
            let number = path[1..].trim_end_matches('/').parse();
            url.database =
                Some(number.map_err(
                    |_| "the path of a redis URL is the number of a database, such as /2",
                )?);
        }
        _ if matches!(path, "" | "/") => {}
        _ => return Err("only HTTP has a path"),
    }
    Ok(())
}

/// User and password of `USER:PASSWORD`; without a colon it is a user without a password.
fn login(text: &str) -> Option<(String, String)> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    Some((decoded(user)?, decoded(password)?))
}

/// Text with its `%XX` replaced; None where % begins none, or bytes that are no text come of it.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

/// The same text with `***` for the password of a URL, if it is one and has one: records hold command lines.
pub fn without_password(text: &str) -> String {
    let hidden = (|| {
        let begin = text.find("://")? + 3;
        let end = text[begin..]
            .find(['/', '?', '#'])
            .map_or(text.len(), |end| begin + end);
        let at = begin + text[begin..end].rfind('@')?;
        let colon = begin + text[begin..at].find(':')?;
        Some(format!("{}:***{}", &text[..colon], &text[at..]))
    })();
    hidden.unwrap_or_else(|| text.to_owned())
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
    fn users_and_databases_are_taken_from_their_places() {
        let of = |text: &str| {
            let found = parse(text).expect(text);
            let login = found.login;
            let login = login
                .as_ref()
                .map(|(user, word)| (user.as_str(), word.as_str()));
            assert_eq!(login.is_some(), text.contains('@'));
            (
                login.map(|(user, word)| format!("{user}|{word}")),
                found.database,
                found.target,
            )
        };
        let is = |login: &str, database, target: &str| {
            let login = (!login.is_empty()).then(|| login.to_owned());
            (login, database, target.to_owned())
        };
        assert_eq!(of("redis://:pw@a"), is("|pw", None, "a:6379"));
        assert_eq!(of("redis://a/2"), is("", Some(2), "a:6379"));
        assert_eq!(of("redis://me:p%40:w@a:1/0"), is("me|p@:w", Some(0), "a:1"));
        assert_eq!(of("http://me:pw@a/b@c"), is("me|pw", None, "a:80"));
        assert_eq!(
            of("redis+unix:///run/r.sock"),
            is("", None, "unix:/run/r.sock")
        );
        assert_eq!(without_password("redis://a:b@c/d"), "redis://a:***@c/d");
        assert_eq!(without_password("http://a/b:c@d"), "http://a/b:c@d");
    }

    #[test]
    fn what_is_no_url_of_ours_is_refused() {
        for (text, why) in [
            ("127.0.0.1:80", "is not a URL"),
            ("capcity", "is not a URL"),
            ("ftp://a", "is not a supported scheme"),
            ("redis://user:secret@a/x", "redis://user:***@a/x"),
            ("redis://a:%zz@b", "hexadecimal"),
            ("memcache://a/3", "only HTTP has a path"),
            ("redis+unix://a", "three slashes"),
            ("thrift://a", "has no port"),
            ("http://", "has no host"),
            ("http://:80/", "has no host"),
        ] {
            let said = parse(text).expect_err(text);
            assert!(said.contains(why), "{text}: {said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }
}
