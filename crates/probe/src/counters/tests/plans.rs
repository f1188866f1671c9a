//! Plans, and what trying one tells.

use std::time::Duration;

use super::super::check::check_with;
use super::*;

#[test]
fn a_check_says_what_share_of_the_time_each_event_is_counted() {
    let machine = Machine::with(Fake::default().refuse(CPU, 12, libc::ENOENT));
    let checked = check_with(
        &system(&general(9)),
        &machine.tree(),
        Duration::from_millis(100),
        &machine.kernel,
    );
    assert!(checked.counts_anything() && !checked.is_whole());
    let text = checked.text();
    assert!(text.contains("e0     cpu  system       0  50 %"), "{text}");
    assert!(
        text.contains("e2: not counted: PMU cpu does not count it"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&checked.json()).expect("JSON");
    assert_eq!(json["events"][0]["coverage_ratio"], 0.5);
    assert_eq!(json["events"][0]["count"], 1_100_000);
    assert!(json["missing_items"]["e2"].is_string());
}

proptest::proptest! {
    #[test]
    fn no_bytes_do_harm(bytes: Vec<u8>, like in "(config[0-3]?:|[a-z]=|0x|[0-9,=?-]|cgroup2? /|\\{\"){0,12}") {
        super::super::parse_anything(&bytes);
        super::super::parse_anything(like.as_bytes());
    }
}

#[test]
fn a_plan_that_contradicts_itself_is_refused_in_one_line() {
    let plan = |events: &[PlannedEvent]| system(events).plan;
    let twice =
        super::super::plan::check(&plan(&[event("a", 1), event("a", 2)])).expect_err("twice");
    assert_eq!(twice, "event a of PMU cpu is listed twice");
    assert!(super::super::plan::check(&plan(&[])).is_err());
    assert!(super::super::plan::check(&plan(&[event("a\u{1b}[1m", 1)])).is_err());
    assert!(super::super::plan::check(&plan(&[of_pmu("../x", event("a", 1))])).is_err());
    let folder = tempfile::tempdir().expect("a folder");
    for text in [
        "",
        "{}",
        "[1]",
        "{\"schema_version\": \"2.0\", \"kind\": \"counter_plan\"}",
    ] {
        let path = folder.path().join("plan.json");
        std::fs::write(&path, text).expect("written");
        let error = super::super::plan::read(&path)
            .expect_err("no plan")
            .to_string();
        assert!(!error.contains('\n'), "{error}");
    }
}
