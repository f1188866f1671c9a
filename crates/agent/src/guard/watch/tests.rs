use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::guard::capping::journal::Journal;
use crate::guard::detection::evidence::Bar;
use crate::guard::testing::{group_v1, knob, moment, sample, spec, v1};
use crate::rows::JobClass;

/// A machine where `web` suffers in each minute that `hog` runs.
struct Scene {
    root: tempfile::TempDir,
    guard: Guard,
    specs: Specs,
}

impl Scene {
    fn new(settings: Settings) -> Self {
        let root = tempfile::tempdir().unwrap();
        group_v1(root.path(), "hog", -1, 100_000);
        group_v1(root.path(), "second", -1, 100_000);
        let state = root.path().join("state");
        let journal = Journal::open(&state).unwrap();
        let caps = (settings.action == Action::Cap)
            .then(|| Caps::new(journal, v1(root.path()), "1-1".into(), "boot".into()));
        let audit = Audit::open(&state).unwrap();
        Self {
            guard: Guard::new(settings, "m1".into(), None, caps, audit),
            specs: Specs::newest([spec("web", 1.8, 0.16, 2.12), spec("ads", 1.8, 0.16, 2.12)]),
            root,
        }
    }

    /// The window that began at `start`, 10 s later.
    fn window(&mut self, start: i64, web_cpi: f64, hog_usage: f64) -> Vec<Incident> {
        let samples = [
            sample("web", JobClass::LatencySensitive, start, 0.6, Some(web_cpi)),
            sample("hog", JobClass::Batch, start, hog_usage, None),
            sample("calm", JobClass::Batch, start, 0.3, None),
        ];
        self.guard
            .on_window(moment(start as f64 + 10.0), &samples, &self.specs)
    }

    /// Four calm minutes, then the hog in so many; returns what is over.
    fn suffer(&mut self, minutes: i64) -> Vec<Incident> {
        let mut over = Vec::new();
        for minute in 0..4 {
            over.extend(self.window(60_000 + 60 * minute, 1.8, 0.0));
        }
        for minute in 4..4 + minutes {
            over.extend(self.window(60_000 + 60 * minute, 4.24, 0.9));
        }
        over
    }

    fn quota(&self) -> String {
        knob(&self.root.path().join("cpu/hog"), "cpu.cfs_quota_us")
    }

    fn audit_lines(&self) -> Vec<Value> {
        fs::read_to_string(self.root.path().join("state/audit.jsonl"))
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// By the paper's rule, which names from the first outliers on.
fn settings(action: Action) -> Settings {
    Settings {
        action,
        rule: Rule::Paper,
        ..Settings::default()
    }
}

#[test]
fn the_third_outlier_caps_the_hog_and_five_minutes_later_it_is_free() {
    let mut scene = Scene::new(settings(Action::Cap));
    assert!(scene.suffer(2).is_empty());
    assert_eq!(
        (scene.quota().as_str(), scene.guard.stats().outliers),
        ("-1", 2)
    );
    assert!(scene.window(60_360, 4.24, 0.9).is_empty());
    assert_eq!(scene.quota(), "10000");
    let stats = scene.guard.stats();
    assert_eq!((stats.caps_active, stats.caps, stats.incidents), (1, 1, 1));
    // The victim recovers while the cap lasts.
    for minute in 7..11 {
        assert!(scene.window(60_000 + 60 * minute, 1.9, 0.1).is_empty());
    }
    assert!(scene.guard.tick(moment(60_669.9)).is_empty());
    let over = scene.guard.tick(moment(60_670.0));
    assert_eq!(scene.quota(), "-1");
    let [incident] = over.as_slice() else {
        panic!("{over:?}");
    };
    assert_eq!(incident.antagonist_job.as_deref(), Some("hog"));
    assert_eq!(
        (incident.victim_job.as_str(), incident.action.as_str()),
        ("web", "cap")
    );
    assert_eq!(
        (incident.start_unix_s, incident.end_unix_s),
        (60_360, Some(60_370))
    );
    assert_eq!(
        (incident.cap_start_unix_s, incident.cap_end_unix_s),
        (Some(60_370), Some(60_670))
    );
    assert_eq!((incident.outliers, incident.undone), (3, Some(true)));
    assert_eq!((incident.threshold_cpi, incident.victim_cpi), (2.12, 4.24));
    // All of the hog's usage fell on a CPI of twice the threshold: 1 - 1/2.
    assert!((incident.correlation.unwrap() - 0.5).abs() < 1e-12);
    assert!((incident.victim_cpi_after.unwrap() - 1.9).abs() < 1e-12);
    let lines = scene.audit_lines();
    let what: Vec<_> = lines
        .iter()
        .map(|line| line["what"].as_str().unwrap())
        .collect();
    assert_eq!(what, ["cap", "incident", "undo"]);
    assert_eq!(lines[1]["evidence"]["suspects"][0]["task"], "hog");
}

#[test]
fn a_dry_run_says_what_it_would_do_and_changes_nothing() {
    let mut scene = Scene::new(settings(Action::DryRun));
    scene.suffer(3);
    assert_eq!(scene.quota(), "-1");
    let over = scene.guard.tick(moment(61_000.0));
    assert_eq!(over[0].action, "dry-run");
    assert_eq!(over[0].cap_cpu_ratio, Some(0.1));
    assert_eq!((over[0].cap_start_unix_s, over[0].undone), (None, None));
    assert_eq!(scene.guard.stats().dry_runs, 1);
}

#[test]
fn without_an_action_it_still_names_the_cause() {
    let mut scene = Scene::new(settings(Action::None));
    scene.suffer(3);
    let over = scene.guard.tick(moment(61_000.0));
    assert_eq!(over[0].action, "none");
    assert_eq!(over[0].antagonist_job.as_deref(), Some("hog"));
    assert!(
        over[0].reason.contains("guard.action is none"),
        "{}",
        over[0].reason
    );
}

#[test]
fn a_victim_s_outliers_count_for_one_incident() {
    let mut scene = Scene::new(settings(Action::DryRun));
    // Decided in the third minute, over five minutes later, with the eighth.
    assert!(scene.suffer(7).is_empty());
    let over = scene.window(60_660, 4.24, 0.9);
    assert_eq!((over.len(), scene.guard.stats().incidents), (1, 1));
    assert_eq!((over[0].outliers, over[0].end_unix_s), (3, Some(60_670)));
    // It suffers on: three more outliers make the next.
    scene.window(60_720, 4.24, 0.9);
    scene.window(60_780, 4.24, 0.9);
    assert_eq!(scene.guard.stats().incidents, 1);
    scene.window(60_840, 4.24, 0.9);
    assert_eq!(scene.guard.stats().incidents, 2);
}

#[test]
fn when_the_agent_ends_every_cap_does() {
    let mut scene = Scene::new(settings(Action::Cap));
    scene.suffer(3);
    assert_eq!(scene.quota(), "10000");
    let over = scene.guard.stop(moment(60_400.0), "the agent ends");
    assert_eq!(scene.quota(), "-1");
    assert_eq!((over.len(), over[0].undone), (1, Some(true)));
    assert_eq!(over[0].cap_end_unix_s, Some(60_400));
    assert!(scene.guard.stop(moment(60_401.0), "again").is_empty());
}

#[test]
fn a_cap_that_cannot_be_made_is_an_incident_without_one() {
    let mut scene = Scene::new(settings(Action::Cap));
    fs::remove_dir_all(scene.root.path().join("cpu/hog")).unwrap();
    scene.suffer(3);
    assert_eq!(scene.guard.stats().cap_failures, 1);
    let over = scene.guard.tick(moment(61_000.0));
    assert_eq!(
        (over[0].action.as_str(), over[0].cap_cpu_ratio),
        ("none", None)
    );
    assert!(over[0].reason.contains("is gone"), "{}", over[0].reason);
}

#[test]
fn somebody_else_s_quota_ends_the_incident_without_being_undone() {
    let mut scene = Scene::new(settings(Action::Cap));
    scene.suffer(3);
    fs::write(scene.root.path().join("cpu/hog/cpu.cfs_quota_us"), "30000").unwrap();
    let over = scene.guard.tick(moment(60_400.0));
    assert_eq!((over.len(), over[0].undone), (1, Some(false)));
    assert_eq!(scene.quota(), "30000");
    assert_eq!(scene.guard.stats().caps_not_undone, 1);
}

#[test]
fn no_more_caps_than_allowed() {
    let mut scene = Scene::new(Settings {
        max_caps: 1,
        ..settings(Action::Cap)
    });
    for minute in 0..8 {
        let start = 60_000 + 60 * minute;
        let (first, second) = (minute >= 4, minute >= 5);
        let cpi = |suffers| Some(if suffers { 4.24 } else { 1.8 });
        let usage = |runs| if runs { 0.9 } else { 0.0 };
        let samples = [
            sample("web", JobClass::LatencySensitive, start, 0.6, cpi(first)),
            sample("ads", JobClass::LatencySensitive, start, 0.6, cpi(second)),
            sample("hog", JobClass::Batch, start, usage(first), None),
            sample("second", JobClass::Batch, start, usage(second), None),
        ];
        scene
            .guard
            .on_window(moment(start as f64 + 10.0), &samples, &scene.specs);
    }
    let stats = scene.guard.stats();
    assert_eq!((stats.incidents, stats.caps, stats.caps_active), (2, 1, 1));
    let over = scene.guard.stop(moment(60_500.0), "a test");
    let refused = over
        .iter()
        .find(|incident| incident.action == "none")
        .unwrap();
    assert!(refused.reason.contains("the maximum"), "{}", refused.reason);
}

/// By the tested rule, with a history of an hour and names from 50 windows on.
fn tested(action: Action) -> Settings {
    Settings {
        action,
        evidence_window_s: 3_600.0,
        bar: Bar {
            false_name_ratio: 0.02,
            ..Bar::default()
        },
        ..Settings::default()
    }
}

/// An hour less some minutes of calm, and then so many with the hog; returns the scene and what is over.
fn after_calm(action: Action, calm: i64, minutes: i64) -> (Scene, Vec<Incident>) {
    let mut scene = Scene::new(tested(action));
    let mut over = Vec::new();
    for minute in 0..calm {
        let cpi = 1.8 + 0.01 * (minute % 7) as f64;
        over.extend(scene.window(60_000 + 60 * minute, cpi, 0.01));
    }
    for minute in calm..calm + minutes {
        over.extend(scene.window(60_000 + 60 * minute, 4.24, 0.9));
    }
    (scene, over)
}

#[test]
fn by_the_tested_rule_the_fifth_outlier_caps_the_hog_for_a_test() {
    let (scene, over) = after_calm(Action::Cap, 48, 4);
    assert!(over.is_empty());
    assert_eq!(
        scene.quota(),
        "-1",
        "the first two anomalous windows are not looked at"
    );
    let (mut scene, _) = after_calm(Action::Cap, 48, 5);
    assert_eq!(scene.quota(), "10000");
    // The test lasts 180 s, in which the victim recovers.
    let start = 60_000 + 60 * 52;
    for minute in 1..=2 {
        assert!(scene.window(start + 60 * minute, 1.9, 0.1).is_empty());
    }
    let over = scene.window(start + 180, 1.9, 0.1);
    assert_eq!((over.len(), scene.quota().as_str()), (1, "-1"));
    assert!(
        over[0].reason.contains("a test of 180 s"),
        "{}",
        over[0].reason
    );
    assert!(
        over[0].reason.contains("p value of 0.0"),
        "{}",
        over[0].reason
    );
    // It comes back: the victim suffers again, and now it is confirmed and held for the whole time.
    for minute in 4..=8 {
        scene.window(start + 60 * minute, 4.24, 0.9);
    }
    assert_eq!(scene.quota(), "10000");
    let over = scene.guard.stop(moment((start + 600) as f64), "a test");
    assert!(
        over[0].reason.contains("; confirmed: "),
        "{}",
        over[0].reason
    );
}

#[test]
fn a_suspect_whose_cap_changed_nothing_is_not_capped_again() {
    let (mut scene, _) = after_calm(Action::Cap, 48, 5);
    let start = 60_000 + 60 * 52;
    let mut over = Vec::new();
    for minute in 1..=3 {
        over.extend(scene.window(start + 60 * minute, 4.3, 0.1));
    }
    assert_eq!(over.len(), 1);
    // Calm for long enough, and then both together again: named, and left alone.
    for minute in 4..=20 {
        scene.window(start + 60 * minute, 1.8, 0.01);
    }
    for minute in 21..=40 {
        over.extend(scene.window(start + 60 * minute, 4.24, 0.9));
        assert_eq!(scene.quota(), "-1");
    }
    over.extend(scene.guard.stop(moment((start + 60 * 41) as f64), "a test"));
    let refused = over.iter().find(|one| one.reason.contains("not confirmed"));
    assert!(refused.is_some(), "{over:?}");
}

/// The rules of the live demonstration (`test_live_interference.py`), where strangers on the host are not in the way.
#[test]
fn with_windows_of_a_second_a_hog_is_capped_within_seconds_and_again() {
    let mut scene = Scene::new(Settings {
        outlier_window_s: 6.0,
        correlation_window_s: 20.0,
        evidence_window_s: 120.0,
        cap_s: 5.0,
        first_cap_s: 5.0,
        min_usage: 0.05,
        ..tested(Action::Cap)
    });
    let (mut capped, mut was_capped) = (Vec::new(), false);
    for second in 0..110 {
        let is_capped = scene.quota() != "-1";
        let works = second >= 70;
        let usage = if is_capped { 0.1 } else { 0.9 };
        let cpi = if works && !is_capped { 4.24 } else { 1.8 };
        let noise = 0.02 * f64::from(second % 5);
        let usage = if works { usage } else { 0.0 };
        scene.window(60_000 + i64::from(second), cpi + noise, usage);
        let is_capped = scene.quota() != "-1";
        if is_capped && !was_capped {
            capped.push(second);
        }
        was_capped = is_capped;
    }
    assert!(capped.len() >= 2, "{capped:?}");
    assert!(
        capped[0] - 70 < 10 && capped[1] - capped[0] < 20,
        "{capped:?}"
    );
}

#[test]
fn too_short_a_history_names_nobody_and_says_so() {
    let (mut scene, _) = after_calm(Action::Cap, 20, 5);
    assert_eq!(scene.quota(), "-1");
    let over = scene.guard.stop(moment(70_000.0), "a test");
    assert_eq!((over.len(), over[0].antagonist_job.as_deref()), (1, None));
    assert!(
        over[0]
            .reason
            .contains("25 windows of the 50 that a name takes"),
        "{}",
        over[0].reason
    );
}

#[test]
fn a_victim_that_is_slow_by_itself_gets_nobody_capped() {
    let mut scene = Scene::new(tested(Action::Cap));
    for minute in 0..90 {
        let cpi = if minute >= 60 { 4.24 } else { 1.8 };
        let usage = if minute % 9 < 4 { 0.9 } else { 0.01 };
        scene.window(60_000 + 60 * minute, cpi, usage);
        assert_eq!(scene.quota(), "-1");
    }
}

#[test]
fn without_a_specification_nothing_is_judged_and_it_is_counted() {
    let mut scene = Scene::new(settings(Action::Cap));
    scene.specs = Specs::default();
    scene.suffer(4);
    let stats = scene.guard.stats();
    assert_eq!((stats.outliers, stats.samples_without_spec), (0, 8));
    // Another source of CPI is no specification either.
    let mut other = spec("web", 1.8, 0.16, 2.12);
    other.cpi_source = "cpu time per operation".into();
    scene.specs = Specs::newest([other]);
    scene.window(61_000, 4.24, 0.9);
    assert_eq!(scene.guard.stats().samples_without_spec, 9);
}

#[test]
fn an_old_specification_is_used_and_said_to_be_old() {
    let mut scene = Scene::new(settings(Action::DryRun));
    scene.suffer(3);
    let fresh = scene.guard.stop(moment(60_500.0), "a test").remove(0);
    assert!(!fresh.reason.contains("days old"), "{}", fresh.reason);
    let mut scene = Scene::new(Settings {
        spec_stale_s: 3_600.0,
        ..settings(Action::DryRun)
    });
    scene.suffer(3);
    let stale = scene.guard.stop(moment(60_500.0), "a test").remove(0);
    assert!(
        stale.reason.contains("the specification is 0.7 days old"),
        "{}",
        stale.reason
    );
}

#[test]
fn a_clock_that_went_back_is_noticed_and_the_guard_works_on() {
    let mut scene = Scene::new(settings(Action::DryRun));
    scene.suffer(2);
    let samples = [sample(
        "web",
        JobClass::LatencySensitive,
        1_000,
        0.6,
        Some(4.24),
    )];
    scene
        .guard
        .on_window(moment(1_010.0), &samples, &scene.specs);
    assert_eq!(scene.guard.stats().clock_steps, 1);
    assert!(
        scene
            .audit_lines()
            .iter()
            .any(|line| line["what"] == "clock")
    );
    assert_eq!(scene.guard.stats().samples_rejected, 0);
}

#[test]
fn what_cannot_be_true_or_comes_twice_is_counted() {
    let mut scene = Scene::new(settings(Action::DryRun));
    let good = sample("web", JobClass::LatencySensitive, 60_000, 0.6, Some(4.0));
    let mut bad = good.clone();
    bad.cpi = Some(f64::NAN);
    let mut empty = good.clone();
    empty.window_s = 0.0;
    let samples = [bad, empty, good.clone(), good];
    scene
        .guard
        .on_window(moment(60_010.0), &samples, &scene.specs);
    let stats = scene.guard.stats();
    assert_eq!((stats.samples, stats.samples_rejected), (1, 3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever happens, the group's quota is as before when the guard has ended.
    #[test]
    fn nothing_stays_capped(minutes in prop::collection::vec((0.5..6.0_f64, 0.0..1.0_f64, 0..400_u64), 1..40)) {
        let mut scene = Scene::new(settings(Action::Cap));
        let mut start = 60_000;
        let (mut begun, mut ended) = (0, 0);
        for (cpi, usage, more) in minutes {
            ended += scene.window(start, cpi, usage).len();
            start += 60;
            ended += scene.guard.tick(moment(start as f64 + more as f64)).len();
            start += more as i64;
            begun = scene.guard.stats().incidents;
            prop_assert!(scene.guard.stats().caps_active <= 1);
        }
        ended += scene.guard.stop(moment(start as f64), "a test").len();
        prop_assert_eq!(scene.quota(), "-1");
        prop_assert_eq!(begun, ended as u64);
        let journal = Journal::find(Path::new(&scene.root.path().join("state")))
        .unwrap()
        .unwrap();
        prop_assert!(journal.entries().unwrap().0.is_empty());
    }
}
