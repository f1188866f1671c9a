//! Rates of made-up readings.

use proptest::prelude::*;

use super::*;
use crate::sample::Identity;

const SECOND: u64 = 1_000_000_000;

fn reading(pid: u32, start_ticks: u64, time_ns: u64, cpu_ns: u64) -> Reading {
    Reading {
        id: TaskId {
            pid,
            tid: None,
            start_ticks,
        },
        who: Rc::new(Identity {
            name: "sh".to_owned(),
            cgroup: Some("/web/api".to_owned()),
            ..Identity::default()
        }),
        time_ns,
        state: b'R',
        counters: Counters {
            user_ns: cpu_ns,
            ..zeroes()
        },
        rss_bytes: Ok(4096),
        threads: 2,
        nodes: Vec::new(),
    }
}

fn sample(time_ns: u64, processes: Vec<Reading>) -> Sample {
    Sample {
        time_ns,
        processes,
        ..Sample::default()
    }
}

fn only(before: &Sample, after: &Sample) -> Row {
    let mut rows = processes(before, after);
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

#[test]
fn a_rate_is_over_the_time_between_its_own_reads() {
    let before = sample(SECOND, vec![reading(7, 1, SECOND + 5, 0)]);
    let mut now = reading(7, 1, 3 * SECOND + 5, 3 * SECOND);
    now.counters.wait_ns = Ok(SECOND);
    now.counters.minor_faults = Ok(20);
    now.counters.read_bytes = Ok(8192);
    let row = only(&before, &sample(3 * SECOND, vec![now]));
    assert_eq!(row.figures.number(Column::Cpu), Some(1.5));
    assert_eq!(row.figures.number(Column::Wait), Some(0.25));
    assert_eq!(row.figures.number(Column::MinorFaults), Some(10.0));
    assert_eq!(row.figures.number(Column::Read), Some(4096.0));
    assert_eq!(row.figures.number(Column::Rss), Some(4096.0));
}

#[test]
fn a_process_with_the_id_of_another_is_not_compared_with_it() {
    let before = sample(SECOND, vec![reading(7, 1, SECOND, 900 * SECOND)]);
    let after = sample(2 * SECOND, vec![reading(7, 50, 2 * SECOND, SECOND / 2)]);
    let row = only(&before, &after);
    assert_eq!(
        row.figures.number(Column::Cpu),
        Some(0.5),
        "from zero, since it is new"
    );
}

#[test]
fn what_could_not_be_read_is_missing_with_its_reason() {
    let mut then = reading(7, 1, SECOND, 0);
    let mut now = reading(7, 1, 2 * SECOND, 0);
    then.counters.read_bytes = Err(Reason::NOT_PERMITTED);
    now.counters.read_bytes = Err(Reason::NOT_PERMITTED);
    then.counters.written_bytes = Err(Reason::NOT_PERMITTED);
    then.counters.major_faults = Ok(5);
    let row = only(&sample(SECOND, vec![then]), &sample(2 * SECOND, vec![now]));
    let why = |column| row.figures.get(column).clone().unwrap_err();
    assert_eq!(why(Column::Read), Reason::NOT_PERMITTED);
    assert_eq!(
        why(Column::Written),
        Reason::FIRST_READING,
        "it can be read from now on"
    );
    assert!(why(Column::MajorFaults).text().contains("went back"));
    assert_eq!(why(Column::Wait), Reason::DID_NOT_RUN);
}

#[test]
fn a_process_that_was_not_visited_has_no_rates() {
    let then = reading(7, 1, SECOND, 5);
    let row = only(
        &sample(SECOND, vec![then.clone()]),
        &sample(2 * SECOND, vec![then]),
    );
    assert_eq!(row.figures.get(Column::Cpu), &Err(Reason::NOT_VISITED));
    assert_eq!(row.figures.number(Column::Rss), Some(4096.0));
}

fn group(path: &str, time_ns: u64, usage_ns: Option<u64>, memory: Option<u64>) -> GroupReading {
    GroupReading {
        path: path.to_owned(),
        time_ns,
        counters: steelyard_probe::GroupCounters {
            usage_ns,
            memory_bytes: memory,
            ..steelyard_probe::GroupCounters::default()
        },
    }
}

#[test]
fn a_group_has_what_its_controllers_count_and_else_the_sum_of_its_processes() {
    let mut before = sample(0, vec![reading(7, 1, 0, 0), reading(8, 1, 0, 0)]);
    before.groups = vec![
        group("/", 0, None, None),
        group("/web/api", 0, Some(0), None),
    ];
    let mut one = reading(7, 1, SECOND, SECOND / 4);
    one.counters.minor_faults = Ok(3);
    one.counters.read_bytes = Err(Reason::NOT_PERMITTED);
    let mut other = reading(8, 1, SECOND, SECOND / 4);
    other.counters.minor_faults = Ok(4);
    other.counters.wait_ns = Ok(SECOND / 2);
    let mut after = sample(SECOND, vec![one, other]);
    after.groups = vec![
        group("/", SECOND, None, None),
        group("/web/api", SECOND, Some(SECOND), Some(12_288)),
    ];
    let members = processes(&before, &after);
    let rows = groups(&before, &after, &members);
    let root = &rows[0].figures;
    assert_eq!(
        root.number(Column::Cpu),
        Some(0.5),
        "the sum of its processes"
    );
    assert_eq!(root.number(Column::Rss), Some(8192.0));
    assert_eq!(root.number(Column::MinorFaults), Some(7.0));
    assert_eq!(root.number(Column::Wait), Some(0.5));
    let why = root.get(Column::Read).clone().unwrap_err();
    assert!(
        why.text().starts_with("unknown for 1 of 2 processes"),
        "{why}"
    );
    let api = &rows[1].figures;
    assert_eq!(
        api.number(Column::Cpu),
        Some(1.0),
        "what its controller counted"
    );
    assert_eq!(api.number(Column::Rss), Some(12_288.0));
    assert_eq!((rows[0].depth, rows[1].depth), (0, 2));
    assert_eq!(rows[1].who.name, "api");
}

#[test]
fn groups_hold_those_below_them() {
    let before = sample(0, vec![reading(7, 1, 0, 0)]);
    let after = sample(SECOND, vec![reading(7, 1, SECOND, 0)]);
    let row = only(&before, &after);
    for (path, holds) in [
        ("/", true),
        ("/web", true),
        ("/web/api", true),
        ("/we", false),
        ("/web/api/x", false),
    ] {
        assert_eq!(is_in(&row, path), holds, "{path}");
    }
}

#[test]
fn the_machine_between_two_readings() {
    let reading = |time_ns, times| MachineReading {
        time_ns,
        cpus: 2,
        times_ns: Some(times),
        ..MachineReading::default()
    };
    let used = machine(
        &reading(0, [0, 0, 9]),
        &reading(SECOND, [SECOND, SECOND / 2, 8]),
    );
    assert_eq!(used.used, Some([1.0, 0.5, 0.0]));
}

proptest! {
    #[test]
    fn whatever_two_readings_hold_rates_are_finite_and_not_negative(
        from: u64, to: u64, from_ns: u64, to_ns: u64, wait: u64
    ) {
        let mut then = reading(7, 1, from_ns, from);
        then.counters.wait_ns = Ok(wait / 2);
        let mut now = reading(7, 1, to_ns, to);
        now.counters.wait_ns = Ok(wait);
        let row = only(&sample(from_ns, vec![then]), &sample(to_ns, vec![now]));
        for about in &crate::column::COLUMNS {
            if let Some(number) = row.figures.number(about.column) {
                prop_assert!(number.is_finite() && number >= 0.0, "{} {number}", about.key);
            }
        }
    }
}
