//! Orders of rows.

use super::*;
use crate::session::By;
use crate::testing::{FakeCounters, Machine};
use crate::{Figures, Reason};

fn rows() -> Vec<Row> {
    let machine = Machine::new();
    machine.process(12, "idle", 0, 0);
    let mut session = machine.session(By::Process, FakeCounters::default());
    session.look();
    machine.pass(100);
    let mut rows = session.look().rows;
    rows[1].figures.set(Column::Ipc, Ok(0.5));
    rows[2].figures.set(Column::Ipc, Ok(2.5));
    rows
}

fn pids(rows: &[Row]) -> Vec<u32> {
    rows.iter()
        .map(|row| match row.subject {
            Subject::Task(id) => id.pid,
            Subject::Group(_) => 0,
        })
        .collect()
}

#[test]
fn the_largest_first_and_what_is_missing_last_either_way() {
    let mut rows = rows();
    sort(&mut rows, Sort::Cpu, false);
    assert_eq!(pids(&rows), [7, 9, 12]);
    sort(&mut rows, Sort::Ipc, false);
    assert_eq!(pids(&rows), [12, 9, 7]);
    sort(&mut rows, Sort::Ipc, true);
    assert_eq!(pids(&rows), [9, 12, 7]);
}

#[test]
fn the_least_local_memory_comes_first() {
    let mut figures = Figures::missing(&Reason::NOT_REPORTED);
    figures.set(Column::Numa, Ok(0.9));
    let far = {
        let mut figures = figures.clone();
        figures.set(Column::Numa, Ok(0.1));
        figures
    };
    assert!(Sort::Numa.key(&far) > Sort::Numa.key(&figures));
    assert_eq!(Sort::Io.key(&figures), None);
}

#[test]
fn groups_stand_under_their_own() {
    let machine = Machine::new();
    machine.process(12, "idle", 0, 0);
    machine.write("proc/12/cgroup", "0::/system\n");
    let mut session = machine.session(By::Cgroup, FakeCounters::default());
    session.look();
    machine.pass(100);
    let paths = |reverse| {
        let mut snapshot = session_rows(&machine);
        snapshot = sort_tree(snapshot, Sort::Cpu, reverse);
        snapshot
            .iter()
            .map(|row| row.who.command.clone().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        paths(false),
        ["/", "/apps", "/apps/7", "/apps/9", "/system"]
    );
    assert_eq!(paths(true), ["/", "/system", "/apps", "/apps/9", "/apps/7"]);
}

fn session_rows(machine: &Machine) -> Vec<Row> {
    let mut session = machine.session(By::Cgroup, FakeCounters::default());
    session.look();
    machine.pass(machine.now_ns.get() / 10_000_000);
    session.look().rows
}

#[test]
fn a_filter_finds_names_commands_users_groups_and_ids() {
    let rows = rows();
    let found = |text: &str| rows.iter().filter(|row| matches(row, text)).count();
    assert_eq!(found("API"), 1);
    assert_eq!(found("8080"), 3);
    assert_eq!(found("web"), 3, "the user");
    assert_eq!(found("/apps/9"), 1);
    assert_eq!(found("12"), 1);
    assert_eq!(found("nothing"), 0);
}
