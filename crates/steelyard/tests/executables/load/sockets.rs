//! Servers that are not at the first address of their name, and servers at Unix sockets.

use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use super::support::{answer, finish, next_request, whole};

fn run(line: &str) -> Output {
    let short = "--warmup 0s --duration 200ms --connections 3 --progress none --json";
    let child = Command::new(env!("CARGO_BIN_EXE_steelyard-load"))
        .args(line.split_whitespace())
        .args(short.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    finish(child, Duration::from_secs(20))
}

fn converse(read: impl Read, mut write: impl Write) {
    let mut read = BufReader::new(read);
    while let Some(request) = next_request(&mut read) {
        if write.write_all(answer(&request).as_bytes()).is_err() {
            return;
        }
    }
}

/// Answers as memcached does, and ends every connection after some requests.
fn serve(listener: UnixListener) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let write = stream.try_clone().unwrap();
            thread::spawn(move || converse(stream, write));
        }
    });
}

#[test]
fn unix_sockets_are_reached_by_path_and_by_abstract_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.sock");
    serve(UnixListener::bind(&path).unwrap());
    let name = format!("steelyard-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    serve(UnixListener::bind_addr(&address).unwrap());
    let path = path.to_str().unwrap();
    for line in [
        format!("--target unix:{path}"),
        format!("--unix-socket {path} --io epoll"),
        format!("memcache://any.example --unix-socket {path}"),
        format!("memcache+unix://{path}"),
        format!("--unix-socket @{name}"),
        format!("--target unix:@{name} --io epoll"),
    ] {
        let result = whole(&run(&line));
        assert!(
            result["requests"]["completed"].as_u64().unwrap() > 0,
            "{line}"
        );
        assert_eq!(result["requests"]["errors"], 0, "{line}");
    }
}

#[test]
fn a_unix_socket_that_is_not_there_is_named() {
    let output = run("--unix-socket /nowhere/a.sock");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("unix:/nowhere/a.sock") && said.lines().count() == 1,
        "{said}"
    );
}

/// A name is served at whichever of its addresses a server listens.
#[test]
fn every_address_of_localhost_is_tried() {
    let listens = ["127.0.0.1:0", "[::1]:0"];
    for listen in listens {
        // A machine may have no IPv6.
        let Ok(listener) = TcpListener::bind(listen) else {
            continue;
        };
        let port = listener.local_addr().unwrap().port();
        let is_named = ("localhost", port)
            .to_socket_addrs()
            .is_ok_and(|mut all| all.any(|address| address == listener.local_addr().unwrap()));
        if !is_named {
            continue;
        }
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let write = stream.try_clone().unwrap();
                thread::spawn(move || converse(stream, write));
            }
        });
        let result = whole(&run(&format!("memcache://localhost:{port}")));
        assert!(
            result["requests"]["completed"].as_u64().unwrap() > 0,
            "{listen}"
        );
    }
}
