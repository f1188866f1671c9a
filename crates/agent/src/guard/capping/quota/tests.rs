use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;
use crate::guard::testing::{group_v1, group_v2, knob, v1, v2};

fn words_of(changes: &[Change]) -> Vec<(&str, &str, &str)> {
    changes
        .iter()
        .map(|change| (change.knob.file(), &*change.old, &*change.new))
        .collect()
}

#[test]
fn a_cap_of_version_1() {
    let root = tempfile::tempdir().unwrap();
    group_v1(root.path(), "hog", -1, 100_000);
    let group = v1(root.path()).open(Path::new("/hog")).unwrap();
    let changes = group.plan(0.1).unwrap();
    assert_eq!(words_of(&changes), [("cpu.cfs_quota_us", "-1", "10000")]);
    // The best-effort cap is the kernel's shortest quota at the usual period.
    let changes = group.plan(0.01).unwrap();
    assert_eq!(words_of(&changes), [("cpu.cfs_quota_us", "-1", "1000")]);
}

#[test]
fn a_period_too_short_for_the_cap_is_lengthened_first() {
    let root = tempfile::tempdir().unwrap();
    group_v1(root.path(), "hog", 50_000, 25_000);
    let group = v1(root.path()).open(Path::new("hog")).unwrap();
    assert_eq!(
        words_of(&group.plan(0.01).unwrap()),
        [
            ("cpu.cfs_period_us", "25000", "100000"),
            ("cpu.cfs_quota_us", "50000", "1000")
        ]
    );
    group_v2(root.path(), "hog2", "50000 25000");
    let group = v2(root.path()).open(Path::new("hog2")).unwrap();
    assert_eq!(
        words_of(&group.plan(0.01).unwrap()),
        [("cpu.max", "50000 25000", "1000 100000")]
    );
}

#[test]
fn a_burst_above_the_quota_goes_first() {
    let root = tempfile::tempdir().unwrap();
    let folder = group_v1(root.path(), "hog", 200_000, 100_000);
    fs::write(folder.join("cpu.cfs_burst_us"), "40000\n").unwrap();
    let group = v1(root.path()).open(Path::new("hog")).unwrap();
    assert_eq!(
        words_of(&group.plan(0.1).unwrap()),
        [
            ("cpu.cfs_burst_us", "40000", "0"),
            ("cpu.cfs_quota_us", "200000", "10000")
        ]
    );
}

#[test]
fn a_group_that_has_no_more_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    group_v1(root.path(), "small", 10_000, 100_000);
    group_v2(root.path(), "small2", "5000 100000");
    assert!(
        v1(root.path())
            .open(Path::new("small"))
            .unwrap()
            .plan(0.1)
            .unwrap()
            .is_empty()
    );
    assert!(
        v2(root.path())
            .open(Path::new("small2"))
            .unwrap()
            .plan(0.1)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn paths_do_not_leave_the_hierarchy() {
    let root = tempfile::tempdir().unwrap();
    group_v1(root.path(), "hog", -1, 100_000);
    let outside = root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("cpu.cfs_quota_us"), "-1\n").unwrap();
    symlink(&outside, root.path().join("cpu/link")).unwrap();
    symlink(
        outside.join("cpu.cfs_quota_us"),
        root.path().join("cpu/hog/cpu.cfs_burst_us"),
    )
    .unwrap();
    let hierarchy = v1(root.path());
    for path in ["..", "../outside", "hog/../../outside", "", "/", ".", "//"] {
        let refused = hierarchy.open(Path::new(path)).unwrap_err();
        assert!(
            matches!(refused, QuotaError::Path { .. }),
            "{path}: {refused}"
        );
    }
    let refused = hierarchy.open(Path::new("link")).unwrap_err();
    assert!(matches!(refused, QuotaError::Io { .. }), "{refused}");
    let gone = hierarchy.open(Path::new("nobody")).unwrap_err();
    assert!(matches!(gone, QuotaError::Gone { .. }), "{gone}");
    // A knob that is a link to elsewhere is not followed either.
    let group = hierarchy.open(Path::new("hog")).unwrap();
    assert!(group.read(Knob::Burst).is_err());
    assert!(group.write(Knob::Burst, "0").is_err());
    assert_eq!(knob(&outside, "cpu.cfs_quota_us"), "-1");
}

#[test]
fn hostile_names_are_names() {
    let root = tempfile::tempdir().unwrap();
    let long = "x".repeat(255);
    for name in ["a\nb", "a b; reboot", "-rf", "…\u{1b}[2J", "%2F..", &long] {
        let folder = group_v1(root.path(), name, -1, 100_000);
        let group = v1(root.path()).open(Path::new(name)).unwrap();
        group.write(Knob::Quota, "5").unwrap();
        assert_eq!(knob(&folder, "cpu.cfs_quota_us"), "5");
    }
    let longer = "x".repeat(5_000);
    assert!(v1(root.path()).open(Path::new(&longer)).is_err());
    assert!(v1(root.path()).open(Path::new("a\0b")).is_err());
}

#[test]
fn knobs_that_say_nonsense_are_not_changed() {
    let root = tempfile::tempdir().unwrap();
    for (place, text) in ["", "max", "-2 100000", "max 0", "max x", "9 9 9"]
        .iter()
        .enumerate()
    {
        let name = format!("g{place}");
        group_v2(root.path(), &name, text);
        let group = v2(root.path()).open(Path::new(&name)).unwrap();
        assert!(group.plan(0.1).is_err(), "{text:?}");
    }
    fs::create_dir(root.path().join("bare")).unwrap();
    let bare = v2(root.path()).open(Path::new("bare")).unwrap();
    assert!(matches!(bare.plan(0.1), Err(QuotaError::NoKnob { .. })));
}

#[test]
fn the_hierarchy_is_where_it_is_mounted() {
    let one = Hierarchies::parse(
        b"cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup /sys/fs/cgroup/cpuacct cgroup rw,cpuacct 0 0\n",
    );
    let found = Hierarchy::find(Path::new("/r"), &one).unwrap();
    assert_eq!(found.root, Path::new("/r/sys/fs/cgroup/cpu"));
    assert_eq!(found.version, Version::V1);
    let two = Hierarchies::parse(b"cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
    assert_eq!(
        Hierarchy::find(Path::new("/"), &two).unwrap().version,
        Version::V2
    );
    assert!(Hierarchy::find(Path::new("/"), &Hierarchies::parse(b"")).is_err());
}

proptest! {
    #[test]
    fn a_plan_leaves_what_was_asked_within_the_kernels_bounds(
        quota in prop::option::of(1_000..4_000_000_u64), period in 1_000..1_000_000_u64, burst in prop::option::of(0..4_000_000_u64),
        ratio in 0.001..2.0_f64, old in any::<bool>(),
    ) {
        let limit = Limit { quota_us: quota, period_us: period, burst_us: burst };
        let version = if old { Version::V1 } else { Version::V2 };
        let changes = changes(version, limit, ratio);
        let new = |knob| changes.iter().find(|change| change.knob == knob).map(|change| change.new.clone());
        let (quota_us, period_us) = if old {
            let number = |knob, otherwise| new(knob).map_or(otherwise, |text| text.parse::<u64>().unwrap());
            (number(Knob::Quota, quota.unwrap_or(0)), number(Knob::Period, period))
        } else {
            let text = new(Knob::Max).unwrap_or_else(|| format!("{} {period}", quota.unwrap()));
            let (quota, period) = text.split_once(' ').unwrap();
            (quota.parse().unwrap(), period.parse().unwrap())
        };
        prop_assert!((1_000..=1_000_000).contains(&period_us) && quota_us >= 1_000);
        // To the microsecond, the unit of a quota.
        prop_assert!((quota_us as f64 / period_us as f64 - ratio).abs() <= 0.5001 / period_us as f64);
        let burst_us = new(if old { Knob::Burst } else { Knob::MaxBurst }).map_or(burst.unwrap_or(0), |text| text.parse().unwrap());
        prop_assert!(burst_us <= quota_us);
    }
}
