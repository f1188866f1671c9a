//! perf.data made by hand, byte for byte, read whole, cut off and damaged.

use std::io::{Seek, Write};

use proptest::prelude::*;

use super::*;

const IP: u64 = 1;
const TID: u64 = 2;
const TIME: u64 = 4;
const CALLCHAIN: u64 = 1 << 5;
const PERIOD: u64 = 1 << 8;
const IDENTIFIER: u64 = 1 << 16;
const SAMPLE_TYPE: u64 = IP | TID | TIME | CALLCHAIN | PERIOD | IDENTIFIER;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const FREQUENCY: u64 = 1 << 10;
const ATTRIBUTE_BYTES: usize = 112;
const USER: u16 = 2;

fn attribute(type_: u32, config: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(type_.to_le_bytes());
    bytes.extend((ATTRIBUTE_BYTES as u32).to_le_bytes());
    for word in [config, 99, SAMPLE_TYPE, 0, SAMPLE_ID_ALL | FREQUENCY] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.resize(ATTRIBUTE_BYTES, 0);
    bytes
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(misc.to_le_bytes());
    bytes.extend((8 + body.len() as u16).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// What follows a record that is no sample: ids, time, identifier.
fn trailer(time: u64, id: u64) -> Vec<u8> {
    [7 | 7 << 32, time, id]
        .iter()
        .flat_map(|word: &u64| word.to_le_bytes())
        .collect()
}

fn text(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize((name.len() + 1).next_multiple_of(8), 0);
    bytes
}

fn command(name: &str, time: u64, misc: u16) -> Vec<u8> {
    let mut body = [7_u32, 7]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect::<Vec<u8>>();
    body.extend(text(name));
    body.extend(trailer(time, 1));
    record(3, misc, &body)
}

fn map(path: &str, start: u64, length: u64, time: u64) -> Vec<u8> {
    let mut body = [7_u32, 7]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect::<Vec<u8>>();
    for word in [start, length, 0, 0, 4242, 0] {
        body.extend(word.to_le_bytes());
    }
    body.extend(5_u32.to_le_bytes());
    body.extend(2_u32.to_le_bytes());
    body.extend(text(path));
    body.extend(trailer(time, 1));
    record(10, USER, &body)
}

fn sample(id: u64, time: u64, chain: &[u64]) -> Vec<u8> {
    let mut body = Vec::new();
    let fixed = [id, chain[1], 7 | 7 << 32, time, 1000, chain.len() as u64];
    for word in fixed.iter().chain(chain) {
        body.extend(word.to_le_bytes());
    }
    record(9, USER, &body)
}

const CONTEXT_USER: u64 = -512_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;

/// Two events; the samples lie before the mapping in the file, and after it in time.
fn records() -> Vec<u8> {
    let user = [CONTEXT_USER, 0x1010, 0x1020, 0x9999];
    let mixed = [CONTEXT_KERNEL, 0xffff_ffff_8100_0000, CONTEXT_USER, 0x2004];
    [
        sample(1, 50, &user),
        sample(1, 60, &mixed),
        sample(2, 61, &user),
        command("prog", 10, 1 << 13),
        map("/none/prog", 0x1000, 0x1000, 20),
        map("/none/libx.so", 0x2000, 0x1000, 21),
        record(
            2,
            0,
            &[1_u64, 5]
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .chain(trailer(62, 1))
                .collect::<Vec<u8>>(),
        ),
        record(68, 0, &[]),
        sample(1, 70, &user),
    ]
    .concat()
}

fn file() -> Vec<u8> {
    file_of(&records())
}

fn file_of(records: &[u8]) -> Vec<u8> {
    let attributes = [attribute(1, 0), attribute(0, 1)];
    let entries = 104_u64;
    let each = ATTRIBUTE_BYTES as u64 + 16;
    let ids = entries + 2 * each;
    let data = ids + 16;
    let mut bytes = MAGIC.to_vec();
    let size = records.len() as u64;
    for word in [104, each, entries, 2 * each, data, size, 0, 0, 0, 0, 0, 0] {
        bytes.extend(u64::to_le_bytes(word));
    }
    for (at, attribute) in attributes.iter().enumerate() {
        bytes.extend(attribute);
        bytes.extend((ids + 8 * at as u64).to_le_bytes());
        bytes.extend(8_u64.to_le_bytes());
    }
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(2_u64.to_le_bytes());
    bytes.extend(records);
    bytes
}

fn stream() -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(16_u64.to_le_bytes());
    for (at, attribute) in [attribute(1, 0), attribute(0, 1)].into_iter().enumerate() {
        let body = [attribute, (at as u64 + 1).to_le_bytes().to_vec()].concat();
        bytes.extend(record(64, 0, &body));
    }
    bytes.extend(records());
    bytes
}

fn read(bytes: &[u8], event: Option<&str>) -> Result<Profile, String> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    read_file(file, &wanted(event))
}

fn wanted(event: Option<&str>) -> Wanted<'_> {
    Wanted {
        event,
        ..Wanted::default()
    }
}

fn folded(profile: &Profile) -> String {
    let mut out = Vec::new();
    crate::folded::write(profile, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect()
}

const EXPECTED: &str = "prog;[unknown];[unknown] [prog];[unknown] [prog] 2\n\
                        prog;[unknown] [libx.so];[unknown] [kernel] 1\n";

#[test]
fn records_take_effect_in_the_order_of_their_times() {
    let profile = read(&file(), None).unwrap();
    assert_eq!(folded(&profile), EXPECTED);
    assert_eq!(profile.head.event.as_deref(), Some("cpu-clock"));
    assert_eq!(profile.head.hz, Some(99.0));
    assert_eq!(profile.head.lost, Some(5));
    assert_eq!(
        profile.stacks().map(|stack| stack.weight).sum::<u64>(),
        3000
    );
    let reasons = profile.head.reasons.join("\n");
    assert!(reasons.contains("another kernel was recorded"), "{reasons}");
    assert!(
        reasons.contains("cannot be opened: prog, libx.so"),
        "{reasons}"
    );
    assert!(reasons.contains("1 samples of other events"), "{reasons}");
}

#[test]
fn the_first_recorded_event_is_taken_whichever_comes_first_in_time() {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(16_u64.to_le_bytes());
    for (attribute, id) in [(attribute(0, 1), 2_u64), (attribute(1, 0), 1)] {
        let body = [attribute, id.to_le_bytes().to_vec()].concat();
        bytes.extend(record(64, 0, &body));
    }
    bytes.extend(records());
    let profile = read(&bytes, None).unwrap();
    assert_eq!(profile.head.event.as_deref(), Some("instructions"));
    assert_eq!(profile.stacks.samples(), 1);
    let unknown = read(&bytes, Some("branches")).unwrap();
    let reason = "no event branches, but instructions, cpu-clock".to_owned();
    assert!(unknown.head.reasons.contains(&reason));
    assert!(unknown.stacks.is_empty());
}

#[test]
fn an_event_without_samples_gives_way_to_the_next() {
    let attributes = [(attribute(0, 4), 9_u64), (attribute(1, 0), 1)];
    let mut bytes = MAGIC.to_vec();
    bytes.extend(16_u64.to_le_bytes());
    for (attribute, id) in attributes {
        let body = [attribute, id.to_le_bytes().to_vec()].concat();
        bytes.extend(record(64, 0, &body));
    }
    bytes.extend(sample(1, 50, &[CONTEXT_USER, 0x1010]));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("perf.data");
    std::fs::write(&path, bytes).unwrap();
    let profile = crate::input::read(&path, crate::Format::Auto, &wanted(None)).unwrap();
    assert_eq!(profile.head.event.as_deref(), Some("cpu-clock"));
    let reason = "branches was recorded first and has no sample".to_owned();
    assert!(profile.head.reasons.contains(&reason));
}

#[test]
fn a_folder_of_several_threads_is_one_recording() {
    let folder = tempfile::tempdir().unwrap();
    let main = file_of(&record(68, 0, &[]));
    let user = [CONTEXT_USER, 0x1010, 0x1020];
    // What a thread mapped is in another file than its samples, which end before it begins.
    let samples = [
        sample(1, 50, &user),
        record(68, 0, &[]),
        sample(1, 60, &user),
        record(68, 0, &[]),
    ];
    let maps = [
        command("prog", 10, 1 << 13),
        map("/none/prog", 0x1000, 0x1000, 20),
        record(68, 0, &[]),
    ];
    assert!(!is_folder(folder.path()));
    std::fs::write(folder.path().join("data"), main).unwrap();
    std::fs::write(folder.path().join("data.0"), samples.concat()).unwrap();
    std::fs::write(folder.path().join("data.10"), maps.concat()).unwrap();
    let profile = crate::input::read(folder.path(), crate::Format::Auto, &wanted(None)).unwrap();
    assert_eq!(
        folded(&profile),
        "prog;[unknown] [prog];[unknown] [prog] 2\n"
    );
}

#[test]
fn an_event_can_be_chosen() {
    let profile = read(&file(), Some("instructions")).unwrap();
    assert_eq!(
        folded(&profile),
        "prog;[unknown];[unknown] [prog];[unknown] [prog] 1\n"
    );
}

#[test]
fn a_stream_is_read_as_a_file_is() {
    assert_eq!(
        folded(&read_stream(stream().as_slice(), &wanted(None)).unwrap()),
        EXPECTED
    );
    assert_eq!(folded(&read(&stream(), None).unwrap()), EXPECTED);
}

#[test]
fn what_is_cut_off_gives_what_it_holds_and_says_so() {
    let whole = file();
    for length in 0..whole.len() {
        match read(&whole[..length], None) {
            Ok(profile) => assert!(
                profile
                    .head
                    .reasons
                    .iter()
                    .any(|reason| reason.contains("ends early")),
                "{length}: {:?}",
                profile.head.reasons
            ),
            Err(reason) => assert!(!reason.is_empty() && length < 400, "{length}: {reason}"),
        }
    }
}

#[test]
fn foreign_files_are_refused_in_one_line() {
    for bytes in [
        &b""[..],
        b"PERFILE2",
        b"2ELIFREP\x10\0\0\0\0\0\0\0",
        &[0xff; 200],
    ] {
        let reason = read(bytes, None).err().unwrap();
        assert!(!reason.contains('\n'));
    }
}

proptest! {
    #[test]
    fn damaged_files_make_no_panic(damage in prop::collection::vec((0..2000_usize, any::<u8>()), 1..20)) {
        for mut bytes in [file(), stream()] {
            for &(at, value) in &damage {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            let _ = read(&bytes, None);
            let _ = read_stream(bytes.as_slice(), &wanted(None));
        }
    }
}
