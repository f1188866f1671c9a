//! A tree that changes between readings.

use std::cell::Cell;
use std::path::Path;

use super::*;
use crate::Reason;

const SECOND: u64 = 1_000_000_000;

/// A tree in a temporary directory, and a clock that is set by hand.
struct Bench {
    directory: tempfile::TempDir,
    now_ns: Cell<u64>,
}

impl Bench {
    fn new() -> Self {
        let bench = Self {
            directory: tempfile::tempdir().unwrap(),
            now_ns: Cell::new(SECOND),
        };
        bench.write("proc/loadavg", "0.5 0 0 1/2 100\n");
        bench.write("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        bench
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn remove(&self, path: &str) {
        std::fs::remove_dir_all(self.root().join(path)).unwrap();
    }

    fn root(&self) -> &Path {
        self.directory.path()
    }

    /// A process of threads with (id, time run, time waited, switches).
    fn process(&self, pid: u32, start: u64, user: u64, threads: &[(u32, u64, u64, u64)]) {
        let stat = |id: u32| {
            format!(
                "{id} (w\u{1b}b) S 1 1 1 0 -1 4194304 10 0 2 0 {user} 1 0 0 20 0 {} 0 {start} 1 3 18 \
                 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0\n",
                threads.len()
            )
        };
        self.write(&format!("proc/{pid}/stat"), &stat(pid));
        self.write(
            &format!("proc/{pid}/io"),
            "read_bytes: 4096\nwrite_bytes: 1\n",
        );
        self.write(&format!("proc/{pid}/cmdline"), "web\0\u{1b}[2J\0");
        self.write(&format!("proc/{pid}/status"), "Uid:\t0\t0\t0\t0\n");
        self.write(&format!("proc/{pid}/cgroup"), "0::/web\n");
        let tasks = self.root().join(format!("proc/{pid}/task"));
        let _ = std::fs::remove_dir_all(tasks);
        for (tid, run, wait, switches) in threads {
            let task = format!("proc/{pid}/task/{tid}");
            self.write(&format!("{task}/schedstat"), &format!("{run} {wait} 1\n"));
            let status =
                format!("voluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t1\n");
            self.write(&format!("{task}/status"), &status);
            self.write(&format!("{task}/stat"), &stat(*tid));
            self.write(&format!("{task}/io"), "read_bytes: 1\nwrite_bytes: 1\n");
        }
    }

    fn sampler(&self, wants: Wants) -> Sampler {
        Sampler::new(&Tree::new(self.root()), wants).unwrap()
    }

    fn read(&self, sampler: &mut Sampler) -> Sample {
        self.now_ns.set(self.now_ns.get() + SECOND);
        sampler.read(&|| self.now_ns.get())
    }
}

#[test]
fn a_process_is_its_threads_together() {
    let bench = Bench::new();
    bench.process(7, 50, 3, &[(7, 100, 10, 4), (8, 200, 20, 5)]);
    let mut sampler = bench.sampler(Wants::default());
    let sample = bench.read(&mut sampler);
    let process = &sample.processes[0];
    assert_eq!((process.id.pid, process.id.start_ticks), (7, 50));
    assert_eq!(process.counters.wait_ns, Ok(30));
    assert_eq!(process.counters.voluntary, Ok(9));
    assert_eq!(process.counters.involuntary, Ok(2));
    assert_eq!(process.counters.minor_faults, Ok(10));
    assert_eq!(process.counters.read_bytes, Ok(4096));
    assert_eq!((process.threads, process.state), (2, b'S'));
    assert_eq!(process.who.name, "w?b");
    assert_eq!(process.who.command.as_deref(), Some("web ?[2J"));
    assert_eq!(process.who.cgroup.as_deref(), Some("/web"));
    assert_eq!(sample.machine.load_1m, Some(0.5));
}

#[test]
fn of_a_process_at_rest_only_turns_are_read() {
    let bench = Bench::new();
    bench.process(7, 50, 3, &[(7, 100, 10, 4)]);
    let mut sampler = bench.sampler(Wants::default());
    let first = bench.read(&mut sampler);
    // Were it read again, the change would be seen.
    bench.write("proc/7/io", "read_bytes: 9999\nwrite_bytes: 1\n");
    let second = bench.read(&mut sampler);
    assert_eq!(second.processes[0].counters, first.processes[0].counters);
    assert_eq!(
        second.processes[0].time_ns,
        first.processes[0].time_ns + SECOND
    );
    bench.write("proc/7/task/7/schedstat", "101 10 2\n");
    let third = bench.read(&mut sampler);
    assert_eq!(third.processes[0].counters.read_bytes, Ok(9999));
}

#[test]
fn sums_over_threads_never_go_back() {
    let bench = Bench::new();
    bench.process(7, 50, 3, &[(7, 100, 10, 4), (8, 200, 20, 5)]);
    let mut sampler = bench.sampler(Wants::default());
    bench.read(&mut sampler);
    // Thread 8 has ended and 9 has begun.
    bench.process(7, 50, 4, &[(7, 110, 11, 6), (9, 5, 2, 1)]);
    let process = bench.read(&mut sampler).processes.remove(0);
    assert_eq!(process.counters.wait_ns, Ok(33));
    assert_eq!(process.counters.voluntary, Ok(12));
}

#[test]
fn an_id_that_is_used_again_is_another_process() {
    let bench = Bench::new();
    bench.process(7, 50, 3, &[(7, 100, 10, 4)]);
    let mut sampler = bench.sampler(Wants::default());
    bench.read(&mut sampler);
    bench.process(7, 60, 1, &[(7, 1, 1, 1)]);
    let process = bench.read(&mut sampler).processes.remove(0);
    assert_eq!(process.id.start_ticks, 60);
    assert_eq!(process.counters.wait_ns, Ok(1));
}

#[test]
fn processes_come_and_go() {
    let bench = Bench::new();
    bench.process(7, 50, 3, &[(7, 100, 10, 4)]);
    let mut sampler = bench.sampler(Wants::default());
    bench.read(&mut sampler);
    bench.process(9, 70, 3, &[(9, 100, 10, 4)]);
    assert_eq!(
        bench.read(&mut sampler).processes.len(),
        1,
        "no id was handed out"
    );
    bench.write("proc/loadavg", "0.5 0 0 1/2 101\n");
    assert_eq!(bench.read(&mut sampler).processes.len(), 2);
    bench.remove("proc/7");
    let left = bench.read(&mut sampler).processes;
    assert_eq!((left.len(), left[0].id.pid), (1, 9));
}

#[test]
fn threads_and_groups_where_they_are_wanted() {
    let bench = Bench::new();
    bench.process(7, 50, 3, &[(7, 100, 10, 4), (8, 200, 20, 5)]);
    bench.write("sys/fs/cgroup/web/cpu.stat", "usage_usec 5\n");
    let wants = Wants {
        threads: true,
        groups: true,
        pids: vec![7],
    };
    let mut sampler = bench.sampler(wants);
    let sample = bench.read(&mut sampler);
    let threads: Vec<(Option<u32>, Counter)> = sample
        .threads
        .iter()
        .map(|thread| (thread.id.tid, thread.counters.wait_ns.clone()))
        .collect();
    assert_eq!(threads, [(Some(7), Ok(10)), (Some(8), Ok(20))]);
    let groups: Vec<(&str, Option<u64>)> = sample
        .groups
        .iter()
        .map(|group| (group.path.as_str(), group.counters.usage_ns))
        .collect();
    assert_eq!(groups, [("/", None), ("/web", Some(5000))]);
}

#[test]
fn a_kernel_without_schedstat_is_read_all_the_same() {
    let bench = Bench::new();
    bench.process(7, 50, 3, &[(7, 100, 10, 4)]);
    std::fs::remove_file(bench.root().join("proc/7/task/7/schedstat")).unwrap();
    let mut sampler = bench.sampler(Wants::default());
    let process = bench.read(&mut sampler).processes.remove(0);
    assert_eq!(process.counters.wait_ns, Err(Reason::NOT_REPORTED));
    bench.write("proc/7/io", "read_bytes: 9999\nwrite_bytes: 1\n");
    let process = bench.read(&mut sampler).processes.remove(0);
    assert_eq!(process.counters.read_bytes, Ok(9999));
}

#[test]
fn the_score_on_a_machine_with_two_nodes() {
    let bench = Bench::new();
    bench.process(7, 50, 3, &[(7, 100, 10, 4)]);
    bench.write("sys/devices/system/node/node0/cpulist", "0\n");
    bench.write("sys/devices/system/node/node1/cpulist", "1\n");
    bench.write("sys/devices/system/node/node0/distance", "10 20\n");
    bench.write("sys/devices/system/node/node1/distance", "20 10\n");
    let maps = "7f00 default anon=4 N0=1 N1=3 kernelpagesize_kB=4\n";
    bench.write("proc/7/numa_maps", maps);
    let mut sampler = bench.sampler(Wants::default());
    let sample = bench.read(&mut sampler);
    let process = &sample.processes[0];
    assert_eq!(process.nodes, [0.0, 1.0], "it ran on CPU 1");
    assert!(
        sampler.numa().score(process).is_err(),
        "nobody has looked so far"
    );
    sampler.look_at_memory(sample.processes.iter(), sample.time_ns);
    assert_eq!(sampler.numa().score(process), Ok(0.75 + 0.25 * 10.0 / 20.0));
}

#[test]
fn one_node_is_shown_as_such() {
    let bench = Bench::new();
    bench.process(7, 50, 3, &[(7, 100, 10, 4)]);
    bench.write("sys/devices/system/node/node0/cpulist", "0\n");
    let mut sampler = bench.sampler(Wants::default());
    let sample = bench.read(&mut sampler);
    let score = sampler.numa().score(&sample.processes[0]);
    assert_eq!(score, Err(Reason::ONE_NODE));
}

#[test]
fn a_process_that_is_not_there_and_a_tree_without_any() {
    let bench = Bench::new();
    let tree = Tree::new(bench.root());
    let error = |wants| Sampler::new(&tree, wants).err().unwrap().to_string();
    assert!(error(Wants::default()).ends_with("has no processes"));
    let wants = Wants {
        pids: vec![4711],
        ..Wants::default()
    };
    assert_eq!(error(wants), "process 4711 does not exist");
}
