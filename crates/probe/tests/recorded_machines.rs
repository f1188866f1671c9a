//! Real machines' trees, recorded by others: their cores, nodes and frequencies must all be found.
//!
//! The trees are in `../shared/data/hwloc` beside the repository (see the README there), and the counts below
//! are those of their names and descriptions. Where they are absent the test says so and passes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use steelyard_probe::{Recorder, RecorderSettings};
use steelyard_record::Telemetry;

fn archives() -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/hwloc");
    if directory.is_dir() {
        return Some(directory);
    }
    eprintln!("skipped: {} is absent", directory.display());
    None
}

/// Records two ticks of the tree in `archive`.
fn record(archive: &Path) -> Telemetry {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    // Only what is read is unpacked: the trees have thousands of other files. A tree that lacks one of the
    // patterns makes tar complain, so what matters is whether the one file came that all of them have.
    Command::new("tar")
        .args(["--strip-components=1", "--wildcards", "-xjf"])
        .arg(archive)
        .arg("-C")
        .arg(scratch.path())
        .args(["*/proc/stat", "*/proc/meminfo", "*/proc/mounts"])
        .args(["*/node[0-9]*/meminfo", "*/numastat", "*/cpufreq"])
        .stderr(Stdio::null())
        .status()
        .expect("tar runs");
    assert!(
        scratch.path().join("proc/meminfo").exists(),
        "{} could not be unpacked: is bzip2 installed?",
        archive.display()
    );
    let settings = RecorderSettings {
        directory: scratch.path().join("telemetry"),
        root: scratch.path().to_owned(),
        sources: None,
        counters: None,
        target: None,
        interval_ns: 0,
        command: Vec::new(),
    };
    let mut recorder = Recorder::start(&settings, Box::new(|| 1)).expect("there are sources");
    recorder.tick(false).expect("the tree can be read");
    recorder.tick(true).expect("the tree can be read again");
    recorder.finish("count", None).expect("the files are whole")
}

#[test]
fn every_core_node_and_frequency_is_found() {
    let Some(directory) = archives() else {
        return;
    };
    // Rows a tick; None where the recorded tree lacks the files.
    for (name, cpus, nodes, frequencies) in [
        ("128arm-2pa2n8cluster4co", Some(128), Some(4), None),
        (
            "16amd64-4n4c-cgroup-distance-merge",
            Some(16),
            Some(4),
            None,
        ),
        (
            "20em64t-hybrid-1p6c2t+2ca4co1t",
            Some(20),
            Some(1),
            Some(20),
        ),
        ("256ia64-64n2s2c", None, Some(64), None),
        ("48amd64-4pa2n6c-sparse", Some(48), Some(8), Some(48)),
        ("64amd64-4s2n4ca2co", Some(64), Some(8), None),
        ("8em64t-2s2ca2c", Some(8), Some(1), None),
    ] {
        let telemetry = record(&directory.join(format!("{name}.tar.bz2")));
        let rows = |source: &str| {
            let source = telemetry.sources.iter().find(|row| row.name == source);
            let source = source.expect("every source is listed");
            assert_eq!(source.failed_reads, 0, "{name}: {:?}", source.reason);
            source.available.then_some(source.rows)
        };
        assert_eq!(rows("cpu"), cpus.map(|count: u64| count * 2), "{name}");
        assert_eq!(rows("numa"), nodes.map(|count: u64| count * 2), "{name}");
        assert_eq!(
            rows("cpufreq"),
            frequencies.map(|count: u64| count * 2),
            "{name}"
        );
        assert_eq!(rows("memory"), Some(2), "{name}");
    }
}
