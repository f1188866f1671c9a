//! /proc/PID/stat of a process and /proc/PID/task/TID/stat of a thread.
//!
//! Source: proc_pid_stat(5).

use crate::scan::words;

/// Contents of /proc/PID/stat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stat<'t> {
    /// Name of the executable.
    pub command: &'t [u8],
    /// Its state as one letter: R runs, S sleeps, D waits without being interruptible.
    pub state: u8,
    /// The process that made it, or adopted it since.
    pub parent: Option<u32>,
    /// The kernel's PF_* flags.
    pub flags: Option<u64>,
    /// CPU time in user mode, clock ticks.
    pub user_ticks: u64,
    /// CPU time in the kernel, clock ticks.
    pub system_ticks: u64,
    /// Resident pages.
    pub rss_pages: Option<u64>,
    /// Threads.
    pub threads: u64,
    /// Page faults without and with a disk.
    pub faults: [Option<u64>; 2],
    /// Start, clock ticks since boot.
    pub start_ticks: u64,
    /// The CPU it ran on last.
    pub processor: Option<u64>,
}

impl<'t> Stat<'t> {
    /// Scans the text of a stat file; None when it is none.
    pub fn parse(text: &'t [u8]) -> Option<Self> {
        // The name may hold anything, parentheses too; nothing behind it does.
        let open = memchr::memchr(b'(', text)?;
        let close = memchr::memrchr(b')', text)?;
        let command = text.get(open + 1..close)?;
        let mut fields = words(crate::scan::trim(&text[close + 1..]));
        // The names are those of proc_pid_stat(5); the number of a field stands behind it.
        let state = fields.next()?.first().copied()?; // state 3
        let parent = fields.number().and_then(|number| number.try_into().ok()); // ppid 4
        fields.pass(4);
        let flags = fields.number(); // flags 9
        let minor = fields.number(); // minflt 10
        fields.pass(1);
        let major = fields.number(); // majflt 12
        fields.pass(1);
        let user_ticks = fields.number()?; // utime 14
        let system_ticks = fields.number()?; // stime 15
        fields.pass(4);
        let threads = fields.number()?; // num_threads 20
        fields.pass(1);
        let start_ticks = fields.number()?; // starttime 22
        fields.pass(1);
        let rss_pages = fields.number(); // rss 24
        fields.pass(14);
        let processor = fields.number(); // processor 39
        Some(Self {
            command,
            state,
            parent,
            flags,
            user_ticks,
            system_ticks,
            rss_pages,
            threads,
            faults: [minor, major],
            start_ticks,
            processor,
        })
    }

    /// The same without the name, which is all that is borrowed.
    pub fn without_name(&self) -> Stat<'static> {
        Stat {
            command: b"",
            state: self.state,
            parent: self.parent,
            flags: self.flags,
            user_ticks: self.user_ticks,
            system_ticks: self.system_ticks,
            rss_pages: self.rss_pages,
            threads: self.threads,
            faults: self.faults,
            start_ticks: self.start_ticks,
            processor: self.processor,
        }
    }

    /// CPU time, clock ticks.
    pub fn cpu_ticks(&self) -> u64 {
        self.user_ticks.wrapping_add(self.system_ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_blanks_and_parentheses() {
        let text =
            b"12 (a) R (b) S 1 12 12 0 -1 4194304 10 0 2 0 4 1 0 0 20 0 2 0 9 3133440 3 18\n";
        let stat = Stat::parse(text).expect("it is a stat file");
        assert_eq!(stat.command, b"a) R (b");
        assert_eq!((stat.user_ticks, stat.system_ticks), (4, 1));
        assert_eq!((stat.threads, stat.start_ticks), (2, 9));
        assert_eq!(stat.rss_pages, Some(3));
        assert_eq!(stat.faults, [Some(10), Some(2)]);
        assert_eq!(Stat::parse(b"12 (sh"), None);
    }
}
