use super::*;

/// Reads values of this type.
fn read(input: impl Read, event: Option<&str>) -> Result<Profile, String> {
    let wanted = Wanted {
        event,
        ..Wanted::default()
    };
    super::read(input, &wanted)
}

fn example() -> Profile {
    let mut profile = Profile::default();
    profile.set_event("cpu-clock");
    profile.head.hz = Some(100.0);
    profile.head.duration_s = Some(2.5);
    let command = profile.frames.intern("prog", "");
    let main = profile.frames.intern("main", "prog");
    let copy = profile.frames.intern("memcpy", "libc.so.6");
    profile.add(&[command, copy, main], 10);
    profile.add(&[command, copy, main], 20);
    profile.add(&[command, main], 5);
    profile
}

fn folded(profile: &Profile) -> String {
    let mut out = Vec::new();
    crate::folded::write(profile, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn what_is_written_is_read_as_it_was() {
    let profile = example();
    let mut bytes = Vec::new();
    write(&profile, 1_700_000_000_000_000_000, &mut bytes).unwrap();
    let back = read(bytes.as_slice(), None).unwrap();
    assert_eq!(folded(&back), folded(&profile));
    assert_eq!(back.weight_unit, WeightUnit::Nanoseconds);
    // It was counted in samples, though they stand for different times.
    assert!(!back.is_by_period(crate::Weight::Auto).unwrap());
    assert_eq!(back.stacks().map(|stack| stack.weight).sum::<u64>(), 35);
}

#[test]
fn a_profile_without_counts_keeps_its_unit() {
    let mut strings = Strings::new();
    let message = pb::Profile {
        sample_type: vec![pb::ValueType {
            r#type: strings.number("inuse_space"),
            unit: strings.number("bytes"),
        }],
        sample: vec![pb::Sample {
            location_id: vec![7, 99],
            value: vec![4096],
            label: Vec::new(),
        }],
        location: vec![pb::Location {
            id: 7,
            ..pb::Location::default()
        }],
        string_table: strings.table,
        ..pb::Profile::default()
    };
    let text = folded(&read(message.encode_to_vec().as_slice(), None).unwrap());
    assert_eq!(
        text,
        "# unit: bytes\n# event: inuse_space\n[unknown];[unknown] 4096\n"
    );
}

#[test]
fn counts_beyond_64_bits_stop_at_the_largest() {
    let mut strings = Strings::new();
    let sample = pb::Sample {
        value: vec![i64::MAX],
        ..pb::Sample::default()
    };
    let message = pb::Profile {
        sample_type: vec![pb::ValueType {
            r#type: strings.number("samples"),
            unit: strings.number("count"),
        }],
        sample: vec![sample; 3],
        string_table: strings.table,
        ..pb::Profile::default()
    };
    let profile = read(message.encode_to_vec().as_slice(), None).unwrap();
    assert_eq!(profile.stacks.samples(), u64::MAX);
    assert!(folded(&profile).ends_with(" 18446744073709551615\n"));
    // The format has 63 bits: more must not become negative, which readers leave out.
    let mut bytes = Vec::new();
    write(&profile, 0, &mut bytes).unwrap();
    let back = read(bytes.as_slice(), None).unwrap();
    assert_eq!(back.stacks.samples(), i64::MAX as u64);
    assert!(back.head.reasons.is_empty());
}

#[test]
fn stacks_are_cut_at_their_depth_limit() {
    let mut strings = Strings::new();
    let line = pb::Line {
        function_id: 1,
        line: 0,
    };
    let message = pb::Profile {
        sample_type: vec![pb::ValueType {
            r#type: strings.number("samples"),
            unit: strings.number("count"),
        }],
        sample: vec![pb::Sample {
            location_id: vec![1; 10],
            value: vec![1],
            label: Vec::new(),
        }],
        location: vec![pb::Location {
            id: 1,
            line: vec![line; 1000],
            ..pb::Location::default()
        }],
        string_table: strings.table,
        ..pb::Profile::default()
    };
    let profile = read(message.encode_to_vec().as_slice(), None).unwrap();
    assert_eq!(profile.stacks().next().unwrap().numbers.len(), DEEPEST);
}

/// A profile of these types of values, of one function a sample.
fn of_types(types: &[(&str, &str)], default: &str, samples: &[(&str, &[i64])]) -> Vec<u8> {
    let mut strings = Strings::new();
    let mut message = pb::Profile::default();
    for (type_, unit) in types {
        message.sample_type.push(pb::ValueType {
            r#type: strings.number(type_),
            unit: strings.number(unit),
        });
    }
    for (at, (function, value)) in samples.iter().enumerate() {
        let id = at as u64 + 1;
        message.function.push(pb::Function {
            id,
            name: strings.number(function),
            ..pb::Function::default()
        });
        message.location.push(pb::Location {
            id,
            line: vec![pb::Line {
                function_id: id,
                line: 0,
            }],
            ..pb::Location::default()
        });
        message.sample.push(pb::Sample {
            location_id: vec![id],
            value: value.to_vec(),
            label: Vec::new(),
        });
    }
    message.default_sample_type = strings.number(default);
    message.string_table = strings.table;
    message.encode_to_vec()
}

/// Unit, event and stacks of a profile, as `steelyard-profile fold` writes them.
fn shown(bytes: &[u8], event: Option<&str>) -> String {
    let profile = read(bytes, event).unwrap();
    let by_period = profile.is_by_period(crate::Weight::Auto).unwrap();
    let mut out = Vec::new();
    crate::folded::write_weighted(&profile, by_period, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("# reason"));
    let lines: Vec<_> = lines
        .map(|line| {
            line.trim_start_matches("[unknown];")
                .trim_start_matches("# ")
        })
        .collect();
    lines.join(" | ")
}

const HEAP: [(&str, &str); 4] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
];

#[test]
fn of_several_types_the_one_that_pprof_shows_is_read_under_its_name() {
    let values: [(&str, &[i64]); 2] =
        [("keep", &[3, 30, 3, 30_000]), ("churn", &[900, 9000, 0, 0])];
    for default in ["inuse_space", "", "no such type"] {
        let heap = of_types(&HEAP, default, &values);
        let expected = "unit: bytes | event: inuse_space | keep 30000";
        assert_eq!(shown(&heap, None), expected, "{default}");
    }
    let heap = of_types(&HEAP, "alloc_objects", &values);
    let objects = "unit: count | event: alloc_objects | keep 3 | churn 900";
    assert_eq!(shown(&heap, None), objects);
    let reasons = read(heap.as_slice(), None).unwrap().head.reasons;
    assert_eq!(
        reasons,
        ["other values are left out (alloc_space, inuse_objects, inuse_space): --event chooses"]
    );
    let mutex = [("contentions", "count"), ("delay", "nanoseconds")];
    let mutex = of_types(&mutex, "", &[("lock", &[2, 7000]), ("wait", &[800, 5])]);
    let delay = "unit: nanoseconds | event: delay | lock 7000 | wait 5";
    assert_eq!(shown(&mutex, None), delay);
}

#[test]
fn a_type_can_be_chosen_and_an_unknown_one_names_those_that_exist() {
    let wall = [("wall", "microseconds"), ("cpu", "microseconds")];
    let wall = of_types(&wall, "", &[("sleep", &[4000, 2]), ("work", &[9, 8])]);
    for (event, expected) in [
        (None, "unit: microseconds | event: cpu | sleep 2 | work 8"),
        (
            Some("cpu"),
            "unit: microseconds | event: cpu | sleep 2 | work 8",
        ),
        (
            Some("wall"),
            "unit: microseconds | event: wall | sleep 4000 | work 9",
        ),
    ] {
        assert_eq!(shown(&wall, event), expected);
    }
    let none = read(wall.as_slice(), Some("alloc_space")).unwrap();
    assert!(none.stacks.is_empty());
    assert_eq!(none.head.reasons, ["no event alloc_space, but wall, cpu"]);
    // A type that is asked for has nothing left out.
    assert_eq!(
        read(wall.as_slice(), Some("wall")).unwrap().head.reasons,
        [""; 0]
    );
}

#[test]
fn samples_are_counted_where_the_values_are_their_time() {
    let types = [("samples", "count"), ("cpu", "nanoseconds")];
    let equal = of_types(
        &types,
        "",
        &[("a", &[2, 20]), ("b", &[5, 50]), ("none", &[0, 0])],
    );
    assert_eq!(
        shown(&equal, None),
        "unit: samples | event: cpu | a 2 | b 5"
    );
    assert_eq!(shown(&equal, Some("cpu")), shown(&equal, None));
    assert_eq!(
        shown(&equal, Some("samples")),
        "unit: samples | event: samples | a 2 | b 5"
    );
    assert_eq!(read(equal.as_slice(), None).unwrap().head.reasons, [""; 0]);
    // Samples that stand for different times weigh as much as they stand for.
    let types = [("samples", "count"), ("wall", "milliseconds")];
    let differ = of_types(&types, "", &[("a", &[2, 1]), ("b", &[2, 9])]);
    let expected = "unit: nanoseconds | samples: 4 | event: wall | a 1000000 | b 9000000";
    assert_eq!(shown(&differ, None), expected);
    // Bytes are nothing that samples are weighed with.
    let types = [("samples", "count"), ("alloc", "bytes")];
    let bytes = of_types(&types, "", &[("a", &[2, 64])]);
    assert_eq!(shown(&bytes, None), "unit: bytes | event: alloc | a 64");
}

#[test]
fn values_that_are_no_samples_keep_their_name_when_written_again() {
    let heap = of_types(&HEAP, "inuse_space", &[("keep", &[3, 30, 3, 30_000])]);
    let mut bytes = Vec::new();
    write(&read(heap.as_slice(), None).unwrap(), 0, &mut bytes).unwrap();
    assert_eq!(shown(&bytes, None), shown(&heap, None));
}

#[test]
fn lines_of_the_source_are_read_where_they_are_wanted() {
    let bytes = of_types(&[("samples", "count")], "", &[("f", &[4])]);
    let mut message = pb::Profile::decode(bytes.as_slice()).unwrap();
    message.string_table.push(b"/src/main.go".to_vec());
    message.function[0].filename = message.string_table.len() as i64 - 1;
    message.location[0].line[0].line = 12;
    let wanted = Wanted {
        lines: true,
        ..Wanted::default()
    };
    let profile = super::read(message.encode_to_vec().as_slice(), &wanted).unwrap();
    assert!(folded(&profile).ends_with(";f (main.go:12) 4\n"));
}

#[test]
fn what_is_no_profile_is_refused() {
    for bytes in [
        &b""[..],
        b"x",
        b"\x1f\x8b\0\0",
        b"\xff\xff\xff\xff",
        b"\0\0\0",
    ] {
        assert!(read(bytes, None).is_err());
    }
}
