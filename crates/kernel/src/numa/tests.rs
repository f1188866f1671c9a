//! Tables of distances and lines of numa_maps as kernels print them.

use proptest::prelude::*;

use super::maps::LineReader;
use super::*;
use crate::testing::tree;

#[test]
fn malformed_tables_are_refused_in_one_line() {
    assert_eq!(
        Distances::parse(b"# ns\n80,139\n139\t81.5 # here\n\n").map(|table| table.rows().to_vec()),
        Ok(vec![80.0, 139.0, 139.0, 81.5])
    );
    for text in [
        "",
        "1 2\n3\n",
        "1 2 3 4\n",
        "1 0\n0 1\n",
        "1 -2\n2 1\n",
        "1 x\n",
        "1 nan\n2 1\n",
    ] {
        let why = Distances::parse(text.as_bytes())
            .expect_err(text)
            .to_string();
        assert!(!why.contains('\n'), "{why}");
    }
}

const MAPS: &str = "\
5581 default file=/usr/bin/N0=9\\040kernelpagesize_kB=9 mapped=2 mapmax=3 N1=2 kernelpagesize_kB=4
5582 bind=static:0,33 anon=3 dirty=3 active=0 N0=1 N33=2 kernelpagesize_kB=4
7f00 prefer:1 file=/anon_hugepage\\040(deleted) huge anon=2 dirty=2 N33=2 kernelpagesize_kB=2048
7f01 default heap anon=1 dirty=1 N7=1 kernelpagesize_kB=4
7f02 interleave:0-1 file=/dev/shm/x mapped=4 N0=3 N1=1 kernelpagesize_kB=64
7f03 default stack
7f04 default huge dirty=1 N0=1
7f05 default file=/lib/x anon=1 dirty=1 mapped=3 N0=3 kernelpagesize_kB=4";

fn pages_of(text: &[u8], cut: usize) -> Pages {
    let nodes = Nodes::made(&[0, 1, 33]);
    let mut pages = Pages::new(3);
    let mut reader = LineReader::new(&nodes, 4096, Some(1 << 30));
    for piece in text.chunks(cut.max(1)) {
        reader.take(piece, &mut pages);
    }
    reader.end(&mut pages);
    pages
}

#[test]
fn numa_maps_count_pages_by_their_size() {
    let kib = 1024;
    let pages = pages_of(MAPS.as_bytes(), usize::MAX);
    let node_0 = 4 * kib + 3 * 64 * kib + (1 << 30) + 12 * kib;
    let node_1 = 8 * kib + 64 * kib;
    let node_33 = 8 * kib + 2 * 2048 * kib;
    assert_eq!(pages.bytes_per_node, [node_0, node_1, node_33]);
    assert_eq!(pages.huge_bytes_per_node, [1 << 30, 0, 4096 * kib]);
    assert_eq!(pages.shared_bytes_per_node, Some(vec![0, 8 * kib, 0]));
    assert_eq!(
        pages.elsewhere_bytes,
        4 * kib,
        "node 7 is none of the machine's"
    );
    let anon = (3 + 1 + 1) * 4 * kib + 4096 * kib;
    assert_eq!(pages.anon_bytes, Some(anon));
    assert_eq!(pages.file_bytes, Some(pages.bytes() - anon));
    assert_eq!(pages.pages_per_node(4096)[2], 2 + 1024);
}

#[test]
fn latencies_of_hmat_fill_what_slit_only_guesses() {
    let node = "sys/devices/system/node";
    let (folder, tree) = tree(&[
        (&format!("{node}/online"), "0-2\n"),
        (&format!("{node}/node0/cpulist"), "0\n"),
        (&format!("{node}/node1/cpulist"), "1\n"),
        (&format!("{node}/node2/cpulist"), "\n"),
        (&format!("{node}/node0/distance"), "10 20 14\n"),
        (&format!("{node}/node1/distance"), "20 10 24\n"),
        (&format!("{node}/node2/distance"), "14 24 10\n"),
    ]);
    assert!(Nodes::read(&tree, &DistanceChoice::Hmat).is_err());
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    let access = |target: u32, name: &str, ns: &str, initiator: u32| {
        let folder = format!("{node}/node{target}/{name}/initiators");
        write(&format!("{folder}/read_latency"), ns);
        write(&format!("{folder}/node{initiator}/online"), "1");
    };
    access(0, "access0", "80\n", 0);
    access(1, "access1", "90\n", 1);
    access(1, "access0", "0\n", 1);
    access(2, "access0", "240\n", 0);
    let nodes = Nodes::read(&tree, &DistanceChoice::Hmat).expect("nodes");
    let row = |i| -> Vec<f64> { (0..3).map(|j| nodes.distances().between(i, j)).collect() };
    assert_eq!(
        row(0),
        [80.0, 160.0, 240.0],
        "SLIT alone says 112 of the third"
    );
    assert_eq!(row(1), [180.0, 90.0, 216.0]);
    assert_eq!(nodes.distances().ratio(0, 2), 1.0 / 3.0);
}

proptest! {
    #[test]
    fn lines_count_alike_however_they_are_cut(cut in 1usize..400) {
        prop_assert_eq!(pages_of(MAPS.as_bytes(), cut), pages_of(MAPS.as_bytes(), usize::MAX));
    }

    #[test]
    fn no_parser_panics(
        beginning in proptest::sample::select(&["7f default anon=4 N0=4 N1=", "hierarchical_total=5 N0=", "10 20\n20 "][..]),
        like_the_kernel in "([a-zA-Z0-9=: ,._-]{0,30}\n?){0,6}",
        bytes: Vec<u8>,
    ) {
        crate::parse_anything(&[beginning.as_bytes(), like_the_kernel.as_bytes(), &bytes].concat());
    }
}

#[test]
fn hostile_lines_are_bounded() {
    let mut text = vec![b'N'; 3 << 20];
    text.extend_from_slice(b"\n7f default anon=1 N0=1 kernelpagesize_kB=4\n7f x N0=18446744073709551615 N0=9 kernelpagesize_kB=18446744073709551615\n");
    let pages = pages_of(&text, 4096);
    assert_eq!(pages.bytes_per_node, [u64::MAX, 0, 0]);
    assert_eq!(pages.bytes(), u64::MAX);
}
