use std::collections::BTreeMap;

use super::*;
use crate::guard::testing::{moment, spec, specs_batch, specs_file};
use crate::rows::CPI_OF_COUNTERS;

fn file(specs: &[CpiSpec], leave_out: &str) -> Vec<u8> {
    specs_file(&specs_batch(specs, leave_out), None)
}

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

    fn list(&mut self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.access()?;
        let keys = self.files.keys().filter(|key| key.starts_with(prefix));
        Ok(keys.cloned().collect())
    }
}

fn built(job: &str, built_unix_s: i64) -> CpiSpec {
    CpiSpec {
        built_unix_s,
        ..spec(job, 1.8, 0.16, 2.12)
    }
}

fn key(date: &str, cluster: &str, name: &str) -> String {
    format!("cpi_specs/schema=1/date={date}/cluster={cluster}/{name}.parquet")
}

fn wanted() -> Wanted {
    Wanted {
        cluster: "c 1".into(),
        platform: "test".into(),
    }
}

const DAY: f64 = 86_400.0;

#[test]
fn the_newest_of_the_last_days_for_this_platform_and_cluster() {
    let mut store = Memory::default();
    let elsewhere = CpiSpec {
        platform: "other".into(),
        ..built("web", 99)
    };
    let mut put = |date: &str, cluster: &str, name: &str, rows: &[CpiSpec]| {
        store
            .put(&key(date, cluster, name), &file(rows, ""))
            .unwrap();
    };
    put("2000-01-10", "c%201", "a", &[built("web", 10), elsewhere]);
    put("2000-01-11", "all", "b", &[built("ads", 11)]);
    put("2000-01-12", "c%201", "c", &[built("web", 12)]);
    put("2000-01-12", "c2", "d", &[built("web", 50)]);
    put("1999-12-01", "c%201", "e", &[built("old", 1)]);
    let now = moment((10_957.0 + 11.0) * DAY + 100.0);
    let found = pull(&mut store, &wanted(), now).unwrap();
    assert!(found.broken.is_empty(), "{:?}", found.broken);
    let specs = Specs::newest(found.rows);
    assert_eq!(specs.find("web", CPI_OF_COUNTERS).unwrap().built_unix_s, 12);
    assert_eq!(specs.find("ads", CPI_OF_COUNTERS).unwrap().built_unix_s, 11);
    assert_eq!(specs.len(), 2);
}

#[test]
fn a_broken_file_is_named_and_the_others_are_read() {
    let mut store = Memory::default();
    let good = file(&[built("web", 12)], "");
    for (name, bytes) in [
        ("empty", Vec::new()),
        ("text", b"PAR1 no parquet at all PAR1".to_vec()),
        ("cut", good[..good.len() / 2].to_vec()),
        ("lacking", file(&[built("web", 12)], "cpi_sd")),
        ("good", good),
    ] {
        store.put(&key("1970-01-01", "all", name), &bytes).unwrap();
    }
    let found = pull(&mut store, &wanted(), moment(100.0)).unwrap();
    assert_eq!((found.rows.len(), found.broken.len()), (1, 4));
    assert!(
        found
            .broken
            .iter()
            .any(|reason| reason.contains("no column cpi_sd"))
    );
}

#[test]
fn a_store_that_is_away_leaves_what_was_known() {
    let mut store = Memory::default();
    let file = file(&[built("web", 12)], "");
    store.put(&key("1970-01-01", "all", "a"), &file).unwrap();
    let board = Board::default();
    post(
        &board,
        moment(100.0),
        pull(&mut store, &wanted(), moment(100.0)),
    );
    assert_eq!(board.look().specs.len(), 1);
    store.away = true;
    post(
        &board,
        moment(200.0),
        pull(&mut store, &wanted(), moment(200.0)),
    );
    let known = board.look();
    assert_eq!((known.specs.len(), known.pulled_unix_s), (1, Some(100.0)));
    assert!(known.failure.unwrap().contains("away"));
}

#[test]
fn the_thread_pulls_at_once_and_ends_when_it_is_dropped() {
    let mut store = Memory::default();
    let date = date_of(Moment::now().unix_whole_s());
    let file = file(&[built("web", 12)], "");
    store.put(&key(&date, "all", "a"), &file).unwrap();
    let board = Board::default();
    let hour = Duration::from_secs(3_600);
    let puller = Puller::start(Box::new(store), wanted(), hour, board.clone()).unwrap();
    while board.look().pulled_unix_s.is_none() {
        thread::yield_now();
    }
    assert_eq!(board.look().specs.len(), 1);
    drop(puller);
}
