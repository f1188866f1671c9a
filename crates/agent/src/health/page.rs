//! The page on loopback: GET /metrics, and GET /healthz for whoever wants a yes or no.
//!
//! One request a connection, one connection at a time, each step within two seconds: a scraper comes every few seconds.
//! Only requests for a name of this machine are answered, so that no page of the web reads names of tasks through a browser.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Health;

const TIMEOUT: Duration = Duration::from_secs(2);
/// Longest request, bytes.
const MOST_BYTES: usize = 8 * 1024;

/// Answers requests as long as the process lives.
pub fn serve(listener: TcpListener, health: Arc<Mutex<Health>>) {
    for stream in listener.incoming() {
        let answered = stream.and_then(|stream| one(stream, &health));
        if let Err(error) = answered {
            tracing::debug!("a request for figures: {error}");
            // Out of descriptors, mostly: not at once again.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn one(mut stream: TcpStream, health: &Mutex<Health>) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut text = Vec::new();
    let mut chunk = [0; 1024];
    while !text.windows(4).any(|four| four == b"\r\n\r\n") && text.len() < MOST_BYTES {
        match stream.read(&mut chunk)? {
            0 => break,
            got => text.extend(&chunk[..got]),
        }
    }
    let health = health
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    stream.write_all(&answer(&text, &health))
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
