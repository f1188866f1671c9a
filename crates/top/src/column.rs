//! The columns: declared once; the table, the JSON keys, the help and the sort orders follow.

use crate::figure::Figures;

/// A column of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Column {
    /// CPU time, in CPUs.
    Cpu,
    /// CPU time in user mode.
    User,
    /// CPU time in the kernel.
    System,
    /// Share of the time it wanted a CPU in which it waited for one.
    Wait,
    /// Instructions per cycle.
    Ipc,
    /// Page faults without a disk.
    MinorFaults,
    /// Page faults with a disk.
    MajorFaults,
    /// Bytes read from storage.
    Read,
    /// Bytes written to storage.
    Written,
    /// Resident memory.
    Rss,
    /// Threads.
    Threads,
    /// Share of memory that is local to where it runs.
    Numa,
    /// Context switches that it asked for.
    Voluntary,
    /// Context switches that it did not ask for.
    Involuntary,
    /// Share of instructions that are vector instructions.
    Vector,
}

/// How a column's numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Two digits behind the point.
    Cpus,
    /// A ratio as a percentage.
    Percent,
    /// A count a second.
    Rate,
    /// Bytes, or bytes a second, with a binary prefix.
    Bytes,
    /// A whole number.
    Count,
}

/// What there is to know of a column.
#[derive(Debug)]
pub struct About {
    /// Which one.
    pub column: Column,
    /// Its name in JSON, with the unit.
    pub key: &'static str,
    /// Its heading in the table.
    pub heading: &'static str,
    /// Cells that it takes.
    pub width: u16,
    /// How its numbers are written.
    pub style: Style,
    /// Its rank among the columns when there is not room for all: 0 is shown first.
    pub rank: u8,
    /// What it is.
    pub about: &'static str,
}

const fn about(
    column: Column,
    key: &'static str,
    heading: &'static str,
    width: u16,
    style: Style,
    rank: u8,
    about: &'static str,
) -> About {
    About {
        column,
        key,
        heading,
        width,
        style,
        rank,
        about,
    }
}

/// All columns, in the order in which they stand.
#[rustfmt::skip]
pub const COLUMNS: [About; 15] = [
    about(Column::Cpu, "used_cpus", "CPU", 6, Style::Cpus, 0, "CPU time a second: 1.00 is one CPU all the time"),
    about(Column::User, "user_cpus", "USR", 5, Style::Cpus, 9, "the part of it in user mode"),
    about(Column::System, "system_cpus", "SYS", 5, Style::Cpus, 3, "the part of it in the kernel"),
    about(Column::Wait, "wait_ratio", "WAIT%", 5, Style::Percent, 2, "share of its runnable time that it waited in a run queue"),
    about(Column::Ipc, "instructions_per_cycle", "IPC", 4, Style::Cpus, 1, "instructions per cycle, from hardware counters"),
    about(Column::MinorFaults, "minor_faults_per_s", "FLT/s", 6, Style::Rate, 4, "page faults a second without a disk"),
    about(Column::MajorFaults, "major_faults_per_s", "MAJ/s", 5, Style::Rate, 8, "page faults a second that read a disk"),
    about(Column::Read, "read_bytes_per_s", "READ/s", 6, Style::Bytes, 5, "bytes read from storage a second"),
    about(Column::Written, "written_bytes_per_s", "WRIT/s", 6, Style::Bytes, 5, "bytes written to storage a second"),
    about(Column::Rss, "rss_bytes", "RSS", 6, Style::Bytes, 4, "resident memory (of a control group: memory charged to it)"),
    about(Column::Threads, "threads", "THR", 5, Style::Count, 10, "threads"),
    about(Column::Numa, "numa_score", "NUMA%", 5, Style::Percent, 7, "NUMA score: locality of its memory, 100 when all is local"),
    about(Column::Voluntary, "voluntary_switches_per_s", "VCS/s", 6, Style::Rate, 11, "voluntary context switches a second"),
    about(Column::Involuntary, "involuntary_switches_per_s", "ICS/s", 6, Style::Rate, 12, "involuntary context switches a second"),
    about(Column::Vector, "vector_ratio", "VEC%", 5, Style::Percent, 6, "share of sampled user instructions that are vector instructions"),
];

impl Column {
    /// What there is to know of it.
    pub fn about(self) -> &'static About {
        &COLUMNS[self as usize]
    }
}

/// What rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// CPU time.
    Cpu,
    /// Instructions per cycle.
    Ipc,
    /// Page faults of both kinds.
    Faults,
    /// Bytes read and written.
    Io,
    /// NUMA locality, the worst first.
    Numa,
    /// Resident memory.
    Rss,
    /// Share of waiting for a CPU.
    Wait,
    /// Context switches of both kinds.
    Switches,
    /// Share of vector instructions.
    Vector,
}

/// Sort orders with their names and keys.
#[rustfmt::skip]
pub const SORTS: [(Sort, &str, char); 9] = [
    (Sort::Cpu, "cpu", 'c'),
    (Sort::Ipc, "ipc", 'i'),
    (Sort::Faults, "faults", 'f'),
    (Sort::Io, "io", 'o'),
    (Sort::Numa, "numa", 'n'),
    (Sort::Rss, "rss", 'r'),
    (Sort::Wait, "wait", 'w'),
    (Sort::Switches, "switches", 's'),
    (Sort::Vector, "vector", 'v'),
];

impl Sort {
    /// Its name.
    pub fn name(self) -> &'static str {
        SORTS[self as usize].1
    }

    /// The order of that name.
    pub fn named(name: &str) -> Option<Self> {
        SORTS.iter().find(|sort| sort.1 == name).map(|sort| sort.0)
    }

    /// The columns whose sum it goes by.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Cpu => &[Column::Cpu],
            Self::Ipc => &[Column::Ipc],
            Self::Faults => &[Column::MinorFaults, Column::MajorFaults],
            Self::Io => &[Column::Read, Column::Written],
            Self::Numa => &[Column::Numa],
            Self::Rss => &[Column::Rss],
            Self::Wait => &[Column::Wait],
            Self::Switches => &[Column::Voluntary, Column::Involuntary],
            Self::Vector => &[Column::Vector],
        }
    }

    /// What a row is compared by: larger comes first. None, which comes last, when all of it is missing.
    pub fn key(self, figures: &Figures) -> Option<f64> {
        let known: Vec<f64> = self
            .columns()
            .iter()
            .filter_map(|column| figures.number(*column))
            .collect();
        if known.is_empty() {
            return None;
        }
        let sum: f64 = known.iter().sum();
        Some(if self == Self::Numa { -sum } else { sum })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_guide_has_every_column() {
        let guide = include_str!("../../../docs/guides/top.md");
        for about in &COLUMNS {
            let row = format!("| {} (`{}`) | {} |", about.heading, about.key, about.about);
            assert!(guide.contains(&row), "{row}");
        }
    }

    #[test]
    fn columns_and_sorts_stand_at_their_own_places() {
        for (place, about) in COLUMNS.iter().enumerate() {
            assert_eq!(about.column as usize, place, "{}", about.key);
            assert!(
                about.heading.len() <= usize::from(about.width),
                "{}",
                about.key
            );
        }
        for (place, sort) in SORTS.iter().enumerate() {
            assert_eq!(sort.0 as usize, place);
            assert_eq!(Sort::named(sort.1), Some(sort.0));
        }
        let keys: HashSet<&str> = COLUMNS.iter().map(|about| about.key).collect();
        assert_eq!(keys.len(), COLUMNS.len());
        let letters: HashSet<char> = SORTS.iter().map(|sort| sort.2).collect();
        assert_eq!(letters.len(), SORTS.len());
    }
}
