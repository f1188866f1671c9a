//! The table as plain text, for pipes and files: no escape codes, no colours, all rows.

use crate::column::{COLUMNS, Column};
use crate::derive::{Row, Subject};
use crate::format;
use crate::mix::Counts;
use crate::session::{By, Snapshot};

/// Columns of plain text, in order: those that fit in about a hundred cells.
const SHOWN: [Column; 12] = [
    Column::Cpu,
    Column::System,
    Column::Wait,
    Column::Ipc,
    Column::MinorFaults,
    Column::MajorFaults,
    Column::Read,
    Column::Written,
    Column::Rss,
    Column::Threads,
    Column::Numa,
    Column::Vector,
];

/// Cells of a command line; JSON has more of it.
const COMMAND: usize = 80;

/// The headings and figures that do not stand in a column.
pub fn table(snapshot: &Snapshot, rows: &[&Row]) -> String {
    let mut text = head(snapshot);
    text.push('\n');
    let mut line = match snapshot.by {
        By::Process => format!("{:>7}", "PID"),
        By::Thread => format!("{:>7} {:>7}", "PID", "TID"),
        By::Cgroup => String::new(),
    };
    for column in SHOWN {
        let about = column.about();
        line.push_str(&format!(
            " {:>width$}",
            about.heading,
            width = usize::from(about.width)
        ));
    }
    line.push_str(&format!(" {:<13} COMMAND", "ISA"));
    push_line(&mut text, &line);
    for row in rows {
        push_line(&mut text, &row_line(row));
    }
    for note in &snapshot.notes {
        push_line(&mut text, &format!("# {note}"));
    }
    text
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

fn row_line(row: &Row) -> String {
    let mut line = match &row.subject {
        Subject::Task(id) => match id.tid {
            None => format!("{:>7}", id.pid),
            Some(tid) => format!("{:>7} {:>7}", id.pid, tid),
        },
        Subject::Group(_) => String::new(),
    };
    for column in SHOWN {
        let about = column.about();
        let cell = format::figure(about, row.figures.get(column));
        line.push_str(&format!(
            " {cell:>width$}",
            width = usize::from(about.width)
        ));
    }
    let command = format::cut(&command(row), COMMAND);
    line.push_str(&format!(" {:<13} {command}", isa(row)));
    line
}

/// The instruction set that most of a row's samples fell on besides scalar code, with its share.
pub fn isa(row: &Row) -> String {
    let counts: &Counts = match &row.mix {
        Ok(counts) => counts,
        Err(_) => return format::MISSING.to_owned(),
    };
    match counts.foremost() {
        Some((name, share)) => format!("{name} {:.0}%", 100.0 * share),
        None if counts.vector_ratio().is_ok() => "scalar".to_owned(),
        None => format::MISSING.to_owned(),
    }
}

/// What a row is called.
pub fn command(row: &Row) -> String {
    match &row.subject {
        Subject::Group(path) => path.to_string(),
        Subject::Task(id) => match (&row.who.command, row.who.is_kernel) {
            (_, true) => format!("[{}]", row.who.name),
            (Some(command), _) if id.tid.is_none() => without_folder(command).to_owned(),
            _ => row.who.name.clone(),
        },
    }
}

/// A command line without the folder of its program, which would push what matters off the screen.
fn without_folder(command: &str) -> &str {
    let program = command.split(' ').next().unwrap_or(command);
    match program.rfind('/') {
        Some(at) if program.starts_with('/') && at + 1 < program.len() => &command[at + 1..],
        _ => command,
    }
}

/// The first lines: the machine, and what is counted.
pub fn head(snapshot: &Snapshot) -> String {
    let mut lines = String::new();
    push_line(&mut lines, &machine_line(snapshot));
    push_line(&mut lines, &counts_line(snapshot));
    lines
}

/// CPUs, load and memory of the machine.
pub fn machine_line(snapshot: &Snapshot) -> String {
    let machine = &snapshot.machine;
    let mut parts = Vec::new();
    parts.push(match machine.used {
        Some([user, system, stolen]) => {
            let stolen = match stolen {
                stolen if stolen >= 0.005 => format!(", {stolen:.2} stolen"),
                _ => String::new(),
            };
            format!(
                "CPU {:.2} of {} ({user:.2} user, {system:.2} system{stolen})",
                user + system,
                machine.cpus
            )
        }
        None => format!("{} CPUs", machine.cpus),
    });
    if let Some(load) = machine.load_1m {
        parts.push(format!("load {load:.2}"));
    }
    if let Some([total, available]) = machine.memory_bytes {
        parts.push(format!(
            "mem {}/{}",
            format::bytes(total.saturating_sub(available) as f64),
            format::bytes(total as f64)
        ));
    }
    parts.join("  ")
}

/// How much is looked at, over how long.
pub fn counts_line(snapshot: &Snapshot) -> String {
    let over = if snapshot.interval_s > 0.0 {
        format!("over {:.2} s", snapshot.interval_s)
    } else {
        "first sample: rates need a second one".to_owned()
    };
    format!(
        "{} processes, {} threads  {over}  by {}",
        snapshot.processes,
        snapshot.threads,
        snapshot.by.name()
    )
}

/// Columns with what they are, for the help and the guide.
pub fn columns() -> impl Iterator<Item = (&'static str, &'static str)> {
    COLUMNS.iter().map(|about| (about.heading, about.about))
}
