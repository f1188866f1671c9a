use std::fs;
use std::path::Path;

use super::*;
use crate::config::Config;
use crate::disk::Live;
use crate::spool::upload::{Step, Uploader};
use crate::store::Directory;
use crate::table::{Table, key};

/// 2023-11-14T22:00:00Z, the begin of a minute and of a batch.
const BEGIN_S: i64 = 1_699_999_200;

fn clock() -> u64 {
    NOW_NS.get()
}

thread_local! {
    static NOW_NS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Rows of a profile at once.
#[derive(Default)]
struct Instant(Option<i64>);

impl Profiler for Instant {
    fn begin(&mut self, start_unix_s: i64, duration_s: f64) -> io::Result<()> {
        assert!((40.0..=55.0).contains(&duration_s), "{duration_s}");
        self.0 = Some(start_unix_s);
        Ok(())
    }

    fn take(&mut self) -> Option<Result<Vec<ProfileRow>, String>> {
        let start = self.0.take()?;
        if start % 120 == 0 {
            return Some(Err("no luck".to_owned()));
        }
        Some(Ok(vec![ProfileRow {
            job: "a".to_owned(),
            task: "a".to_owned(),
            window_start_unix_s: start,
            window_s: 50.0,
            event: "cycles".to_owned(),
            hz: 49.0,
            stack: "a".to_owned(),
            samples: 1,
            weight: 1.0,
            sampled_ratio: 0.5,
        }]))
    }

    fn is_going_on(&self) -> bool {
        self.0.is_some()
    }
}

struct Host {
    folder: tempfile::TempDir,
    now: Clock,
    cpu_s: f64,
    cpu_ratio: f64,
}

impl Host {
    fn new() -> Self {
        let host = Self {
            folder: tempfile::tempdir().unwrap(),
            now: Clock {
                monotonic_ns: 5_000_000_000,
                realtime_ns: BEGIN_S as u64 * SECOND_NS,
            },
            cpu_s: 0.0,
            cpu_ratio: 0.0,
        };
        host.write("proc/mounts", "c /c cgroup2 rw 0 0\n");
        host.write("c/system.slice/a.service/cgroup.procs", "1\n");
        host.write("c/system.slice/a.service/cpu.stat", "usage_usec 5\n");
        host.write("proc/stat", "cpu  1 0 0 0 0 0 0 0\ncpu0 1\n");
        host
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn agent(&self, config: &str) -> Agent {
        let settings = AgentSettings {
            origin: Origin {
                machine: "m".to_owned(),
                platform: "p".to_owned(),
                cluster: "c".to_owned(),
            },
            config: Config::parse(config).unwrap(),
            root: self.folder.path().to_owned(),
            spool: self.folder.path().join("spool"),
        };
        NOW_NS.set(self.now.monotonic_ns);
        Agent::new(
            settings,
            Box::new(Instant::default()),
            None,
            clock,
            self.now,
        )
        .unwrap()
    }

    fn pass(&mut self, time_ns: u64) {
        self.now.monotonic_ns += time_ns;
        self.now.realtime_ns += time_ns;
        self.cpu_s += time_ns as f64 / 1e9 * self.cpu_ratio;
        NOW_NS.set(self.now.monotonic_ns);
    }

    /// Lets so many seconds pass in the steps that the agent asks for.
    fn live(&mut self, agent: &mut Agent, seconds: u64) {
        let end_ns = self.now.monotonic_ns + seconds * SECOND_NS;
        while self.now.monotonic_ns < end_ns {
            let own = Own {
                cpu_s: self.cpu_s,
                resident_bytes: Some(20 << 20),
            };
            let wait_ns = agent.tick(self.now, own);
            assert!(wait_ns <= SECOND_NS);
            self.pass(wait_ns);
        }
    }

    fn stored(&self, agent: &Agent) -> Vec<String> {
        let store = self.folder.path().join("store");
        let directory = Box::new(Directory::new(&store, Live));
        let mut uploader = Uploader::new(
            agent.spool().disk().clone(),
            agent.spool().disk().path(),
            directory,
            true,
            agent.spool().in_flight(),
        );
        while let Step::Uploaded { .. } = uploader.step(0).unwrap() {}
        let mut keys = files_below(&store);
        keys.retain(|key| key.ends_with(".parquet"));
        keys
    }
}

/// Paths of the files in a folder, relative to it and sorted.
fn files_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => waiting.push(path),
                false => found.push(path.strip_prefix(folder).unwrap().display().to_string()),
            }
        }
    }
    found.sort();
    found
}

fn health(agent: &Agent) -> Health {
    agent.health().lock().unwrap().clone()
}

#[test]
fn an_hour_of_windows_becomes_six_files_a_table() {
    let mut host = Host::new();
    let mut agent = host.agent("profiles.minutes_ratio = 0.5\n");
    host.live(&mut agent, 3600);
    let health = health(&agent);
    assert_eq!(health.windows, 60);
    assert_eq!(health.rows[&Table::TaskSamples], 60);
    assert_eq!(health.rows[&Table::MachineSamples], 60);
    assert_eq!(health.rows[&Table::Machines], 1);
    assert!(
        health.profiles > 5 && health.profile_failures > 5,
        "{health:?}"
    );
    assert_eq!(health.tasks[0].task.task, "a.service");
    agent.stop(host.now).unwrap();
    let keys = host.stored(&agent);
    let count = |table: Table| {
        let folder = key(table, "2023-11-14", "c", "m.");
        keys.iter().filter(|key| key.starts_with(&folder)).count()
    };
    assert_eq!(count(Table::Machines), 1);
    assert!((6..=7).contains(&count(Table::TaskSamples)), "{keys:?}");
}

#[test]
fn a_clock_that_is_set_and_a_machine_that_slept_make_no_odd_window() {
    let mut host = Host::new();
    let mut agent = host.agent("");
    host.live(&mut agent, 300);
    assert_eq!(health(&agent).windows, 5);
    // Back by an hour: windows go on.
    host.now.realtime_ns -= 3600 * SECOND_NS;
    host.live(&mut agent, 120);
    assert_eq!(health(&agent).windows, 7);
    // Asleep in the middle of a window: it is left out, and the next comes.
    while !matches!(agent.phase, Phase::Counting { .. }) {
        let wait_ns = agent.tick(host.now, Own::default());
        host.pass(wait_ns.max(1));
    }
    host.pass(7200 * SECOND_NS);
    host.live(&mut agent, 120);
    let health = health(&agent);
    assert_eq!((health.windows_skipped, health.windows), (1, 8));
}

#[test]
fn an_agent_that_uses_too_much_does_less() {
    let mut host = Host::new();
    let mut agent = host.agent("profiles.minutes_ratio = 1\nlimits.cpu_ratio = 0.01\n");
    host.cpu_ratio = 0.015;
    host.live(&mut agent, 1200);
    let some = health(&agent);
    assert!(
        some.profiles_skipped > 10 && some.windows_skipped == 0,
        "{some:?}"
    );
    host.cpu_ratio = 0.05;
    host.live(&mut agent, 1200);
    let less = health(&agent);
    assert!(less.windows_skipped >= 5, "{less:?}");
    assert!((less.own_cpu_ratio.unwrap() - 0.05).abs() < 0.01);
}

#[test]
fn a_spool_that_cannot_be_written_costs_what_is_counted() {
    let mut host = Host::new();
    let mut agent = host.agent("");
    host.live(&mut agent, 120);
    let journals = host.folder.path().join("spool/journal");
    // A file in the folder's place: nothing can be made or written there.
    let aside = host.folder.path().join("aside");
    fs::rename(&journals, &aside).unwrap();
    fs::write(&journals, "").unwrap();
    host.live(&mut agent, 240);
    let health = health(&agent);
    assert_eq!(health.windows, 6);
    assert!(health.spool_failures >= 4, "{health:?}");
    assert_eq!(agent.spool().lost().windows, 3);
    fs::remove_file(&journals).unwrap();
    fs::rename(&aside, &journals).unwrap();
    host.live(&mut agent, 60);
    agent.stop(host.now).unwrap();
    // The window that still waited is there.
    assert_eq!(agent.spool().lost().windows, 3);
    let written = agent.health().lock().unwrap().rows[&Table::TaskSamples];
    assert_eq!(written, 4);
}

/// Notes when windows began, by both clocks.
struct Noted(Arc<Mutex<Vec<(i64, u64)>>>);

impl Watch for Noted {
    fn on_window(&mut self, now: Clock, samples: &[TaskSample]) -> Vec<Incident> {
        let starts = samples.iter().map(|row| row.window_start_unix_s);
        let mut noted = self.0.lock().unwrap();
        noted.extend(starts.map(|start| (start, now.monotonic_ns / SECOND_NS)));
        Vec::new()
    }

    fn tick(&mut self, _: Clock) -> Vec<Incident> {
        Vec::new()
    }

    fn stop(&mut self, _: Clock) -> Vec<Incident> {
        Vec::new()
    }

    fn figures(&self) -> Vec<(&'static str, &'static str, f64)> {
        Vec::new()
    }
}

/// Steps of the wall clock: whole minutes, so that grids meet, small ones, hours, and a day; at any second of the period.
#[test]
fn no_minute_is_lost_or_doubled_when_the_clock_is_set() {
    for step_s in [
        -86_400, -3_600, -120, -60, -59, -30, -1, 1, 29, 30, 60, 61, 3_600, 86_400,
    ] {
        for at_s in [14, 49] {
            let mut host = Host::new();
            let noted = Arc::new(Mutex::new(Vec::new()));
            let mut agent = host.agent("profiles.minutes_ratio = 0.0\n");
            agent.watch = Some(Box::new(Noted(Arc::clone(&noted))));
            host.live(&mut agent, 120 + at_s);
            let realtime_ns = host.now.realtime_ns as i64 + step_s * SECOND_NS as i64;
            host.now.realtime_ns = realtime_ns as u64;
            host.live(&mut agent, 200);
            // A second step that takes the first one back.
            let realtime_ns = host.now.realtime_ns as i64 - step_s * SECOND_NS as i64;
            host.now.realtime_ns = realtime_ns as u64;
            host.live(&mut agent, 200);
            let noted = noted.lock().unwrap();
            let mut starts: Vec<i64> = noted.iter().map(|(start, _)| *start).collect();
            let windows = starts.len();
            starts.sort_unstable();
            starts.dedup();
            assert_eq!(starts.len(), windows, "doubled: {step_s} s at {at_s} s");
            // A step may move the grid by less than a period, and costs no more.
            let gap_s = |pair: &[(i64, u64)]| pair[1].1 - pair[0].1;
            let longest_s = noted.windows(2).map(gap_s).max().unwrap();
            assert!(longest_s <= 120, "{longest_s} s: {step_s} s at {at_s} s");
            let minutes = (520 + at_s) as usize / 60;
            assert!(
                windows + 3 >= minutes,
                "{windows} of {minutes}: {step_s} s at {at_s} s"
            );
            assert_eq!(health(&agent).lost, Default::default());
        }
    }
}
