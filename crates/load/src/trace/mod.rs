//! Traces: a file of requests with their own times, replayed as an open loop.
//!
//! In: comma-separated values, plain or packed by gzip or zstd. Out: for each generator thread its share of the
//! requests, in order. The file is read twice: once whole before the load, so that a bad line is reported with its number
//! before anything is sent, and once in step with the load. It is never in memory. Invariant: intended times are the
//! trace's own, from its first line on, divided by the speed.

mod keys;
mod line;
mod stream;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

pub use keys::TraceKeys;
pub use line::{Columns, Row, TIME_COLUMNS};
pub use stream::TraceStream;

use crate::LoadError;
use crate::mix::Mix;
use crate::protocol::Protocol;
use crate::workload::KEY_BYTES_MAX;

/// Longest line.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Largest value that a trace may ask for.
const VALUE_BYTES_MAX: u32 = 64 << 20;

/// A trace that has been read through.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The file.
    pub path: PathBuf,
    /// How many times as fast as recorded it is replayed.
    pub speed_ratio: f64,
    /// Requests in it.
    pub requests: u64,
    /// From the first request to the last, as replayed, ns.
    pub length_ns: u64,
    /// Its largest size, bytes.
    pub largest_value_bytes: usize,
}

impl Trace {
    /// Reads the file through; `mix` says what its operations are.
    pub fn check(
        path: &Path,
        speed_ratio: f64,
        protocol: Protocol,
        mix: &Mix,
    ) -> Result<Self, LoadError> {
        if !(speed_ratio.is_finite() && speed_ratio > 0.0) {
            return Err(LoadError::setting(
                "--speed",
                format!("{speed_ratio} is not a factor above 0"),
            ));
        }
        let mut trace = Self {
            path: path.to_owned(),
            speed_ratio,
            requests: 0,
            length_ns: 0,
            largest_value_bytes: 0,
        };
        let mut reader = Reader::open(path, speed_ratio)?;
        let mut read = Reading::default();
        while reader.next(mix, protocol, &mut read)? {
            trace.requests += 1;
            trace.length_ns = read.at_ns;
            let bytes = read.size.unwrap_or(0) as usize;
            trace.largest_value_bytes = trace.largest_value_bytes.max(bytes);
        }
        if trace.requests == 0 {
            return Err(bad(path, "it has no requests"));
        }
        Ok(trace)
    }

    /// Mean rate as replayed, per second; that of one request a second for a trace that takes no time.
    pub fn mean_rate_per_s(&self) -> f64 {
        self.requests as f64 / (self.length_ns.max(1_000_000) as f64 / 1e9)
    }
}

fn bad(path: &Path, why: impl std::fmt::Display) -> LoadError {
    LoadError::setting("--trace", format!("{}: {why}", path.display()))
}

/// One request as read.
#[derive(Debug, Default)]
struct Reading {
    /// Since the first request, as replayed.
    at_ns: u64,
    operation: u32,
    key: Vec<u8>,
    size: Option<u32>,
}

/// Reads a trace line by line.
struct Reader {
    path: PathBuf,
    speed_ratio: f64,
    lines: Box<dyn BufRead + Send>,
    columns: Columns,
    line: Vec<u8>,
    number: u64,
    first_ns: Option<f64>,
    last_ns: f64,
}

impl Reader {
    fn open(path: &Path, speed_ratio: f64) -> Result<Self, LoadError> {
        let failed = |source| bad(path, source);
        let mut file = steelyard_record::open_file(path).map_err(failed)?;
        let mut magic = Vec::new();
        (&mut file)
            .take(4)
            .read_to_end(&mut magic)
            .map_err(failed)?;
        let file = std::io::Cursor::new(magic.clone()).chain(file);
        let lines: Box<dyn BufRead + Send> = if magic.starts_with(&[0x1f, 0x8b]) {
            Box::new(BufReader::with_capacity(
                1 << 16,
                flate2::read::MultiGzDecoder::new(file),
            ))
        } else if magic == [0x28, 0xb5, 0x2f, 0xfd] {
            let decoder = zstd::Decoder::new(file).map_err(failed)?;
            Box::new(BufReader::with_capacity(1 << 16, decoder))
        } else {
            Box::new(BufReader::with_capacity(1 << 16, file))
        };
        let mut reader = Self {
            path: path.to_owned(),
            speed_ratio,
            lines,
            columns: Columns::parse("time_s,operation,key,size").unwrap_or_else(|_| unreachable!()),
            line: Vec::new(),
            number: 0,
            first_ns: None,
            last_ns: 0.0,
        };
        if !reader.read_line()? {
            return Err(bad(path, "it is empty"));
        }
        if matches!(reader.line.as_slice(), [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
            return Err(bad(path, "it is UTF-16: save it as UTF-8"));
        }
        if reader.line.starts_with("\u{feff}".as_bytes()) {
            reader.line.drain(.."\u{feff}".len());
        }
        reader.columns = Columns::parse(reader.text()?).map_err(|why| reader.wrong(why))?;
        Ok(reader)
    }

    /// Reads the next line; false at the end.
    fn read_line(&mut self) -> Result<bool, LoadError> {
        self.line.clear();
        self.number += 1;
        let read = (&mut self.lines)
            .take(LINE_BYTES_MAX as u64 + 1)
            .read_until(b'\n', &mut self.line)
            .map_err(|source| self.wrong(source))?;
        if read > LINE_BYTES_MAX {
            return Err(self.wrong("the line is longer than 1 MiB"));
        }
        while matches!(self.line.last(), Some(b'\n' | b'\r')) {
            self.line.pop();
        }
        Ok(read > 0)
    }

    fn text(&self) -> Result<&str, LoadError> {
        std::str::from_utf8(&self.line).map_err(|_| self.wrong("the line is not UTF-8"))
    }

    fn wrong(&self, why: impl std::fmt::Display) -> LoadError {
        bad(&self.path, format_args!("line {}: {why}", self.number))
    }

    /// Reads the next request into `read`; false at the end.
    fn next(
        &mut self,
        mix: &Mix,
        protocol: Protocol,
        read: &mut Reading,
    ) -> Result<bool, LoadError> {
        if !self.read_line()? {
            return Ok(false);
        }
        let row = self
            .columns
            .row(self.text()?)
            .map_err(|why| self.wrong(why))?;
        let time_ns = row.time_ns;
        let known = mix
            .operations
            .iter()
            .position(|o| o.name.eq_ignore_ascii_case(row.operation.trim()));
        let Some(operation) = known.filter(|&index| !mix.operations[index].inserts) else {
            let names: Vec<&str> = mix.operations.iter().map(|o| o.name.as_str()).collect();
            return Err(self.wrong(format_args!(
                "{:?} is not an operation of {}: use {}",
                row.operation,
                mix.name,
                names.join(", ")
            )));
        };
        check_key(&row.key, protocol).map_err(|why| self.wrong(why))?;
        if row.size.is_some_and(|size| size > VALUE_BYTES_MAX) {
            return Err(self.wrong("the size is above 64 MiB"));
        }
        read.operation = operation as u32;
        read.key.clear();
        read.key.extend_from_slice(row.key.as_bytes());
        read.size = row.size;
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        if self.number > 2 && time_ns < self.last_ns {
            return Err(self.wrong("the time is before that of the previous line"));
        }
        self.last_ns = time_ns;
        read.at_ns = ((time_ns - first_ns) / self.speed_ratio) as u64;
        Ok(true)
    }
}

/// Refuses keys that a protocol cannot carry.
fn check_key(key: &str, protocol: Protocol) -> Result<(), String> {
    let most = if protocol == Protocol::Memcached {
        KEY_BYTES_MAX
    } else {
        u16::MAX as usize
    };
    if key.len() > most {
        return Err(format!("the key has {} B, more than {most} B", key.len()));
    }
    let in_line = matches!(protocol, Protocol::Memcached | Protocol::Http);
    if in_line && key.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(format!(
            "{key:?} holds a space or a control character, which keys of {} must not",
            protocol.name()
        ));
    }
    Ok(())
}
