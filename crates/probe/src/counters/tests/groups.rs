//! Groups and the counters that are free; what is refused.

use super::*;

#[test]
fn events_are_packed_into_the_counters_that_there_are() {
    let machine = Machine::x86();
    let mut events = vec![event("instructions", 1), event("cycles", 2)];
    events.extend(general(6));
    let mut counting = machine.count(&events);
    let groups = counting.groups();
    // Fixed ones take no general counter: two of them and four others, then the remaining two.
    let first: Vec<&str> = groups
        .iter()
        .filter(|(_, group)| *group == "0")
        .map(|(name, _)| &**name)
        .collect();
    assert_eq!(first, ["cycles", "e0", "e1", "e2", "e3", "instructions"]);
    assert_eq!((&*groups["e4"], &*groups["e5"]), ("1", "1"));
    assert!(counting.missing().is_empty());
    assert!(counting.source.notes().is_empty());
}

#[test]
fn groups_take_turns_and_counts_stay_raw() {
    let machine = Machine::x86();
    let mut counting = machine.count(&general(8));
    machine.kernel.pass(100_000_000);
    let rows = counting.rows();
    // Two groups of four on four counters: each runs half of the time, on each of two CPUs. e0 counts 11 each
    // microsecond that it runs: unscaled that is half of 2 x 100 ms.
    assert_eq!(rows[0], "system  cpu e0 0 1100000 200000000 100000000");
    assert_eq!(rows[7], "system  cpu e7 1 1800000 200000000 100000000");
}

#[test]
fn a_group_that_fits_is_kept_and_one_that_does_not_is_split_and_said() {
    let machine = Machine::x86();
    let mut events: Vec<_> = general(2)
        .into_iter()
        .map(|event| in_group("small", event))
        .collect();
    events.extend((20..26).map(|n| in_group("large", event(&format!("l{n}"), n))));
    let mut counting = machine.count(&events);
    let groups = counting.groups();
    assert_eq!((&*groups["e0"], &*groups["e1"]), ("0", "0"));
    assert_eq!(
        (
            &*groups["l20"],
            &*groups["l23"],
            &*groups["l24"],
            &*groups["l25"]
        ),
        ("1", "1", "2", "2")
    );
    let notes = counting.source.notes();
    assert_eq!(notes.len(), 1);
    assert!(
        notes[0].starts_with("group large does not fit") && notes[0].contains("2 groups"),
        "{notes:?}"
    );
}

#[test]
fn a_counter_that_the_watchdog_holds_is_found_by_watching_a_group_run() {
    let held = FakePmu {
        general: 4,
        fixed: [1, 2, 3].into(),
        held: 1,
    };
    let machine = Machine::of(Fake::default().pmu(CPU, held));
    machine.write("proc/sys/kernel/nmi_watchdog", "1\n");
    let mut counting = machine.count(&general(4));
    let groups = counting.groups();
    assert_eq!(
        (&*groups["e2"], &*groups["e3"]),
        ("0", "1"),
        "three fit, not four"
    );
    machine.kernel.pass(50_000_000);
    for row in counting.rows() {
        assert_ne!(row.split(' ').nth(7), Some("0"), "it runs: {row}");
    }
    let notes = counting.source.notes();
    assert!(notes[0].contains("kernel.nmi_watchdog=0"), "{notes:?}");
}

#[test]
fn an_event_that_never_had_a_counter_is_null_and_not_zero() {
    let held = FakePmu {
        general: 1,
        fixed: [].into(),
        held: 1,
    };
    let machine = Machine::of(Fake::default().pmu(CPU, held));
    let mut counting = machine.count(&[event("cycles", 60)]);
    machine.kernel.pass(10_000_000);
    assert_eq!(counting.rows(), ["system  cpu cycles 0 - 20000000 0"]);
}

#[test]
fn a_missing_event_drops_one_event_and_says_why() {
    let cases = [
        (libc::ENOENT, "no hardware counters"),
        (libc::EINVAL, "PMU cpu refuses it"),
        (libc::EOPNOTSUPP, "does not count it in this scope or mode"),
        (libc::EBUSY, "exclusive use"),
        (libc::ENODEV, "has disappeared"),
        (libc::EACCES, "kernel.perf_event_paranoid is 2"),
        (libc::EPERM, "sysctl kernel.perf_event_paranoid=0"),
        (libc::ENOSYS, "seccomp"),
        (libc::EMFILE, "ulimit -Hn"),
    ];
    for (errno, words) in cases {
        let machine = Machine::with(Fake::default().refuse(CPU, 11, errno));
        machine.write("proc/sys/kernel/perf_event_paranoid", "2\n");
        let mut counting = machine.count(&general(3));
        assert_eq!(
            counting.groups().into_keys().collect::<Vec<_>>(),
            ["e0", "e2"],
            "{errno}"
        );
        let missing = counting.missing();
        assert_eq!(missing.keys().collect::<Vec<_>>(), ["e1"]);
        assert!(
            missing["e1"].contains(words) && !missing["e1"].contains('\n'),
            "{missing:?}"
        );
    }
}

#[test]
fn a_machine_without_counters_still_has_software_events() {
    let kernel = Fake::default().refuse(0, 0, libc::ENOENT);
    let machine = Machine::new(kernel, &[]);
    machine.pmu("software", &[("type", "1")]);
    let cycles = PlannedEvent {
        pmu: "hardware".to_owned(),
        terms: BTreeMap::from([("config".to_owned(), 0)]),
        ..event("cycles", 0)
    };
    let mut counting = machine.count(&[
        event("INST_RETIRED.ANY", 1),
        cycles,
        software("page-faults", 2),
    ]);
    machine.kernel.pass(1_000_000);
    assert_eq!(
        counting.rows(),
        ["system  software page-faults 0 6000 2000000 2000000"]
    );
    let missing = counting.missing();
    assert_eq!(
        missing["INST_RETIRED.ANY"],
        "there is no PMU cpu here; there are software"
    );
    assert!(
        missing["cycles"].contains("virtual machines"),
        "{missing:?}"
    );
}

#[test]
fn nothing_to_count_is_a_reason_and_no_recording() {
    let machine = Machine::with(Fake::default().refuse_context("all", libc::EACCES));
    machine.write("proc/sys/kernel/perf_event_paranoid", "3\n");
    let Err(refused) = machine.open(&system(&general(2))) else {
        panic!("nothing is counted");
    };
    assert!(
        refused.reason.contains("perf_event_paranoid is 3"),
        "{}",
        refused.reason
    );
    assert_eq!(machine.kernel.open_events(), 0);
}

#[test]
fn a_read_is_one_call_a_group_and_the_trials_leave_nothing_open() {
    let machine = Machine::x86();
    let counting = machine.count(&general(8));
    assert_eq!(machine.kernel.open_events(), 16, "eight events on two CPUs");
    assert!(machine.kernel.opened() > 16);
    drop(counting);
    assert_eq!(machine.kernel.open_events(), 0);
}
