//! Reads a profile in whichever format it has.
//!
//! In: perf.data (file or stream), the text of `perf script`, or pprof. Out: a profile of names.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::script::{ScriptReader, looks_like_script};
use crate::{Profile, ProfileError, perf_data, pprof};

/// What is wanted of a profile.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Samples of this event, or of the first that was recorded.
    pub event: Option<&'a str>,
    /// Names from the files below this folder, which stands for the root of the machine that was recorded.
    pub symfs: Option<&'a Path>,
    /// Lines of the source beside functions, where debug information has them.
    pub lines: bool,
}

/// Formats that profiles are read from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Whichever the first bytes say.
    #[default]
    Auto,
    /// The text of `perf script`.
    Script,
    /// What `perf record` writes.
    PerfData,
    /// pprof's protocol buffers.
    Pprof,
}

/// Bytes that tell the format.
const PEEKED_BYTES: usize = 1 << 16;
/// Bytes of text that are read at once: they stay in the second level of the cache while they are parsed.
const PIECE_BYTES: usize = 1 << 17;

/// Reads `path`, or standard input for `-`. Samples of the event that is wanted are taken, or of the first that was
/// recorded; where that has none, of the first that has.
pub fn read(path: &Path, format: Format, wanted: &Wanted<'_>) -> Result<Profile, ProfileError> {
    let first = read_once(path, format, wanted)?;
    let Some(next) = first
        .next_event
        .as_deref()
        .filter(|_| path.is_file() || path.is_dir())
    else {
        return Ok(first);
    };
    let next = Wanted {
        event: Some(next),
        ..*wanted
    };
    let mut profile = read_once(path, format, &next)?;
    let empty = first.head.event.unwrap_or_default();
    profile.reduced(format!("{empty} was recorded first and has no sample"));
    Ok(profile)
}

fn read_once(path: &Path, format: Format, wanted: &Wanted<'_>) -> Result<Profile, ProfileError> {
    let io = |source| ProfileError::Read {
        path: path.to_owned(),
        source,
    };
    if perf_data::is_folder(path) {
        return perf_data::read_folder(path, wanted).map_err(|reason| ProfileError::Malformed {
            path: path.to_owned(),
            expected: "perf.data folder",
            reason,
        });
    }
    let standard = path.as_os_str() == "-";
    let mut input: Box<dyn Read> = if standard {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(io)?)
    };
    let mut start = Vec::new();
    (&mut input)
        .take(PEEKED_BYTES as u64)
        .read_to_end(&mut start)
        .map_err(io)?;
    if matches!(format, Format::Auto | Format::Script) && looks_like_script(&decompressed(&start)) {
        let text = MultiGzDecoder::new(start.as_slice().chain(input));
        return read_script(&[], text, wanted).map_err(io);
    }
    let format = match format {
        Format::Auto => detect(&start).ok_or_else(|| ProfileError::Malformed {
            path: path.to_owned(),
            expected: "profile",
            reason: what_else(&start),
        })?,
        chosen => chosen,
    };
    let malformed = |expected| {
        move |reason| ProfileError::Malformed {
            path: path.to_owned(),
            expected,
            reason,
        }
    };
    match format {
        Format::Script | Format::Auto => read_script(&start, input, wanted).map_err(io),
        Format::Pprof => pprof::read(start.as_slice().chain(input), wanted)
            .map(|profile| without_symfs(profile, wanted))
            .map_err(malformed("pprof profile")),
        Format::PerfData => {
            let whole = start.as_slice().chain(input);
            read_perf_data(path, standard, &start, whole, wanted)
                .map_err(io)?
                .map_err(malformed("perf.data"))
        }
    }
}

fn read_perf_data(
    path: &Path,
    standard: bool,
    start: &[u8],
    mut whole: impl Read,
    wanted: &Wanted<'_>,
) -> io::Result<Result<Profile, String>> {
    let is_stream = start
        .get(8..16)
        .is_some_and(|size| size == 16_u64.to_le_bytes());
    if is_stream {
        return Ok(perf_data::read_stream(
            BufReader::with_capacity(1 << 18, whole),
            wanted,
        ));
    }
    if !standard && path.is_file() {
        return Ok(perf_data::read_file(File::open(path)?, wanted));
    }
    // A file's sections are sought in, which a pipe cannot do.
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut whole, &mut copy)?;
    copy.flush()?;
    io::Seek::rewind(&mut copy)?;
    Ok(perf_data::read_file(copy, wanted))
}

/// Says that a folder of files was of no use, where names are in the input itself.
fn without_symfs(mut profile: Profile, wanted: &Wanted<'_>) -> Profile {
    if wanted.symfs.is_some() {
        profile.reduced("--symfs was not used: the names are in the file itself");
    }
    profile
}

fn read_script(start: &[u8], mut input: impl Read, wanted: &Wanted<'_>) -> io::Result<Profile> {
    let mut reader = ScriptReader::new(wanted.event);
    reader.wants_lines = wanted.lines;
    reader.feed(start);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match input.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => reader.feed(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(without_symfs(reader.finish(), wanted))
}

/// What a compressed file's first bytes hold, empty of another.
fn decompressed(start: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    if start.starts_with(&[0x1f, 0x8b]) {
        // The bytes end in the middle of the stream.
        let _ = MultiGzDecoder::new(start)
            .take(PEEKED_BYTES as u64)
            .read_to_end(&mut text);
    }
    text
}

/// The format that a file's first bytes have.
pub fn detect(start: &[u8]) -> Option<Format> {
    if start.starts_with(perf_data::MAGIC) || start.starts_with(perf_data::MAGIC_SWAPPED) {
        return Some(Format::PerfData);
    }
    if start.starts_with(&[0x1f, 0x8b]) {
        return Some(Format::Pprof);
    }
    if looks_like_script(start) {
        return Some(Format::Script);
    }
    // A protocol buffer that is not compressed begins with its first field: sample_type, a message.
    start.starts_with(&[0x0a]).then_some(Format::Pprof)
}

/// Why bytes of no known format are not read, with their format where that has a name.
fn what_else(start: &[u8]) -> String {
    let legacy = if is_legacy_cpu_profile(start) {
        "a CPU profile"
    } else if LEGACY_TEXTS.iter().any(|text| start.starts_with(text)) {
        "a text profile"
    } else {
        return "it is neither perf.data nor pprof, nor text of perf script with the fields ip and sym"
            .to_owned();
    };
    format!(
        "it is {legacy} in the old format of gperftools, from before pprof's: convert it, \
         pprof -proto PROGRAM FILE > profile.pb.gz"
    )
}

/// How the text formats of gperftools and of Go's `debug=1` begin.
const LEGACY_TEXTS: [&[u8]; 6] = [
    b"heap profile:",
    b"--- heapz",
    b"--- contention",
    b"--- mutex:",
    b"--- thread",
    b"goroutine profile:",
];

/// Whether `start` is the header of gperftools' CPU profile: 0, the count of words that follow (3 at least), a
/// version of 0 or 1, the period, 0; in the words and the byte order of the machine that wrote it.
fn is_legacy_cpu_profile(start: &[u8]) -> bool {
    let is_header = |words: &[u64]| matches!(words, &[0, 3..=16, 0..=1, 10..=1_000_000_000, 0]);
    let narrow = |decode: fn([u8; 4]) -> u32| -> Vec<u64> {
        let (words, _) = start.as_chunks::<4>();
        words
            .iter()
            .take(5)
            .map(|word| u64::from(decode(*word)))
            .collect()
    };
    let wide = |decode: fn([u8; 8]) -> u64| -> Vec<u64> {
        let (words, _) = start.as_chunks::<8>();
        words.iter().take(5).map(|word| decode(*word)).collect()
    };
    is_header(&narrow(u32::from_le_bytes))
        || is_header(&narrow(u32::from_be_bytes))
        || is_header(&wide(u64::from_le_bytes))
        || is_header(&wide(u64::from_be_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_format_of_gperftools_is_named() {
        let words = [0_u64, 3, 0, 10_000, 0, 1, 2, 0x410bc0, 0x410bc0];
        let header: [fn(u64) -> Vec<u8>; 4] = [
            |word| word.to_le_bytes().to_vec(),
            |word| word.to_be_bytes().to_vec(),
            |word| (word as u32).to_le_bytes().to_vec(),
            |word| (word as u32).to_be_bytes().to_vec(),
        ];
        for bytes in header {
            let start: Vec<u8> = words.iter().copied().flat_map(bytes).collect();
            assert!(what_else(&start).contains("a CPU profile in the old format of gperftools"));
        }
        assert!(
            what_else(b"heap profile: 1: 2 [3: 4] @ heapz_v2/1")
                .contains("a text profile in the old")
        );
        for other in [
            &[0_u8; 64][..],
            &[0, 0, 0, 0],
            b"",
            b"hello, world, this is text",
        ] {
            assert!(what_else(other).starts_with("it is neither"));
        }
    }

    #[test]
    fn compressed_text_is_read_as_the_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script.txt.gz");
        let text = b"x 1 [000] 1.5: cycles: \n\t 10 f (/a)\n\n";
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        std::fs::write(&path, encoder.finish().unwrap()).unwrap();
        let profile = read(&path, Format::Auto, &Wanted::default()).unwrap();
        assert_eq!(profile.stacks.samples(), 1);
        assert_eq!(profile.head.event.as_deref(), Some("cycles"));
    }

    #[test]
    fn formats_are_recognized_by_their_begin() {
        assert_eq!(detect(b"PERFILE2...."), Some(Format::PerfData));
        assert_eq!(detect(b"\x1f\x8b..."), Some(Format::Pprof));
        assert_eq!(
            detect(b"\n\nx 1 [000] 1.5: cycles: \n"),
            Some(Format::Script)
        );
        assert_eq!(
            detect(b"# comment\nx 1 [000] 1.5: cycles: \n"),
            Some(Format::Script)
        );
        assert_eq!(detect(b"hello"), None);
        assert_eq!(detect(b""), None);
    }
}
