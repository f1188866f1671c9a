//! Control groups of both versions, as kernels print them.

use proptest::prelude::*;

use super::*;
use crate::testing::Bench;

#[test]
fn version_2() {
    let mut bench = Bench::new(&[
        ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
        (
            "sys/fs/cgroup/cpu.stat",
            "usage_usec 10\nuser_usec 6\nsystem_usec 4\n",
        ),
        (
            "sys/fs/cgroup/web.slice/cpu.stat",
            "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods 9\nnr_throttled 7\nthrottled_usec 8\n",
        ),
        ("sys/fs/cgroup/web.slice/memory.current", "4096\n"),
        ("sys/fs/cgroup/web.slice/memory.peak", "8192\n"),
        (
            "sys/fs/cgroup/web.slice/io.stat",
            "254:0 rbytes=1 wbytes=2 rios=3\n253:0 rbytes=10 wbytes=20\n",
        ),
    ]);
    bench.open(&DEFINITION).expect("there are groups");
    assert_eq!(
        bench.tick(),
        [
            "/ 10000 6000 4000 - - - - - -",
            "/web.slice 5000 3000 2000 8000 7 4096 8192 11 22"
        ]
    );
    bench.remove("sys/fs/cgroup/web.slice");
    bench.write("sys/fs/cgroup/db.slice/memory.current", "1\n");
    assert_eq!(bench.tick().len(), 1);
    assert_eq!(
        bench.tick(),
        [
            "/ 10000 6000 4000 - - - - - -",
            "/db.slice - - - - - 1 - - -"
        ]
    );
}

#[test]
fn version_1_joins_its_hierarchies_by_path() {
    let mut bench = Bench::new(&[
        (
            "proc/mounts",
            "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
             cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
             cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n\
             cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
        ),
        ("sys/fs/cgroup/cpu,cpuacct/a/cpuacct.usage", "5\n"),
        ("sys/fs/cgroup/cpu,cpuacct/a/cpuacct.usage_user", "3\n"),
        ("sys/fs/cgroup/cpu,cpuacct/a/cpuacct.usage_sys", "2\n"),
        (
            "sys/fs/cgroup/cpu,cpuacct/a/cpu.stat",
            "nr_periods 1\nnr_throttled 2\nthrottled_time 3\n",
        ),
        ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "7\n"),
        ("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "8\n"),
        (
            "sys/fs/cgroup/blkio/a/blkio.throttle.io_service_bytes",
            "254:0 Read 1\n254:0 Write 2\n254:0 Total 3\nTotal 3\n",
        ),
    ]);
    bench.open(&DEFINITION).expect("there are groups");
    assert_eq!(
        bench.tick(),
        ["/a 5 3 2 3 2 7 - 1 2", "/a/b - - - - - 8 - - -"]
    );
}

#[test]
fn a_machine_with_too_many_groups_is_bounded_and_the_nearest_are_kept() {
    let mut bench = Bench::new(&[("proc/mounts", "none /c cgroup2 rw 0 0\n")]);
    for group in 0..200 {
        bench.write(&format!("c/group{group}/cpu.stat"), "usage_usec 1\n");
        bench.write(&format!("c/group{group}/deep/cpu.stat"), "usage_usec 1\n");
    }
    bench.open(&DEFINITION).expect("there are groups");
    let rows = bench.tick();
    assert_eq!(
        rows.len(),
        GROUPS - 1,
        "all but the root, which has no files"
    );
    assert!(rows.iter().all(|row| !row.contains("deep")));
}

#[test]
fn a_missing_hierarchy_is_reported() {
    assert!(
        Bench::new(&[("proc/mounts", "proc /proc proc rw 0 0\n")])
            .refusal(&DEFINITION)
            .starts_with("no cgroup hierarchy")
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(text: Vec<u8>) {
        blkio_bytes(&text);
        io_bytes(&text);
    }
}
