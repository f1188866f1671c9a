//! Flags beside each other: what a URL says put in their places, and flags that would change nothing refused by name.
//!
//! Declared once: [`OF_PROTOCOLS`] says which protocols have a flag, [`OF_LOOPS`] which loads. No flag is ignored.

use std::path::Path;

use crate::arguments::{LoadArguments, ProtocolArgument};

use ProtocolArgument::{Cql, Http, Memcached, Redis};

/// Whether a flag was given.
type Given = fn(&LoadArguments) -> bool;

/// A flag that only some protocols have.
struct OfProtocols {
    name: &'static str,
    protocols: &'static [ProtocolArgument],
    /// What the other protocols lack.
    lacking: &'static str,
    given: Given,
}

const OF_PROTOCOLS: [OfProtocols; 5] = [
    OfProtocols {
        name: "--user",
        protocols: &[Redis, Http, Cql],
        lacking: "users",
        given: |flags| flags.user.is_some(),
    },
    OfProtocols {
        name: "--password-file",
        protocols: &[Redis, Http, Cql],
        lacking: "passwords",
        given: |flags| flags.password_file.is_some(),
    },
    OfProtocols {
        name: "--token-file",
        protocols: &[Http],
        lacking: "bearer tokens",
        given: |flags| flags.token_file.is_some(),
    },
    OfProtocols {
        name: "--set-ratio",
        protocols: &[Memcached, Redis],
        lacking: "gets and sets",
        given: |flags| flags.set_ratio.is_some(),
    },
    OfProtocols {
        name: "--path",
        protocols: &[Http],
        lacking: "paths",
        given: |flags| flags.path.is_some(),
    },
];

/// A flag that only some loads have, and what it needs.
const OF_LOOPS: [(&str, Given, &str); 3] = [
    (
        "--arrival",
        |flags| flags.arrival.is_some() && flags.trace.is_some(),
        "a trace has its own arrivals",
    ),
    (
        "--arrival",
        |flags| {
            let law = flags.arrival.as_deref();
            matches!(law, Some("constant" | "poisson")) && flags.rate.is_none()
        },
        "constant and poisson arrivals need --rate: without it, the loop is closed",
    ),
    (
        "--max-outstanding",
        |flags| {
            let open = flags.rate.is_some() || flags.arrival.is_some() || flags.trace.is_some();
            flags.max_outstanding.is_some() && !open
        },
        "a closed loop has --connections times --depth requests in flight: this flag is for --rate, --arrival and --trace",
    ),
];

/// Flags that only TLS has.
const OF_TLS: [(&str, Given); 4] = [
    ("--tls-ca", |flags| flags.tls_ca.is_some()),
    ("--tls-name", |flags| flags.tls_name.is_some()),
    ("--insecure", |flags| flags.insecure),
    ("--tls-cert", |flags| flags.tls_cert.is_some()),
];

/// What a load is to be made of, once the URL has been read.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The flags, with what the URL says in their places.
    pub flags: LoadArguments,
    /// User and password of the URL.
    pub login: Option<(String, String)>,
    /// Redis' database.
    pub database: Option<u32>,
}

/// The same flags with what the URL says in their places; the error names the flag and says why. `searches` is whether
/// the rate is a search's and not the flags'.
pub fn resolved(given: &LoadArguments, searches: bool) -> Result<Resolved, (&'static str, String)> {
    let mut flags = given.clone();
    let (mut login, mut database) = (None, None);
    if let Some(text) = &given.url {
        let url = crate::url::parse(text).map_err(|why| ("URL", why))?;
        if let Some(path) = url.path.filter(|path| path != "/") {
            if flags.mix.is_some() {
                let why = format!("{text:?}: with --mix, the mix has the paths");
                return Err(("URL", why));
            }
            flags.path = Some(path);
        }
        flags.protocol = url.protocol;
        flags.tls = url.tls;
        flags.target = Some(url.target);
        (login, database) = (url.login, url.database);
        let other = [&flags.password_file, &flags.token_file]
            .into_iter()
            .flatten()
            .next();
        if login.is_some() && (flags.user.is_some() || other.is_some()) {
            let why = "the URL says who asks already: use one of them".to_owned();
            return Err((
                if flags.user.is_some() {
                    "--user"
                } else {
                    "--password-file"
                },
                why,
            ));
        }
    }
    for (name, is_given) in OF_TLS {
        if is_given(&flags) && !flags.tls {
            return Err((name, "needs --tls, or a URL of https or rediss".to_owned()));
        }
    }
    for flag in &OF_PROTOCOLS {
        if (flag.given)(&flags) && !flag.protocols.contains(&flags.protocol) {
            return Err((flag.name, no_such_flag(flag, flags.protocol)));
        }
    }
    if login.is_some() && !OF_PROTOCOLS[0].protocols.contains(&flags.protocol) {
        let why = no_such_flag(&OF_PROTOCOLS[0], flags.protocol);
        return Err(("URL", why));
    }
    if flags.password_file.is_some() && flags.user.is_none() && flags.protocol != Redis {
        return Err((
            "--password-file",
            "needs --user (only redis has a default user)".to_owned(),
        ));
    }
    for (name, is_given, why) in OF_LOOPS {
        if !searches && is_given(&flags) {
            return Err((name, why.to_owned()));
        }
    }
    Ok(Resolved {
        flags,
        login,
        database,
    })
}

fn no_such_flag(flag: &OfProtocols, protocol: ProtocolArgument) -> String {
    let names: Vec<&str> = flag.protocols.iter().map(|known| known.name()).collect();
    format!(
        "{} has no {} (only {})",
        protocol.name(),
        flag.lacking,
        names.join(", ")
    )
}

/// The first line of a file, without its line end.
pub fn first_line(path: &Path) -> Result<String, steelyard_load::LoadError> {
    let text = steelyard_record::read_text_file(path, 1 << 16).map_err(|source| {
        steelyard_load::LoadError::File {
            path: path.to_owned(),
            source,
        }
    })?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser, ValueEnum};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadArguments,
    }

    fn refusal(arguments: &[&str]) -> Option<(&'static str, String)> {
        let line = Line::try_parse_from(std::iter::once(&"load").chain(arguments)).expect("parsed");
        resolved(&line.load, false).err()
    }

    #[test]
    fn each_flag_is_refused_where_its_protocol_is_not_and_its_help_names_the_others() {
        for protocol in ProtocolArgument::value_variants() {
            for flag in &OF_PROTOCOLS {
                let value = match flag.name {
                    "--set-ratio" => "0.5",
                    _ => "/a",
                };
                let mut line = vec!["--target", "a:1", "--protocol", protocol.name()];
                line.extend([flag.name, value]);
                if flag.name == "--password-file" {
                    line.extend(["--user", "a"]);
                }
                let refused = refusal(&line);
                let has = flag.protocols.contains(protocol);
                assert_eq!(refused.is_none(), has, "{line:?}: {refused:?}");
                if let Some((name, why)) = refused {
                    assert!(name == flag.name || name == "--user", "{name}");
                    assert!(why.starts_with(protocol.name()), "{why}");
                }
            }
        }
        let command = Line::command();
        for flag in &OF_PROTOCOLS {
            let id = flag.name.trim_start_matches('-').replace('-', "_");
            let found = command.get_arguments().find(|a| a.get_id() == id.as_str());
            let help = found
                .and_then(clap::Arg::get_help)
                .expect(flag.name)
                .to_string();
            let names: Vec<&str> = flag.protocols.iter().map(|p| p.name()).collect();
            assert!(help.contains(&format!("({}", names.join(", "))), "{help}");
        }
    }

    #[test]
    fn flags_that_would_change_nothing_are_refused() {
        for (line, name) in [
            (&["http://a", "--arrival", "poisson"][..], "--arrival"),
            (&["http://a", "--max-outstanding", "5"], "--max-outstanding"),
            (&["http://a", "--insecure"], "--insecure"),
            (
                &["http://a", "--tls-cert", "a", "--tls-key", "b"],
                "--tls-cert",
            ),
            (&["http://a", "--password-file", "a"], "--password-file"),
            (&["redis://a:b@c", "--user", "d"], "--user"),
            (&["memcache://a:b@c"], "URL"),
            (
                &["http://a", "--trace", "t", "--arrival", "constant"],
                "--arrival",
            ),
        ] {
            assert_eq!(refusal(line).map(|found| found.0), Some(name), "{line:?}");
        }
        for line in [
            &[
                "http://a",
                "--arrival",
                "ramp:1-2",
                "--max-outstanding",
                "5",
            ][..],
            &["http://a", "--rate", "5", "--arrival", "poisson"],
            &["redis://a", "--password-file", "a"],
            &["https://a", "--insecure"],
        ] {
            assert_eq!(refusal(line), None, "{line:?}");
        }
    }
}
