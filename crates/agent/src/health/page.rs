//! The page on loopback: GET /metrics, and GET /healthz for probes.
//!
//! One thread serves all clients, one request each. A client has two seconds for its request and the answer together, and at most
//! [`CLIENTS_MAX`] are kept: the next takes the place of the one that has been there longest, so that slow clients
//! keep no other from an answer. Only requests for a name of this machine are answered, so that no page of the web reads names of
//! tasks through a browser.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Health;

/// Time for a request and its answer.
const DEADLINE: Duration = Duration::from_secs(2);
/// Clients that are kept at a time.
pub const CLIENTS_MAX: usize = 64;
/// Longest request, bytes.
const REQUEST_BYTES_MAX: usize = 8 * 1024;
/// How long no client is admitted after the system refused, mostly for lack of descriptors.
const REST: Duration = Duration::from_millis(20);

/// Answers requests as long as the process lives.
pub fn serve(listener: TcpListener, health: Arc<Mutex<Health>>) {
    if let Err(error) = listener.set_nonblocking(true) {
        tracing::warn!("the page of metrics is not served: {error}");
        return;
    }
    let mut clients = Vec::new();
    loop {
        let is_waiting = wait(&listener, &clients);
        let now = Instant::now();
        clients.retain_mut(|client: &mut Client| client.go_on(&health, now).unwrap_or(false));
        if is_waiting && let Err(error) = admit(&listener, &mut clients, now) {
            tracing::debug!("a request for metrics: {error}");
            std::thread::sleep(REST);
        }
    }
}

/// Waits until a client can go on, a deadline is over or a client waits to be admitted; whether one does.
fn wait(listener: &TcpListener, clients: &[Client]) -> bool {
    let entry = |fd: RawFd, events| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let mut entries = vec![entry(listener.as_raw_fd(), libc::POLLIN)];
    entries.extend(clients.iter().map(|client| {
        let events = match client.answer.is_empty() {
            true => libc::POLLIN,
            false => libc::POLLOUT,
        };
        entry(client.stream.as_raw_fd(), events)
    }));
    let now = Instant::now();
    let first = clients.iter().map(|client| client.end).min();
    let wait_ms = first.map_or(-1, |end| {
        let left = end.saturating_duration_since(now).as_millis() + 1;
        i32::try_from(left).unwrap_or(i32::MAX)
    });
    // SAFETY: the pointer and the length describe `entries`.
    unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, wait_ms) };
    entries[0].revents != 0
}

fn admit(listener: &TcpListener, clients: &mut Vec<Client>, now: Instant) -> io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        if clients.len() >= CLIENTS_MAX {
            // They stand in the order in which they came.
            clients.remove(0);
        }
        clients.push(Client {
            stream,
            request: Vec::new(),
            answer: Vec::new(),
            sent: 0,
            end: now + DEADLINE,
        });
    }
}

struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    /// Empty until the request is whole.
    answer: Vec<u8>,
    sent: usize,
    end: Instant,
}

impl Client {
    /// Reads and writes what can be without waiting; whether there is more to do.
    fn go_on(&mut self, health: &Mutex<Health>, now: Instant) -> io::Result<bool> {
        if now >= self.end {
            return Ok(false);
        }
        if self.answer.is_empty() {
            if !self.read()? {
                return Ok(true);
            }
            let health = health.lock().unwrap_or_else(PoisonError::into_inner);
            self.answer = answer(&self.request, &health);
        }
        while self.sent < self.answer.len() {
            match self.stream.write(&self.answer[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Whether the request is whole, or as long as one may be, or all that will come.
    fn read(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(true),
                Ok(got) => {
                    let before = self.request.len().saturating_sub(3);
                    self.request.extend(&chunk[..got]);
                    let mut ends = self.request[before..].windows(4);
                    if ends.any(|four| four == b"\r\n\r\n")
                        || self.request.len() >= REQUEST_BYTES_MAX
                    {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The answer to a request.
pub fn answer(request: &[u8], health: &Health) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let host = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host")
            .then(|| value.trim().to_ascii_lowercase())
    });
    let (status, body) = if !text.contains("\r\n\r\n")
        || !words
            .next()
            .is_some_and(|version| version.starts_with("HTTP/1."))
    {
        ("400 Bad Request", "no request\n".to_owned())
    } else if !host.is_none_or(|host| is_own(&host)) {
        (
            "403 Forbidden",
            "for names of this machine only\n".to_owned(),
        )
    } else if method != "GET" && method != "HEAD" {
        ("405 Method Not Allowed", "GET only\n".to_owned())
    } else {
        match target.split('?').next().unwrap_or_default() {
            "/metrics" => ("200 OK", health.text()),
            "/healthz" => ("200 OK", "ok\n".to_owned()),
            _ => ("404 Not Found", "there is /metrics\n".to_owned()),
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let body = if method == "HEAD" {
        String::new()
    } else {
        body
    };
    (head + &body).into_bytes()
}

fn is_own(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost"
        || name == "::1"
        || name
            .parse::<std::net::Ipv4Addr>()
            .is_ok_and(|address| address.is_loopback())
}
