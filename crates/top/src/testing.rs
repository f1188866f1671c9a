//! What tests share: a tree of /proc that is written by hand, counters and a session over it.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use steelyard_kernel::Tree;

use crate::Reason;
use crate::ipc::{Count, Counters};
use crate::mix::{Code, Mixer, Source};
use crate::session::{By, Outside, Session};

/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;

/// Counters that count as a test says.
#[derive(Default)]
pub struct FakeCounters {
    /// Why there are none.
    pub unavailable: Option<Reason>,
    /// Cycles and instructions of process 7 each time it is asked.
    pub step: Count,
    /// What was counted so far.
    pub counted: Count,
}

impl Counters for FakeCounters {
    fn follow(&mut self, _: &[u32]) {}

    fn read(&mut self, pid: u32) -> Result<Count, Reason> {
        if pid != 7 {
            return Err(crate::ipc::NOT_COUNTED);
        }
        self.counted.cycles += self.step.cycles;
        self.counted.instructions += self.step.instructions;
        Ok(self.counted)
    }

    fn unavailable(&self) -> Option<Reason> {
        self.unavailable.clone()
    }

    fn note(&self) -> Option<String> {
        None
    }
}

struct NoCode;

impl Code for NoCode {
    fn read(&mut self, _: u32, _: u64) -> Option<Vec<u8>> {
        None
    }

    fn bits(&mut self, _: u32) -> u32 {
        64
    }

    fn forget(&mut self) {}

    fn why_unread(&self) -> Option<String> {
        None
    }
}

/// A machine of files.
pub struct Machine {
    directory: tempfile::TempDir,
    /// The time, ns.
    pub now_ns: Rc<Cell<u64>>,
}

impl Machine {
    /// Two CPUs, one node, control groups of version 2 and two processes.
    pub fn new() -> Self {
        let machine = Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
            now_ns: Rc::new(Cell::new(SECOND)),
        };
        machine.write("proc/loadavg", "0.50 0 0 1/2 100\n");
        machine.write("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        machine.write(
            "proc/meminfo",
            "MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 6291456 kB\n",
        );
        machine.write("etc/passwd", "root:x:0:0::/:\nweb:x:33:33::/:\n");
        machine.write("sys/devices/system/node/node0/cpulist", "0-1\n");
        machine.stat(0, 0);
        machine.process(7, "api", 0, 0);
        machine.process(9, "batch\u{1b}[31m", 0, 0);
        machine
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    /// Writes one of its files.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    /// CPU time of the machine, clock ticks.
    pub fn stat(&self, user: u64, system: u64) {
        let text = format!("cpu  {user} 0 {system} 0 0 0 0 0\ncpu0 0\ncpu1 0\n");
        self.write("proc/stat", &text);
    }

    /// A process that has used so many clock ticks in user mode, and waited so long.
    pub fn process(&self, pid: u32, name: &str, ticks: u64, wait_ns: u64) {
        let stat = format!(
            "{pid} ({name}) R 1 1 1 0 -1 4194304 {ticks} 0 0 0 {ticks} 0 0 0 20 0 1 0 50 1 1024 18\n"
        );
        self.write(&format!("proc/{pid}/stat"), &stat);
        self.write(&format!("proc/{pid}/io"), "read_bytes: 0\nwrite_bytes: 0\n");
        self.write(
            &format!("proc/{pid}/cmdline"),
            &format!("/bin/{name}\0--port\x008080\0"),
        );
        self.write(&format!("proc/{pid}/cgroup"), &format!("0::/apps/{pid}\n"));
        let status =
            "Uid:\t33\t33\t33\t33\nvoluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0\n";
        self.write(&format!("proc/{pid}/status"), status);
        let task = format!("proc/{pid}/task/{pid}");
        self.write(&format!("{task}/stat"), &stat);
        self.write(&format!("{task}/io"), "read_bytes: 0\nwrite_bytes: 0\n");
        self.write(&format!("{task}/status"), status);
        let turns = format!("{} {wait_ns} {ticks}\n", ticks * 10_000_000);
        self.write(&format!("{task}/schedstat"), &turns);
    }

    /// A second passes, in which process 7 has `ticks` clock ticks in all now.
    pub fn pass(&self, ticks: u64) {
        self.now_ns.set(self.now_ns.get() + SECOND);
        self.stat(ticks, 0);
        self.process(7, "api", ticks, ticks * 10_000_000);
    }

    /// A session over it.
    pub fn session(&self, by: By, counters: FakeCounters) -> Session {
        let now_ns = Rc::clone(&self.now_ns);
        let own = Rc::clone(&self.now_ns);
        let outside = Outside {
            clock: Box::new(move || now_ns.get()),
            own_cpu_ns: Box::new(move || own.get() / 100),
            uid: 0,
            counters: Box::new(counters),
            mixer: Box::new(|_| {
                let refuse = |_: Option<&[u32]>| -> Result<Box<dyn Source>, Reason> {
                    Err(Reason::Fixed("nothing samples in tests"))
                };
                Mixer::new(Box::new(refuse), Box::new(NoCode))
            }),
        };
        Session::new(&Tree::new(self.root()), Vec::new(), by, true, outside).expect("processes")
    }
}
