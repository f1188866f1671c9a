//! perf.data, the file that `perf record` writes, to a profile.
//!
//! In: a file, or the stream that `perf record -o -` writes. Out: stacks of names. Source:
//! tools/perf/Documentation/perf.data-file-format.txt.
//!
//! Invariants: nothing panics, whatever the bytes; a file that ends early gives what it holds and says so;
//! memory is bounded by what lies between two round marks.
//!
//! Not here: files of big-endian machines and hardware traces (AUX), which are reported.

mod features;
mod folder;
mod header;
mod inflate;

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::Profile;
use crate::input::Wanted;
use crate::sample::{Assembler, Attribute, Cursor, Place, Rounds, Spaces, Witness};
use crate::symbols::{Files, name_all};
use crate::unwind::Processor;
use features::Features;
pub use folder::{is_folder, read_folder};
use header::{Header, STREAM_HEADER_BYTES, Section, check_start, parse_header, section};
pub use header::{MAGIC, MAGIC_SWAPPED};
use inflate::Inflater;

/// Attributes that are read at most.
const MOST_ATTRIBUTES: u64 = 4096;
/// Bytes of one feature section or id list that are read at most.
const MOST_SECTION_BYTES: u64 = 64 << 20;

mod user_kind {
    pub const HEADER_ATTR: u32 = 64;
    pub const HEADER_TRACING_DATA: u32 = 66;
    pub const HEADER_BUILD_ID: u32 = 67;
    pub const FINISHED_ROUND: u32 = 68;
    pub const AUXTRACE: u32 = 71;
    pub const EVENT_UPDATE: u32 = 78;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// Reads a file that can be sought in.
///
/// # Errors
/// One sentence that says why the file is no perf.data.
pub fn read_file(file: File, wanted: &Wanted<'_>) -> Result<Profile, String> {
    read_with(file, wanted, |_| {})
}

/// The same, with what `more` adds.
fn read_with(
    mut file: File,
    wanted: &Wanted<'_>,
    more: impl FnOnce(&mut Reading),
) -> Result<Profile, String> {
    let mut start = Vec::new();
    let io = |error: io::Error| error.to_string();
    (&mut file).take(104).read_to_end(&mut start).map_err(io)?;
    let size = check_start(&start)?;
    if size == STREAM_HEADER_BYTES {
        file.seek(SeekFrom::Start(STREAM_HEADER_BYTES))
            .map_err(io)?;
        return read_stream_records(BufReader::with_capacity(1 << 18, file), wanted);
    }
    let header = parse_header(&start).ok_or("its header is cut off")?;
    let file_bytes = file.metadata().map_err(io)?.len();
    let mut reading = Reading::new(wanted);
    read_attributes(&mut file, &header, &mut reading)?;
    let mut features = Features::default();
    let data_end = header.data.offset.saturating_add(header.data.size);
    if header.data.size == 0 || data_end > file_bytes {
        reading.note("perf.data ends early: the recording was killed or cut off");
    } else {
        read_features(&mut file, &header, data_end, &mut features);
    }
    reading.take_features(features);
    let data_bytes = if header.data.size == 0 {
        u64::MAX
    } else {
        header.data.size
    };
    file.seek(SeekFrom::Start(header.data.offset)).map_err(io)?;
    let mut data = BufReader::with_capacity(1 << 18, file).take(data_bytes);
    reading.records(&mut data);
    more(&mut reading);
    Ok(reading.finish())
}

/// Reads a stream that `perf record -o -` wrote, from its begin.
///
/// # Errors
/// One sentence that says why it is no such stream.
pub fn read_stream(mut stream: impl Read, wanted: &Wanted<'_>) -> Result<Profile, String> {
    let mut start = [0; STREAM_HEADER_BYTES as usize];
    stream
        .read_exact(&mut start)
        .map_err(|error| error.to_string())?;
    if check_start(&start)? != STREAM_HEADER_BYTES {
        return Err("it is a file, which cannot be read as a stream".to_owned());
    }
    read_stream_records(stream, wanted)
}

fn read_stream_records(mut stream: impl Read, wanted: &Wanted<'_>) -> Result<Profile, String> {
    let mut reading = Reading::new(wanted);
    reading.records(&mut stream);
    if reading.assembler.attributes.list().is_empty() {
        return Err("it describes no event".to_owned());
    }
    Ok(reading.finish())
}

fn read_section(file: &mut File, section: Section) -> Option<Vec<u8>> {
    if section.size > MOST_SECTION_BYTES {
        return None;
    }
    file.seek(SeekFrom::Start(section.offset)).ok()?;
    let mut bytes = Vec::new();
    file.take(section.size).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == section.size).then_some(bytes)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
}

fn read_attributes(file: &mut File, header: &Header, reading: &mut Reading) -> Result<(), String> {
    let each = header.attribute_bytes;
    if !(64..=4096).contains(&each) || header.attributes.size / each > MOST_ATTRIBUTES {
        return Err("its attributes have no possible size".to_owned());
    }
    let bytes = read_section(file, header.attributes).ok_or("its attributes are cut off")?;
    for entry in bytes.chunks_exact(each as usize) {
        let (attribute, ids) = entry.split_at(entry.len() - 16);
        let attribute = Attribute::parse(attribute).ok_or("its attributes are too short")?;
        let ids = section(&mut Cursor::new(ids)).and_then(|ids| read_section(file, ids));
        reading
            .assembler
            .attributes
            .add(attribute, words(&ids.unwrap_or_default()));
    }
    if reading.assembler.attributes.list().is_empty() {
        return Err("it describes no event".to_owned());
    }
    Ok(())
}

fn read_features(file: &mut File, header: &Header, table: u64, features: &mut Features) {
    let bits =
        (0..256_u32).filter(|bit| header.features[*bit as usize / 64] >> (bit % 64) & 1 != 0);
    let bits: Vec<u32> = bits.collect();
    let place = Section {
        offset: table,
        size: 16 * bits.len() as u64,
    };
    let Some(bytes) = read_section(file, place) else {
        return;
    };
    let mut cursor = Cursor::new(&bytes);
    for bit in bits {
        let Some(place) = section(&mut cursor) else {
            return;
        };
        if let Some(content) = Features::wants(bit)
            .then(|| read_section(file, place))
            .flatten()
        {
            features.take(bit, &content);
        }
    }
}

/// The state of reading records.
struct Reading {
    assembler: Assembler,
    rounds: Rounds,
    features: Features,
    notes: Vec<String>,
    traces: u64,
    unread: u64,
    named: bool,
    inflater: Option<Inflater>,
    damaged: bool,
    /// Files of several threads are read, one after another.
    in_parts: bool,
    past: Past,
    /// What stands for the root of the machine that was recorded.
    root: Option<PathBuf>,
    wants_lines: bool,
}

/// What is left of the processes that were recorded: their files.
#[derive(Default)]
struct Past {
    files: Files,
}

impl Witness for Past {
    fn meet(&mut self, _: &mut Spaces, _: u32, _: u32) {}

    fn see(&mut self, _: &mut Spaces, _: u32, _: Place) {}

    fn file(&mut self, spaces: &mut Spaces, _: u32, module: u32) -> Option<PathBuf> {
        self.files.path_of(spaces.module_mut(module)?).ok()
    }
}

impl Reading {
    fn new(wanted: &Wanted<'_>) -> Self {
        Self {
            assembler: Assembler::new(wanted.event),
            root: wanted.symfs.map(Path::to_owned),
            wants_lines: wanted.lines,
            rounds: Rounds::default(),
            features: Features::default(),
            notes: Vec::new(),
            traces: 0,
            unread: 0,
            named: false,
            inflater: None,
            damaged: false,
            in_parts: false,
            past: Past::default(),
        }
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    fn take_features(&mut self, features: Features) {
        let attributes = &mut self.assembler.attributes;
        for (id, name) in &features.event_names {
            if let Some(at) = attributes.by_id(*id) {
                attributes.name(at, name);
            }
        }
        for (at, name) in features.ordered_names.iter().enumerate() {
            attributes.name(at, name);
        }
        self.features = features;
    }

    /// Takes the records of another file of the same recording, which take effect in the end.
    fn part(&mut self, input: &mut impl Read) {
        self.in_parts = true;
        self.inflater = None;
        self.records(input);
    }

    /// Takes records until the input ends or is not understood.
    fn records(&mut self, input: &mut impl Read) {
        let mut body = Vec::new();
        loop {
            let mut header = [0; 8];
            match fill(input, &mut header) {
                Ok(8) => {}
                Ok(0) => break,
                _ => return self.note("perf.data ends early, within a record"),
            }
            let kind = u32::from_le_bytes(header[..4].try_into().expect("4 bytes"));
            let misc = u16::from_le_bytes(header[4..6].try_into().expect("2 bytes"));
            let size = usize::from(u16::from_le_bytes(header[6..].try_into().expect("2 bytes")));
            // A record of size 0 would never end; it is what an unwritten part of a file looks like.
            let Some(length) = size.checked_sub(8) else {
                return self.note("perf.data is damaged: a record shorter than its header; what follows is left out");
            };
            body.resize(length, 0);
            if !matches!(fill(input, &mut body), Ok(read) if read == length) {
                return self.note("perf.data ends early, within a record");
            }
            if self.record(kind, misc, &body, input).is_none() {
                return self.note("perf.data ends early, within a trace");
            }
        }
    }

    fn record(&mut self, kind: u32, misc: u16, body: &[u8], input: &mut impl Read) -> Option<()> {
        match kind {
            user_kind::FINISHED_ROUND if self.in_parts => {}
            user_kind::FINISHED_ROUND => self.end_round(false),
            user_kind::HEADER_ATTR => self.attribute(body),
            user_kind::EVENT_UPDATE => self.event_update(body),
            user_kind::HEADER_BUILD_ID => self.features.take_build_id(misc, body),
            user_kind::HEADER_FEATURE => {
                let mut cursor = Cursor::new(body);
                let bit = cursor.u64().unwrap_or(u64::MAX);
                self.features
                    .take(u32::try_from(bit).unwrap_or(u32::MAX), cursor.rest());
            }
            // What follows these is as long as they say, beyond the record's own size.
            user_kind::HEADER_TRACING_DATA => skip(input, u64::from(Cursor::new(body).u32()?))?,
            user_kind::AUXTRACE => {
                self.traces += 1;
                skip(input, Cursor::new(body).u64()?)?;
            }
            user_kind::COMPRESSED => self.compressed(body),
            // The newer form tells its length, since it is filled up to whole words.
            user_kind::COMPRESSED2 => {
                let mut cursor = Cursor::new(body);
                let length = cursor.u64().and_then(|length| usize::try_from(length).ok());
                self.compressed(
                    length
                        .and_then(|length| cursor.take(length))
                        .unwrap_or_default(),
                );
            }
            kind if Assembler::wants(kind) => self.kernel_record(kind, misc, body),
            _ => {}
        }
        Some(())
    }

    fn kernel_record(&mut self, kind: u32, misc: u16, body: &[u8]) {
        if self.assembler.attributes.list().is_empty() {
            self.unread += 1;
            return;
        }
        if !self.named {
            self.begin_samples();
        }
        match self.assembler.attributes.time(kind, body) {
            // `perf` gives no time to what it found when the recording began.
            None | Some(0) => self.assembler.record(kind, misc, body, &mut self.past),
            Some(time) => self.rounds.push(time, kind, misc, body),
        }
        if self.rounds.is_full() {
            self.end_round(true);
        }
    }

    /// What is known about the recording by now is what its samples are read with.
    fn begin_samples(&mut self) {
        self.named = true;
        self.assembler.attributes.name_the_unnamed();
        self.assembler.note_events();
        let attributes = self.assembler.attributes.list();
        if attributes.iter().any(Attribute::has_stacks) {
            self.past.files = Files::of(self.features.origin(), self.root.as_deref());
            if let Some(name) = self.features.processor() {
                self.assembler.processor = Processor::named(name);
            }
        }
    }

    fn compressed(&mut self, piece: &[u8]) {
        let Some(mut inflater) = self
            .inflater
            .take()
            .or_else(Inflater::new)
            .filter(|_| !self.damaged)
        else {
            return;
        };
        let inflated = inflater.feed(piece, |kind, misc, body| {
            if Assembler::wants(kind) {
                self.kernel_record(kind, misc, body);
            }
        });
        if inflated.is_none() {
            self.damaged = true;
            self.note(
                "perf.data is damaged: its compressed records (perf record -z) end in the middle",
            );
        }
        self.inflater = Some(inflater);
    }

    fn end_round(&mut self, all: bool) {
        let (assembler, past) = (&mut self.assembler, &mut self.past);
        let give = |kind, misc, body: &[u8]| assembler.record(kind, misc, body, past);
        if all {
            self.rounds.end(give)
        } else {
            self.rounds.end_round(give)
        }
    }

    fn attribute(&mut self, body: &[u8]) {
        let Some(size) = Attribute::declared_size(body) else {
            return;
        };
        // The first version of perf_event_attr has 64 bytes and says 0.
        let size = if size == 0 { 64 } else { size };
        let (Some(bytes), Some(ids)) = (body.get(..size), body.get(size..)) else {
            return;
        };
        if self.assembler.attributes.list().len() as u64 >= MOST_ATTRIBUTES {
            return;
        }
        if let Some(attribute) = Attribute::parse(bytes) {
            self.assembler.attributes.add(attribute, words(ids));
            self.named = false;
        }
    }

    /// An event's name in a stream: EVENT_UPDATE of type 2.
    fn event_update(&mut self, body: &[u8]) {
        const NAME: u64 = 2;
        let mut cursor = Cursor::new(body);
        let (Some(NAME), Some(id)) = (cursor.u64(), cursor.u64()) else {
            return;
        };
        if let Some(at) = self.assembler.attributes.by_id(id) {
            self.assembler.attributes.name(at, &cursor.text());
        }
    }

    fn finish(mut self) -> Profile {
        self.end_round(true);
        let mut files = Files::of(self.features.origin(), self.root.as_deref());
        files.wants_lines = self.wants_lines;
        let mut profile = name_all(self.assembler.finish(), &files);
        for note in self.notes {
            profile.reduced(note);
        }
        if self.traces > 0 {
            let count = self.traces;
            profile.reduced(format!("{count} hardware traces (AUX) are left out"));
        }
        if self.unread > 0 {
            profile.reduced(format!(
                "{} records came before any event was described",
                self.unread
            ));
        }
        profile
    }
}

fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn skip(input: &mut impl Read, count: u64) -> Option<()> {
    let skipped = io::copy(&mut input.take(count), &mut io::sink()).ok()?;
    (skipped == count).then_some(())
}

#[cfg(test)]
mod tests;
