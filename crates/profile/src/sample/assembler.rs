//! Records in order to stacks of places, each counted.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use hashbrown::HashTable;

use super::Assembled;
use super::abi::{Attribute, Attributes, Record, Sample, kind};
use super::spaces::{ModuleIdentity, Place, Spaces};
use super::user::UserState;
use crate::events::EventFilter;
use crate::stacks::{Periods, StackTable};
use crate::times::Times;
use crate::unwind::{Ground, Processor, Spot, Unwinding};

/// Markers between the contexts of a call chain are the highest addresses. Source: PERF_CONTEXT_MAX.
const CONTEXT_MAX: u64 = -4095_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;

/// Frames of a stack that are kept at most.
const DEEPEST: usize = 4096;

/// Addresses whose place is remembered at most.
const MOST_NUMBERS: usize = 1 << 20;

/// The kernel's number among the generations of processes' memory, which count from 1.
const KERNEL_SPACE: u64 = 0;

/// An address in its context.
#[derive(Clone, Copy)]
struct At {
    pid: u32,
    space: Option<u64>,
    address: u64,
    kernel: bool,
    user: bool,
}

fn hash_address(space: u64, address: u64) -> u64 {
    let hash = (address ^ space.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 32
}

/// Looks at processes while they are there, which a recording read from a file cannot.
pub trait Witness {
    /// A sample of this thread is about to be resolved.
    fn meet(&mut self, spaces: &mut Spaces, pid: u32, tid: u32);
    /// A process was at this place, for the first time since its memory changed.
    fn see(&mut self, spaces: &mut Spaces, pid: u32, place: Place);
    /// Where a module's file can be read, when it is the one that was mapped.
    fn file(&mut self, spaces: &mut Spaces, pid: u32, module: u32) -> Option<PathBuf>;
    /// The interpreted functions that a thread was in at this time, the innermost first.
    fn interpreted(&mut self, _pid: u32, _tid: u32, _time_ns: u64) -> Option<Arc<[u32]>> {
        None
    }
}

/// Takes records and counts stacks.
pub struct Assembler {
    /// What the recording sampled.
    pub attributes: Attributes,
    /// Address spaces, commands and modules.
    pub spaces: Spaces,
    /// The kind of processor that was recorded; None when its stacks cannot be unwound.
    pub processor: Option<Processor>,
    unwinding: Option<Unwinding>,
    filter: EventFilter,
    commands: Vec<String>,
    command_numbers: HashMap<String, u32>,
    places: Vec<Place>,
    place_numbers: HashMap<Place, u32>,
    /// Generation of memory, address, number of the place.
    numbers: HashTable<(u64, u64, u32)>,
    stacks: StackTable,
    scratch: Vec<u32>,
    lost: u64,
    periods_missing: bool,
    periods: Periods,
    kernel_anchor: Option<(String, u64)>,
    not_unwound: u64,
    /// What stands before the command of a process's samples, when it is to be distinguished from others of the name.
    pub label: Option<Label>,
    /// Samples of processes without a label are left out.
    pub labelled_only: bool,
    /// Places in files that have no name are written as offsets.
    pub keeps_offsets: bool,
    /// When samples were taken, where it is to be kept.
    pub times: Option<Times>,
}

/// Gives a process a label, which is written before its command as it is.
pub type Label = Box<dyn FnMut(u32, &Spaces) -> Option<String>>;

impl Assembler {
    /// An assembler of samples of `event`, or of the first event that was recorded.
    pub fn new(event: Option<&str>) -> Self {
        Self {
            attributes: Attributes::default(),
            spaces: Spaces::default(),
            processor: Processor::native(),
            unwinding: None,
            not_unwound: 0,
            filter: EventFilter::new(event),
            commands: Vec::new(),
            command_numbers: HashMap::new(),
            places: Vec::new(),
            place_numbers: HashMap::new(),
            numbers: HashTable::new(),
            stacks: StackTable::default(),
            scratch: Vec::new(),
            lost: 0,
            periods_missing: false,
            periods: Periods::default(),
            kernel_anchor: None,
            label: None,
            labelled_only: false,
            keeps_offsets: false,
            times: None,
        }
    }

    /// The events of the attributes, in their order, are those that were recorded.
    pub fn note_events(&mut self) {
        for attribute in self.attributes.list() {
            self.filter.recorded(&attribute.name);
        }
    }

    /// Takes a record; a malformed one is as good as none.
    pub fn record(&mut self, type_: u32, misc: u16, body: &[u8], witness: &mut impl Witness) {
        // Attributes are borrowed by what is read from them; a move is cheaper than a copy.
        let attributes = std::mem::take(&mut self.attributes);
        if let Some(record) = attributes.read(type_, misc, body) {
            match record {
                Record::Sample(sample) => {
                    let name = &attributes.list()[sample.attribute].name;
                    if self.filter.takes(name.as_bytes()) {
                        self.sample(&sample, witness);
                    }
                }
                other => self.side_record(other),
            }
        }
        self.attributes = attributes;
    }

    /// Whether records of a type change a profile.
    pub fn wants(type_: u32) -> bool {
        matches!(
            type_,
            kind::MMAP
                | kind::LOST
                | kind::COMM
                | kind::FORK
                | kind::SAMPLE
                | kind::MMAP2
                | kind::LOST_SAMPLES
        )
    }

    fn side_record(&mut self, record: Record<'_>) {
        match record {
            Record::Map {
                start,
                offset,
                path,
                kernel: true,
                ..
            } => {
                // `perf` names the symbol that the text begins with, and puts its address where a file's
                // offset would be.
                if let Some(symbol) = path
                    .strip_prefix("[kernel.kallsyms]")
                    .filter(|s| !s.is_empty())
                {
                    let address = if offset == 0 { start } else { offset };
                    self.kernel_anchor = Some((symbol.to_owned(), address));
                }
            }
            Record::Map {
                pid,
                start,
                length,
                offset,
                path,
                build_id,
                inode,
                ..
            } => {
                let range = start..start.saturating_add(length);
                self.spaces.map(
                    pid,
                    range,
                    offset,
                    &path,
                    ModuleIdentity { build_id, inode },
                );
            }
            Record::Command {
                pid,
                tid,
                name,
                exec,
            } => self.spaces.command(pid, tid, &name, exec),
            Record::Fork {
                pid,
                parent_pid,
                tid,
                parent_tid,
            } => self.spaces.fork(pid, parent_pid, tid, parent_tid),
            Record::Lost(count) => self.lost = self.lost.saturating_add(count),
            Record::Sample(_) => unreachable!("samples are not side records"),
        }
    }

    fn sample(&mut self, sample: &Sample<'_>, witness: &mut impl Witness) {
        let label = self.label.as_mut();
        let label = label.and_then(|label| label(sample.pid, &self.spaces));
        if label.is_none() && self.labelled_only {
            return;
        }
        witness.meet(&mut self.spaces, sample.pid, sample.tid);
        let command = match self.spaces.command_of(sample.pid, sample.tid) {
            Some(name) => name.to_owned(),
            None if sample.pid == 0 => "swapper".to_owned(),
            None if sample.pid == u32::MAX => crate::names::UNKNOWN.to_owned(),
            None => format!(":{}", sample.tid),
        };
        let command = label.unwrap_or_default() + &command;
        let mut stack = std::mem::take(&mut self.scratch);
        stack.clear();
        stack.push(self.command_number(command));
        self.walk(sample, &mut stack, witness);
        let interpreted = sample
            .time
            .and_then(|time| witness.interpreted(sample.pid, sample.tid, time));
        for &function in interpreted.iter().flat_map(|frames| frames.iter()) {
            stack.push(self.place_number(Place::Interpreted(function)));
        }
        self.periods_missing |= sample.period.is_none();
        self.periods.meet(sample.period.unwrap_or(0));
        let number = self.stacks.add(&stack, 1, sample.period.unwrap_or(0));
        if let (Some(times), Some(time)) = (&mut self.times, sample.time) {
            times.add(time, number);
        }
        self.scratch = stack;
    }

    /// Appends the numbers of the places of a sample's call chain, leaf first.
    fn walk(&mut self, sample: &Sample<'_>, stack: &mut Vec<u32>, witness: &mut impl Witness) {
        let space = self.spaces.generation(sample.pid);
        let (mut kernel, mut user) = (sample.in_kernel, sample.in_user);
        let (mut first, mut has_user) = (true, false);
        let begin = stack.len();
        for entry in sample.chain.chunks_exact(8).take(DEEPEST) {
            let address = u64::from_le_bytes(entry.try_into().expect("8 bytes"));
            if address >= CONTEXT_MAX {
                (kernel, user) = (address == CONTEXT_KERNEL, address == CONTEXT_USER);
                first = true;
                continue;
            }
            // A caller's address is that of the instruction after the call, which may be another function's
            // when the call does not return.
            let within = if first {
                address
            } else {
                address.saturating_sub(1)
            };
            first = false;
            let at = At {
                pid: sample.pid,
                space,
                address: within,
                kernel,
                user,
            };
            stack.push(self.number(at, witness));
            has_user |= user;
        }
        if let Some(state) = sample.user.filter(|_| !has_user) {
            self.unwind(sample.pid, space, &state, stack, witness);
        }
        if let Some(address) = sample.ip.filter(|_| stack.len() == begin) {
            let at = At {
                pid: sample.pid,
                space,
                address,
                kernel: sample.in_kernel,
                user: sample.in_user,
            };
            stack.push(self.number(at, witness));
        }
    }

    /// Appends the frames of the program, which the kernel left to whoever reads its stack.
    fn unwind(
        &mut self,
        pid: u32,
        space: Option<u64>,
        state: &UserState<'_>,
        stack: &mut Vec<u32>,
        witness: &mut impl Witness,
    ) {
        let Some(processor) = self.processor else {
            self.not_unwound += 1;
            return;
        };
        let mut unwinding = self
            .unwinding
            .take()
            .unwrap_or_else(|| Unwinding::new(processor));
        let mut walk = Walk {
            assembler: self,
            pid,
            space,
            stack,
            witness,
        };
        unwinding.walk(state, &mut walk);
        self.unwinding = Some(unwinding);
    }

    /// The number of the place of an address. Addresses repeat far more often than memory changes, so that
    /// most are found without asking what is mapped there.
    fn number(&mut self, at: At, witness: &mut impl Witness) -> u32 {
        let space = match (at.kernel, at.user, at.space) {
            (true, ..) => Some(KERNEL_SPACE),
            (false, true, known) => known,
            (false, false, _) => None,
        };
        let hash = space.map(|space| hash_address(space, at.address));
        if let (Some(space), Some(hash)) = (space, hash) {
            let same = |known: &(u64, u64, u32)| (known.0, known.1) == (space, at.address);
            if let Some(&(.., number)) = self.numbers.find(hash, same) {
                return number;
            }
        }
        let place = if at.kernel {
            Place::Kernel(at.address)
        } else if at.user {
            self.spaces.place(at.pid, at.address)
        } else {
            // A hypervisor's or a guest's address, of which nothing else is known.
            Place::Nowhere
        };
        witness.see(&mut self.spaces, at.pid, place);
        let number = self.place_number(place);
        if let (Some(space), Some(hash)) = (space, hash) {
            if self.numbers.len() >= MOST_NUMBERS {
                self.numbers.clear();
            }
            self.numbers
                .insert_unique(hash, (space, at.address, number), |known| {
                    hash_address(known.0, known.1)
                });
        }
        number
    }

    fn command_number(&mut self, name: String) -> u32 {
        if let Some(&number) = self.command_numbers.get(&name) {
            return number;
        }
        let number = self.commands.len() as u32;
        self.commands.push(name.clone());
        self.command_numbers.insert(name, number);
        number
    }

    fn place_number(&mut self, place: Place) -> u32 {
        if let Some(&number) = self.place_numbers.get(&place) {
            return number;
        }
        let number = self.places.len() as u32;
        self.places.push(place);
        self.place_numbers.insert(place, number);
        number
    }

    /// What was counted.
    pub fn finish(self) -> Assembled {
        let attribute = self
            .attributes
            .list()
            .iter()
            .find(|attribute| self.filter.is_taken(&attribute.name));
        Assembled {
            has_chains: attribute.is_some_and(Attribute::has_chains),
            frequency: attribute.and_then(|attribute| attribute.frequency),
            left_out: self.filter.left_out(),
            event: self.filter.chosen(),
            next_event: self.filter.next_choice(),
            stacks: self.stacks,
            commands: self.commands,
            places: self.places,
            modules: self.spaces.into_modules(),
            lost: self.lost,
            periods_missing: self.periods_missing,
            periods: self.periods,
            kernel_anchor: self.kernel_anchor,
            interpreted: Vec::new(),
            unwound: self.unwinding.map(|unwinding| unwinding.tally),
            not_unwound: self.not_unwound,
            keeps_offsets: self.keeps_offsets,
            times: self.times,
        }
    }
}

/// A walk through the stack of a process.
struct Walk<'a, W> {
    assembler: &'a mut Assembler,
    pid: u32,
    space: Option<u64>,
    stack: &'a mut Vec<u32>,
    witness: &'a mut W,
}

impl<W: Witness> Walk<'_, W> {
    fn find(&mut self, address: u64) -> (u32, Spot) {
        let at = At {
            pid: self.pid,
            space: self.space,
            address,
            kernel: false,
            user: true,
        };
        let number = self.assembler.number(at, self.witness);
        let spot = match self.assembler.places[number as usize] {
            Place::File { module, offset } => Spot::File { module, offset },
            _ if self.assembler.spaces.is_code(self.pid, address) => Spot::Anonymous,
            _ => Spot::Nowhere,
        };
        (number, spot)
    }
}

impl<W: Witness> Ground for Walk<'_, W> {
    fn spot(&mut self, address: u64) -> Spot {
        self.find(address).1
    }

    fn enter(&mut self, address: u64) -> Spot {
        let (number, spot) = self.find(address);
        self.stack.push(number);
        spot
    }

    fn enter_caller(&mut self, address: u64) -> Spot {
        let (number, spot) = self.find(address);
        if spot != Spot::Nowhere {
            self.stack.push(number);
        }
        spot
    }

    fn file(&mut self, module: u32) -> Option<PathBuf> {
        self.witness
            .file(&mut self.assembler.spaces, self.pid, module)
    }
}
