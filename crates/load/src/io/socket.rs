//! TCP sockets: connecting with and without waiting, and the options that a load generator needs.

use std::io;
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Connects and returns a non-blocking socket.
pub fn connect_blocking(target: SocketAddr, timeout: Duration) -> io::Result<OwnedFd> {
    let stream = TcpStream::connect_timeout(&target, timeout)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let socket = stream.into();
    lighten(&socket, target);
    Ok(socket)
}

/// Begins to connect and returns at once.
pub fn connect_start(target: SocketAddr) -> io::Result<OwnedFd> {
    let family = if target.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket has no preconditions.
    let fd = unsafe { libc::socket(family, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just opened and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let one: libc::c_int = 1;
    // SAFETY: the pointer and the length describe `one`.
    let status = unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&raw const one).cast(),
            mem::size_of_val(&one) as libc::socklen_t,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    lighten(&socket, target);
    let (storage, length) = raw_address(target);
    // SAFETY: `storage` holds an address of `length` bytes of the socket's family.
    let status = unsafe { libc::connect(fd, (&raw const storage).cast(), length) };
    if status != 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINPROGRESS) {
            return Err(error);
        }
    }
    Ok(socket)
}

/// On loopback nothing is ever congested, and the simplest congestion control costs the least CPU time; a
/// real network keeps the system's choice.
fn lighten(socket: &OwnedFd, target: SocketAddr) {
    if !target.ip().is_loopback() {
        return;
    }
    let name = b"reno";
    // SAFETY: the pointer and the length describe `name`. Every kernel has reno; without it nothing is lost.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
}

fn raw_address(target: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all-zero bytes are a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let length = match target {
        SocketAddr::V4(v4) => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is large enough and aligned for every socket address.
            unsafe {
                (&raw mut storage)
                    .cast::<libc::sockaddr_in>()
                    .write(address)
            };
            mem::size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: sockaddr_storage is large enough and aligned for every socket address.
            unsafe {
                (&raw mut storage)
                    .cast::<libc::sockaddr_in6>()
                    .write(address)
            };
            mem::size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, length as libc::socklen_t)
}

/// The error pending on a socket, None when its connection is made.
pub(super) fn pending_error(socket: &OwnedFd) -> Option<io::Error> {
    let mut code: libc::c_int = 0;
    let mut length = mem::size_of_val(&code) as libc::socklen_t;
    // SAFETY: the pointers describe `code` and `length`, both writable.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut code).cast(),
            &mut length,
        )
    };
    match (status, code) {
        (0, 0) => None,
        (0, code) => Some(io::Error::from_raw_os_error(code)),
        _ => Some(io::Error::last_os_error()),
    }
}

/// Ends a socket in both directions, so that every operation on it completes.
pub(super) fn shut_down(socket: &OwnedFd) {
    // SAFETY: shutdown on a descriptor we own touches no memory; a socket that is already gone is fine.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
}
