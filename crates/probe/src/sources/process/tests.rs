//! The processes of a tree that changes between ticks.

use proptest::prelude::*;

use super::*;
use crate::testing::Bench;

fn stat(pid: u32, command: &str, user: u64, threads: u64, start: u64) -> String {
    format!(
        "{pid} ({command}) S 1 {pid} {pid} 0 -1 4194304 10 0 2 0 {user} 1 0 0 20 0 {threads} 0 {start} 3133440 3 18\n"
    )
}

/// A tree with a process of each (pid, clock ticks in user mode).
fn bench(processes: &[(u32, u64)]) -> Bench {
    let bench = Bench::new(&[("proc/loadavg", "0 0 0 1/2 100\n"), ("proc/self/stat", "")]);
    for (pid, user) in processes {
        set(&bench, *pid, *user);
    }
    bench
}

fn set(bench: &Bench, pid: u32, user: u64) {
    bench.write(&format!("proc/{pid}/stat"), &stat(pid, "sh", user, 1, 7));
    bench.write(
        &format!("proc/{pid}/schedstat"),
        &format!("{} 0 1\n", user * 10_000_000 + 5),
    );
}

fn row(pid: u32, user: u64) -> String {
    let rss = 3 * page_bytes();
    format!("{pid} 7 sh {} 10000000 {rss} 1 10 2", user * 10_000_000)
}

#[test]
fn only_who_ran_gets_a_row_and_who_ran_most_comes_first() {
    let mut bench = bench(&[(10, 5), (20, 50), (30, 1)]);
    bench.open(&DEFINITION).expect("there are processes");
    assert_eq!(bench.tick(), [row(20, 50), row(10, 5), row(30, 1)]);
    assert_eq!(bench.tick(), [] as [String; 0]);
    set(&bench, 30, 2);
    set(&bench, 10, 9);
    bench.pass_seconds(1);
    assert_eq!(bench.tick(), [row(10, 9), row(30, 2)]);
}

#[test]
fn a_process_that_ends_loses_its_row_and_a_new_one_is_found_when_ids_were_handed_out() {
    let mut bench = bench(&[(10, 5), (20, 5)]);
    bench.open(&DEFINITION).expect("there are processes");
    bench.tick();
    bench.remove("proc/10");
    set(&bench, 20, 6);
    set(&bench, 101, 3);
    assert_eq!(bench.tick(), [row(20, 6)], "too early for a look");
    bench.pass_seconds(2);
    set(&bench, 20, 7);
    assert_eq!(bench.tick(), [row(20, 7)], "no ids were handed out");
    bench.write("proc/loadavg", "0 0 0 1/2 101\n");
    assert_eq!(bench.tick(), [row(101, 3)]);
    // Even if the last id does not tell, a look is taken some day.
    set(&bench, 11, 4);
    bench.pass_seconds(11);
    assert_eq!(bench.tick(), [row(11, 4)]);
}

#[test]
fn an_id_that_is_used_again_is_another_process() {
    let mut bench = bench(&[(10, 50), (20, 1)]);
    bench.open(&DEFINITION).expect("there are processes");
    bench.tick();
    bench.remove("proc/10");
    assert_eq!(bench.tick(), [] as [String; 0]);
    bench.write("proc/10/stat", &stat(10, "new", 2, 1, 99));
    bench.write("proc/loadavg", "0 0 0 1/2 10\n");
    bench.pass_seconds(2);
    let rows = bench.tick();
    assert_eq!(rows.len(), 1);
    assert!(rows[0].starts_with("10 99 new 20000000 "), "{rows:?}");
}

#[test]
fn a_process_at_rest_is_visited_less_and_less_but_at_the_last_tick() {
    let mut bench = bench(&[(10, 5)]);
    bench.open(&DEFINITION).expect("there are processes");
    bench.tick();
    for _ in 0..60 {
        bench.pass_seconds(1);
        assert_eq!(bench.tick(), [] as [String; 0]);
    }
    set(&bench, 10, 6);
    let visited_after = (1..=10).find(|_| {
        bench.pass_seconds(1);
        !bench.tick().is_empty()
    });
    assert!(visited_after <= Some(5), "{visited_after:?} seconds");
    for _ in 0..60 {
        bench.pass_seconds(1);
        bench.tick();
    }
    bench.tick();
    set(&bench, 10, 7);
    assert_eq!(bench.tick(), [] as [String; 0]);
    assert_eq!(bench.last_tick(), [row(10, 7)]);
}

#[test]
fn a_process_whose_only_thread_sleeps_but_whose_others_run_is_not_missed() {
    let mut bench = bench(&[(10, 5)]);
    bench.write("proc/10/stat", &stat(10, "sh", 5, 4, 7));
    bench.open(&DEFINITION).expect("there are processes");
    bench.tick();
    // The first thread's time stands still in schedstat.
    bench.write("proc/10/stat", &stat(10, "sh", 8, 4, 7));
    assert_eq!(bench.tick().len(), 1);
}

#[test]
fn a_tick_has_a_bounded_number_of_rows_and_visits_all_in_turn() {
    let processes: Vec<(u32, u64)> = (1..=600).map(|pid| (pid, u64::from(pid))).collect();
    let mut bench = bench(&processes);
    bench.open(&DEFINITION).expect("there are processes");
    // In a recorded tree no file stays open, so that a tick visits VISITS processes.
    let ticks = processes.len().div_ceil(VISITS);
    let mut seen = 0;
    for tick in 0..ticks {
        let rows = bench.tick().len();
        let most = if tick == 0 { FIRST_ROWS } else { ROWS };
        assert!(rows <= most.min(VISITS), "{rows} rows");
        seen += rows;
    }
    assert_eq!(seen, VISITS + (ticks - 1) * ROWS);
    bench.pass_seconds(1);
    assert_eq!(
        bench.tick(),
        [] as [String; 0],
        "all were visited, none has run"
    );
    set(&bench, 600, 700);
    bench.pass_seconds(1);
    let later: usize = (0..ticks).map(|_| bench.tick().len()).sum();
    assert_eq!(later, 1, "whoever runs is seen when its turn comes");
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(text: Vec<u8>, numbers in "[(][ -~]{0,5}[)]( [0-9]{1,25}){0,25}") {
        let _ = Stat::parse(&text);
        let _ = Stat::parse(numbers.as_bytes());
    }
}
