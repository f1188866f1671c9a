//! The golden records, which the control plane's tests read too: each must come through this crate whole.

use std::path::{Path, PathBuf};

use serde_json::Value;
use steelyard_record::{
    CacheStats, CapacityResult, CounterPlan, CpiSpecs, HealthResult, LoadResult, NumaScore,
    RankStats, Record, RecordError, SweepResult, TaxResult, Telemetry, read, write_atomically,
};

fn golden(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/golden/{kind}.json"))
}

fn value(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("JSON")
}

fn comes_through_whole<R: Record>() {
    let path = golden(R::KIND);
    let record: R = read(&path).expect("a record of this version");
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy.json");
    write_atomically(&record, &copy).expect("written");
    assert_eq!(value(&copy), value(&path), "{}", R::KIND);
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        1,
        "no partial file stays"
    );
}

#[test]
fn every_golden_record_comes_through_whole() {
    comes_through_whole::<CacheStats>();
    comes_through_whole::<CounterPlan>();
    comes_through_whole::<CpiSpecs>();
    comes_through_whole::<HealthResult>();
    comes_through_whole::<LoadResult>();
    comes_through_whole::<NumaScore>();
    comes_through_whole::<RankStats>();
    comes_through_whole::<CapacityResult>();
    comes_through_whole::<SweepResult>();
    comes_through_whole::<TaxResult>();
    comes_through_whole::<Telemetry>();
}

/// Reads the golden load with its opening fields replaced.
fn read_altered(field: &str, to: &str) -> Result<LoadResult, RecordError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("load.json");
    let mut altered = value(&golden("load_result"));
    altered[field] = Value::from(to);
    std::fs::write(&path, altered.to_string()).expect("written");
    read(&path)
}

#[test]
fn an_unknown_major_version_is_refused_in_one_clear_line() {
    for version in ["2.0", "0.9", "1", "one.two", ""] {
        let error = read_altered("schema_version", version).expect_err("refused");
        assert!(matches!(error, RecordError::Version { .. }), "{error}");
        let line = error.to_string();
        assert!(
            line.contains("schema version") && line.contains("1.x") && !line.contains('\n'),
            "{line}"
        );
    }
}

#[test]
fn a_newer_minor_version_is_read_and_its_new_fields_ignored() {
    read_altered("schema_version", "1.7").expect("read");
    read_altered("field_of_the_future", "x").expect("read");
}

#[test]
fn another_kind_is_refused() {
    let error = read_altered("kind", "machine").expect_err("refused");
    assert!(matches!(error, RecordError::Kind { .. }), "{error}");
}
