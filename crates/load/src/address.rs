//! Where a server listens: an address and port, or a Unix socket.
//!
//! A name may have several addresses, of which a server need not listen on all (`localhost` is ::1 and 127.0.0.1):
//! [`Addresses::reach`] takes the first that accepts a connection, in the order of the system's resolver.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use crate::LoadError;
use crate::io::connect_blocking;

/// Longest name of a Unix socket, bytes: `sun_path` without the byte that ends it, or that makes it abstract.
const UNIX_BYTES_MAX: usize = 107;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// One place where a server may listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Inet(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
    /// A Unix socket with a name that is in no file system.
    Abstract(String),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Inet(address)
    }
}

/// As flags name it: `127.0.0.1:80`, `unix:/run/a.sock`, `unix:@name`.
impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => write!(out, "{address}"),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
            Self::Abstract(name) => write!(out, "unix:@{name}"),
        }
    }
}

impl Address {
    /// A Unix socket by its path, or by its abstract name after `@`.
    pub fn unix(text: &str) -> Result<Self, String> {
        let (address, bytes) = match text.strip_prefix('@') {
            Some(name) => (Self::Abstract(name.to_owned()), name.len()),
            None => (Self::Unix(PathBuf::from(text)), text.len()),
        };
        match bytes {
            0 => Err("a Unix socket needs a path, or a name after @".to_owned()),
            1..=UNIX_BYTES_MAX => Ok(address),
            _ => Err(format!(
                "{text:?} is longer than the {UNIX_BYTES_MAX} bytes that a Unix socket's name may have"
            )),
        }
    }

    /// Whether bytes stay on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Inet(address) => address.ip().is_loopback(),
            Self::Unix(_) | Self::Abstract(_) => true,
        }
    }
}

/// The addresses of a server; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// As the user wrote it, with the port.
    name: String,
    all: Vec<Address>,
}

impl From<Address> for Addresses {
    fn from(address: Address) -> Self {
        let (name, all) = (address.to_string(), vec![address]);
        Self { name, all }
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)
    }
}

/// Why `text` names no address.
fn unresolved(text: &str, error: &io::Error) -> String {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
            format!("the host name {host:?} cannot be resolved: {error}")
        }
        _ => format!("{text:?} is not ADDRESS:PORT: {error}"),
    }
}

impl Addresses {
    /// What `text` names: `HOST:PORT` or `unix:PATH`; the error says what is wrong with it.
    pub fn resolve(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Address::unix(path).map(Self::from);
        }
        let found = text
            .to_socket_addrs()
            .map_err(|error| unresolved(text, &error))?;
        let mut all: Vec<Address> = Vec::new();
        for address in found.map(Address::from) {
            if !all.contains(&address) {
                all.push(address);
            }
        }
        if all.is_empty() {
            return Err(format!("{text:?} has no address"));
        }
        let name = text.to_owned();
        Ok(Self { name, all })
    }

    /// The same by another name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let name = name.to_owned();
        Self { name, ..self }
    }

    /// The first address.
    pub fn first(&self) -> &Address {
        &self.all[0]
    }

    /// The same with the first address at which a server accepts a connection, and no other. A single address is not tried.
    pub fn reach(&self) -> Result<Self, LoadError> {
        if self.all.len() == 1 {
            return Ok(self.clone());
        }
        let mut refusals = Vec::new();
        let mut last = None;
        for address in &self.all {
            match connect_blocking(address, CONNECT_TIMEOUT) {
                Ok(_) => {
                    let (name, all) = (self.name.clone(), vec![address.clone()]);
                    return Ok(Self { name, all });
                }
                Err(error) => {
                    refusals.push(address.to_string());
                    last = Some(error);
                }
            }
        }
        Err(LoadError::Connect {
            target: format!("{} ({})", self.name, refusals.join(", ")),
            source: last.unwrap_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable)),
        })
    }

    /// Whether a server accepts a connection at one of them.
    pub fn are_open(&self, timeout: Duration) -> bool {
        let mut all = self.all.iter();
        all.any(|address| connect_blocking(address, timeout).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_address_that_answers_is_taken() {
        let dead = TcpListener::bind("127.0.0.1:0").unwrap();
        let dead_address = dead.local_addr().unwrap();
        drop(dead);
        let live = TcpListener::bind("127.0.0.1:0").unwrap();
        let live_address = live.local_addr().unwrap();
        let two = |all: [SocketAddr; 2]| Addresses {
            name: "host:1".to_owned(),
            all: all.map(Address::from).to_vec(),
        };
        let reached = two([dead_address, live_address]).reach().unwrap();
        assert_eq!(*reached.first(), Address::from(live_address));
        assert_eq!(reached.to_string(), "host:1");
        let error = two([dead_address, dead_address]).reach().unwrap_err();
        assert!(error.to_string().contains("host:1 (127.0.0.1:"), "{error}");
    }

    #[test]
    fn unix_sockets_are_named_by_path_or_after_an_at_sign() {
        let of = |text: &str| Addresses::resolve(text).map(|a| a.first().clone());
        assert_eq!(of("unix:/a b"), Ok(Address::Unix("/a b".into())));
        assert_eq!(of("unix:@name"), Ok(Address::Abstract("name".to_owned())));
        assert_eq!(of("unix:@name").unwrap().to_string(), "unix:@name");
        for bad in ["unix:", "unix:@", &format!("unix:/{}", "a".repeat(107))] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
