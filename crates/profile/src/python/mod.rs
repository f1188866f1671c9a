//! Names for Python: which functions an interpreter's threads are in, while they are sampled.
//!
//! In: processes as they are met. Out: the Python frames of a thread at a time, the innermost first.
//!
//! A call chain of the kernel shows the interpreter's C functions, never the Python functions that they interpret.
//! Those are read from the interpreter's memory by a thread of the recorder, as often as samples are taken, without
//! stopping the process; a sample gets the stack that was read nearest to it in time. Where a program writes a perf
//! map (`python -X perf`, from 3.12 on), its functions have names without this.
//!
//! Invariants: a sample without a reading nearby has none; the memory of another process is never written.
//!
//! Not here: putting native and Python frames together (`symbols`).

mod layout;
mod memory;
mod stack;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use blazesym::inspect::Inspector;
use blazesym::inspect::source::{Elf, Source};
use steelyard_record::monotonic_ns;

use crate::elf;
use layout::layout_of;
pub use layout::version_of;
use memory::ProcessMemory;
use stack::{Names, StackReader};

/// How far in time a reading may be from a sample that it stands for, ns.
const NEAR_NS: u64 = 50_000_000;
/// How long readings are kept, ns: samples are resolved up to two rounds of the recorder after they were taken.
const KEPT_NS: u64 = 5_000_000_000;
/// How often a process is looked at again for an interpreter that it may have loaded meanwhile.
const LOOKS: u32 = 8;
/// Readings after which names are read anew.
const NAMES_LAST: u32 = 200;
/// Processes whose stacks are read at most.
const MOST_PROCESSES: usize = 64;

#[derive(Debug, Default)]
struct NameTable {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Names for NameTable {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

struct Reading {
    time_ns: u64,
    frames: Arc<[u32]>,
}

#[derive(Default)]
struct Shared {
    readers: HashMap<u32, StackReader<ProcessMemory>>,
    names: NameTable,
    /// By process, then by thread; None is a thread whose id is not known.
    readings: HashMap<u32, HashMap<Option<u32>, VecDeque<Reading>>>,
}

/// Reads Python stacks until it is dropped.
pub struct Interpreters {
    shared: Arc<(Mutex<Shared>, Condvar)>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    looked: HashMap<u32, (PathBuf, u32)>,
    period: Duration,
    /// Why Python functions have no names.
    pub reasons: Vec<String>,
}

impl Interpreters {
    /// Reads `hz` times a second, as soon as there is an interpreter.
    pub fn new(hz: u32) -> Self {
        Self {
            shared: Arc::default(),
            over: Arc::default(),
            thread: None,
            looked: HashMap::new(),
            period: Duration::from_secs(1) / hz.max(1),
            reasons: Vec::new(),
        }
    }

    /// Looks whether processes hold an interpreter.
    pub fn consider(&mut self, pids: impl Iterator<Item = u32>) {
        for pid in pids {
            let Ok(program) = std::fs::read_link(format!("/proc/{pid}/exe")) else {
                continue;
            };
            let looks = match self.looked.get(&pid) {
                Some((known, looks)) if *known == program => *looks,
                _ => 0,
            };
            if looks >= LOOKS {
                continue;
            }
            let found = find(pid);
            let is_over = found.is_some();
            self.looked
                .insert(pid, (program, if is_over { LOOKS } else { looks + 1 }));
            match found {
                Some(Ok(reader)) => self.add(pid, reader),
                Some(Err(reason)) if !self.reasons.contains(&reason) => self.reasons.push(reason),
                _ => {}
            }
        }
    }

    fn add(&mut self, pid: u32, reader: StackReader<ProcessMemory>) {
        let mut shared = lock(&self.shared.0);
        if shared.readers.len() >= MOST_PROCESSES {
            return;
        }
        shared.readers.insert(pid, reader);
        drop(shared);
        if self.thread.is_none() {
            let (shared, over, period) = (
                Arc::clone(&self.shared),
                Arc::clone(&self.over),
                self.period,
            );
            let body = move || read_on(&shared, &over, period);
            self.thread = std::thread::Builder::new()
                .name("python".to_owned())
                .spawn(body)
                .ok();
        }
    }

    /// The Python frames of a thread at a time, the innermost first; none where nothing was read about then.
    pub fn frames(&self, pid: u32, tid: u32, time_ns: u64) -> Option<Arc<[u32]>> {
        let shared = lock(&self.shared.0);
        let threads = shared.readings.get(&pid)?;
        // Ids of another namespace fit none: a lone thread is meant all the same.
        let lone = (threads.len() == 1)
            .then(|| threads.values().next())
            .flatten();
        let readings = threads.get(&Some(tid)).or(lone)?;
        let after = readings.partition_point(|reading| reading.time_ns < time_ns);
        let around = [after.checked_sub(1), Some(after)];
        let nearest = around
            .into_iter()
            .flatten()
            .filter_map(|at| readings.get(at))
            .min_by_key(|reading| reading.time_ns.abs_diff(time_ns))?;
        (nearest.time_ns.abs_diff(time_ns) <= NEAR_NS).then(|| Arc::clone(&nearest.frames))
    }

    /// Ends the reading; all names by number.
    pub fn finish(mut self) -> Vec<String> {
        self.end();
        std::mem::take(&mut lock(&self.shared.0).names.names)
    }

    fn end(&mut self) {
        self.over.store(true, Ordering::Release);
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Interpreters {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_on(shared: &(Mutex<Shared>, Condvar), over: &AtomicBool, period: Duration) {
    let mut rounds = 0_u32;
    let mut guard = lock(&shared.0);
    while !over.load(Ordering::Acquire) {
        rounds = rounds.wrapping_add(1);
        read_round(&mut guard, rounds.is_multiple_of(NAMES_LAST));
        guard = shared
            .1
            .wait_timeout(guard, period)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
}

fn read_round(shared: &mut Shared, forget: bool) {
    let Shared {
        readers,
        names,
        readings,
        ..
    } = shared;
    readers.retain(|pid, _| Path::new(&format!("/proc/{pid}")).exists());
    for (&pid, reader) in readers.iter_mut() {
        if forget {
            reader.forget();
        }
        let stacks = reader.read(names, |id| {
            Path::new(&format!("/proc/{pid}/task/{id}")).exists()
        });
        let time_ns = monotonic_ns();
        let threads = readings.entry(pid).or_default();
        for stack in stacks {
            let known = threads.entry(stack.tid).or_default();
            let frames = match known.back() {
                Some(last) if *last.frames == *stack.frames => Arc::clone(&last.frames),
                _ => stack.frames.into(),
            };
            known.push_back(Reading { time_ns, frames });
            while known
                .front()
                .is_some_and(|first| first.time_ns + KEPT_NS < time_ns)
            {
                known.pop_front();
            }
        }
    }
}

/// The interpreter of a process: None where it has none, an error where it cannot be read.
fn find(pid: u32) -> Option<Result<StackReader<ProcessMemory>, String>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let mapped: HashSet<&str> = maps
        .lines()
        .filter_map(|line| line.split_once('/').map(|(_, path)| path))
        .collect();
    let mut found: Vec<(&str, u32)> = mapped
        .iter()
        .filter_map(|path| Some((*path, version_of(path.rsplit('/').next()?)?)))
        .collect();
    // A program that is linked with the library holds nothing itself.
    found.sort_by_key(|(path, _)| !path.contains("/libpython"));
    let &(path, minor) = found.first()?;
    let Some(layout) = layout_of(minor) else {
        return Some(Err(format!(
            "functions of CPython 3.{minor} have no names, because its frames are not known: python -X perf"
        )));
    };
    let path = format!("/{path}");
    let runtime = runtime_address(pid, &maps, &path)?;
    let memory = ProcessMemory { pid };
    let mut reader = StackReader::new(memory, layout, runtime);
    let is_readable = memory::Memory::word(&memory, runtime, 0).is_some();
    if !is_readable {
        return Some(Err(
            "Python functions have no names, because the process's memory may not be read: \
             sysctl kernel.yama.ptrace_scope=0, or run with CAP_SYS_PTRACE"
                .to_owned(),
        ));
    }
    reader.forget();
    Some(Ok(reader))
}

/// Where `_PyRuntime` lies in a process that maps `path`.
fn runtime_address(pid: u32, maps: &str, path: &str) -> Option<u64> {
    let file = PathBuf::from(format!("/proc/{pid}/root{path}"));
    let start = maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let range = words.next()?;
        let offset = words.nth(1)?;
        let is_first = line.ends_with(path) && u64::from_str_radix(offset, 16) == Ok(0);
        is_first.then(|| u64::from_str_radix(range.split_once('-')?.0, 16).ok())?
    })?;
    let first = elf::segments(&file)?
        .into_iter()
        .find(|segment| segment.offset == 0)?;
    let source = Source::Elf(Elf::new(&file));
    let inspector = Inspector::new();
    let found = inspector.lookup(&source, &["_PyRuntime"]).ok()?;
    let symbol = found.into_iter().next()?.into_iter().next()?;
    Some(symbol.addr.wrapping_sub(first.address).wrapping_add(start))
}
