//! Programs in a tree that changes between looks.

use std::cell::Cell;
use std::rc::Rc;

use super::*;
use crate::testing::{Bench, table_rows};

/// A tree, and the three tables over it at times and costs set by hand.
struct Program {
    bench: Bench,
    now_ns: u64,
    ticks: u64,
    tables: Vec<(Box<dyn Source>, Table)>,
}

thread_local! {
    static COST_NS: Rc<Cell<u64>> = Rc::default();
}

fn cost_ns() -> u64 {
    COST_NS.with(|cost| cost.get())
}

fn stat(id: u32, parent: u32, state: char, threads: u64, start: u64) -> String {
    let rest = "0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0";
    format!(
        "{id} (a) b) {state} {parent} {id} {id} 0 -1 4194304 10 0 2 0 4 1 0 0 20 0 {threads} 0 {start} 3133440 5 1 {rest}\n"
    )
}

impl Program {
    /// Process 10, a child of 1, with a thread that sleeps on a lock.
    fn new() -> Self {
        let program = Self {
            bench: Bench::new(&[("proc/loadavg", "0 0 0 1/2 100\n")]),
            now_ns: 1_000_000_000,
            ticks: 0,
            tables: Vec::new(),
        };
        program.process(10, 1, 1);
        program.thread(10, 10, 'S', "futex_wait", "500 20 3");
        program
    }

    fn process(&self, pid: u32, parent: u32, threads: u64) {
        self.bench.write(
            &format!("proc/{pid}/stat"),
            &stat(pid, parent, 'S', threads, 7),
        );
        self.bench.write(
            &format!("proc/{pid}/io"),
            "rchar: 9\nread_bytes: 4096\nwrite_bytes: 0\n",
        );
    }

    fn thread(&self, pid: u32, tid: u32, state: char, place: &str, schedstat: &str) {
        let folder = format!("proc/{pid}/task/{tid}");
        self.bench
            .write(&format!("{folder}/stat"), &stat(tid, 1, state, 1, 7));
        self.bench.write(&format!("{folder}/wchan"), place);
        self.bench
            .write(&format!("{folder}/schedstat"), &format!("{schedstat}\n"));
    }

    fn watch(&mut self, target: Target) {
        COST_NS.with(|cost| cost.set(0));
        self.tables = open_with(&self.bench.tree(), &target, cost_ns)
            .into_iter()
            .map(|(_, source)| {
                let table = Table::new(&source.columns());
                (source, table)
            })
            .collect();
    }

    fn watch_pid(&mut self, pid: u32) {
        self.watch(Target {
            pids: vec![pid],
            ..Target::default()
        });
    }

    /// The rows of looks, processes and threads at a tick.
    fn look(&mut self) -> [Vec<String>; 3] {
        self.read(false)
    }

    fn read(&mut self, last: bool) -> [Vec<String>; 3] {
        let now_ns = self.now_ns;
        let clock = move || now_ns;
        let tick = Tick {
            number: self.ticks,
            last,
            clock: &clock,
        };
        self.ticks += 1;
        let rows: Vec<Vec<String>> = self
            .tables
            .iter_mut()
            .map(|(source, table)| {
                source.read(&tick, table).expect("looks do not fail");
                table_rows(table)
            })
            .collect();
        rows.try_into().expect("there are three tables")
    }

    fn pass_ms(&mut self, ms: u64) {
        self.now_ns += ms * 1_000_000;
    }

    fn is_over(&self) -> bool {
        self.tables[0].0.is_over()
    }
}

#[test]
fn a_look_tells_states_places_and_counts() {
    let mut program = Program::new();
    program.watch_pid(10);
    let [looks, processes, threads] = program.look();
    let rss = 5 * steelyard_kernel::page_bytes();
    assert_eq!(looks, [format!("1000000000 1 1 0 {rss} 0")]);
    assert_eq!(
        processes,
        [format!(
            "1000000000 10 7 a) b 40000000 10000000 {rss} 1 10 2 4096 0"
        )]
    );
    assert_eq!(
        threads,
        ["1000000000 10 10 7 - S futex_wait - 3 500 20 3 40000000 10000000"]
    );
}

#[test]
fn a_thread_that_has_not_run_gets_no_row_until_it_has_and_then_says_since_when() {
    let mut program = Program::new();
    program.watch_pid(10);
    program.look();
    program.pass_ms(100);
    assert_eq!(program.look()[1..], [[] as [String; 0], []]);
    program.pass_ms(100);
    program.thread(10, 10, 'R', "0", "900 30 4");
    assert_eq!(
        program.look()[2],
        ["1200000000 10 10 7 1100000000 R - - 3 900 30 4 40000000 10000000"]
    );
    // One that runs or waits for a CPU is seen at each look: its state says which looks found it so.
    program.pass_ms(100);
    assert_eq!(
        program.look()[2],
        ["1300000000 10 10 7 - R - - 3 900 30 4 40000000 10000000"]
    );
}

#[test]
fn the_last_look_and_an_end_tell_how_long_a_thread_was_unmoved() {
    let mut program = Program::new();
    program.thread(10, 11, 'S', "ep_poll", "1 1 1");
    program.watch_pid(10);
    assert_eq!(program.look()[2].len(), 2);
    program.pass_ms(500);
    assert_eq!(program.look()[2].len(), 0);
    program.pass_ms(2000);
    program.bench.remove("proc/10/task/11");
    program.bench.write("proc/loadavg", "0 0 0 1/2 101\n");
    assert_eq!(
        program.look()[2],
        ["1500000000 10 11 7 1500000000 S ep_poll - 3 1 1 1 40000000 10000000"]
    );
    program.pass_ms(100);
    let [_, processes, threads] = program.read(true);
    assert_eq!(processes.len(), 1);
    assert_eq!(
        threads,
        ["3600000000 10 10 7 3600000000 S futex_wait - 3 500 20 3 40000000 10000000"]
    );
}

#[test]
fn a_thread_that_rests_when_its_process_ends_has_a_last_row() {
    let mut program = Program::new();
    program.thread(10, 11, 'S', "ep_poll", "1 1 1");
    program.watch_pid(10);
    program.look();
    for run in 0..10 {
        program.pass_ms(100);
        program.thread(10, 10, 'R', "0", &format!("{} 20 3", 600 + run));
        program.look();
    }
    program.bench.remove("proc/10");
    program.pass_ms(50);
    let [looks, _, threads] = program.look();
    assert!(looks[0].starts_with("2050000000 0 0 0 0 "), "{looks:?}");
    assert_eq!(threads.len(), 1, "{threads:?}");
    // It was there until the look before, at which another thread of the process was found.
    assert!(threads[0].starts_with("2000000000 10 11 7 "), "{threads:?}");
    assert!(
        threads[0].ends_with(" S ep_poll - 3 1 1 1 40000000 10000000"),
        "{threads:?}"
    );
    assert!(program.is_over());
}

#[test]
fn a_program_all_of_whose_threads_rest_is_there_until_the_look_before_its_end() {
    let mut program = Program::new();
    program.process(20, 10, 1);
    program.thread(20, 20, 'S', "hrtimer_nanosleep", "5 0 1");
    program.watch_pid(10);
    for _ in 0..40 {
        program.look();
        program.pass_ms(100);
    }
    program.bench.remove("proc/10");
    program.bench.remove("proc/20");
    let [_, _, threads] = program.look();
    let ends: Vec<&str> = threads.iter().map(|row| &row[..10]).collect();
    assert_eq!(ends, ["4900000000"; 2], "{threads:?}");
    assert!(program.is_over());
}

#[test]
fn threads_at_rest_are_visited_less_often_but_within_a_second() {
    let mut program = Program::new();
    program.watch_pid(10);
    for _ in 0..100 {
        program.look();
        program.pass_ms(100);
    }
    program.thread(10, 10, 'S', "futex_wait", "600 20 4");
    let found_after = (1..=20).find(|_| {
        program.pass_ms(100);
        !program.look()[2].is_empty()
    });
    assert!(found_after <= Some(10), "{found_after:?} looks");
}

#[test]
fn descendants_belong_to_the_program_also_those_of_a_supervisor_that_does_not() {
    let mut program = Program::new();
    program.process(20, 10, 1);
    program.thread(20, 20, 'S', "do_wait", "5 0 1");
    program.process(30, 20, 1);
    program.thread(30, 30, 'D', "io_schedule", "6 0 1");
    program.process(99, 1, 1);
    program.thread(99, 99, 'S', "ep_poll", "6 0 1");
    program.watch(Target {
        below: vec![10],
        ..Target::default()
    });
    let threads = program.look()[2].join("\n");
    assert!(
        threads.contains(" 20 20 ") && threads.contains(" 30 30 "),
        "{threads}"
    );
    assert!(
        !threads.contains(" 10 10 ") && !threads.contains(" 99 99 "),
        "{threads}"
    );
    // A child whose parent ends goes to its reaper and stays what it was; one that is new is found.
    program.bench.remove("proc/20");
    program.process(30, 10, 1);
    program.process(40, 30, 1);
    program.thread(40, 40, 'S', "do_wait", "7 0 1");
    program.bench.write("proc/loadavg", "0 0 0 1/2 140\n");
    program.pass_ms(100);
    let [looks, _, threads] = program.look();
    assert!(looks[0].starts_with("1100000000 2 2 0 "), "{looks:?}");
    assert_eq!(
        threads.len(),
        1,
        "the beginning of 40; 20 was not found unmoved: {threads:?}"
    );
}

#[test]
fn members_of_a_group_and_of_groups_below_it_are_watched() {
    let mut program = Program::new();
    program.process(20, 1, 1);
    program.thread(20, 20, 'S', "do_wait", "5 0 1");
    program.bench.write("sys/fs/cgroup/a/cgroup.procs", "10\n");
    program
        .bench
        .write("sys/fs/cgroup/a/b/cgroup.procs", "20\n");
    program.watch(Target {
        cgroups: vec!["/sys/fs/cgroup/a".into()],
        ..Target::default()
    });
    assert_eq!(program.look()[2].len(), 2);
    assert!(!program.is_over());
    program.bench.write("sys/fs/cgroup/a/cgroup.procs", "");
    program.bench.write("sys/fs/cgroup/a/b/cgroup.procs", "");
    program.bench.remove("proc/10");
    program.bench.remove("proc/20");
    program.pass_ms(2000);
    program.look();
    assert!(program.is_over());
}

#[test]
fn it_is_over_when_the_named_process_has_ended_which_a_zombie_has() {
    let mut program = Program::new();
    program.thread(10, 11, 'S', "ep_poll", "1 1 1");
    program.watch_pid(10);
    program.look();
    program.pass_ms(100);
    program.look();
    program.pass_ms(5);
    assert!(!program.is_over());
    program.bench.write("proc/10/stat", &stat(10, 1, 'Z', 1, 7));
    program
        .bench
        .write("proc/10/task/10/stat", &stat(10, 1, 'Z', 1, 7));
    program
        .bench
        .write("proc/10/task/10/schedstat", "501 20 3\n");
    program.thread(10, 10, 'Z', "0", "501 20 3");
    let [_, _, threads] = program.look();
    let rests = |row: &String| row.contains(" 10 11 7 1100000000 S ");
    assert!(threads.iter().any(rests), "{threads:?}");
    assert!(program.is_over());
}

#[test]
fn ticks_are_passed_over_where_looks_would_cost_too_much() {
    let mut program = Program::new();
    program.watch_pid(10);
    assert_eq!(program.look()[0].len(), 1);
    COST_NS.with(|cost| cost.set(BURST_NS + 20_000_000));
    program.pass_ms(900);
    assert!(program.look().iter().all(Vec::is_empty));
    program.pass_ms(200);
    let looks = &program.look()[0];
    assert!(looks[0].ends_with(" 120000000"), "{looks:?}");
    COST_NS.with(|cost| cost.set(10 * BURST_NS));
    assert_eq!(
        program.read(true)[0].len(),
        1,
        "the last tick is always a look"
    );
}

#[test]
fn what_the_kernel_does_not_tell_is_null_and_the_call_is_asked_for_instead() {
    let mut program = Program::new();
    program.bench.remove("proc/10/task/10/schedstat");
    program.bench.remove("proc/10/io");
    program.bench.write("proc/10/task/10/wchan", "0");
    let call = format!("{} 0x1 0x2\n", libc::SYS_futex);
    program.bench.write("proc/10/task/10/syscall", &call);
    program.watch_pid(10);
    let [_, processes, threads] = program.look();
    assert!(processes[0].ends_with(" 1 10 2 - -"), "{processes:?}");
    assert_eq!(
        threads,
        ["1000000000 10 10 7 - S - futex 3 - - - 40000000 10000000"]
    );
}

#[test]
fn an_id_that_is_used_again_is_another_process() {
    let mut program = Program::new();
    program.process(20, 10, 1);
    program.thread(20, 20, 'S', "do_wait", "5 0 1");
    program.watch_pid(10);
    program.look();
    program
        .bench
        .write("proc/20/stat", &stat(20, 1, 'S', 1, 99));
    program
        .bench
        .write("proc/20/task/20/stat", &stat(20, 1, 'S', 1, 99));
    program.bench.write("proc/20/task/20/schedstat", "9 0 1\n");
    program.pass_ms(100);
    let [_, processes, _] = program.look();
    assert_eq!(processes.len(), 0, "{processes:?}");
    program.pass_ms(2000);
    let [looks, ..] = program.look();
    assert!(looks[0].starts_with("3100000000 1 1 "), "{looks:?}");
}
