//! Machines with several PMUs: kinds of core, parts outside the cores.

use super::*;

fn hybrid() -> Machine {
    let pmu = |general, fixed: &[u64]| FakePmu {
        general,
        fixed: fixed.iter().copied().collect(),
        held: 0,
    };
    let machine = Machine::new(
        Fake::default().pmu(4, pmu(8, &[1])).pmu(10, pmu(2, &[1])),
        &[("sys/devices/system/cpu/online", "0-3\n")],
    );
    for (name, type_, cpus) in [("cpu_core", "4", "0-1"), ("cpu_atom", "10", "2-3")] {
        machine.pmu(
            name,
            &[
                ("type", type_),
                ("cpus", cpus),
                ("format/event", "config:0-7"),
            ],
        );
    }
    machine
}

#[test]
fn each_kind_of_core_counts_on_its_own_cpus_with_its_own_counters() {
    let machine = hybrid();
    let both = |n: u64| {
        let name = format!("e{n}");
        [
            of_pmu("cpu_core", event(&name, 10 + n)),
            of_pmu("cpu_atom", event(&name, 10 + n)),
        ]
    };
    let events: Vec<_> = (0..4).flat_map(both).collect();
    let mut counting = machine.count(&events);
    machine.kernel.pass(1_000_000);
    let rows = counting.rows();
    assert_eq!(rows.len(), 8);
    assert_eq!(rows[0], "system  cpu_core e0 0 22000 2000000 2000000");
    let atom: Vec<&str> = rows
        .iter()
        .filter(|row| row.contains("cpu_atom"))
        .map(|row| &row[17..21])
        .collect();
    assert_eq!(
        atom,
        ["e0 1", "e1 1", "e2 2", "e3 2"],
        "two general counters: two groups"
    );
    let mut each = machine
        .open(&settings(Scope::Cpu, &[], &events[..2]))
        .expect("counted");
    let rows = each.rows();
    let names: Vec<&str> = rows.iter().map(|row| &row[..17]).collect();
    assert_eq!(
        names,
        [
            "cpu cpu0 cpu_core",
            "cpu cpu1 cpu_core",
            "cpu cpu2 cpu_atom",
            "cpu cpu3 cpu_atom"
        ]
    );
}

#[test]
fn the_kernels_own_events_name_each_kind_of_core() {
    let machine = hybrid();
    let cycles = PlannedEvent {
        terms: BTreeMap::from([("config".to_owned(), 0)]),
        ..of_pmu("hardware", event("cycles", 0))
    };
    let mut counting = machine.count(std::slice::from_ref(&cycles));
    machine.kernel.pass(1_000);
    let rows = counting.rows();
    // The type of the PMU stands in the upper half of config, which this kernel adds to its counts.
    assert_eq!(
        rows[0],
        format!(
            "system  cpu_atom cycles 0 {} 2000 2000",
            2 * ((10_u64 << 32) + 1)
        )
    );
    assert_eq!(
        rows[1],
        format!(
            "system  cpu_core cycles 1 {} 2000 2000",
            2 * ((4_u64 << 32) + 1)
        )
    );
    // `cpu` is nobody's name where there are two kinds.
    let counting = machine.count(&[cycles, event("x", 9)]);
    assert_eq!(
        counting.missing()["x"],
        "there is no PMU cpu here; there are cpu_atom, cpu_core"
    );
}

#[test]
fn a_single_kind_of_core_answers_to_cpu() {
    let machine = Machine::new(Fake::default(), &[]);
    machine.pmu(
        "armv8_pmuv3_0",
        &[
            ("type", "9"),
            ("cpus", "0-1"),
            ("format/event", "config:0-15"),
        ],
    );
    let mut counting = machine.count(&[
        event("INST_RETIRED", 8),
        of_pmu("armv8_pmuv3", event("L1D", 4)),
    ]);
    assert_eq!(
        counting.rows()[0],
        "system  armv8_pmuv3_0 INST_RETIRED 0 0 0 0"
    );
    assert_eq!(counting.rows()[1], "system  armv8_pmuv3_0 L1D 0 0 0 0");
}

fn uncore() -> Machine {
    let machine = Machine::x86();
    for (instance, type_) in [
        ("uncore_imc_0", "20"),
        ("uncore_imc_10", "21"),
        ("uncore_imc_2", "22"),
    ] {
        machine.pmu(
            instance,
            &[
                ("type", type_),
                ("cpumask", "1"),
                ("format/event", "config:0-7"),
                ("events/reads", "event=0x04"),
            ],
        );
    }
    machine.pmu(
        "uncore_imc_free_running_0",
        &[("type", "23"), ("cpumask", "1")],
    );
    machine
}

#[test]
fn every_instance_of_an_uncore_pmu_is_counted_on_the_cpu_that_speaks_for_it() {
    let machine = uncore();
    let reads = of_pmu("uncore_imc", event("reads", 4));
    let listed = PlannedEvent {
        terms: BTreeMap::new(),
        ..reads.clone()
    };
    for event in [reads, listed] {
        let mut counting = machine.count(&[event]);
        machine.kernel.pass(1_000_000);
        let rows = counting.rows();
        let expected = [
            "uncore_imc_0 reads 0",
            "uncore_imc_2 reads 1",
            "uncore_imc_10 reads 2",
        ]
        .map(|row| format!("system  {row} 5000 1000000 1000000"));
        assert_eq!(rows, expected);
    }
}

#[test]
fn work_of_the_whole_machine_has_no_owner() {
    let machine = uncore();
    machine.write("proc/77/task/77/stat", "");
    let events = [of_pmu("uncore_imc", event("reads", 4)), event("e0", 10)];
    let mut both = settings(Scope::Process, &["77"], &events);
    both.scopes = vec![Scope::System, Scope::Process];
    let mut counting = machine.open(&both).expect("counted");
    let rows = counting.rows();
    assert_eq!(
        rows.len(),
        5,
        "three instances and one event of the system, one of the process: {rows:?}"
    );
    assert!(rows[4].starts_with("process 77 cpu e0 "));
    let reason = &counting.missing()["reads"];
    assert!(
        reason.starts_with("scope process: PMU uncore_imc_"),
        "{reason}"
    );
}

#[test]
fn terms_that_a_pmu_does_not_know_are_said() {
    let machine = Machine::x86();
    let mut odd = event("odd", 5);
    odd.terms.insert("frontend".to_owned(), 1);
    let counting = machine.count(&[odd, event("large", 0x100), event("e", 9)]);
    let missing = counting.missing();
    assert_eq!(
        missing["odd"],
        "the PMU has no term frontend; it has event, umask"
    );
    assert_eq!(missing["large"], "term event=0x100 does not fit its 8 bits");
}
