//! Runs a session to its end: printed so many times, or on a terminal until the user leaves.
//!
//! The clock, the terminal and what waits are injected, so that no test sleeps.

use std::io::Write;
use std::time::Duration;

use crate::TopError;
use crate::column::Sort;
use crate::derive::Row;
use crate::order;
use crate::session::{By, Session, Snapshot};
use crate::{json, text};

/// How a batch is printed.
#[derive(Debug, Clone)]
pub struct Batch {
    /// How often.
    pub count: u64,
    /// Time between two looks.
    pub interval: Duration,
    /// As JSON, a document a line.
    pub json: bool,
    /// The order of rows.
    pub sort: Sort,
    /// Turn the order round.
    pub reverse: bool,
    /// Rows must hold this text.
    pub filter: Option<String>,
    /// At most so many rows; all when None.
    pub rows: Option<usize>,
}

/// Rings of samples hold seconds, so that they are emptied this often.
const DRAIN: Duration = Duration::from_millis(500);

/// The time in which it is found out which processes are busy.
const GLANCE: Duration = Duration::from_millis(200);

/// Prints snapshots. `wait` waits, and returns whether to go on.
pub fn batch(
    session: &mut Session,
    batch: &Batch,
    wait: &mut dyn FnMut(Duration) -> bool,
    out: &mut dyn Write,
) -> Result<(), TopError> {
    session.look();
    if session.wants_busiest() {
        // Who is busy is not known before a second look.
        if !wait(GLANCE) {
            return Ok(());
        }
        session.look();
    }
    for number in 0..batch.count {
        let mut left = batch.interval;
        while !left.is_zero() {
            let now = left.min(DRAIN);
            if !wait(now) {
                return Ok(());
            }
            left -= now;
            session.take_samples();
        }
        let mut snapshot = session.look();
        let rows = arrange(&mut snapshot, batch.sort, batch.reverse);
        let rows = chosen(&rows, batch.filter.as_deref(), batch.rows);
        let printed = if batch.json {
            json::document(&snapshot, &rows, batch.sort.name()) + "\n"
        } else {
            let gap = if number > 0 { "\n" } else { "" };
            format!("{gap}{}", text::table(&snapshot, &rows))
        };
        out.write_all(printed.as_bytes())
            .and_then(|()| out.flush())
            .map_err(TopError::Output)?;
    }
    Ok(())
}

/// Takes a snapshot's rows out of it, in order.
pub fn arrange(snapshot: &mut Snapshot, sort: Sort, reverse: bool) -> Vec<Row> {
    let mut rows = std::mem::take(&mut snapshot.rows);
    if snapshot.by == By::Cgroup {
        return order::sort_tree(rows, sort, reverse);
    }
    order::sort(&mut rows, sort, reverse);
    rows
}

fn chosen<'r>(rows: &'r [Row], filter: Option<&str>, most: Option<usize>) -> Vec<&'r Row> {
    rows.iter()
        .filter(|row| filter.is_none_or(|text| order::matches(row, text)))
        .take(most.unwrap_or(usize::MAX))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeCounters, Machine};

    fn print(batch_of: &Batch) -> String {
        let machine = Machine::new();
        let mut session = machine.session(By::Process, FakeCounters::default());
        let mut out = Vec::new();
        let mut ticks = 0;
        let mut wait = |_: Duration| {
            ticks += 50;
            machine.pass(ticks);
            true
        };
        batch(&mut session, batch_of, &mut wait, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn plain() -> Batch {
        Batch {
            count: 1,
            interval: Duration::from_secs(1),
            json: false,
            sort: Sort::Cpu,
            reverse: false,
            filter: None,
            rows: None,
        }
    }

    #[test]
    fn a_table_of_rates() {
        let text = print(&plain());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("CPU 0.50 of 2"), "{text}");
        assert!(lines[3].trim_start().starts_with("PID    CPU"), "{text}");
        assert!(lines[4].trim_start().starts_with("7   0.50"), "{text}");
        assert!(
            text.contains("# NUMA: the machine has one NUMA node"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn json_is_a_document_a_look() {
        let text = print(&Batch {
            count: 3,
            json: true,
            filter: Some("api".to_owned()),
            ..plain()
        });
        assert_eq!(text.lines().count(), 3);
        for line in text.lines() {
            let document: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(document["rows"].as_array().unwrap().len(), 1);
            assert_eq!(document["rows"][0]["used_cpus"], 0.5);
        }
    }
}
