//! Scores against the paper and by hand, and files as kernels print them.

mod surveys;

use proptest::prelude::*;
use serde_json::Value;

use steelyard_kernel::numa::{DistanceSource, Missing, Pages};

use super::*;

/// The paper's distances on Barcelona: four nodes in a square, opposite corners two hops apart.
const BARCELONA: [f64; 16] = [
    10.0, 20.0, 20.0, 30.0, 20.0, 10.0, 30.0, 20.0, 20.0, 30.0, 10.0, 20.0, 30.0, 20.0, 20.0, 10.0,
];

fn table(rows: &[f64]) -> Distances {
    Distances::new(rows.to_vec(), DistanceSource::Given).expect("a square table")
}

fn numbers(value: &Value) -> Vec<f64> {
    let list = value.as_array().expect("a list");
    list.iter()
        .flat_map(|value| match value {
            Value::Array(_) => numbers(value),
            value => vec![value.as_f64().expect("a number")],
        })
        .collect()
}

#[test]
fn vectors_of_both_planes() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../schemas/golden/numa_vectors.json"
    );
    let text = std::fs::read(path).expect("the vectors");
    let document: Value = serde_json::from_slice(&text).expect("JSON");
    let vectors = document["vectors"].as_array().expect("a list");
    assert!(vectors.len() > 10);
    for vector in vectors {
        let wanted = numbers(&vector["score"]);
        let distances = table(&numbers(&vector["distances"]));
        let found = score(
            &numbers(&vector["cpu"]),
            &numbers(&vector["memory"]),
            &distances,
        )
        .expect("a score");
        let error = (found - wanted[0] / wanted[1]).abs();
        assert!(error < 1e-12, "{}: {found}", vector["name"]);
    }
}

#[test]
fn barcelona_with_the_papers_distances_spans_a_third_to_one() {
    let distances = table(&BARCELONA);
    let mut scores = Vec::new();
    for cpu in 0..4 {
        for memory in 0..4 {
            let on =
                |node| -> Vec<f64> { (0..4).map(|i| f64::from(u8::from(i == node))).collect() };
            scores.push(score(&on(cpu), &on(memory), &distances).expect("a score"));
        }
    }
    scores.sort_by(f64::total_cmp);
    assert_eq!(scores[0], 10.0 / 30.0);
    assert_eq!(scores[15], 1.0);
    scores.dedup();
    assert_eq!(scores, [10.0 / 30.0, 0.5, 1.0]);
}

#[test]
fn shares_of_local_accesses_in_the_papers_load_test() {
    // With memory that cannot be reached the score is the share of local accesses.
    let distances = table(&[1.0, 1e300, 1e300, 1.0]);
    let scenarios = [
        ([6.0, 0.0], [1.0, 0.0], 1.0),
        ([3.0, 3.0], [1.0, 0.0], 0.5),
        ([6.0, 0.0], [0.0, 1.0], 0.0),
    ];
    // 4 to 6 are 1 to 3 with a co-runner, which has no part in the score.
    for (cpu, memory, local) in scenarios.iter().chain(&scenarios) {
        let found = score(cpu, memory, &distances).expect("a score");
        assert!((found - local).abs() < 1e-12, "{found} instead of {local}");
    }
}

#[test]
fn what_has_no_shares_has_no_score() {
    let distances = table(&[10.0, 20.0, 20.0, 10.0]);
    assert_eq!(score(&[], &[1.0], &distances), Err(Missing::NO_CPU_TIME));
    assert_eq!(
        score(&[1.0], &[0.0, 0.0], &distances),
        Err(Missing::NO_MEMORY)
    );
    for wrong in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(score(&[wrong, 1.0], &[1.0], &distances).is_err());
    }
    assert!(score(&[1.0; 3], &[1.0], &distances).is_err());
    let pages = Pages {
        elsewhere_bytes: 4096,
        ..Pages::new(2)
    };
    let placement = Placement {
        cpu_seconds_per_node: vec![1.0, 0.0],
        pages,
    };
    let why = placement.score(&distances).expect_err("unknown nodes");
    assert!(why.to_string().starts_with("4096 bytes are on nodes"));
}

#[test]
fn control_groups_of_both_versions() {
    let nodes = Nodes::made(&[0, 1]);
    let text = b"total=9 N0=9 N1=0\nfile=5 N0=5\nanon=4 N0=4 N1=0\nunevictable=0 N0=0 N1=0\n\
        hierarchical_total=30 N0=10 N1=20\nhierarchical_file=20 N0=5 N1=15\n\
        hierarchical_anon=9 N0=5 N1=4\nhierarchical_unevictable=1 N0=0 N1=1\n";
    let pages = groups::parse_version_1(text, &nodes, 4096);
    assert_eq!(pages.bytes_per_node, [10 * 4096, 20 * 4096]);
    assert_eq!(
        (pages.anon_bytes, pages.file_bytes),
        (Some(9 * 4096), Some(20 * 4096))
    );
    assert_eq!(
        pages.shared_bytes_per_node, None,
        "each page is charged once"
    );
    // Kernels before 3.18 do not tell the groups below.
    let flat = groups::parse_version_1(&text[..text.len() / 3], &nodes, 4096);
    assert_eq!(flat.bytes_per_node, [9 * 4096, 0]);
    let text = b"anon N0=4096 N1=8192\nfile N0=100 N1=28 N9=5\nkernel_stack N0=99 N1=99\nshmem N0=7 N1=7\n";
    let pages = groups::parse_version_2(text, &nodes);
    assert_eq!(pages.bytes_per_node, [4196, 8220]);
    assert_eq!(
        (pages.anon_bytes, pages.file_bytes),
        (Some(12288), Some(128))
    );
    assert_eq!(pages.elsewhere_bytes, 5);
    let huge = b"total=2097152 N0=2097152 N1=0\nhierarchical_total=4194304 N0=2097152 N1=2097152\n";
    assert_eq!(groups::parse_huge(huge, &nodes), [2 << 20, 2 << 20]);
    assert_eq!(
        groups::parse_huge(b"total=4096 N1=4096\n", &nodes),
        [0, 4096]
    );
}

fn amounts(nodes: usize) -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(prop_oneof![Just(0.0), 1e-9..1e15], nodes..=nodes)
        .prop_filter("something", |amounts| amounts.iter().any(|one| *one > 0.0))
}

proptest! {
    #[test]
    fn a_score_is_a_share_and_no_unit_matters(
        (slit, cpu, memory) in (1usize..9).prop_flat_map(|nodes| (
            proptest::collection::vec(10u8..255, nodes * nodes), amounts(nodes), amounts(nodes),
        )),
        scale in 1e-3..1e3,
    ) {
        let nodes = cpu.len();
        let mut rows: Vec<f64> = slit.iter().map(|one| f64::from(*one)).collect();
        for node in 0..nodes {
            rows[node * nodes + node] = 10.0;
        }
        let distances = table(&rows);
        let found = score(&cpu, &memory, &distances).unwrap();
        prop_assert!(found > 0.0 && found <= 1.0, "{}", found);
        let least = rows.iter().fold(1.0f64, |least, one| least.min(10.0 / one));
        prop_assert!(found >= least - 1e-12);
        let scaled: Vec<f64> = cpu.iter().map(|one| one * scale).collect();
        let far: Vec<f64> = rows.iter().map(|one| one * scale).collect();
        prop_assert!((score(&scaled, &memory, &table(&far)).unwrap() - found).abs() < 1e-12);
        // On one node everything is local.
        let mut alone = vec![0.0; nodes];
        alone[nodes - 1] = 5.0;
        prop_assert_eq!(score(&alone, &alone, &distances).unwrap(), 1.0);
    }

    #[test]
    fn no_parser_panics(
        beginning in proptest::sample::select(&["7f default anon=4 N0=4 N1=", "hierarchical_total=5 N0=", "anon N0=", "10 20\n20 "][..]),
        like_the_kernel in "([a-zA-Z0-9=: ,._-]{0,30}\n?){0,6}",
        bytes: Vec<u8>,
    ) {
        parse_anything(&[beginning.as_bytes(), like_the_kernel.as_bytes(), &bytes].concat());
    }
}
