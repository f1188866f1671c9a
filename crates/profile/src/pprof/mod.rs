//! Profiles as pprof's gzipped protocol buffers, written and read.
//!
//! A stack's command is the label `comm` of its sample, as `perf_to_profile` has it. Written samples have a
//! count and, where the periods are known, CPU time in nanoseconds or occurrences of the event. Of a profile with
//! several types of values one is read (`types`), under its own name and unit.

mod messages;
mod types;

use std::collections::HashMap;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use prost::Message;

use crate::names::{UNKNOWN, clean, function_name, module_name};
use crate::stacks::Periods;
use crate::{Profile, Wanted, WeightUnit};
use messages as pb;
use types::Types;

/// Largest profile that is read, uncompressed: a few bytes of gzip may stand for gigabytes.
const MOST_BYTES: u64 = 1 << 30;

/// Frames of a stack that are kept at most.
const DEEPEST: usize = 4096;

/// Labels that hold the name of a sample's command or thread.
const COMMAND_LABELS: [&[u8]; 4] = [b"comm", b"thread_comm", b"command", b"thread"];

/// The strings of a profile, each once; the first is empty.
struct Strings {
    table: Vec<Vec<u8>>,
    numbers: HashMap<String, i64>,
}

impl Strings {
    fn new() -> Self {
        Self {
            table: vec![Vec::new()],
            numbers: HashMap::from([(String::new(), 0)]),
        }
    }

    fn number(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.table.len() as i64;
        self.table.push(text.as_bytes().to_vec());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// Writes `profile`, gzipped, to `out`. `realtime_ns` is when it was taken, 0 when that is not known.
///
/// # Errors
/// What `out` says.
pub fn write(profile: &Profile, realtime_ns: u64, out: impl Write) -> std::io::Result<()> {
    let message = to_message(profile, realtime_ns);
    let mut encoder = GzEncoder::new(out, Compression::fast());
    encoder.write_all(&message.encode_to_vec())?;
    encoder.finish()?.flush()
}

fn to_message(profile: &Profile, realtime_ns: u64) -> pb::Profile {
    let mut strings = Strings::new();
    let event = profile
        .head
        .event
        .clone()
        .unwrap_or_else(|| "event".to_owned());
    let mut value_type = |type_: &str, unit: &str| pb::ValueType {
        r#type: strings.number(type_),
        unit: strings.number(unit),
    };
    // Counts that are no samples have the name of what they count.
    let mut sample_type = vec![match &profile.head.unit {
        Some(unit) => value_type(&event, unit),
        None => value_type("samples", "count"),
    }];
    match profile.weight_unit {
        WeightUnit::None => {}
        WeightUnit::Nanoseconds => sample_type.push(value_type("cpu", "nanoseconds")),
        WeightUnit::Events => sample_type.push(value_type(&event, "count")),
    }
    let weighted = sample_type.len() > 1;
    let period_ns = profile
        .head
        .hz
        .filter(|&hz| hz > 0.0)
        .map(|hz| (1e9 / hz) as i64);
    let period = (profile.weight_unit == WeightUnit::Nanoseconds)
        .then_some(period_ns)
        .flatten();
    let period_type = period.map(|_| value_type("cpu", "nanoseconds"));
    let mut message = pb::Profile {
        sample_type,
        time_nanos: i64::try_from(realtime_ns).unwrap_or(0),
        duration_nanos: profile
            .head
            .duration_s
            .map_or(0, |seconds| (seconds * 1e9) as i64),
        period_type,
        period: period.unwrap_or(0),
        ..pb::Profile::default()
    };
    add_frames(profile, &mut message, &mut strings);
    let comm = strings.number("comm");
    for stack in profile.stacks() {
        let (&command, frames) = stack.numbers.split_first().unwrap_or((&0, &[]));
        let mut value = vec![i64::try_from(stack.count).unwrap_or(i64::MAX)];
        if weighted {
            value.push(i64::try_from(stack.weight).unwrap_or(i64::MAX));
        }
        let command = &profile.frames.frames()[command as usize].name;
        message.sample.push(pb::Sample {
            location_id: frames.iter().map(|&frame| u64::from(frame) + 1).collect(),
            value,
            label: vec![pb::Label {
                key: comm,
                str: strings.number(command),
                ..pb::Label::default()
            }],
        });
    }
    let own = weighted.then(|| format!("{}{event}", types::EVENT_COMMENT));
    message.comment = own
        .iter()
        .chain(&profile.head.reasons)
        .map(|comment| strings.number(comment))
        .collect();
    message.string_table = strings.table;
    message
}

/// A location and a function for each frame that stacks refer to, a mapping for each module.
fn add_frames(profile: &Profile, message: &mut pb::Profile, strings: &mut Strings) {
    let frames = profile.frames.frames();
    let mut used = vec![false; frames.len()];
    for stack in profile.stacks() {
        for &frame in stack.numbers.iter().skip(1) {
            used[frame as usize] = true;
        }
    }
    let mut mappings: HashMap<&str, u64> = HashMap::new();
    for (at, frame) in frames.iter().enumerate().filter(|(at, _)| used[*at]) {
        let id = at as u64 + 1;
        let mut mapping_id = 0;
        if !frame.module.is_empty() {
            let next = mappings.len() as u64 + 1;
            mapping_id = *mappings.entry(&frame.module).or_insert(next);
            if mapping_id == next && message.mapping.len() < mappings.len() {
                message.mapping.push(pb::Mapping {
                    id: next,
                    filename: strings.number(&frame.module),
                    has_functions: true,
                    ..pb::Mapping::default()
                });
            }
        }
        let name = strings.number(&frame.name);
        message.function.push(pb::Function {
            id,
            name,
            system_name: name,
            filename: 0,
        });
        message.location.push(pb::Location {
            id,
            mapping_id,
            // Names are all that is kept of an address.
            address: 0,
            line: vec![pb::Line {
                function_id: id,
                line: 0,
            }],
        });
    }
}

/// Reads a profile, gzipped or not: its values of the type that is wanted as the event, or of the one that pprof shows.
///
/// A profile without that type is read as empty, with the types that there are as the reason.
///
/// # Errors
/// One sentence that says why it is none.
pub fn read(mut input: impl Read, wanted: &Wanted<'_>) -> Result<Profile, String> {
    let mut start = [0; 2];
    input
        .read_exact(&mut start)
        .map_err(|error| error.to_string())?;
    let whole = start.as_slice().chain(input);
    let mut bytes = Vec::new();
    let read = if start == [0x1f, 0x8b] {
        MultiGzDecoder::new(whole)
            .take(MOST_BYTES + 1)
            .read_to_end(&mut bytes)
    } else {
        whole.take(MOST_BYTES + 1).read_to_end(&mut bytes)
    };
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err("it is larger than 1 GiB".to_owned());
    }
    let message = pb::Profile::decode(bytes.as_slice()).map_err(|error| error.to_string())?;
    if message.sample_type.is_empty() || message.string_table.is_empty() {
        return Err("it has no sample types".to_owned());
    }
    Ok(Reading::new(&message).profile(wanted))
}

/// A message with its tables by id.
struct Reading<'a> {
    message: &'a pb::Profile,
    functions: HashMap<u64, &'a pb::Function>,
    mappings: HashMap<u64, &'a pb::Mapping>,
}

impl<'a> Reading<'a> {
    fn new(message: &'a pb::Profile) -> Self {
        Self {
            message,
            functions: message
                .function
                .iter()
                .map(|function| (function.id, function))
                .collect(),
            mappings: message
                .mapping
                .iter()
                .map(|mapping| (mapping.id, mapping))
                .collect(),
        }
    }

    fn bytes(&self, number: i64) -> &'a [u8] {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        self.message.string_table.get(at).map_or(&[], Vec::as_slice)
    }

    fn text(&self, number: i64) -> String {
        String::from_utf8_lossy(self.bytes(number)).into_owned()
    }

    fn profile(&self, wanted: &Wanted<'_>) -> Profile {
        let mut profile = Profile::default();
        let types = Types::of(self.message, |number| self.text(number));
        let chosen = match types.choose(wanted.event) {
            Ok(chosen) => chosen,
            Err(reason) => {
                profile.reduced(reason);
                return profile;
            }
        };
        profile.head.event = Some(chosen.event).filter(|event| !event.is_empty());
        profile.head.unit = chosen.unit;
        profile.weight_unit = chosen.weight_unit;
        profile.head.hz = chosen.hz;
        if let Some(reason) = types
            .others(chosen.value_at)
            .filter(|_| wanted.event.is_none())
        {
            profile.reduced(reason);
        }
        if self.message.duration_nanos > 0 {
            profile.head.duration_s = Some(self.message.duration_nanos as f64 / 1e9);
        }
        let unnamed = self.main_program();
        let locations = self.locations(&mut profile, wanted.lines);
        let mut numbers = Vec::new();
        let mut negative = 0_u64;
        for sample in &self.message.sample {
            let value = |at: usize| u64::try_from(sample.value.get(at).copied().unwrap_or(0));
            // A difference of two profiles has negative values, which no stack sample has.
            let (Ok(value), Ok(samples)) = (
                value(chosen.value_at),
                chosen.samples_at.map_or(Ok(0), value),
            ) else {
                negative += 1;
                continue;
            };
            if (value, samples) == (0, 0) {
                continue;
            }
            self.stack(sample, &unnamed, &locations, &mut profile, &mut numbers);
            if chosen.samples_at.is_none() {
                profile.stacks.add(&numbers, value, 0);
                continue;
            }
            let weight = value.saturating_mul(chosen.factor);
            match weight.checked_div(samples) {
                // As it was recorded: in samples.
                _ if types.are_own() => {}
                Some(period) if period * samples == weight => profile.periods.meet(period),
                _ => profile.periods = Periods::Differ,
            }
            profile.stacks.add(&numbers, samples, weight);
        }
        if negative > 0 {
            profile.reduced(format!(
                "{negative} samples with negative values are left out"
            ));
        }
        profile
    }

    /// Puts a sample's command and frames into `numbers`.
    fn stack(
        &self,
        sample: &pb::Sample,
        unnamed: &str,
        locations: &HashMap<u64, Vec<u32>>,
        profile: &mut Profile,
        numbers: &mut Vec<u32>,
    ) {
        numbers.clear();
        let command = self.command(sample).unwrap_or_else(|| unnamed.to_owned());
        numbers.push(profile.frames.intern(&clean(command.into()), ""));
        for frames in sample.location_id.iter().filter_map(|id| locations.get(id)) {
            let room = DEEPEST - numbers.len();
            numbers.extend_from_slice(&frames[..frames.len().min(room)]);
            if numbers.len() == DEEPEST {
                break;
            }
        }
    }

    /// The program: the file of the first mapping, as pprof has it.
    fn main_program(&self) -> String {
        let path = self
            .message
            .mapping
            .first()
            .map(|mapping| self.text(mapping.filename));
        match path
            .as_deref()
            .map(|path| module_name(path, false).into_owned())
        {
            Some(name) if !name.is_empty() => name,
            _ => UNKNOWN.to_owned(),
        }
    }

    fn command(&self, sample: &pb::Sample) -> Option<String> {
        let wanted =
            |label: &&pb::Label| label.str != 0 && COMMAND_LABELS.contains(&self.bytes(label.key));
        sample
            .label
            .iter()
            .find(wanted)
            .map(|label| self.text(label.str))
    }

    /// The frames of each location, leaf first: inlined functions come before those they are inlined in.
    fn locations(&self, profile: &mut Profile, with_lines: bool) -> HashMap<u64, Vec<u32>> {
        let mut locations = HashMap::new();
        for location in &self.message.location {
            let path = self
                .mappings
                .get(&location.mapping_id)
                .map(|mapping| self.text(mapping.filename));
            let module = path
                .as_deref()
                .map_or("".into(), |path| module_name(path, false));
            let mut frames = Vec::with_capacity(location.line.len().max(1));
            for line in location.line.iter().take(DEEPEST) {
                let function = self.functions.get(&line.function_id);
                let name = function.map(|function| self.text(function.name));
                let mut name = function_name(&name.unwrap_or_default()).into_owned();
                if let Some(function) = function.filter(|_| with_lines && line.line > 0) {
                    let path = self.text(function.filename);
                    let file = path.rsplit('/').next().unwrap_or_default();
                    name = format!("{name} ({file}:{})", line.line);
                }
                frames.push(profile.frames.intern(&clean(name.into()), &module));
            }
            if frames.is_empty() {
                frames.push(profile.frames.intern(UNKNOWN, &module));
            }
            locations.insert(location.id, frames);
        }
        locations
    }
}

#[cfg(test)]
mod tests;
