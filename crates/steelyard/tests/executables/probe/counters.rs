//! `steelyard-probe record --counters` end to end: software events of work whose faults and switches the kernel
//! also tells otherwise.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::plans::{Plan, refusal, software};
use super::support::{Recording, Rows, wait_for};

const PAGES: usize = 4096;
const ROUNDS: usize = 2000;
/// Each of two threads on one CPU leaves it once a round to let the other play. That of the second thread's last round is its end,
/// which getrusage does not count; it waits for nothing where the first byte is there before the thread has begun.
const LEAST_SWITCHES: u64 = 2 * ROUNDS as u64 - 1;

/// The last value of `column` for `event`, summed over the entities that `of` takes.
fn last(rows: &Rows, event: &str, of: impl Fn(&str) -> bool) -> (u64, u64, u64) {
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    for (row, name) in rows.labels["event"].iter().enumerate() {
        let entity = &rows.labels["entity"][row];
        if name == event && of(entity) {
            last.insert(entity, row);
        }
    }
    assert!(!last.is_empty(), "no row of {event}");
    let sum = |column: &str| last.values().map(|row| rows.columns[column][*row]).sum();
    (sum("count"), sum("enabled_ns"), sum("running_ns"))
}

/// What the worker's threads did, as getrusage(2) tells.
#[derive(Debug, Default, Clone, Copy)]
struct Usage {
    faults: u64,
    switches: u64,
}

fn usage() -> Usage {
    // SAFETY: rusage is plain integers, and `usage` is a valid place for one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage
    };
    Usage {
        faults: (usage.ru_minflt + usage.ru_majflt) as u64,
        switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
    }
}

/// Touches [`PAGES`] pages, each a fault of its own.
fn touch_pages() {
    let length = PAGES * 4096;
    // SAFETY: a new private mapping, written within its length and unmapped once.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let pages = libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        );
        assert_ne!(pages, libc::MAP_FAILED);
        libc::madvise(pages, length, libc::MADV_NOHUGEPAGE);
        for page in 0..PAGES {
            pages.cast::<u8>().add(page * 4096).write_volatile(1);
        }
        libc::munmap(pages, length);
    }
}

/// Passes a byte to and fro between two threads on one CPU: two switches a round.
fn ping_pong() {
    // SAFETY: cpu_set_t is plain integers.
    unsafe {
        let mut cpus: libc::cpu_set_t = std::mem::zeroed();
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&cpus), &mut cpus);
        let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &cpus));
        libc::CPU_SET(first.expect("a CPU"), &mut one);
        libc::sched_setaffinity(0, size_of_val(&one), &one);
    }
    fn play(mut reader: PipeReader, mut writer: PipeWriter, begins: bool) {
        let mut byte = [0];
        for _ in 0..ROUNDS {
            if begins {
                writer.write_all(&byte).expect("written");
            }
            reader.read_exact(&mut byte).expect("read");
            if !begins {
                writer.write_all(&byte).expect("written");
            }
        }
    }
    let (one, other) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
    // The new thread stays where its maker is.
    let thread = std::thread::spawn(move || play(one.0, other.1, false));
    play(other.0, one.1, true);
    thread.join().expect("it played");
}

#[test]
#[ignore = "work for the other tests, which start it as a child"]
fn worker() {
    let mut line = String::new();
    io::stdin().read_line(&mut line).expect("a word to begin");
    let before = usage();
    touch_pages();
    ping_pong();
    let after = usage();
    println!(
        "\nDID {} {}",
        after.faults - before.faults,
        after.switches - before.switches
    );
}

fn worker_command() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args([
        "--exact",
        "probe::counters::worker",
        "--ignored",
        "--nocapture",
    ]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Lets `child`, whose output the worker's is, begin, and returns what it did.
fn let_work(child: &mut Child) -> Usage {
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(b"go\n")
        .expect("it waits");
    let mut output = String::new();
    let mut pipe = child.stdout.take().expect("a pipe");
    // To its end, lest the harness around the worker write into a closed pipe.
    pipe.read_to_string(&mut output).expect("text");
    let did = output.lines().find_map(|line| line.strip_prefix("DID "));
    let (faults, switches) = did
        .and_then(|did| did.split_once(' '))
        .expect("two numbers");
    let did = Usage {
        faults: faults.parse().expect("a number"),
        switches: switches.parse().expect("a number"),
    };
    assert!(
        did.faults >= PAGES as u64 && did.switches >= LEAST_SWITCHES,
        "{did:?}"
    );
    did
}

/// A count that covers what was done, and little else: starting and ending of a program.
fn assert_covers(counted: u64, done: u64) {
    assert!(
        (done..done + 3000).contains(&counted),
        "{counted} counted, {done} done"
    );
}

#[test]
fn a_command_is_counted_from_its_first_instruction() {
    let plan = Plan::new(software());
    let recording = Recording::new();
    let worker = worker_command();
    let mut command = recording.start(&[
        "--sources",
        "memory",
        "--interval",
        "10ms",
        "--counters",
        &plan.path(),
    ]);
    command
        .args(["--counter-scope", "process", "--"])
        .arg(worker.get_program())
        .args(worker.get_args());
    let mut probe = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let did = let_work(&mut probe);
    assert!(probe.wait().expect("it ends").success());
    let telemetry = recording.telemetry();
    let [memory, counters] = telemetry.sources.as_slice() else {
        panic!("{:?}", telemetry.sources);
    };
    assert_eq!((&*memory.name, &*counters.name), ("memory", "counters"));
    assert!(counters.available && counters.missing_items.is_empty() && counters.failed_reads == 0);
    let rows = recording.parquet("counters");
    assert_eq!(
        rows.names,
        [
            "time_ns",
            "scope",
            "entity",
            "pmu",
            "event",
            "group",
            "count",
            "enabled_ns",
            "running_ns"
        ]
    );
    let all = |entity: &str| entity == "command";
    let (faults, enabled_ns, running_ns) = last(&rows, "page-faults", all);
    assert_covers(faults, did.faults);
    assert_eq!(enabled_ns, running_ns, "software events need no counter");
    assert_covers(last(&rows, "context-switches", all).0, did.switches);
    let clock_ns = last(&rows, "task-clock", all).0;
    assert!(
        clock_ns > 1_000_000 && clock_ns <= enabled_ns + 1_000_000,
        "{clock_ns} of {enabled_ns}"
    );
}

/// Records while a worker works that began before, and returns what it did.
fn record_beside(
    recording: &Recording,
    arguments: &[&str],
    target: impl Fn(u32) -> String,
) -> (Usage, String) {
    let mut worker = worker_command().spawn().expect("it starts");
    let target = target(worker.id());
    let arguments: Vec<&str> = arguments
        .iter()
        .map(|word| {
            if *word == "TARGET" {
                target.as_str()
            } else {
                word
            }
        })
        .collect();
    let mut command = recording.start(&arguments);
    // A test that fails leaves no probe behind.
    command.arg("--die-with-parent");
    let mut probe = command.spawn().expect("it starts");
    // It is written when everything is open.
    wait_for(|| recording.path().join("telemetry.json").is_file());
    let did = let_work(&mut worker);
    assert!(worker.wait().expect("it ends").success());
    // SAFETY: the probe has not been waited for, so that its id is its own.
    unsafe { libc::kill(probe.id() as libc::pid_t, libc::SIGINT) };
    assert!(probe.wait().expect("it ends").success());
    (did, target)
}

#[test]
fn a_process_that_runs_already_is_counted_with_the_threads_it_makes() {
    let plan = Plan::new(software());
    let recording = Recording::new();
    let arguments = [
        "--sources",
        "counters",
        "--counters",
        &plan.path(),
        "--counter-target",
        "TARGET",
    ];
    let (did, pid) = record_beside(&recording, &arguments, |pid| pid.to_string());
    let recorded = recording.telemetry().sources;
    assert_eq!(recorded.len(), 1, "named as a source, they are alone");
    let rows = recording.parquet("counters");
    assert!(rows.labels["scope"].iter().all(|scope| scope == "process"));
    assert_covers(
        last(&rows, "page-faults", |entity| entity == pid).0,
        did.faults,
    );
    assert_covers(
        last(&rows, "context-switches", |entity| entity == pid).0,
        did.switches,
    );
}

#[test]
fn the_system_and_each_cpu_are_counted_alike() {
    let plan = Plan::new(software());
    let recording = Recording::new();
    let arguments = [
        "--sources",
        "memory",
        "--counters",
        &plan.path(),
        "--counter-scope",
        "system,cpu",
    ];
    if let Some(reason) = refusal(&plan, &[]) {
        eprintln!("skipped: the system cannot be counted here: {reason}");
        return;
    }
    let (did, _) = record_beside(&recording, &arguments, |_| String::new());
    let rows = recording.parquet("counters");
    for (event, done) in [
        ("page-faults", did.faults),
        ("context-switches", did.switches),
    ] {
        let (system, enabled_ns, _) = last(&rows, event, str::is_empty);
        let (cpus, _, _) = last(&rows, event, |entity| entity.starts_with("cpu"));
        assert!(
            system >= done && cpus >= done,
            "{event}: {system} and {cpus} counted, {done} done"
        );
        assert!(enabled_ns > 0);
    }
    let cpus = std::thread::available_parallelism().expect("a CPU").get();
    let entities: std::collections::BTreeSet<&String> = rows.labels["entity"].iter().collect();
    assert!(entities.len() > cpus, "{entities:?}");
}

/// A control group of this test, removed at its end.
struct Group(PathBuf);

impl Group {
    fn new() -> io::Result<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts")?;
        let point = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|fields| {
                let perf_event = fields[3].split(',').any(|option| option == "perf_event");
                fields[2] == "cgroup2" || (fields[2] == "cgroup" && perf_event)
            });
        let point = point.ok_or(io::Error::other("no hierarchy is mounted"))?[1].to_owned();
        let path = Path::new(&point).join(format!("steelyard-test-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its last process may not have been reaped by the kernel yet.
        wait_for(|| std::fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn a_control_group_is_counted_with_those_who_joined_it() {
    let group = match Group::new() {
        Ok(group) => group,
        Err(error) => {
            eprintln!("skipped: no control group can be made here: {error}");
            return;
        }
    };
    let path = group.0.display().to_string();
    let name = format!("/{}", group.0.file_name().expect("a name").display());
    let plan = Plan::new(software());
    if let Some(reason) = refusal(&plan, &["--counter-target", &path]) {
        eprintln!("skipped: control groups cannot be counted here: {reason}");
        return;
    }
    let recording = Recording::new();
    let arguments = [
        "--sources",
        "memory",
        "--counters",
        &plan.path(),
        "--counter-target",
        &path,
    ];
    let (did, _) = record_beside(&recording, &arguments, |pid| {
        std::fs::write(group.0.join("cgroup.procs"), pid.to_string()).expect("it joins");
        String::new()
    });
    let rows = recording.parquet("counters");
    assert!(
        rows.labels["entity"].iter().all(|entity| *entity == name),
        "the name of its hierarchy"
    );
    assert_covers(last(&rows, "page-faults", |_| true).0, did.faults);
    assert_covers(last(&rows, "context-switches", |_| true).0, did.switches);
}
