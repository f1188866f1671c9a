//! Puts a root or a leaf together: checks settings against the machine, reaches the leaves, fills the tables.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;
use std::time::{Duration, Instant};

use steelyard_features::{available, code_size};
use steelyard_serve::{Mailbox, check_available, check_cgroup};

use crate::compression::Compression;
use crate::leaf::{Leaf, LeafWork};
use crate::net::fanout::{self, FanoutThread, LeafTls};
use crate::report::Shown;
use crate::root::{Leaves, Root, RootWork};
use crate::server::{FanoutSetup, Listener};
use crate::service::Service;
use crate::{RankError, tls};

/// How a root reaches its leaves.
#[derive(Debug, Clone)]
pub struct FanoutSettings {
    /// Addresses of the leaves, `host:port`.
    pub leaves: Vec<String>,
    /// Connections to each.
    pub connections: usize,
    /// Threads that own them.
    pub threads: usize,
    /// How blobs are compressed.
    pub compression: Compression,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How long to try to reach the leaves at the start.
    pub connect_timeout: Duration,
    /// The authority that vouches for the leaves, and the name it vouches for; None: no TLS.
    pub tls: Option<(PathBuf, String)>,
}

/// Which process of its role this is, of how many.
pub type Instance = (u32, u32);

/// Tries a leaf until it answers or time is up: processes that are started together come up in any order.
fn reach(address: &str, until: Instant) -> Result<(SocketAddr, std::net::TcpStream), RankError> {
    loop {
        let attempt = address
            .to_socket_addrs()
            .and_then(|mut addresses| {
                addresses
                    .next()
                    .ok_or_else(|| std::io::Error::other("no such host"))
            })
            .and_then(|address| fanout::connect(address).map(|socket| (address, socket)));
        match attempt {
            Ok(reached) => return Ok(reached),
            Err(source) if Instant::now() >= until => {
                return Err(RankError::Leaf {
                    address: address.to_owned(),
                    source,
                });
            }
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Finds each leaf, so that a wrong address is known before the tables are filled. The connections of what it returns
/// are still to be made.
fn find_leaves(
    settings: &FanoutSettings,
    tls: Option<&LeafTls>,
    stop: &Arc<AtomicBool>,
) -> Result<(Leaves, Vec<FanoutSetup>), RankError> {
    let until = Instant::now() + settings.connect_timeout;
    let mut addresses = Vec::new();
    for leaf in &settings.leaves {
        addresses.push(reach(leaf, until)?.0);
    }
    let mut setups = Vec::new();
    for _ in 0..settings.threads {
        setups.push(FanoutSetup {
            thread: FanoutThread {
                mailbox: Arc::new(Mailbox::new().map_err(RankError::system("eventfd"))?),
                leaves: Vec::new(),
                tls: tls.cloned(),
                timeout_ns: settings.timeout.as_nanos() as u64,
                stop: stop.clone(),
            },
            sockets: Vec::new(),
        });
    }
    // Every thread has a connection at least; leaves take turns, so that each has as many as the others.
    let connections = (settings.connections * addresses.len()).max(settings.threads);
    for number in 0..connections {
        let address = addresses[number % addresses.len()];
        setups[number % settings.threads]
            .thread
            .leaves
            .push(address);
    }
    let leaves = Leaves {
        threads: setups
            .iter()
            .map(|setup| (setup.thread.mailbox.clone(), setup.thread.leaves.len()))
            .collect(),
        compression: settings.compression,
        seqid: AtomicU32::new(0),
        turn: AtomicU32::new(0),
    };
    Ok((leaves, setups))
}

/// Makes the connections. A leaf closes one whose handshake does not begin in time, so nothing slow may come between
/// this and the threads that do the handshakes.
fn connect_all(setups: &mut [FanoutSetup], timeout: Duration) -> Result<(), RankError> {
    let until = Instant::now() + timeout;
    for setup in setups {
        for address in &setup.thread.leaves {
            setup.sockets.push(reach(&address.to_string(), until)?.1);
        }
    }
    Ok(())
}

fn settings_by_flag<const N: usize>(settings: [(&str, String); N]) -> BTreeMap<String, String> {
    settings
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn check_memory(table_bytes: u64) -> Result<(), RankError> {
    check_cgroup(table_bytes)?;
    Ok(check_available(table_bytes)?)
}

impl RootWork {
    /// Refuses work that this build or this machine cannot do.
    pub fn check(&self) -> Result<(), RankError> {
        if !(1..=available()).contains(&self.feature_functions) {
            return Err(RankError::FeatureFunctions {
                wanted: self.feature_functions,
                available: available(),
            });
        }
        check_memory(self.embedding_bytes.saturating_add(self.graph_bytes))
    }
}

impl LeafWork {
    /// Refuses work that this machine cannot do.
    pub fn check(&self) -> Result<(), RankError> {
        check_memory(self.item_bytes)
    }
}

/// Runs a root until SIGINT or SIGTERM. `ready` gets the machine code of the hot extractors, bytes, when the
/// tables are filled and the leaves reached.
pub fn root(
    listener: Listener,
    work: RootWork,
    settings: &FanoutSettings,
    instance: Instance,
    ready: impl FnOnce(u64, &BTreeMap<String, String>),
) -> Result<(), RankError> {
    work.check()?;
    let tls = match &settings.tls {
        Some((authority, name)) => Some(tls::client(authority, name)?),
        None => None,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (leaves, mut fanout) = find_leaves(settings, tls.as_ref(), &stop)?;
    let code_bytes = code_size(work.feature_functions).bytes;
    let shown = Shown {
        role: "root",
        instance,
        work: settings_by_flag([
            ("feature-functions", work.feature_functions.to_string()),
            ("feature-calls", work.feature_calls.to_string()),
            ("fan-out", work.fan_out.to_string()),
            ("leaf-candidates", work.leaf_candidates.to_string()),
            ("leaf-results", work.leaf_results.to_string()),
            ("embedding-bytes", work.embedding_bytes.to_string()),
            ("embedding-lookups", work.embedding_lookups.to_string()),
            ("network-width", work.network_width.to_string()),
            ("graph-bytes", work.graph_bytes.to_string()),
            ("chase-steps", work.chase_steps.to_string()),
            ("stories", work.stories.to_string()),
            ("story-words", work.story_words.to_string()),
            ("seed", work.seed.to_string()),
        ]),
        feature_code_bytes: Some(code_bytes),
        stages: Root::STAGES,
    };
    let service = Root::new(work, leaves);
    connect_all(&mut fanout, settings.connect_timeout)?;
    ready(code_bytes, &shown.work);
    listener.run(service, shown, fanout, &stop)
}

/// Runs a leaf until SIGINT or SIGTERM. `ready` is called when its table is filled.
pub fn leaf(
    listener: Listener,
    work: LeafWork,
    instance: Instance,
    ready: impl FnOnce(&BTreeMap<String, String>),
) -> Result<(), RankError> {
    work.check()?;
    let shown = Shown {
        role: "leaf",
        instance,
        work: settings_by_flag([
            ("item-bytes", work.item_bytes.to_string()),
            ("seed", work.seed.to_string()),
        ]),
        feature_code_bytes: None,
        stages: Leaf::STAGES,
    };
    let service = Leaf::new(work);
    ready(&shown.work);
    listener.run(
        service,
        shown,
        Vec::new(),
        &Arc::new(AtomicBool::new(false)),
    )
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn settings(leaves: &[&TcpListener]) -> FanoutSettings {
        FanoutSettings {
            leaves: leaves
                .iter()
                .map(|leaf| leaf.local_addr().unwrap().to_string())
                .collect(),
            connections: 2,
            threads: 3,
            compression: Compression::None,
            timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            tls: None,
        }
    }

    /// The next connection that a leaf was asked for.
    fn accepted(leaf: &TcpListener) -> TcpStream {
        let (socket, _) = leaf.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    #[test]
    fn no_connection_waits_for_the_tables() {
        let leaf = TcpListener::bind("127.0.0.1:0").unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (_, mut setups) = find_leaves(&settings(&[&leaf]), None, &stop).unwrap();
        assert_eq!(accepted(&leaf).read(&mut [0]).unwrap(), 0, "it was closed");
        connect_all(&mut setups, Duration::from_secs(5)).unwrap();
        // Three threads share two connections a leaf: each has one.
        for _ in 0..3 {
            let error = accepted(&leaf).read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "it is open");
        }
        leaf.set_nonblocking(true).unwrap();
        assert_eq!(leaf.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn a_leaf_that_is_not_there_is_known_before_the_tables_are_filled() {
        let leaf = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut settings = settings(&[&leaf]);
        drop(leaf);
        settings.connect_timeout = Duration::ZERO;
        let stop = Arc::new(AtomicBool::new(false));
        let error = find_leaves(&settings, None, &stop).err().unwrap();
        assert!(error.to_string().contains(&settings.leaves[0]), "{error}");
    }
}
