//! What the guard did and why: one JSON object a line.
//!
//! Invariants: a line is written in one call and reaches the disk before what it announces is done; a line that a crash cut
//! short does not spoil the next; the file is bounded: at [`BYTES`] it becomes `audit.jsonl.1` and a new one begins.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::quota::Change;
use crate::disk::Disk;
use crate::guard::clock::Moment;
use crate::private::Private;
use crate::table::date_of;

/// Size from which a new file is begun.
pub const BYTES: u64 = 8 << 20;

const NAME: &str = "audit.jsonl";

/// One line: what was done, why, by which evidence, from which value to which, and the outcome.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Line<'a> {
    /// `spec`, `incident`, `cap`, `undo`, `clock` ...
    pub what: &'static str,
    /// Why, as a sentence.
    pub why: String,
    /// The incident that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident: Option<&'a str>,
    /// The control group concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<&'a str>,
    /// The figures that it was decided by.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub evidence: Value,
    /// The knobs, with the value before and the value while a cap lasts.
    #[serde(skip_serializing_if = "<[Change]>::is_empty")]
    pub changes: &'a [Change],
    /// The outcome.
    pub outcome: String,
}

#[derive(Serialize)]
struct Timed<'a> {
    time: String,
    unix_s: f64,
    #[serde(flatten)]
    line: &'a Line<'a>,
}

/// The log.
#[derive(Debug)]
pub struct Audit {
    folder: Private,
    file: File,
    bytes: u64,
}

impl Audit {
    /// Opens `audit.jsonl` in `folder`, to add to it.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let folder = Private::open(folder)?;
        let (file, bytes) = begin(&folder)?;
        Ok(Self {
            folder,
            file,
            bytes,
        })
    }

    /// Adds a line, on the disk when this returns.
    pub fn write(&mut self, now: Moment, line: &Line) -> io::Result<()> {
        let timed = Timed {
            time: utc(now.unix_s),
            unix_s: now.unix_s,
            line,
        };
        let mut text = serde_json::to_vec(&timed)?;
        text.push(b'\n');
        if self.bytes > 0 && self.bytes + text.len() as u64 > BYTES {
            let path = self.folder.path().join(NAME);
            self.folder.rename(&path, &path.with_extension("jsonl.1"))?;
            (self.file, self.bytes) = begin(&self.folder)?;
        }
        self.file.write_all(&text)?;
        self.bytes += text.len() as u64;
        self.file.sync_data()
    }
}

/// Opens the file at its end, after a line break.
fn begin(folder: &Private) -> io::Result<(File, u64)> {
    let flags = libc::O_RDWR | libc::O_APPEND | libc::O_CREAT;
    let mut file = folder.file(&folder.path().join(NAME), flags)?;
    let mut bytes = file.metadata()?.len();
    if bytes > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
            bytes += 1;
        }
    }
    Ok((file, bytes))
}

/// A time as ISO 8601 in UTC, to the millisecond.
fn utc(unix_s: f64) -> String {
    let millis = (unix_s * 1e3).round() as i64;
    let (seconds, millis) = (millis.div_euclid(1000), millis.rem_euclid(1000));
    let of_day = seconds.rem_euclid(86_400);
    format!(
        "{}T{:02}:{:02}:{:02}.{millis:03}Z",
        date_of(seconds),
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::guard::testing::moment;

    #[test]
    fn times_are_dates() {
        assert_eq!(utc(0.0), "1970-01-01T00:00:00.000Z");
        assert_eq!(utc(951_782_400.25), "2000-02-29T00:00:00.250Z");
        assert_eq!(utc(1_795_326_399.999), "2026-11-22T05:46:39.999Z");
    }

    #[test]
    fn a_line_cut_short_spoils_no_other_and_names_break_no_line() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("audit.jsonl"), "{\"what\":\"ca").unwrap();
        let mut audit = Audit::open(folder.path()).unwrap();
        let line = Line {
            what: "cap",
            cgroup: Some("/a\nb\u{1b}[2J\"}"),
            outcome: "done".into(),
            ..Line::default()
        };
        audit.write(moment(10.0), &line).unwrap();
        let text = fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        let entry: Value = serde_json::from_str(lines[1]).unwrap();
        assert_eq!(entry["cgroup"], "/a\nb\u{1b}[2J\"}");
        assert_eq!(entry["time"], "1970-01-01T00:00:10.000Z");
    }

    #[test]
    fn the_log_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let mut audit = Audit::open(folder.path()).unwrap();
        audit.bytes = BYTES - 10;
        let line = Line {
            what: "cap",
            ..Line::default()
        };
        audit.write(moment(0.0), &line).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(audit.bytes < 200);
    }
}
