//! The golden records, which the control plane's tests read too: each must come through this crate whole.

use std::path::{Path, PathBuf};

use serde_json::Value;
use steelyard_record::{
    CacheStats, CapacityResult, Colocation, CounterPlan, HealthResult, LoadResult, Machine,
    NumaScore, RankStats, Record, RecordError, Run, Suite, SweepResult, TaxResult, Telemetry, read,
    write_atomically,
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
    comes_through_whole::<Colocation>();
    comes_through_whole::<CounterPlan>();
    comes_through_whole::<HealthResult>();
    comes_through_whole::<LoadResult>();
    comes_through_whole::<Machine>();
    comes_through_whole::<NumaScore>();
    comes_through_whole::<RankStats>();
    comes_through_whole::<Run>();
    comes_through_whole::<Suite>();
    comes_through_whole::<CapacityResult>();
    comes_through_whole::<SweepResult>();
    comes_through_whole::<TaxResult>();
    comes_through_whole::<Telemetry>();
    // Vectors are inputs and expected outputs of formulas, not records: their own tests read them. What `top` prints
    // nobody in this workspace reads: its crate holds the golden record. What commands print is Python's alone.
    let printed = [
        "comparison",
        "doctor",
        "experiment",
        "experiment_answer",
        "experiment_plan",
        "health_check",
        "install",
        "installation",
        "knob_list",
        "list",
        "machine_check",
        "machine_diff",
        "numa_experiment",
        "numa_map",
        "numa_plan",
        "preflight",
        "pressure_matrix",
        "restoration",
        "run_score",
        "scaling",
        "softsku_state",
        "suite_comparison",
        "suite_score",
        "top",
        "tuning",
        "uninstall",
    ];
    let files = std::fs::read_dir(golden("run").parent().expect("a folder")).expect("a folder");
    let names = files.map(|file| file.expect("a file").file_name());
    let records = names.filter(|name| {
        let name = name.to_string_lossy();
        let stem = name.strip_suffix(".json");
        stem.is_some_and(|stem| !stem.ends_with("_vectors") && !printed.contains(&stem))
    });
    assert_eq!(records.count(), 14, "a golden record without a test");
}

/// Reads the golden run with its opening fields replaced.
fn read_altered(field: &str, to: &str) -> Result<Run, RecordError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.json");
    let mut altered = value(&golden("run"));
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
