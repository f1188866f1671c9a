use super::*;

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
    let back = read(bytes.as_slice()).unwrap();
    assert_eq!(folded(&back), folded(&profile));
    assert_eq!(back.weight_unit, WeightUnit::Nanoseconds);
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
    let text = folded(&read(message.encode_to_vec().as_slice()).unwrap());
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
    let profile = read(message.encode_to_vec().as_slice()).unwrap();
    assert_eq!(profile.stacks.samples(), u64::MAX);
    assert!(folded(&profile).ends_with(" 18446744073709551615\n"));
    // The format has 63 bits: more must not become negative, which readers leave out.
    let mut bytes = Vec::new();
    write(&profile, 0, &mut bytes).unwrap();
    let back = read(bytes.as_slice()).unwrap();
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
    let profile = read(message.encode_to_vec().as_slice()).unwrap();
    assert_eq!(profile.stacks().next().unwrap().numbers.len(), DEEPEST);
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
        assert!(read(bytes).is_err());
    }
}
