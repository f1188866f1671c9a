//! The process that takes orders: `steelyard-load join`.
//!
//! In: orders on standard input, a JSON line each. Out: reports on standard output. It ends at once when its
//! input ends or no command has come for half a minute: the controlling process is gone, and a load that
//! has no reader must not go on.

use std::io::{BufRead, Read, Write};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use steelyard_record::monotonic_ns;

use super::wire::{
    Changes, LINE_MAX, Order, Packed, PackedHistogram, PackedInterval, Report, Share,
};
use crate::LoadError;
use crate::control::{Interval, Phase};
use crate::progress::Progress;
use crate::runner::{Surroundings, run_whole};
use crate::schedule::Arrival;
use crate::settings::Settings;

/// Without an order for this long the process ends.
const SILENCE: Duration = Duration::from_secs(30);
/// Seconds between signs of life.
const ALIVE_EVERY_S: u64 = 5;
/// The exit code of a load that failed.
const FAILED: i32 = 4;

/// Set by the order to stop.
static STOP: AtomicBool = AtomicBool::new(false);
/// When the last order came.
static LAST_ORDER_NS: AtomicU64 = AtomicU64::new(0);
/// When the last order to measure came.
static MEASURE_NS: AtomicU64 = AtomicU64::new(0);
/// Where the load that is running takes its order to measure.
static MEASURE: Mutex<Option<Sender<()>>> = Mutex::new(None);

/// Takes orders until there are none. `read` turns flags into settings.
pub fn serve(read: &dyn Fn(&[String]) -> Result<Settings, String>) {
    let (loads, orders) = channel();
    LAST_ORDER_NS.store(monotonic_ns(), Ordering::Relaxed);
    thread::spawn(move || listen(&loads));
    report(&Report::Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
    });
    thread::spawn(watch_silence);
    for (arguments, changes) in orders {
        let settings = match read(&arguments) {
            Ok(settings) => settings,
            Err(why) => {
                let kind = "usage".to_owned();
                report(&Report::Failed { kind, why });
                continue;
            }
        };
        match change(settings, &changes).and_then(|settings| load(&settings)) {
            Ok(share) => report(&Report::Share(Box::new(share))),
            Err(error) => report(&failed(&error)),
        }
    }
}

/// Reads orders. The end of the input is the end of the process.
fn listen(loads: &Sender<(Vec<String>, Changes)>) {
    let mut lines = std::io::stdin().lock();
    loop {
        let mut line = String::new();
        match lines.by_ref().take(LINE_MAX).read_line(&mut line) {
            Ok(0) | Err(_) => std::process::exit(FAILED),
            Ok(_) => {}
        }
        LAST_ORDER_NS.store(monotonic_ns(), Ordering::Relaxed);
        match serde_json::from_str(&line) {
            Ok(Order::Load { arguments, changes }) => {
                STOP.store(false, Ordering::Relaxed);
                let _ = loads.send((arguments, changes));
            }
            Ok(Order::Measure) => {
                MEASURE_NS.store(monotonic_ns(), Ordering::Relaxed);
                if let Ok(measure) = MEASURE.lock()
                    && let Some(measure) = measure.as_ref()
                {
                    let _ = measure.send(());
                }
            }
            Ok(Order::Stop) => STOP.store(true, Ordering::Relaxed),
            Ok(Order::Ping) => {}
            Err(error) => {
                eprintln!("steelyard-load: malformed command: {error}");
                std::process::exit(FAILED);
            }
        }
    }
}

/// Ends the process when nothing comes any more, and gives signs of life of its own: filling a server, and connecting,
/// take long without a report.
fn watch_silence() {
    for second in 1_u64.. {
        thread::sleep(Duration::from_secs(1));
        if second.is_multiple_of(ALIVE_EVERY_S) {
            report(&Report::Alive);
        }
        let silent_ns = monotonic_ns().saturating_sub(LAST_ORDER_NS.load(Ordering::Relaxed));
        if u128::from(silent_ns) > SILENCE.as_nanos() {
            eprintln!("steelyard-load: no command for {SILENCE:?}");
            std::process::exit(FAILED);
        }
    }
}

fn report(report: &Report) {
    let mut out = std::io::stdout().lock();
    let line = serde_json::to_string(report).expect("reports are plain data");
    // A reader that has gone away has closed the input too, which ends the process.
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

fn change(settings: Settings, changes: &Changes) -> Result<Settings, LoadError> {
    if let Arrival::Recorded(recording) = &settings.arrival
        && changes.recording != Some(recording.fingerprint())
    {
        return Err(LoadError::setting(
            "--arrival",
            format!(
                "{} differs from the file of the controlling host",
                recording.name()
            ),
        ));
    }
    Ok(Settings {
        rate_per_s: changes.rate_per_s,
        connections: changes.connections,
        seed: changes.seed,
        warmup_ns: changes.warmup_ns,
        duration_ns: changes.duration_ns,
        drain_ns: changes.drain_ns,
        interval_ns: changes.interval_ns,
        max_outstanding: changes.max_outstanding,
        prefill: settings.prefill.filter(|_| changes.prefill),
        hold: true,
        turn: changes.turn,
        ..settings
    })
}

fn failed(error: &LoadError) -> Report {
    let kind = match error {
        LoadError::Connect { .. } => "connect",
        LoadError::Setting { .. } | LoadError::Distribution { .. } => "usage",
        _ => "other",
    };
    let mut why = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        why = format!("{why}: {cause}");
        source = cause.source();
    }
    Report::Failed {
        kind: kind.to_owned(),
        why,
    }
}

/// The orders to measure, as the lines that a held load reads.
struct Lines {
    orders: Receiver<()>,
    line: &'static [u8],
}

impl Read for Lines {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let from = self.fill_buf()?;
        let count = from.len().min(into.len());
        into[..count].copy_from_slice(&from[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Lines {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.line.is_empty() && self.orders.recv().is_ok() {
            self.line = b"measure\n";
        }
        Ok(self.line)
    }

    fn consume(&mut self, count: usize) {
        self.line = &self.line[count..];
    }
}

fn load(settings: &Settings) -> Result<Share, LoadError> {
    let (measure, orders) = channel();
    // The sender of the load before is dropped here, and with it the thread that read its orders ends.
    if let Ok(mut current) = MEASURE.lock() {
        *current = Some(measure);
    }
    let mut begun = false;
    // Sent as they end: should this process be lost, the intervals that it has sent are not.
    let mut watch = |interval: &Interval, phase: Phase| {
        if phase == Phase::Measure && !begun {
            begun = true;
            let measure_ns = MEASURE_NS.load(Ordering::Relaxed);
            report(&Report::Begun {
                after_ns: interval.begin_ns.checked_sub(measure_ns),
            });
        }
        let packed = PackedInterval::of(interval, phase);
        report(&Report::Interval(Box::new(packed)));
        ControlFlow::Continue(())
    };
    let surroundings = Surroundings {
        command: Vec::new(),
        hlog: None,
        progress: Progress::None,
        stop: &STOP,
        input: Some(Box::new(Lines { orders, line: b"" })),
        watch: Some(&mut watch),
    };
    let mut whole = run_whole(settings, surroundings)?;
    whole.result.series.clear();
    let operations = whole.operations.into_iter();
    Ok(Share {
        result: whole.result,
        latencies: Packed::of(&whole.latencies),
        operations: operations
            .map(|(name, responses)| (name, PackedHistogram::of(&responses)))
            .collect(),
    })
}
