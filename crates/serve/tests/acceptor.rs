//! An acceptor in a process without free descriptors. Alone in its file, since the limit holds for the whole process.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};

use steelyard_serve::Acceptor;

const LONG_NS: u64 = 10_000_000_000;

/// The number that the next descriptor would get.
fn next_descriptor() -> RawFd {
    File::open("/dev/null")
        .expect("a device that is everywhere")
        .as_raw_fd()
}

fn open_files_limit() -> libc::rlimit {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for the call, which keeps no pointer to it.
    let status = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    assert_eq!(status, 0);
    limit
}

fn limit_open_files(limit: libc::rlimit) {
    // SAFETY: `limit` is valid for the call, which keeps no pointer to it.
    let status = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    assert_eq!(status, 0);
}

#[test]
fn whoever_comes_when_descriptors_are_out_is_let_in_later() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (quiet, _writer) = std::io::pipe().unwrap();
    let acceptor = Acceptor::new(listener, quiet.into()).unwrap();
    let address = acceptor.address().unwrap();
    let clients: Vec<_> = (0..3)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();

    let before = open_files_limit();
    limit_open_files(libc::rlimit {
        rlim_cur: next_descriptor() as libc::rlim_t + 1,
        ..before
    });
    let mut admitted = Vec::new();
    // There is one descriptor left, and whoever came first gets it.
    let refused = loop {
        assert!(acceptor.wait(LONG_NS).unwrap().connection);
        if let Err(error) = acceptor.accept_all(|socket| admitted.push(socket)) {
            break error;
        }
    };
    assert_eq!(refused.raw_os_error(), Some(libc::EMFILE));
    assert_eq!(admitted.len(), 1);

    limit_open_files(before);
    while admitted.len() < clients.len() {
        assert!(acceptor.wait(LONG_NS).unwrap().connection);
        acceptor.accept_all(|socket| admitted.push(socket)).unwrap();
    }
    let came: Vec<_> = admitted.iter().map(|s| s.peer_addr().unwrap()).collect();
    let went: Vec<_> = clients.iter().map(|c| c.local_addr().unwrap()).collect();
    assert_eq!(came, went);
}
