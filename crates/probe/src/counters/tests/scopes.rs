//! Processes, threads, control groups and the limits they meet.

use super::*;

#[test]
fn all_threads_of_a_process_are_added_up() {
    let machine = Machine::x86();
    for thread in [77, 78, 79] {
        machine.write(&format!("proc/77/task/{thread}/stat"), "");
    }
    let mut counting = machine
        .open(&settings(Scope::Process, &["77", "99"], &general(1)))
        .expect("counted");
    machine.kernel.pass(1_000_000);
    assert_eq!(
        counting.rows(),
        ["process 77 cpu e0 0 33000 3000000 3000000"]
    );
    assert_eq!(
        counting.missing()["process 99"],
        "there is no such process, or it has ended"
    );
}

#[test]
fn a_thread_that_has_ended_is_no_hindrance_and_another_users_process_is() {
    let machine = Machine::with(
        Fake::default()
            .refuse_context("thread 78", libc::ESRCH)
            .refuse_context("thread 88", libc::EACCES),
    );
    for (process, thread) in [(77, 77), (77, 78), (88, 87), (88, 88)] {
        machine.write(&format!("proc/{process}/task/{thread}/stat"), "");
    }
    let mut counting = machine
        .open(&settings(Scope::Process, &["77", "88"], &general(1)))
        .expect("counted");
    assert_eq!(counting.rows().len(), 1);
    assert!(
        counting.missing()["process 88"].contains("another user's"),
        "{:?}",
        counting.missing()
    );
    assert_eq!(machine.kernel.open_events(), 1, "nothing half open stays");
}

#[test]
fn where_only_user_mode_is_allowed_the_name_says_so() {
    let machine = Machine::with(Fake::default().refuse_kernel_mode());
    machine.write("proc/sys/kernel/perf_event_paranoid", "2\n");
    machine.write("proc/77/task/77/stat", "");
    let events = [
        event("instructions", 1),
        software("page-faults", 2),
        software("task-clock", 1),
        software("context-switches", 3),
    ];
    let mut counting = machine
        .open(&settings(Scope::Process, &["77"], &events))
        .expect("counted");
    let names: Vec<String> = counting.groups().into_keys().collect();
    assert_eq!(names, ["instructions:u", "page-faults:u", "task-clock"]);
    let missing = counting.missing();
    assert!(
        missing["instructions"].ends_with("in user mode it is counted as instructions:u"),
        "{missing:?}"
    );
    assert!(
        missing["context-switches"].contains("kernel.perf_event_paranoid=1"),
        "{missing:?}"
    );
}

fn cgroups(kernel: Fake) -> Machine {
    let machine = Machine::with(kernel);
    machine.write("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
    for group in ["a", "b"] {
        machine.write(&format!("sys/fs/cgroup/{group}/cgroup.procs"), "");
    }
    machine
}

#[test]
fn control_groups_are_counted_on_every_cpu() {
    let machine = cgroups(Fake::default());
    let wanted = settings(Scope::Cgroup, &["/a", "/absent", "/b/../a"], &general(1));
    let mut counting = machine.open(&wanted).expect("counted");
    machine.kernel.pass(1_000_000);
    assert_eq!(
        counting.rows(),
        ["cgroup /a cpu e0 0 22000 2000000 2000000"]
    );
    let missing = counting.missing();
    assert!(
        missing["control group /absent"].contains("does not exist"),
        "{missing:?}"
    );
    assert!(
        missing["control group /b/../a"].contains(".."),
        "{missing:?}"
    );
    machine.write(
        "proc/mounts",
        "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n",
    );
    let refused = machine.open(&settings(Scope::Cgroup, &["/a"], &general(1)));
    assert!(
        refused
            .err()
            .expect("refused")
            .reason
            .contains("hierarchy is mounted")
    );
}

#[test]
fn a_cpu_that_is_gone_is_passed_over() {
    let machine = cgroups(Fake::default().refuse_cpu(1, libc::ENODEV));
    let mut counting = machine
        .open(&settings(Scope::Cgroup, &["/b"], &general(1)))
        .expect("counted");
    machine.kernel.pass(1_000_000);
    assert_eq!(
        counting.rows(),
        ["cgroup /b cpu e0 0 11000 1000000 1000000"]
    );
}

#[test]
fn entities_beyond_the_limit_of_files_are_left_out_whole() {
    // Two CPUs, two events: four files a group, and half of so low a limit stays free for others.
    let machine = cgroups(Fake::default().file_limit(8));
    let mut counting = machine
        .open(&settings(Scope::Cgroup, &["/a", "/b"], &general(2)))
        .expect("counted");
    assert_eq!(counting.groups().len(), 2);
    assert!(
        counting
            .rows()
            .iter()
            .all(|row| row.starts_with("cgroup /a"))
    );
    assert!(
        counting.missing()["control group /b"].contains("ulimit -Hn"),
        "{:?}",
        counting.missing()
    );
    assert_eq!(machine.kernel.open_events(), 4);
}
