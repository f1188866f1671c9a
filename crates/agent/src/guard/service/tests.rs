use std::fs;

use super::*;
use crate::guard::settings::Rule;
use crate::guard::testing::{group_v1, knob, moment, sample, v1};
use crate::rows::JobClass;
use crate::store;

/// A machine with a store that holds a specification of `web`, and a group called `hog`.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        group_v1(root.path(), "hog", -1, 100_000);
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn start(&self, action: Action) -> Result<(Service, Vec<Incident>), GuardError> {
        let config = Config {
            settings: Settings {
                action,
                rule: Rule::Paper,
                ..Settings::default()
            },
            origin: Origin {
                machine: "m1".into(),
                platform: "test".into(),
                cluster: "c1".into(),
            },
            state: self.path("state"),
            hierarchy: Some(v1(self.root.path())),
            own_cgroup: None,
            refresh: Duration::from_secs(3_600),
            watchdog: None,
        };
        let url = self.path("store").display().to_string();
        Service::start(config, store::open(&url).unwrap(), moment(60_000.0))
    }

    fn quota(&self) -> String {
        knob(&self.path("cpu/hog"), "cpu.cfs_quota_us")
    }

    /// Has the guard of an agent cap the hog.
    fn cap(&self, service: &mut Service) {
        let spec = crate::guard::testing::spec("web", 1.8, 0.16, 2.12);
        let specs = crate::guard::Specs::newest([spec]);
        for minute in 0..3 {
            let start = 60_000 + 60 * minute;
            let samples = [
                sample("web", JobClass::LatencySensitive, start, 0.6, Some(4.24)),
                sample("hog", JobClass::Batch, start, 0.9, None),
            ];
            let now = moment(start as f64 + 10.0);
            service.guard.on_window(now, &samples, &specs);
        }
        assert_eq!(self.quota(), "10000");
    }
}

#[test]
fn what_a_killed_agent_left_is_undone_and_reported_by_the_next() {
    let machine = Machine::new();
    let (mut service, before) = machine.start(Action::Cap).unwrap();
    assert!(before.is_empty());
    machine.cap(&mut service);
    // Nothing of it runs any more, as after SIGKILL; only the lock is let go of.
    let Service { guard, _lock, .. } = service;
    std::mem::forget(guard);
    drop(_lock);
    let (_service, left) = machine.start(Action::DryRun).unwrap();
    assert_eq!(machine.quota(), "-1");
    assert_eq!(left.len(), 1);
    assert_eq!(
        (left[0].undone, left[0].action.as_str()),
        (Some(true), "cap")
    );
    assert!(left[0].reason.ends_with("put back"), "{}", left[0].reason);
}

#[test]
fn undo_takes_back_and_the_next_start_tells_of_it_once() {
    let machine = Machine::new();
    let (mut service, _) = machine.start(Action::Cap).unwrap();
    machine.cap(&mut service);
    let state = machine.path("state");
    let other = undo(&state, Some("somebody else"), moment(60_200.0)).unwrap();
    assert!(other.ended.is_empty());
    assert_eq!(machine.quota(), "10000");
    let done = undo(&state, None, moment(60_200.0)).unwrap();
    assert_eq!(done.ended.len(), 1);
    assert_eq!(machine.quota(), "-1");
    assert!(
        undo(&state, None, moment(60_201.0))
            .unwrap()
            .ended
            .is_empty()
    );
    let Service { guard, _lock, .. } = service;
    std::mem::forget(guard);
    drop(_lock);
    let (service, left) = machine.start(Action::DryRun).unwrap();
    assert_eq!((left.len(), left[0].cap_end_unix_s), (1, Some(60_200)));
    drop(service);
    assert!(machine.start(Action::DryRun).unwrap().1.is_empty());
}

#[test]
fn an_agent_whose_caps_were_undone_by_hand_ends_their_incidents() {
    let machine = Machine::new();
    let (mut service, _) = machine.start(Action::Cap).unwrap();
    machine.cap(&mut service);
    undo(&machine.path("state"), None, moment(60_200.0)).unwrap();
    assert!(service.tick(moment(60_201.0)).is_empty());
    let over = service.stop(moment(60_300.0), "the agent ends");
    assert_eq!((over.len(), over[0].undone), (1, Some(true)));
    assert_eq!(machine.quota(), "-1");
}

#[test]
fn undo_without_a_state_is_an_error_and_with_an_empty_one_is_not() {
    let machine = Machine::new();
    let refused = undo(&machine.path("nowhere"), None, moment(0.0)).unwrap_err();
    assert!(matches!(refused, GuardError::State { .. }), "{refused}");
    drop(machine.start(Action::None).unwrap());
    assert!(
        undo(&machine.path("state"), None, moment(0.0))
            .unwrap()
            .ended
            .is_empty()
    );
}

#[test]
fn two_agents_do_not_guard_from_one_folder() {
    let machine = Machine::new();
    let first = machine.start(Action::DryRun).unwrap();
    assert!(matches!(
        machine.start(Action::DryRun),
        Err(GuardError::Busy { .. })
    ));
    drop(first);
    assert!(machine.start(Action::DryRun).is_ok());
}

#[test]
fn the_specifications_state_is_reported_when_it_changes() {
    let known = |rows: Vec<steelyard_record::CpiSpec>, pulled, failure: Option<&str>| Known {
        specs: std::sync::Arc::new(crate::guard::Specs::newest(rows)),
        pulled_unix_s: pulled,
        failure: failure.map(str::to_owned),
    };
    let spec = || vec![crate::guard::testing::spec("web", 1.8, 0.16, 2.12)];
    let now = moment(100_000.0);
    let said = |known: &Known, stale_s| state_of_specs(now, known, stale_s);
    assert!(said(&known(Vec::new(), None, None), 1e9).contains("not pulled yet"));
    assert!(said(&known(Vec::new(), None, Some("away")), 1e9).contains("could not be pulled"));
    assert!(said(&known(Vec::new(), Some(1.0), None), 1e9).contains("none for this platform"));
    let fresh = said(&known(spec(), Some(1.0), None), 1e9);
    assert!(
        fresh.starts_with("1 specification,") && !fresh.contains("stale"),
        "{fresh}"
    );
    assert!(
        said(&known(spec(), Some(1.0), Some("away")), 10.0)
            .contains("stale, used all the same; not all")
    );
}

#[test]
fn settings_and_missing_control_groups_are_refused() {
    let machine = Machine::new();
    let config = |hierarchy, cap_s| Config {
        settings: Settings {
            action: Action::Cap,
            cap_s,
            ..Settings::default()
        },
        origin: Origin {
            machine: "m1".into(),
            platform: "test".into(),
            cluster: "c1".into(),
        },
        state: machine.path("state"),
        hierarchy,
        own_cgroup: None,
        refresh: Duration::from_secs(3_600),
        watchdog: None,
    };
    let start = |config| {
        let store = store::open(&machine.path("store").display().to_string()).unwrap();
        Service::start(config, store, moment(0.0)).map(|_| ())
    };
    assert!(matches!(
        start(config(None, 300.0)),
        Err(GuardError::NoCaps { .. })
    ));
    let refused = start(config(Some(v1(machine.root.path())), 0.0));
    assert!(matches!(refused, Err(GuardError::Settings { .. })));
    assert!(fs::exists(machine.path("state/guard/lock")).unwrap());
}

#[test]
fn the_agent_s_own_group_is_that_with_the_cpu_controller() {
    let one = "3:cpuset:/\n2:cpu,cpuacct:/system.slice/agent.service\n0::/other\n";
    assert_eq!(
        own_group(one).as_deref(),
        Some("/system.slice/agent.service")
    );
    assert_eq!(own_group("0::/a:b/c\n").as_deref(), Some("/a:b/c"));
    assert_eq!(own_group("0::/\n"), None);
    assert_eq!(own_group(""), None);
    assert_eq!(own_group("nonsense\n"), None);
}
