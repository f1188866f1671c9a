use std::cell::Cell;
use std::fs;

use super::*;
use crate::rows::{JobClass, Labels};

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

fn clock() -> u64 {
    NOW_NS.get()
}

fn write(folder: &tempfile::TempDir, path: &str, text: &str) {
    let path = folder.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn task(name: &str) -> Arc<Task> {
    Arc::new(Task {
        job: "web".to_owned(),
        task: name.to_owned(),
        job_class: JobClass::LatencySensitive,
        labels: Labels::new(),
        cgroup: format!("/{name}"),
    })
}

fn telemetry(folder: &tempfile::TempDir) -> TelemetryConfig {
    TelemetryConfig {
        job: "web".to_owned(),
        task: None,
        file: Some(format!("{}/${{task}}.prom", folder.path().display())),
        url: None,
        operations: "requests_total{code=\"200\"}".to_owned(),
        latency: Some("latency_ms".to_owned()),
        latency_unit_s: 0.001,
    }
}

#[test]
fn a_window_has_a_row_for_each_task_that_lived_through_it() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "proc/mounts", "c /c cgroup2 rw 0 0\n");
    write(
        &folder,
        "proc/stat",
        "cpu  0 0 0 0 0 0 0 0\ncpu0 0\ncpu1 0\n",
    );
    for (name, us) in [("a", 1_000_000), ("b", 5), ("gone", 7), ("anew", 900)] {
        write(
            &folder,
            &format!("c/{name}/cpu.stat"),
            &format!("usage_usec {us}\n"),
        );
    }
    write(
        &folder,
        "c/a/memory.stat",
        "anon 4096\nfile_mapped 0\npgfault 10\n",
    );
    write(
        &folder,
        "a.prom",
        "requests_total{code=\"200\"} 100\nrequests_total{code=\"500\"} 7\nlatency_ms_sum 10\nlatency_ms_count 10\n",
    );
    let tree = Tree::new(folder.path());
    let mut sampler = Sampler::new(
        &tree,
        Hierarchies::of(&tree),
        true,
        vec![telemetry(&folder)],
        clock,
    );
    let tasks: Vec<Arc<Task>> = ["a", "b", "gone", "anew"].map(task).to_vec();
    NOW_NS.set(1_000_000_000);
    let window = sampler.begin(&tasks, 1_700_000_000);
    assert_eq!(sampler.telemetry_failures(), 3);
    NOW_NS.set(11_000_000_000);
    let ticks = 5 * 1_000_000_000 / steelyard_kernel::ns_per_clock_tick();
    write(
        &folder,
        "proc/stat",
        &format!("cpu  {ticks} 0 0 0 0 0 0 0\ncpu0 0\ncpu1 0\n"),
    );
    write(&folder, "c/a/cpu.stat", "usage_usec 3000000\n");
    write(
        &folder,
        "c/a/memory.stat",
        "anon 8192\nfile_mapped 0\npgfault 25\n",
    );
    write(&folder, "c/anew/cpu.stat", "usage_usec 100\n");
    write(
        &folder,
        "a.prom",
        "requests_total{code=\"200\"} 300\nlatency_ms_sum 60\nlatency_ms_count 20\n",
    );
    fs::remove_dir_all(folder.path().join("c/gone")).unwrap();
    let samples = sampler.end(window);
    let names: Vec<&str> = samples
        .tasks
        .iter()
        .map(|row| row.task.task.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    let row = &samples.tasks[0];
    assert_eq!(
        (row.window_start_unix_s, row.window_s, row.cpu_s),
        (1_700_000_000, 10.0, 2.0)
    );
    assert_eq!(
        (row.page_faults, row.memory_bytes),
        (Some(15), Some(6144.0))
    );
    assert_eq!(
        (row.operations, row.latency_mean_s),
        (Some(200.0), Some(0.005))
    );
    assert_eq!(
        (row.cpi, row.cpi_source.as_deref()),
        (Some(0.01), Some(CPI_OF_OPERATIONS))
    );
    assert_eq!(row.machine_cpu_ratio, Some(0.25));
    assert_eq!(
        (row.reference_cycles, row.network_bytes, row.storage_bytes),
        (None, None, None)
    );
    let idle = &samples.tasks[1];
    assert_eq!(
        (
            idle.cpu_s,
            idle.cpi,
            idle.cpi_source.as_deref(),
            idle.operations
        ),
        (0.0, None, None, None)
    );
    assert_eq!(samples.machine.unwrap().cpu_s, 5.0);
}

#[test]
fn cpi_is_of_counters_before_anything_else() {
    let counted = |reference_cycles, core_cycles, instructions| Counted {
        reference_cycles,
        core_cycles,
        instructions,
        ..Counted::default()
    };
    assert_eq!(
        cpi(1.0, &counted(Some(30), Some(40), Some(20)), Some(5.0)),
        (Some(1.5), Some(CPI_OF_COUNTERS))
    );
    assert_eq!(
        cpi(1.0, &counted(None, Some(40), Some(20)), Some(5.0)),
        (Some(2.0), Some(CPI_OF_CORE_CYCLES))
    );
    assert_eq!(
        cpi(1.0, &counted(Some(30), None, Some(0)), Some(5.0)),
        (Some(0.2), Some(CPI_OF_OPERATIONS))
    );
    assert_eq!(
        cpi(1.0, &counted(Some(30), None, None), Some(0.0)),
        (None, None)
    );
    assert_eq!(
        cpi(0.0005, &counted(Some(30), None, Some(20)), None),
        (None, None)
    );
}
