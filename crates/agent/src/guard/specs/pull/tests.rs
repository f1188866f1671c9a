use std::collections::BTreeMap;

use super::*;
use crate::guard::testing::{moment, spec, specs_file};
use crate::rows::CPI_OF_COUNTERS;

/// A store in memory that may be away.
#[derive(Default)]
struct Memory {
    files: BTreeMap<String, Vec<u8>>,
    away: bool,
}

impl Memory {
    fn access(&self) -> Result<(), StoreError> {
        if self.away {
            return Err(StoreError::Access {
                place: "memory".into(),
                reason: "away".into(),
            });
        }
        Ok(())
    }
}

impl Store for Memory {
    fn url(&self) -> &str {
        "memory"
    }

    fn put(&mut self, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.files.insert(key.into(), bytes.into());
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.access()?;
        Ok(self.files.get(key).cloned())
    }
}

fn built(job: &str, built_unix_s: i64) -> CpiSpec {
    CpiSpec {
        built_unix_s,
        ..spec(job, 1.8, 0.16, 2.12)
    }
}

fn wanted() -> Wanted {
    Wanted {
        cluster: "c 1".into(),
        platform: "test".into(),
    }
}

#[test]
fn the_newest_of_those_for_this_cluster_and_for_all() {
    let mut store = Memory::default();
    let mut put = |cluster: &str, platform: &str, rows: &[CpiSpec]| {
        let file = specs_file(rows, platform);
        store.put(&key_of(cluster, platform), &file).unwrap();
    };
    put("c 1", "test", &[built("web", 12), built("own", 3)]);
    put("all", "test", &[built("web", 10), built("ads", 11)]);
    put("c2", "test", &[built("web", 50)]);
    put("all", "other", &[built("web", 99)]);
    let found = pull(&mut store, &wanted()).unwrap();
    assert!(found.broken.is_empty(), "{:?}", found.broken);
    let specs = Specs::newest(found.rows);
    let when = |job| specs.find(job, CPI_OF_COUNTERS).unwrap().built_unix_s;
    assert_eq!((when("web"), when("ads"), when("own")), (12, 11, 3));
    assert_eq!(specs.len(), 3);
}

#[test]
fn a_broken_file_is_named_and_the_other_is_read() {
    let mut store = Memory::default();
    let good = specs_file(&[built("web", 12)], "test");
    store.put(&key_of("all", "test"), &good).unwrap();
    let cut = &good[..good.len() / 2];
    store.put(&key_of("c 1", "test"), cut).unwrap();
    let found = pull(&mut store, &wanted()).unwrap();
    assert_eq!((found.rows.len(), found.broken.len()), (1, 1));
    let reason = &found.broken[0];
    assert!(
        reason.starts_with("published/cpi_specs/cluster=c%201/platform=test.json: "),
        "{reason}"
    );
}

#[test]
fn a_machine_of_the_cluster_all_reads_its_file_once() {
    let mut store = Memory::default();
    let file = specs_file(&[built("web", 12)], "test");
    store.put(&key_of("all", "test"), &file).unwrap();
    let wanted = Wanted {
        cluster: "all".into(),
        ..wanted()
    };
    assert_eq!(pull(&mut store, &wanted).unwrap().rows.len(), 1);
}

#[test]
fn a_store_that_is_away_leaves_what_was_known() {
    let mut store = Memory::default();
    let file = specs_file(&[built("web", 12)], "test");
    store.put(&key_of("all", "test"), &file).unwrap();
    let board = Board::default();
    post(&board, moment(100.0), pull(&mut store, &wanted()));
    assert_eq!(board.look().specs.len(), 1);
    store.away = true;
    post(&board, moment(200.0), pull(&mut store, &wanted()));
    let known = board.look();
    assert_eq!((known.specs.len(), known.pulled_unix_s), (1, Some(100.0)));
    assert!(known.failure.unwrap().contains("away"));
}

#[test]
fn the_thread_pulls_at_once_and_ends_when_it_is_dropped() {
    let mut store = Memory::default();
    let file = specs_file(&[built("web", 12)], "test");
    store.put(&key_of("all", "test"), &file).unwrap();
    let board = Board::default();
    let hour = Duration::from_secs(3_600);
    let puller = Puller::start(Box::new(store), wanted(), hour, board.clone()).unwrap();
    while board.look().pulled_unix_s.is_none() {
        thread::yield_now();
    }
    assert_eq!(board.look().specs.len(), 1);
    drop(puller);
}
