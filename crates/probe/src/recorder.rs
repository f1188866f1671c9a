//! Sources, their tables and their files: one tick reads all, one flush writes all, the end makes Parquet.
//!
//! In: opened sources and an output directory. Out: `<source>.arrows` while recording, `<source>.parquet`
//! and `telemetry.json` at the end.
//!
//! Invariants: a source that fails once is tried again at the next tick; nothing waits longer than a second
//! for a flush; an error in writing ends the recording and leaves what was written readable.
//!
//! Not here: when a tick is due and when to end; see the session.

use std::fs;
use std::path::{Path, PathBuf};

use steelyard_record::{Clock, Kind, SelfCost, Source as RecordSource, Telemetry};

use crate::ProbeError;
use crate::counters::{self, CounterSettings, Counters};
use crate::parquet_file;
use crate::registry::select;
use crate::source::{Definition, Source, Tick, Unavailable, record_columns, unavailable_record};
use crate::sources::target::{self, Target};
use crate::stream::{EXTENSION, Stream};
use crate::table::Table;
use steelyard_kernel::Tree;
use steelyard_kernel::usage::Usage;

/// Longest time rows wait in memory, ns.
const FLUSH_NS: u64 = 1_000_000_000;
/// Rows of one source that wait in memory, bytes.
const FLUSH_BYTES: usize = 256 << 10;
/// Rows after which the bytes are counted, since counting costs more than it saves at each tick.
const ROWS_PER_COUNT: usize = 256;

/// What to record.
#[derive(Debug, Clone)]
pub struct RecorderSettings {
    /// Directory of the recording; it is made when it does not exist.
    pub directory: PathBuf,
    /// Root of /proc and /sys.
    pub root: PathBuf,
    /// Names of the sources, None for all.
    pub sources: Option<Vec<String>>,
    /// A program whose threads are recorded instead of the sources.
    pub target: Option<Target>,
    /// Time between ticks, 0 for back to back, ns. Written to `telemetry.json`, and used to see whether a flush
    /// can wait for another tick.
    pub interval_ns: u64,
    /// Events to count, None for none.
    pub counters: Option<CounterSettings>,
    /// The command line, for `telemetry.json`.
    pub command: Vec<String>,
}

/// A source, or why there is none.
type Opened = Result<Box<dyn Source>, Unavailable>;

/// A source being recorded.
struct Recording {
    name: &'static str,
    source: Box<dyn Source>,
    table: Table,
    stream: Stream,
    reads: u64,
    read_ns: u64,
    failed_reads: u64,
    last_failure: Option<String>,
    rows: u64,
    /// Rows in the table at which its bytes are counted next.
    rows_to_count: usize,
}

/// A recording under way.
pub struct Recorder {
    telemetry: Telemetry,
    directory: PathBuf,
    recordings: Vec<Recording>,
    unavailable: Vec<RecordSource>,
    clock: Box<dyn Fn() -> u64>,
    last_flush_ns: u64,
}

impl Recorder {
    /// Opens the sources and makes the files. `clock` is the monotonic clock, ns.
    pub fn start(
        settings: &RecorderSettings,
        clock: Box<dyn Fn() -> u64>,
    ) -> Result<Self, ProbeError> {
        let opened = open_sources(settings)?;
        let output = |source| ProbeError::Output {
            path: settings.directory.clone(),
            source,
        };
        fs::create_dir_all(&settings.directory).map_err(output)?;
        let mut recordings = Vec::new();
        let mut unavailable = Vec::new();
        for (definition, opened) in opened {
            match opened {
                Ok(source) => {
                    recordings.push(Recording::start(
                        definition.name,
                        source,
                        &settings.directory,
                    )?);
                }
                Err(why) => unavailable.push(unavailable_record(definition, &why)),
            }
        }
        if recordings.is_empty() {
            let reasons = unavailable
                .iter()
                .map(|source| {
                    format!(
                        "{}: {}",
                        source.name,
                        source.reason.as_deref().unwrap_or("")
                    )
                })
                .collect::<Vec<_>>()
                .join("; ");
            return Err(ProbeError::NothingToRecord { reasons });
        }
        let now_ns = clock();
        let mut recorder = Self {
            telemetry: telemetry(settings, now_ns),
            directory: settings.directory.clone(),
            recordings,
            unavailable,
            clock,
            last_flush_ns: now_ns,
        };
        recorder.write_telemetry()?;
        Ok(recorder)
    }

    /// Whether something that is recorded is gone for good.
    pub fn is_over(&self) -> bool {
        self.recordings
            .iter()
            .any(|recording| recording.source.is_over())
    }

    /// Ticks taken so far.
    pub fn ticks(&self) -> u64 {
        self.telemetry.ticks
    }

    /// Time of the first tick, ns.
    pub fn begin_ns(&self) -> u64 {
        self.telemetry.begin_ns
    }

    /// Counts ticks that were due but not taken.
    pub fn count_missed(&mut self, ticks: u64) {
        self.telemetry.missed_ticks += ticks;
    }

    /// Reads every source once and flushes if it is time. `last` says that no tick will follow.
    pub fn tick(&mut self, last: bool) -> Result<(), ProbeError> {
        let tick = Tick {
            number: self.telemetry.ticks,
            last,
            clock: &*self.clock,
        };
        let mut before_ns = tick.now_ns();
        if self.telemetry.ticks == 0 {
            self.telemetry.begin_ns = before_ns;
        }
        self.telemetry.end_ns = Some(before_ns);
        let mut full = false;
        for recording in &mut self.recordings {
            before_ns = recording.read(&tick, before_ns);
            full |= recording.is_full();
        }
        self.telemetry.ticks += 1;
        // A flush now if the next tick would be too late for it.
        let waits_ns = before_ns.saturating_sub(self.last_flush_ns) + self.telemetry.interval_ns;
        if full || waits_ns >= FLUSH_NS {
            self.flush()?;
            self.last_flush_ns = before_ns;
        }
        Ok(())
    }

    /// Writes the rows in memory to the streams.
    pub fn flush(&mut self) -> Result<(), ProbeError> {
        for recording in &mut self.recordings {
            recording.flush()?;
        }
        Ok(())
    }

    /// Makes the Parquet files and the final `telemetry.json`. Whatever `end_reason` says, as much as can be
    /// finished is finished; the first error is returned.
    pub fn finish(
        mut self,
        end_reason: &str,
        command_exit: Option<i32>,
    ) -> Result<Telemetry, ProbeError> {
        let mut first_error = None;
        let recordings = std::mem::take(&mut self.recordings);
        let mut rows = Vec::new();
        for mut recording in recordings {
            let mut finished = recording.flush().and_then(|()| recording.stream.finish());
            // What reached the stream is converted even if the last flush did not reach it.
            let converted = parquet_file::convert(recording.stream.path());
            let extension = if converted.is_ok() {
                "parquet"
            } else {
                EXTENSION
            };
            if let Ok(converted) = &converted {
                recording.rows = converted.rows;
            }
            finished = finished.and(converted.map(drop));
            rows.push(recording.record(extension));
            if let Err(error) = finished {
                first_error.get_or_insert(error);
            }
        }
        rows.append(&mut self.unavailable);
        self.telemetry.sources = rows;
        self.telemetry.complete = first_error.is_none();
        self.telemetry.end_reason = Some(match &first_error {
            Some(error) if !end_reason.starts_with("error") => format!("error: {error}"),
            _ => end_reason.to_owned(),
        });
        self.telemetry.command_exit = command_exit;
        self.telemetry.cost = Some(self_cost(self.telemetry.ticks));
        let path = self.directory.join("telemetry.json");
        let recorded = steelyard_record::write_atomically(&self.telemetry, &path);
        match first_error {
            Some(error) => Err(error),
            None => recorded.map(|()| self.telemetry).map_err(Into::into),
        }
    }

    fn write_telemetry(&mut self) -> Result<(), ProbeError> {
        self.telemetry.sources = self
            .recordings
            .iter()
            .map(|recording| recording.record(EXTENSION))
            .chain(self.unavailable.iter().cloned())
            .collect();
        let path = self.directory.join("telemetry.json");
        steelyard_record::write_atomically(&self.telemetry, &path).map_err(|error| match error {
            steelyard_record::RecordError::Io { path, source } => {
                ProbeError::Output { path, source }
            }
            other => other.into(),
        })
    }
}

impl Recording {
    fn start(
        name: &'static str,
        source: Box<dyn Source>,
        directory: &Path,
    ) -> Result<Self, ProbeError> {
        let table = Table::new(&source.columns());
        let stream = Stream::create(
            directory.join(name).with_extension(EXTENSION),
            &table.schema(),
        )?;
        Ok(Self {
            name,
            source,
            table,
            stream,
            reads: 0,
            read_ns: 0,
            failed_reads: 0,
            last_failure: None,
            rows: 0,
            rows_to_count: ROWS_PER_COUNT,
        })
    }

    /// Reads the source and returns the time after it, ns.
    fn read(&mut self, tick: &Tick<'_>, before_ns: u64) -> u64 {
        if let Err(error) = self.source.read(tick, &mut self.table) {
            if self.failed_reads == 0 {
                tracing::warn!("{}: {error}; it is retried at each tick", self.name);
            }
            self.failed_reads += 1;
            self.last_failure = Some(error.to_string());
        }
        let after_ns = tick.now_ns();
        self.reads += 1;
        self.read_ns += after_ns.saturating_sub(before_ns);
        after_ns
    }

    fn is_full(&mut self) -> bool {
        if self.table.rows() < self.rows_to_count {
            return false;
        }
        self.rows_to_count = self.table.rows() + ROWS_PER_COUNT;
        self.table.bytes() > FLUSH_BYTES
    }

    fn flush(&mut self) -> Result<(), ProbeError> {
        self.rows_to_count = ROWS_PER_COUNT;
        if self.table.rows() == 0 {
            return Ok(());
        }
        let rows = self.table.rows() as u64;
        let batch = self.table.take().map_err(|source| ProbeError::Arrow {
            path: self.stream.path().to_owned(),
            source,
        })?;
        self.stream.append(&batch)?;
        self.rows += rows;
        Ok(())
    }

    fn record(&self, extension: &str) -> RecordSource {
        RecordSource {
            name: self.name.to_owned(),
            available: true,
            reason: self
                .last_failure
                .as_ref()
                .map(|failure| format!("{} failed reads, the last: {failure}", self.failed_reads)),
            file: Some(format!("{}.{extension}", self.name)),
            rows: self.rows,
            failed_reads: self.failed_reads,
            read_ns_mean: (self.reads > 0).then(|| self.read_ns as f64 / self.reads as f64),
            columns: record_columns(&self.source.columns(), &self.source.missing()),
            missing_items: self.source.missing_items(),
            notes: self.source.notes(),
        }
    }
}

/// The sources that are asked for: those of a program that is watched, or by name and the counters.
fn open_sources(
    settings: &RecorderSettings,
) -> Result<Vec<(&'static Definition, Opened)>, ProbeError> {
    let tree = Tree::new(&settings.root);
    if let Some(target) = &settings.target {
        if let Some(what) = target.absent(&tree) {
            return Err(ProbeError::NoTarget { what });
        }
        let tables = target::open(&tree, target);
        return Ok(tables
            .into_iter()
            .map(|(definition, source)| (definition, Ok(source)))
            .collect());
    }
    // The counters may be asked for by name too, so that nothing else is recorded beside them.
    let mut names = settings.sources.clone();
    if let (Some(names), Some(_)) = (&mut names, &settings.counters) {
        names.retain(|name| name != counters::DEFINITION.name);
    }
    let definitions = select(names.as_deref())?;
    let mut opened: Vec<(&'static Definition, Opened)> = definitions
        .into_iter()
        .map(|definition| (definition, (definition.open)(&tree)))
        .collect();
    if let Some(settings) = &settings.counters {
        let counters = Counters::open(settings, &tree);
        opened.push((
            &counters::DEFINITION,
            counters.map(|source| Box::new(source) as _),
        ));
    }
    Ok(opened)
}

fn telemetry(settings: &RecorderSettings, now_ns: u64) -> Telemetry {
    Telemetry {
        kind: Kind::of::<Telemetry>(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: settings.command.clone(),
        root: settings.root.display().to_string(),
        clock: Clock::now(),
        interval_ns: settings.interval_ns,
        begin_ns: now_ns,
        end_ns: None,
        ticks: 0,
        missed_ticks: 0,
        sources: Vec::new(),
        cost: None,
        complete: false,
        end_reason: None,
        command_exit: None,
    }
}

/// What this process has used until now.
fn self_cost(ticks: u64) -> SelfCost {
    let usage = Usage::of_process();
    SelfCost {
        cpu_user_s: usage.user_ns as f64 / 1e9,
        cpu_system_s: usage.system_ns as f64 / 1e9,
        cpu_per_tick_ns: usage.cpu_ns() as f64 / ticks.max(1) as f64,
        rss_max_bytes: usage.rss_max_bytes,
    }
}
