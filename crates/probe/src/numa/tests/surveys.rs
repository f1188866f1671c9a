//! Windows over made-up trees.

use super::super::*;
use crate::testing::Bench;
use steelyard_kernel::Tree;
use steelyard_kernel::numa::{DistanceChoice, Missing};

/// Two nodes with a CPU each, and one process with two threads.
fn machine() -> Bench {
    let node = "sys/devices/system/node";
    let bench = Bench::new(&[
        (&format!("{node}/online"), "0-1\n"),
        (&format!("{node}/node0/cpulist"), "0\n"),
        (&format!("{node}/node1/cpulist"), "1\n"),
        (&format!("{node}/node0/distance"), "10 21\n"),
        (&format!("{node}/node1/distance"), "21 10\n"),
        (&format!("{node}/node1/meminfo"), "Node 1 MemTotal: 8 kB\n"),
        (
            "proc/7/numa_maps",
            "7f default anon=4 N0=1 N1=3 kernelpagesize_kB=4\n",
        ),
    ]);
    thread(&bench, 7, 1_000, 0);
    thread(&bench, 8, 50, 0);
    bench.write("proc/7/stat", &stat(7, 0, 2));
    bench.write("proc/7/schedstat", "1000 0 1\n");
    bench
}

fn stat(tid: u32, cpu: u32, threads: u32) -> String {
    // Fields 4 to 52 of proc_pid_stat(5): flags 9, faults 10 and 12, times 14 and 15, threads 20, start 22,
    // rss 24, processor 39.
    let mut fields = vec!["0".to_owned(); 49];
    fields[20 - 4] = threads.to_string();
    fields[24 - 4] = "4".to_owned();
    fields[39 - 4] = cpu.to_string();
    format!("{tid} (a) b) S {}\n", fields.join(" "))
}

fn thread(bench: &Bench, tid: u32, run_ns: u64, cpu: u32) {
    bench.write(
        &format!("proc/7/task/{tid}/schedstat"),
        &format!("{run_ns} 0 1\n"),
    );
    bench.write(&format!("proc/7/task/{tid}/stat"), &stat(tid, cpu, 2));
}

fn survey(tree: &Tree, request: Request) -> Survey {
    let nodes = Nodes::read(tree, &DistanceChoice::Slit).expect("nodes");
    Survey::start(tree, nodes, request)
}

#[test]
fn cpu_time_counts_where_threads_ran() {
    let bench = machine();
    let mut survey = survey(&bench.tree(), Request::new(Subjects::Processes(vec![7])));
    survey.begin(0);
    // The first thread runs 300 ns on node 1, the second 100 ns on node 0, and a third is born there.
    bench.write("proc/7/schedstat", "1300 0 2\n");
    bench.write("proc/7/stat", &stat(7, 1, 3));
    thread(&bench, 8, 150, 0);
    thread(&bench, 9, 600, 0);
    survey.look();
    let row = &survey.finish(1_000).subjects[0];
    assert_eq!(row.cpu_basis.as_deref(), Some("window"));
    assert_eq!(row.cpu_seconds_per_node, Some(vec![700e-9, 300e-9]));
    assert_eq!(row.memory_bytes_per_node, Some(vec![4096, 12288]));
    let wanted = 0.7 * (0.25 + 0.75 * 10.0 / 21.0) + 0.3 * (0.75 + 0.25 * 10.0 / 21.0);
    assert!((row.score.expect("a score") - wanted).abs() < 1e-12);
    assert_eq!(row.name, "a) b");
    // Nothing ran in the second window: the threads' whole time counts where each ran last.
    survey.begin(1_000);
    let row = survey.finish(2_000).subjects.remove(0);
    assert_eq!(row.cpu_basis.as_deref(), Some("lifetime"));
    assert_eq!(row.cpu_seconds_per_node, Some(vec![750e-9, 1300e-9]));
}

#[test]
fn pages_are_read_again_only_after_faults_or_too_long() {
    let bench = machine();
    let mut request = Request::new(Subjects::All);
    request.pages_fresh_ns = 500;
    let mut survey = survey(&bench.tree(), request);
    let mut window = |begin_ns: u64, end_ns| {
        survey.begin(begin_ns);
        let row = survey.finish(end_ns).subjects.remove(0);
        row.memory_bytes_per_node.expect("memory")
    };
    assert_eq!(window(0, 100), [4096, 12288]);
    bench.write(
        "proc/7/numa_maps",
        "7f default anon=4 N0=4 kernelpagesize_kB=4\n",
    );
    assert_eq!(window(100, 200), [4096, 12288], "no faults since");
    assert_eq!(window(200, 700), [16384, 0], "too long ago");
    bench.write(
        "proc/7/numa_maps",
        "7f default anon=4 N1=5 kernelpagesize_kB=4\n",
    );
    bench.write("proc/7/stat", &stat(7, 0, 2).replacen(" 4 ", " 5 ", 1));
    bench.write("proc/7/schedstat", "1001 0 2\n");
    assert_eq!(window(700, 800), [0, 20480], "it grew");
}

#[test]
fn reasons_take_the_place_of_scores() {
    let bench = machine();
    bench.remove("proc/7/numa_maps");
    let kernel = stat(3, 0, 1).replacen("S 0 0 0 0 0 0 ", "S 0 0 0 0 0 2097152 ", 1);
    bench.write("proc/3/stat", &kernel);
    let mut request = Request::new(Subjects::Processes(vec![7, 3, 99]));
    request.idle = false;
    let mut idle = survey(&bench.tree(), request.clone());
    idle.begin(0);
    let why = |score: &steelyard_record::NumaScore| -> Vec<String> {
        score
            .subjects
            .iter()
            .filter_map(|row| row.missing.clone())
            .collect()
    };
    assert_eq!(
        why(&idle.finish(1)),
        [
            Missing::KERNEL_THREAD.to_string(),
            "it did not run in the window".to_owned(),
            Missing::ENDED.to_string()
        ]
    );
    request.idle = true;
    request.subjects = Subjects::Processes(vec![7]);
    let mut unmapped = survey(&bench.tree(), request.clone());
    unmapped.begin(0);
    assert_eq!(
        why(&unmapped.finish(1)),
        [Missing::NO_NUMA_MAPS.to_string()]
    );
    request.largest_bytes = Some(4095);
    let mut large = survey(&bench.tree(), request);
    large.begin(0);
    assert!(why(&large.finish(1))[0].starts_with("it has "));
}

#[test]
fn on_one_node_every_score_is_one_and_memory_is_not_read() {
    let bench = machine();
    bench.remove("sys/devices/system/node/node1");
    bench.write("sys/devices/system/node/online", "0\n");
    bench.write("sys/devices/system/node/node0/distance", "10\n");
    let mut survey = survey(&bench.tree(), Request::new(Subjects::All));
    survey.begin(0);
    let row = survey.finish(1).subjects.remove(0);
    assert_eq!((row.score, row.missing), (Some(1.0), None));
    assert_eq!(row.memory_bytes_per_node, None);
    assert!(
        row.memory_missing
            .expect("a reason")
            .contains("one NUMA node")
    );
}

#[test]
fn a_group_of_version_1_has_the_kernels_count_of_each_cpu() {
    let bench = machine();
    bench.write("proc/mounts", "cgroup /cg/cpuacct cgroup rw,cpu,cpuacct 0 0\ncgroup /cg/mem cgroup rw,memory 0 0\nnone /cg/two cgroup2 rw 0 0\n");
    bench.write("cg/cpuacct/job/a/cpuacct.usage_percpu", "1000 500 \n");
    bench.write(
        "cg/mem/job/a/memory.numa_stat",
        "total=4 N0=4 N1=0\nfile=1 N0=1\nanon=3 N0=3\n",
    );
    bench.write(
        "cg/two/job/a/hugetlb.2MB.numa_stat",
        "total=16384 N0=0 N1=16384\n",
    );
    let request = Request::new(Subjects::Cgroups(vec![
        "/cg/mem/job/a".into(),
        "job/a".into(),
        "/job/b".into(),
        "/../x".into(),
    ]));
    let mut survey = survey(&bench.tree(), request);
    survey.begin(0);
    bench.write("cg/cpuacct/job/a/cpuacct.usage_percpu", "1000 2500 \n");
    let score = survey.finish(1);
    for row in &score.subjects[..2] {
        assert_eq!(row.cpu_source.as_deref(), Some("cpuacct.usage_percpu"));
        assert_eq!(row.cpu_seconds_per_node, Some(vec![0.0, 2e-6]));
        assert_eq!(row.memory_bytes_per_node, Some(vec![16384, 16384]));
        assert_eq!(row.huge_bytes_per_node, Some(vec![0, 16384]));
        assert_eq!(row.score, Some(0.5 + 0.5 * 10.0 / 21.0));
    }
    for row in &score.subjects[2..] {
        assert_eq!(row.missing, Some(Missing::NO_GROUP.to_string()));
    }
}

#[test]
fn a_group_of_version_2_is_its_members_with_those_below() {
    let bench = machine();
    bench.write("proc/mounts", "none /cg cgroup2 rw 0 0\n");
    bench.write("cg/job/cgroup.procs", "");
    bench.write("cg/job/below/cgroup.procs", "7\n");
    bench.write(
        "cg/job/memory.numa_stat",
        "anon N0=0 N1=4096\nfile N0=0 N1=0\n",
    );
    let tree = bench.tree();
    let mut survey = survey(&tree, Request::new(Subjects::Cgroups(vec!["/job".into()])));
    survey.begin(0);
    bench.write("proc/7/schedstat", "1200 0 2\n");
    let row = survey.finish(1).subjects.remove(0);
    assert_eq!(row.cpu_seconds_per_node, Some(vec![200e-9, 0.0]));
    assert_eq!(row.score, Some(10.0 / 21.0));
    let nodes = Nodes::read(&tree, &DistanceChoice::Slit).expect("nodes");
    let pages = read_pages_of_cgroup(&tree, &nodes, "/job").expect("memory");
    assert_eq!(pages.pages_per_node(4096), [0, 1]);
}
