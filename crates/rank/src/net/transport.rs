//! A socket that never blocks, plain or under TLS, for bytes in both directions.
//!
//! Invariants: `send` never blocks and keeps what the socket does not take; `receive` returns when the socket is
//! empty; what was received before an error or the end of the stream has been given to the caller.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};

use rustls::Connection;

/// Bytes taken from the kernel at once.
pub const READ_BYTES: usize = 64 * 1024;
/// What one connection may deliver in its turn.
const RECEIVE_BYTES: u64 = 256 * 1024;
/// A larger buffer is given back once it is empty.
const KEPT_BYTES: usize = 256 * 1024;

/// A connection.
pub struct Transport {
    socket: TcpStream,
    tls: Option<Box<Connection>>,
    /// Plain text that the socket has not taken, from `sent` on.
    output: Vec<u8>,
    sent: usize,
    /// Plain text given to `send` since nothing was waiting.
    waiting: usize,
    /// Bytes received and sent on the socket.
    pub bytes: (u64, u64),
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// Counts what passes through a socket.
struct Counted<'a>(&'a TcpStream, &'a mut u64);

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        *self.1 += count as u64;
        Ok(count)
    }
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.0.write(bytes)?;
        *self.1 += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport {
    /// A transport over a connected socket, under TLS when there is a session for it.
    pub fn new(socket: TcpStream, tls: Option<Connection>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let tls = tls.map(|mut session| {
            // Who sends decides how much may wait: see `waiting_bytes`.
            session.set_buffer_limit(None);
            Box::new(session)
        });
        Ok(Self {
            socket,
            tls,
            output: Vec::new(),
            sent: 0,
            waiting: 0,
            bytes: (0, 0),
        })
    }

    /// The socket's descriptor.
    pub fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Whether TLS has not agreed on keys yet.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Whether something waits for room in the socket.
    pub fn wants_write(&self) -> bool {
        self.sent < self.output.len() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// How much may be waiting for room in the socket, as plain text.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting
    }

    /// Gives what has come to `on_bytes`, piece by piece. Ok(false): the other side has ended the stream.
    /// Returns after about `RECEIVE_BYTES` though more may be there, so that one connection cannot hold up the others.
    pub fn receive<E: From<io::Error>>(
        &mut self,
        buffer: &mut [u8],
        mut on_bytes: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        let enough = self.bytes.0 + RECEIVE_BYTES;
        while self.bytes.0 < enough {
            let mut socket = Counted(&self.socket, &mut self.bytes.0);
            let received = match &mut self.tls {
                None => socket.read(buffer),
                Some(tls) => tls.read_tls(&mut socket),
            };
            let count = match received {
                Ok(0) => return Ok(false),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_temporary(&error) => return Ok(true),
                Err(error) => return Err(error.into()),
            };
            let Some(tls) = &mut self.tls else {
                on_bytes(&buffer[..count])?;
                if count < buffer.len() {
                    return Ok(true);
                }
                continue;
            };
            if let Err(error) = tls.process_new_packets() {
                // The alert that names the reason is worth one attempt.
                let _ = tls.write_tls(&mut Counted(&self.socket, &mut self.bytes.1));
                return Err(broken(error).into());
            }
            loop {
                match tls.reader().read(buffer) {
                    Ok(0) => return Ok(false),
                    Ok(count) => on_bytes(&buffer[..count])?,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(true)
    }

    /// Adds bytes to what is to be sent; `flush` sends them.
    pub fn send(&mut self, bytes: &[u8]) {
        self.waiting += bytes.len();
        match &mut self.tls {
            // Without a limit all of it is taken.
            Some(tls) => tls
                .writer()
                .write_all(bytes)
                .expect("a TLS buffer without limit takes all"),
            None => self.output.extend_from_slice(bytes),
        }
    }

    /// Sends what the socket takes.
    pub fn flush(&mut self) -> io::Result<()> {
        self.push()?;
        if !self.wants_write() {
            self.waiting = 0;
        }
        Ok(())
    }

    fn push(&mut self) -> io::Result<()> {
        let mut socket = Counted(&self.socket, &mut self.bytes.1);
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                match tls.write_tls(&mut socket) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if is_temporary(&error) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            return Ok(());
        }
        while self.sent < self.output.len() {
            match socket.write(&self.output[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_temporary(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.sent = 0;
        self.output.clear();
        if self.output.capacity() > KEPT_BYTES {
            self.output = Vec::new();
        }
        Ok(())
    }

    /// Tells the other side that nothing more comes, as far as the socket takes it.
    pub fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut Counted(&self.socket, &mut self.bytes.1));
        }
    }
}
