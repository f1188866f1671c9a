//! Readings, counters and samples joined.

use super::*;
use crate::format;
use crate::testing::{FakeCounters, Machine};

fn row(snapshot: &Snapshot, pid: u32) -> &Row {
    snapshot
        .rows
        .iter()
        .find(|row| matches!(row.subject, Subject::Task(id) if id.pid == pid))
        .expect("a row")
}

#[test]
fn the_first_look_has_no_rates_and_the_second_has() {
    let machine = Machine::new();
    let mut session = machine.session(By::Process, FakeCounters::default());
    let first = session.look();
    assert_eq!(
        row(&first, 7).figures.get(Column::Cpu),
        &Err(Reason::FIRST_READING)
    );
    assert_eq!(first.own_cpus, None);
    machine.pass(100);
    let second = session.look();
    let api = row(&second, 7);
    assert_eq!(api.figures.number(Column::Cpu), Some(1.0));
    assert_eq!(api.figures.number(Column::Wait), Some(0.5));
    assert_eq!(api.figures.number(Column::MinorFaults), Some(100.0));
    assert_eq!(row(&second, 9).figures.number(Column::Cpu), Some(0.0));
    assert_eq!(second.machine.used, Some([1.0, 0.0, 0.0]));
    assert_eq!(second.own_cpus, Some(0.01));
    assert_eq!((second.processes, second.threads), (2, 2));
    assert!(second.notes.iter().any(|note| note.starts_with("NUMA: ")));
    assert!(
        second
            .notes
            .iter()
            .any(|note| note.contains("nothing samples in tests"))
    );
}

#[test]
fn instructions_per_cycle_or_why_not() {
    let machine = Machine::new();
    let counters = FakeCounters {
        step: ipc::Count {
            cycles: 2e9,
            instructions: 3e9,
        },
        ..FakeCounters::default()
    };
    let mut session = machine.session(By::Process, counters);
    session.look();
    machine.pass(100);
    let second = session.look();
    assert_eq!(row(&second, 7).figures.number(Column::Ipc), Some(1.5));
    assert_eq!(
        row(&second, 9).figures.get(Column::Ipc),
        &Err(ipc::NOT_COUNTED)
    );

    let counters = FakeCounters {
        unavailable: Some(Reason::Fixed("no counters here")),
        ..FakeCounters::default()
    };
    let mut session = machine.session(By::Process, counters);
    session.look();
    machine.pass(200);
    let snapshot = session.look();
    assert_eq!(
        row(&snapshot, 7).figures.get(Column::Ipc),
        &Err(Reason::Fixed("no counters here"))
    );
    assert_eq!(snapshot.notes[0], "IPC: no counters here");
}

#[test]
fn groups_and_threads_of_the_same_machine() {
    let machine = Machine::new();
    let counters = FakeCounters {
        step: ipc::Count {
            cycles: 1e9,
            instructions: 5e8,
        },
        ..FakeCounters::default()
    };
    let mut session = machine.session(By::Cgroup, counters);
    session.look();
    machine.pass(50);
    let snapshot = session.look();
    let group = |path: &str| {
        snapshot
            .rows
            .iter()
            .find(|row| matches!(&row.subject, Subject::Group(of) if &**of == path))
            .expect("a group")
    };
    assert_eq!(group("/").figures.number(Column::Cpu), Some(0.5));
    assert_eq!(group("/apps/7").figures.number(Column::Cpu), Some(0.5));
    assert_eq!(group("/apps/7").figures.number(Column::Ipc), Some(0.5));
    assert_eq!(group("/apps/9").figures.number(Column::Cpu), Some(0.0));
    session.set_by(By::Thread);
    machine.pass(60);
    assert_eq!(
        row(&session.look(), 7).figures.get(Column::Cpu),
        &Err(Reason::FIRST_READING),
        "threads were not read before"
    );
    machine.pass(160);
    let snapshot = session.look();
    assert_eq!(row(&snapshot, 7).figures.number(Column::Cpu), Some(1.0));
    assert_eq!(snapshot.by, By::Thread);
}

#[test]
fn no_name_brings_an_escape_sequence_to_the_output() {
    let machine = Machine::new();
    let mut session = machine.session(By::Process, FakeCounters::default());
    session.look();
    machine.pass(10);
    let snapshot = session.look();
    let rows: Vec<&Row> = snapshot.rows.iter().collect();
    let table = crate::text::table(&snapshot, &rows);
    assert!(table.contains(" batch?[31m --port 8080"), "{table}");
    let document = crate::json::document(&snapshot, &rows, "cpu");
    for text in [table, document] {
        assert!(
            text.chars()
                .all(|letter| letter == '\n' || !letter.is_control())
        );
        assert!(!text.contains("\\u00"), "not even in a JSON escape");
    }
}

/// The document of a machine's second look.
fn document(by: By) -> serde_json::Value {
    let machine = Machine::new();
    let mut session = machine.session(by, FakeCounters::default());
    session.look();
    machine.pass(10);
    let snapshot = session.look();
    let rows: Vec<&Row> = snapshot.rows.iter().collect();
    let document = crate::json::document(&snapshot, &rows, "cpu");
    serde_json::from_str(&document).unwrap()
}

#[test]
fn json_has_a_reason_beside_every_null() {
    let document = document(By::Process);
    assert_eq!(document["schema_version"], "1.0");
    for row in document["rows"].as_array().unwrap() {
        for about in &crate::column::COLUMNS {
            let is_null = row[about.key].is_null();
            assert_eq!(
                is_null,
                row["missing"].get(about.key).is_some(),
                "{}",
                about.key
            );
        }
    }
    assert_eq!(
        document["rows"][0]["missing"]["numa_score"],
        Reason::ONE_NODE.text()
    );
    assert_eq!(format::MISSING, "-");
}

/// The names of an object's fields.
fn keys(value: &serde_json::Value) -> Vec<&String> {
    let mut keys: Vec<&String> = value.as_object().expect("an object").keys().collect();
    keys.sort();
    keys
}

#[test]
fn json_has_the_fields_of_the_golden_record() {
    let golden = include_str!("../../../../schemas/golden/top.json");
    let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
    let document = document(By::Thread);
    assert_eq!(keys(&document), keys(&golden));
    assert_eq!(keys(&document["machine"]), keys(&golden["machine"]));
    assert_eq!(keys(&document["rows"][0]), keys(&golden["rows"][0]));
}
