use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::guard::testing::{group_v1, group_v2, incident, knob, moment, v1, v2};

const BOOT: &str = "this boot";

/// A machine with one group, and an agent's state.
struct Machine {
    root: tempfile::TempDir,
    group: PathBuf,
    hierarchy: Hierarchy,
}

impl Machine {
    fn v1() -> Self {
        let root = tempfile::tempdir().unwrap();
        let group = group_v1(root.path(), "hog", 200_000, 50_000);
        fs::write(group.join("cpu.cfs_burst_us"), "20000\n").unwrap();
        let hierarchy = v1(root.path());
        Self {
            root,
            group,
            hierarchy,
        }
    }

    fn v2() -> Self {
        let root = tempfile::tempdir().unwrap();
        let group = group_v2(root.path(), "hog", "max 100000");
        let hierarchy = v2(root.path());
        Self {
            root,
            group,
            hierarchy,
        }
    }

    fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    fn journal(&self) -> Journal {
        Journal::open(&self.state()).unwrap()
    }

    fn audit(&self) -> Audit {
        Audit::open(&self.state()).unwrap()
    }

    fn caps(&self) -> Caps {
        let journal = self.journal();
        Caps::new(journal, self.hierarchy.clone(), "1-1".into(), BOOT.into())
    }

    /// All knobs of the group.
    fn knobs(&self) -> Vec<(String, String)> {
        let mut found: Vec<_> = fs::read_dir(&self.group)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .map(|file| (file.clone(), knob(&self.group, &file)))
            .collect();
        found.sort();
        found
    }

    fn replay(&self, boot: &str) -> Replayed {
        let mut audit = self.audit();
        replay(
            &self.journal(),
            moment(5_000.0),
            boot,
            |_| true,
            "a test",
            &mut audit,
        )
        .unwrap()
    }

    fn audit_lines(&self) -> Vec<Value> {
        fs::read_to_string(self.state().join("audit.jsonl"))
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn make(caps: &mut Caps, audit: &mut Audit) -> Result<(), CapError> {
    let incident = incident("one");
    let order = Order {
        cgroup: "/hog",
        cpu_ratio: 0.01,
        seconds: 300.0,
        incident: &incident,
        why: "a test",
    };
    caps.make(moment(1_000.0), &order, audit)
}

#[test]
fn a_cap_is_made_lasts_and_is_taken_back() {
    for machine in [Machine::v1(), Machine::v2()] {
        let before = machine.knobs();
        let (mut caps, mut audit) = (machine.caps(), machine.audit());
        make(&mut caps, &mut audit).unwrap();
        assert_ne!(machine.knobs(), before);
        assert_eq!((caps.len(), caps.incident_of("/hog")), (1, Some("one")));
        assert!(caps.tick(moment(1_299.9), &mut audit).is_empty());
        let ended = caps.tick(moment(1_300.0), &mut audit);
        assert_eq!(ended.len(), 1);
        assert!(ended[0].ended.as_ref().unwrap().undone);
        assert_eq!(machine.knobs(), before);
        assert!(caps.is_empty());
        assert!(machine.journal().entries().unwrap().0.is_empty());
        let lines = machine.audit_lines();
        let what: Vec<_> = lines
            .iter()
            .map(|line| line["what"].as_str().unwrap())
            .collect();
        assert_eq!(what, ["cap", "undo"]);
        assert_eq!(lines[1]["outcome"], "put back");
        assert_eq!(lines[0]["changes"], lines[1]["changes"]);
    }
}

#[test]
fn a_clock_set_back_does_not_lengthen_a_cap() {
    let machine = Machine::v1();
    let before = machine.knobs();
    let (mut caps, mut audit) = (machine.caps(), machine.audit());
    make(&mut caps, &mut audit).unwrap();
    let mut later = moment(1_300.0);
    later.unix_s = 10.0;
    assert_eq!(caps.tick(later, &mut audit).len(), 1);
    assert_eq!(machine.knobs(), before);
}

/// Whatever step the agent dies at, the next start leaves the group as it was and the journal empty.
#[test]
fn a_crash_at_any_step_is_undone_by_the_next_start() {
    for machine in [Machine::v1 as fn() -> Machine, Machine::v2] {
        let mut crashed = 0;
        for fatal in 0.. {
            let machine = machine();
            let before = machine.knobs();
            let steps = Arc::new(Mutex::new(Vec::new()));
            let seen = Arc::clone(&steps);
            let mut caps = machine.caps().with_steps(Box::new(move |step| {
                let mut seen = seen.lock().unwrap();
                seen.push(step);
                if seen.len() == fatal + 1 {
                    drop(seen);
                    panic!("killed after {step:?}");
                }
            }));
            let mut audit = machine.audit();
            let died = catch_unwind(AssertUnwindSafe(|| {
                make(&mut caps, &mut audit).unwrap();
                caps.tick(moment(1_300.0), &mut audit);
            }))
            .is_err();
            if !died {
                assert_eq!(crashed, fatal);
                break;
            }
            crashed += 1;
            let (mut caps, mut audit) = (machine.caps(), machine.audit());
            let replayed = machine.replay(BOOT);
            let at = steps.lock().unwrap().last().copied();
            assert_eq!(machine.knobs(), before, "{at:?}");
            assert!(replayed.failed.is_empty(), "{at:?}");
            assert!(
                replayed
                    .ended
                    .iter()
                    .all(|entry| entry.ended.as_ref().unwrap().undone)
            );
            // The entry waits, with its outcome, until its incident is written.
            forget(&machine.journal(), &replayed.ended).unwrap();
            assert!(machine.replay(BOOT).ended.is_empty());
            // And the group can be capped anew.
            make(&mut caps, &mut audit).unwrap();
            caps.end_all(moment(1_001.0), "a test", &mut audit);
            assert_eq!(machine.knobs(), before, "{at:?}");
        }
        assert!(crashed >= 7, "only {crashed} steps");
    }
}

#[test]
fn what_somebody_else_wrote_is_left_alone_and_reported() {
    let machine = Machine::v1();
    let (mut caps, mut audit) = (machine.caps(), machine.audit());
    make(&mut caps, &mut audit).unwrap();
    fs::write(machine.group.join("cpu.cfs_quota_us"), "77000\n").unwrap();
    let mine = machine.knobs();
    // It is seen at the next tick, long before the cap would end.
    let ended = caps.tick(moment(1_001.0), &mut audit);
    let how = ended[0].ended.as_ref().unwrap();
    assert!(!how.undone);
    assert!(
        how.outcome.contains("cpu.cfs_quota_us says \"77000\""),
        "{}",
        how.outcome
    );
    assert_eq!(machine.knobs(), mine);
    assert!(caps.is_empty());
    assert!(
        machine.audit_lines()[1]["outcome"]
            .as_str()
            .unwrap()
            .contains("another program")
    );
}

#[test]
fn a_group_that_went_away_takes_its_cap_along() {
    let machine = Machine::v1();
    let (mut caps, mut audit) = (machine.caps(), machine.audit());
    make(&mut caps, &mut audit).unwrap();
    fs::remove_dir_all(&machine.group).unwrap();
    let ended = caps.tick(moment(1_400.0), &mut audit);
    assert!(ended[0].ended.as_ref().unwrap().undone);
    assert!(ended[0].ended.as_ref().unwrap().outcome.contains("gone"));
}

#[test]
fn a_group_of_the_same_name_is_another_group() {
    let machine = Machine::v1();
    let (mut caps, mut audit) = (machine.caps(), machine.audit());
    make(&mut caps, &mut audit).unwrap();
    let capped = machine.knobs();
    let aside = machine.root.path().join("aside");
    fs::rename(&machine.group, aside).unwrap();
    group_v1(machine.root.path(), "hog", 1_000, 100_000);
    for (file, text) in &capped {
        fs::write(machine.group.join(file), text).unwrap();
    }
    let ended = caps.tick(moment(1_400.0), &mut audit);
    assert!(ended[0].ended.as_ref().unwrap().outcome.contains("gone"));
    assert_eq!(machine.knobs(), capped);
}

#[test]
fn after_a_restart_of_the_machine_nothing_is_ours() {
    let machine = Machine::v1();
    let mut caps = machine.caps();
    make(&mut caps, &mut machine.audit()).unwrap();
    let capped = machine.knobs();
    let replayed = machine.replay("another boot");
    assert_eq!(replayed.ended.len(), 1);
    assert_eq!(machine.knobs(), capped);
}

#[test]
fn only_the_owner_s_caps_are_meant() {
    let machine = Machine::v1();
    let mut caps = machine.caps();
    make(&mut caps, &mut machine.audit()).unwrap();
    let capped = machine.knobs();
    let (mut audit, journal) = (machine.audit(), machine.journal());
    let of = |owner: &'static str| move |entry: &Entry| entry.owner == owner;
    let now = moment(5_000.0);
    let none = replay(&journal, now, BOOT, of("2-2"), "a test", &mut audit).unwrap();
    assert!(none.ended.is_empty());
    assert_eq!(machine.knobs(), capped);
    let one = replay(&journal, now, BOOT, of("1-1"), "a test", &mut audit).unwrap();
    assert_eq!(one.ended.len(), 1);
}

#[test]
fn no_cap_without_its_undoing_on_the_disk() {
    let machine = Machine::v1();
    let before = machine.knobs();
    let (mut caps, mut audit) = (machine.caps(), machine.audit());
    // A file where the folder was: nothing can be written there, by root neither.
    fs::remove_dir(machine.state().join("caps")).unwrap();
    fs::write(machine.state().join("caps"), "").unwrap();
    let refused = make(&mut caps, &mut audit).unwrap_err();
    assert!(matches!(refused, CapError::Unrecorded { .. }), "{refused}");
    assert_eq!(machine.knobs(), before);
}

#[test]
fn a_cap_that_fails_in_the_middle_is_taken_back() {
    let machine = Machine::v1();
    let before = machine.knobs();
    let group = machine.group.clone();
    let mut caps = machine.caps().with_steps(Box::new(move |step| {
        // After the journal, the quota cannot be written any more: a directory stands there.
        if step == "in the audit log" {
            fs::rename(group.join("cpu.cfs_quota_us"), group.join("saved")).unwrap();
            fs::create_dir(group.join("cpu.cfs_quota_us")).unwrap();
        }
        if step == "put back" && group.join("saved").exists() {
            fs::remove_dir(group.join("cpu.cfs_quota_us")).unwrap();
            fs::rename(group.join("saved"), group.join("cpu.cfs_quota_us")).unwrap();
        }
    }));
    let mut audit = machine.audit();
    assert!(make(&mut caps, &mut audit).is_err());
    // The first try to put it back failed as well; the next tick's does not.
    assert_eq!(caps.len(), 1);
    assert_eq!(machine.journal().entries().unwrap().0.len(), 1);
    caps.tick(moment(1_001.0), &mut audit);
    assert_eq!(machine.knobs(), before);
    assert!(caps.is_empty());
}

#[test]
fn what_cannot_be_read_is_set_aside_and_reported() {
    let machine = Machine::v1();
    machine.journal();
    fs::write(machine.state().join("caps/0001.json"), "{").unwrap();
    let replayed = machine.replay(BOOT);
    assert_eq!(replayed.unreadable.len(), 1);
    assert!(
        machine.audit_lines()[0]["outcome"]
            .as_str()
            .unwrap()
            .contains("unreadable")
    );
    assert!(machine.replay(BOOT).unreadable.is_empty());
}

#[test]
fn a_group_with_less_is_not_capped() {
    let machine = Machine::v2();
    group_v2(machine.root.path(), "hog", "900 100000");
    let (mut caps, mut audit) = (machine.caps(), machine.audit());
    assert!(matches!(
        make(&mut caps, &mut audit),
        Err(CapError::Already)
    ));
    assert!(machine.journal().entries().unwrap().0.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whoever writes whatever knob whenever: it is never overwritten.
    #[test]
    fn foreign_values_survive(quota in 1_000..400_000_i64, knob_chosen in 0..3_usize, crash in any::<bool>()) {
        let machine = Machine::v1();
        let (mut caps, mut audit) = (machine.caps(), machine.audit());
        make(&mut caps, &mut audit).unwrap();
        let file = ["cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us"][knob_chosen];
        let text = quota.to_string();
        let ours = ["1000", "200000", "50000", "100000", "20000", "0"].contains(&text.as_str());
        prop_assume!(!ours);
        fs::write(machine.group.join(file), &text).unwrap();
        let foreign = machine.knobs();
        if crash {
            machine.replay(BOOT);
        } else {
            caps.end_all(moment(1_100.0), "a test", &mut audit);
        }
        prop_assert_eq!(machine.knobs(), foreign);
    }
}
