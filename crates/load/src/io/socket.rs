//! Sockets: connecting with and without waiting, and the options that a load generator needs.

use std::io;
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::address::Address;

/// Connects and returns a non-blocking socket.
pub fn connect_blocking(target: &Address, timeout: Duration) -> io::Result<OwnedFd> {
    let target = match target {
        Address::Inet(target) => *target,
        unix => {
            let socket = connect_unix(unix, Some(timeout))?;
            let stream = UnixStream::from(socket);
            stream.set_nonblocking(true)?;
            return Ok(stream.into());
        }
    };
    let stream = TcpStream::connect_timeout(&target, timeout)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let socket = stream.into();
    lighten(&socket, target);
    Ok(socket)
}

/// Connects to a Unix socket: within `timeout`, or without waiting where the server's queue is full.
fn connect_unix(target: &Address, timeout: Option<Duration>) -> io::Result<OwnedFd> {
    let blocks = if timeout.is_some() {
        0
    } else {
        libc::SOCK_NONBLOCK
    };
    // SAFETY: socket has no preconditions.
    let fd = unsafe {
        libc::socket(
            libc::AF_UNIX,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC | blocks,
            0,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just opened and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    if timeout.is_some() {
        // It bounds the wait for room in the server's queue as well (unix(7)).
        let stream = UnixStream::from(socket.try_clone()?);
        stream.set_write_timeout(timeout)?;
    }
    let (address, length) = raw_unix_address(target)?;
    // SAFETY: `address` holds a Unix address of `length` bytes.
    let status = unsafe { libc::connect(fd, (&raw const address).cast(), length) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    if timeout.is_some() {
        UnixStream::from(socket.try_clone()?).set_write_timeout(None)?;
    }
    Ok(socket)
}

fn raw_unix_address(target: &Address) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let (first, name) = match target {
        Address::Unix(path) => (None, path.as_os_str().as_bytes()),
        Address::Abstract(name) => (Some(0), name.as_bytes()),
        Address::Inet(_) => return Err(io::Error::from(io::ErrorKind::InvalidInput)),
    };
    // SAFETY: all-zero bytes are a valid sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = first.into_iter().chain(name.iter().copied());
    let mut used = 0;
    for byte in bytes {
        let place = address.sun_path.get_mut(used);
        *place.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))? = byte as libc::c_char;
        used += 1;
    }
    let length = mem::offset_of!(libc::sockaddr_un, sun_path) + used;
    Ok((address, length as libc::socklen_t))
}

/// Begins to connect and returns at once.
pub fn connect_start(target: &Address) -> io::Result<OwnedFd> {
    match target {
        Address::Inet(target) => connect_start_inet(*target),
        // The kernel puts a connection into a Unix socket's queue at once.
        unix => connect_unix(unix, None),
    }
}

fn connect_start_inet(target: SocketAddr) -> io::Result<OwnedFd> {
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
