//! What the guard's tests share.

use std::fs;
use std::path::{Path, PathBuf};

use steelyard_record::{CpiSpec, CpiSpecs, Kind};

use super::capping::journal::{Entry, Opening};
use super::capping::quota::{Change, Hierarchy, Knob, Version};
use super::clock::Moment;
use super::detection::sample::TaskName;
use crate::rows::{CPI_OF_COUNTERS, Incident, JobClass, Labels, Task, TaskSample};

/// A task that is its job's only one.
pub fn name(job: &str) -> TaskName {
    TaskName {
        job: job.into(),
        task: job.into(),
    }
}

/// A window of 10 s of a task that is its job's only one and lies in a control group of its name.
pub fn sample(
    job: &str,
    job_class: JobClass,
    start_unix_s: i64,
    usage: f64,
    cpi: Option<f64>,
) -> TaskSample {
    let task = Task {
        job: job.into(),
        task: job.into(),
        job_class,
        labels: Labels::new(),
        cgroup: format!("/{job}"),
    };
    TaskSample {
        cpi,
        cpi_source: cpi.map(|_| CPI_OF_COUNTERS.into()),
        ..TaskSample::bare(task, start_unix_s, 10.0, usage * 10.0)
    }
}

/// A specification by the figures that matter to the guard.
pub fn spec(job: &str, cpi_mean: f64, cpi_sd: f64, threshold_cpi: f64) -> CpiSpec {
    CpiSpec {
        job: job.into(),
        cpi_source: CPI_OF_COUNTERS.into(),
        built_unix_s: 0,
        samples: 1_000,
        tasks: 10,
        cpu_usage_mean: 0.5,
        cpi_mean,
        cpi_sd,
        threshold_sigmas: 2.0,
        threshold_cpi,
    }
}

/// A moment by one figure.
pub fn moment(unix_s: f64) -> Moment {
    Moment {
        unix_s,
        boot_s: unix_s - 500.0,
    }
}

/// Makes a control group of version 1 in a tree of plain files.
pub fn group_v1(root: &Path, path: &str, quota_us: i64, period_us: u64) -> PathBuf {
    let folder = root.join("cpu").join(path);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("cpu.cfs_quota_us"), format!("{quota_us}\n")).unwrap();
    fs::write(folder.join("cpu.cfs_period_us"), format!("{period_us}\n")).unwrap();
    fs::write(root.join("cpu/cgroup.procs"), "").unwrap();
    folder
}

/// Makes a control group of version 2 in a tree of plain files.
pub fn group_v2(root: &Path, path: &str, max: &str) -> PathBuf {
    let folder = root.join(path);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("cpu.max"), format!("{max}\n")).unwrap();
    fs::write(
        root.join("cgroup.controllers"),
        "cpuset cpu io memory pids\n",
    )
    .unwrap();
    folder
}

/// What a knob of a made control group says.
pub fn knob(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file))
        .unwrap()
        .trim()
        .to_owned()
}

/// An incident about which nothing but its name matters.
pub fn incident(id: &str) -> Incident {
    Incident {
        incident: id.into(),
        victim_job: "web".into(),
        victim_task: "web".into(),
        start_unix_s: 1_000,
        end_unix_s: None,
        threshold_cpi: 2.0,
        victim_cpi: 4.0,
        outliers: 3,
        antagonist_job: Some("hog".into()),
        antagonist_task: Some("hog".into()),
        antagonist_class: Some(JobClass::Batch),
        correlation: Some(0.5),
        action: "cap".into(),
        reason: "a test".into(),
        cap_cpu_ratio: Some(0.1),
        cap_start_unix_s: Some(1_300),
        cap_end_unix_s: None,
        undone: None,
        victim_cpi_after: None,
    }
}

/// A journal entry of a cap of a group of version 1.
pub fn entry(id: &str, cgroup: &str) -> Entry {
    Entry::from(Opening {
        id: id.into(),
        owner: "1-1".into(),
        boot_id: "this".into(),
        hierarchy: Hierarchy {
            root: PathBuf::from("/nowhere"),
            version: Version::V1,
        },
        cgroup: cgroup.into(),
        inode: 1,
        changes: vec![Change {
            knob: Knob::Quota,
            old: "-1".into(),
            new: "10000".into(),
        }],
        times: (1_300.0, 1_600.0),
        incident: incident(id),
    })
}

/// The hierarchy of version 1 of a made tree.
pub fn v1(root: &Path) -> Hierarchy {
    Hierarchy {
        root: root.join("cpu"),
        version: Version::V1,
    }
}

/// The hierarchy of version 2 of a made tree.
pub fn v2(root: &Path) -> Hierarchy {
    Hierarchy {
        root: root.to_owned(),
        version: Version::V2,
    }
}

/// A published file of these specifications.
pub fn specs_file(specs: &[CpiSpec], platform: &str) -> Vec<u8> {
    let published = CpiSpecs {
        kind: Kind::of::<CpiSpecs>(),
        platform: platform.into(),
        specs: specs.to_vec(),
    };
    serde_json::to_vec(&published).unwrap()
}
