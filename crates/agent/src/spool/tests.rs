use std::collections::BTreeMap;
use std::io::{Seek, Write};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::model::{Hit, Model};
use super::upload::{Step, Uploader};
use super::*;
use crate::rows::{JobClass, Labels, Task, TaskSample};
use crate::store::Directory;

const BATCH_S: i64 = 180;
const WINDOW_S: i64 = 60;
const WINDOWS: i64 = 8;
const BEGIN: i64 = 1_700_000_000 / 180 * 180;

fn settings() -> SpoolSettings {
    SpoolSettings {
        folder: "/spool".into(),
        origin: Origin {
            machine: "m/1".to_owned(),
            platform: "p".to_owned(),
            cluster: "c d".to_owned(),
        },
        batch_s: BATCH_S,
        bound_bytes: 1 << 30,
    }
}

fn rows(window_start_unix_s: i64) -> Vec<TaskSample> {
    let sample = |name: &str| {
        let task = Task {
            job: "job".to_owned(),
            task: name.to_owned(),
            job_class: JobClass::Batch,
            labels: Labels::new(),
            cgroup: "/".to_owned(),
        };
        TaskSample::bare(task, window_start_unix_s, 10.0, 0.1)
    };
    vec![sample("a"), sample("b")]
}

/// How often each task and window is in the store.
fn stored(disk: &Model) -> BTreeMap<(String, i64), usize> {
    let mut found = BTreeMap::new();
    for (name, bytes) in disk.files("/store") {
        if !name.ends_with(".parquet") {
            continue;
        }
        assert!(
            name.starts_with("task_samples/schema=2/date=2023-11-1"),
            "{name}"
        );
        assert!(name.contains("/cluster=c%20d/m%2F1."), "{name}");
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        file.rewind().unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)
            .unwrap()
            .build()
            .unwrap();
        for batch in reader {
            let batch = batch.unwrap();
            let tasks = batch["task"].as_string::<i32>();
            let times = batch["window_start_unix_s"].as_primitive::<Int64Type>();
            for row in 0..batch.num_rows() {
                let key = (tasks.value(row).to_owned(), times.value(row));
                *found.entry(key).or_insert(0) += 1;
            }
        }
    }
    found
}

fn uploader(disk: &Model, spool: &Spool<Model>) -> Uploader<Model> {
    let store = Box::new(Directory::new(Path::new("/store"), disk.clone()));
    Uploader::new(
        disk.clone(),
        Path::new("/spool"),
        store,
        true,
        spool.in_flight(),
    )
}

/// An agent's life from `window` on: adds, seals and uploads until the disk is gone or all is done. Returns where to
/// go on; notes what was acknowledged.
fn live(disk: &Model, mut window: i64, acknowledged: &mut Vec<i64>) -> io::Result<i64> {
    let mut spool = Spool::open(disk.clone(), settings())?;
    let mut uploader = uploader(disk, &spool);
    while window < WINDOWS {
        let start = BEGIN + window * WINDOW_S;
        if spool.add(&rows(start)).is_ok() {
            acknowledged.push(start);
        }
        window += 1;
        if disk.is_dead() {
            return Ok(window);
        }
        let _ = spool.seal_ended(start + WINDOW_S);
        let _ = uploader.step(start);
        let _ = uploader.step(start);
        if disk.is_dead() {
            return Ok(window);
        }
    }
    let _ = spool.seal_all();
    while let Ok(Step::Uploaded { .. }) = uploader.step(0) {}
    Ok(window)
}

/// Lets `hit` happen at `step`, revives the machine, ends the work, and returns whether the step was reached.
fn survive(step: usize, hit: Hit) -> bool {
    let disk = Model::default();
    disk.plan(step, hit);
    let mut acknowledged = Vec::new();
    let window = live(&disk, 0, &mut acknowledged).unwrap_or(0);
    let reached = disk.steps() > step;
    disk.revive();
    let window = live(&disk, window, &mut acknowledged).expect("the disk is well again");
    assert_eq!(window, WINDOWS);
    let stored = stored(&disk);
    for task in ["a", "b"] {
        for start in &acknowledged {
            let times = stored.get(&(task.to_owned(), *start));
            assert_eq!(times, Some(&1), "{hit:?} at step {step}: {task} at {start}");
        }
    }
    assert!(
        stored.values().all(|times| *times == 1),
        "{hit:?} at step {step}: {stored:?}"
    );
    let left = disk.files("/spool");
    let left: Vec<&String> = left.keys().filter(|name| *name != "lost.json").collect();
    assert!(left.is_empty(), "{hit:?} at step {step} left {left:?}");
    if !reached {
        assert_eq!(acknowledged.len() as i64, WINDOWS);
    }
    reached
}

#[test]
fn nothing_is_lost_or_doubled_wherever_it_stops() {
    for hit in [Hit::Kill, Hit::Power, Hit::Fail, Hit::Full] {
        let steps = (0..10_000).take_while(|step| survive(*step, hit)).count();
        assert!(steps > 50, "{hit:?}: only {steps} steps were hit");
    }
}

#[test]
fn two_stops_in_a_row_lose_nothing_either() {
    for first in (0..90).step_by(7) {
        for second in (0..60).step_by(3) {
            let disk = Model::default();
            let mut acknowledged = Vec::new();
            disk.plan(first, Hit::Kill);
            let window = live(&disk, 0, &mut acknowledged).unwrap_or(0);
            disk.revive();
            disk.plan(second, Hit::Power);
            let window = live(&disk, window, &mut acknowledged).unwrap_or(window);
            disk.revive();
            live(&disk, window, &mut acknowledged).unwrap();
            let stored = stored(&disk);
            let missing = |start: &&i64| stored.get(&("b".to_owned(), **start)) != Some(&1);
            assert_eq!(acknowledged.iter().find(missing), None, "{first}, {second}");
        }
    }
}

#[test]
fn a_store_that_is_away_is_waited_for_and_the_oldest_dropped_and_counted() {
    let disk = Model::default();
    let mut settings = settings();
    settings.bound_bytes = 30_000;
    let mut spool = Spool::open(disk.clone(), settings.clone()).unwrap();
    let store = Box::new(Directory::new(Path::new("/store"), disk.clone()));
    let mut uploader = Uploader::new(
        disk.clone(),
        Path::new("/spool"),
        store,
        false,
        spool.in_flight(),
    );
    let mut waits = Vec::new();
    for window in 0..60 {
        let start = BEGIN + window * WINDOW_S;
        spool.add(&rows(start)).unwrap();
        spool.seal_ended(start + WINDOW_S).unwrap();
        uploader.step(start).unwrap_err();
        waits.push(uploader.wait_s());
    }
    assert_eq!(&waits[..4], [1.0, 2.0, 4.0, 8.0]);
    assert_eq!(waits[59], 300.0);
    assert!(
        uploader
            .figures
            .last_error
            .as_ref()
            .unwrap()
            .contains("is no store")
    );
    let (lost, held) = (spool.lost().clone(), spool.ready().unwrap());
    assert_eq!(lost.files as usize + held.len(), 20);
    assert!(lost.files > 0 && held.len() > 1, "{lost:?}");
    let bytes: usize = disk.files("/spool/ready").values().map(Vec::len).sum();
    assert!(bytes <= 30_000);
    // What was lost is known after a restart, and what is left arrives when the store is there.
    drop(spool);
    let spool = Spool::open(disk.clone(), settings).unwrap();
    assert_eq!(*spool.lost(), lost);
    crate::store::check(&mut Directory::new(Path::new("/store"), disk.clone()), true).unwrap();
    while let Step::Uploaded { .. } = uploader.step(1).unwrap() {}
    assert_eq!(uploader.figures.files as usize, held.len());
    assert_eq!(stored(&disk).len(), held.len() * 6);
}

#[test]
fn a_clock_that_is_set_back_and_a_new_name_begin_other_batches() {
    let disk = Model::default();
    let mut spool = Spool::open(disk.clone(), settings()).unwrap();
    for start in [BEGIN + 3600, BEGIN, BEGIN + 3600] {
        spool.add(&rows(start)).unwrap();
    }
    assert_eq!(spool.ready().unwrap().len(), 2);
    drop(spool);
    let mut other = settings();
    other.origin.machine = "m2".to_owned();
    let mut spool = Spool::open(disk.clone(), other).unwrap();
    spool.add(&rows(BEGIN)).unwrap();
    spool.seal_all().unwrap();
    let names: Vec<String> = spool
        .ready()
        .unwrap()
        .into_iter()
        .map(|file| file.name)
        .collect();
    assert_eq!(
        names
            .iter()
            .filter(|name| name.starts_with("m%2F1."))
            .count(),
        3
    );
    assert_eq!(
        names.iter().filter(|name| name.starts_with("m2.")).count(),
        1
    );
}

#[test]
fn names_of_waiting_files_are_read_back() {
    let ready = Ready {
        id: "0000000000000001".to_owned(),
        table: Table::Profiles,
        date: "2026-01-02".to_owned(),
        cluster: "a%2Cb".to_owned(),
        name: "m.1.0123456789abcdef.parquet".to_owned(),
    };
    assert_eq!(Ready::parse(&ready.file_name()), Some(ready.clone()));
    assert_eq!(
        ready.key(),
        "profiles/schema=1/date=2026-01-02/cluster=a%2Cb/m.1.0123456789abcdef.parquet"
    );
    for odd in [
        "",
        "a",
        "1,tables,d,c,x.parquet",
        "1,profiles,d,c,x.partial",
        "1,profiles,d,,x.parquet",
    ] {
        assert_eq!(Ready::parse(odd), None, "{odd}");
    }
}
