//! The mix of instructions: which instruction sets a program's time goes to, and the shares of branches,
//! loads and stores.
//!
//! In: addresses that CPUs were interrupted at (`profile`), and the code at them. Out: counts by process and
//! thread over the last [`HALF_NS`] to twice as long. One instruction is decoded, that at exactly the sampled
//! address; what was decoded before is looked up.
//!
//! What a share means: of the samples that fell on instructions of the program. With `cycles` and with
//! `cpu-clock` the address is where the interrupt was taken, some instructions after the event, so that a
//! share is one of time at an instruction rather than of instructions executed; that holds for a loop as a
//! whole, not for single instructions. Time in the kernel is counted apart. Shares come with 95 % intervals
//! (Wilson's) from the number of samples.
//!
//! Not here: which function it was (`profile`).

#[cfg(any(target_arch = "aarch64", test))]
mod a64;
#[cfg(any(target_arch = "x86", target_arch = "x86_64", test))]
mod classify;
mod code;

use std::collections::HashMap;

use steelyard_profile::record::{Address, Addresses, Scope};

use crate::{Figure, Reason};
pub use code::{Code, LiveCode};

/// How long samples count at least, ns.
pub const HALF_NS: u64 = 10_000_000_000;
/// Decoded addresses that are remembered.
const MOST_KINDS: usize = 1 << 17;
/// Samples below which a share says too little to stand in the table.
pub const FEWEST: u64 = 20;
/// Why there is no mix while nothing samples.
pub const MIX_NOT_SAMPLED: &str = "instructions are not sampled: press m";

/// The instruction set an instruction belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Class {
    /// General-purpose registers.
    #[default]
    Scalar,
    /// One floating-point number in a vector register.
    ScalarFloat,
    /// The x87 stack.
    X87,
    /// MMX.
    Mmx,
    /// SSE to SSE4.
    Sse,
    /// AVX, AVX2, FMA and others in VEX encoding.
    Avx,
    /// AVX-512 and AVX10.
    Avx512,
    /// AMX.
    Amx,
    /// Advanced SIMD of Arm.
    Neon,
    /// SVE and SME of Arm.
    Sve,
    /// AES, SHA, carry-less multiplication and the like.
    Crypto,
}

/// Classes with their keys in JSON, their names, and whether they are vector instructions.
pub const CLASSES: [(Class, &str, &str, bool); 11] = [
    (Class::Scalar, "scalar", "scalar", false),
    (Class::ScalarFloat, "scalar_float", "scalar float", false),
    (Class::X87, "x87", "x87", false),
    (Class::Mmx, "mmx", "MMX", true),
    (Class::Sse, "sse", "SSE", true),
    (Class::Avx, "avx", "AVX/AVX2", true),
    (Class::Avx512, "avx512", "AVX-512", true),
    (Class::Amx, "amx", "AMX", true),
    (Class::Neon, "neon", "NEON", true),
    (Class::Sve, "sve", "SVE", true),
    (Class::Crypto, "crypto", "crypto", false),
];

/// What one instruction is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kind {
    /// Its instruction set.
    pub class: Class,
    /// Width of its widest vector register, bits; 0 for none.
    pub vector_bits: u16,
    /// It reads memory.
    pub loads: bool,
    /// It writes memory.
    pub stores: bool,
    /// It may go elsewhere than to the next instruction.
    pub branches: bool,
}

/// Samples, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples by class.
    pub classes: [u64; CLASSES.len()],
    /// On instructions that read memory.
    pub loads: u64,
    /// On instructions that write memory.
    pub stores: u64,
    /// On branches, calls and returns.
    pub branches: u64,
    /// On instructions with registers of 512 bits.
    pub wide: u64,
    /// In the kernel.
    pub kernel: u64,
    /// In a program whose code could not be read or decoded.
    pub unknown: u64,
}

impl Counts {
    fn add(&mut self, kind: Kind) {
        self.classes[kind.class as usize] += 1;
        self.loads += u64::from(kind.loads);
        self.stores += u64::from(kind.stores);
        self.branches += u64::from(kind.branches);
        self.wide += u64::from(kind.vector_bits == 512);
    }

    /// Adds other samples.
    pub fn merge(&mut self, other: &Self) {
        for (sum, more) in self.classes.iter_mut().zip(other.classes) {
            *sum += more;
        }
        self.loads += other.loads;
        self.stores += other.stores;
        self.branches += other.branches;
        self.wide += other.wide;
        self.kernel += other.kernel;
        self.unknown += other.unknown;
    }

    /// Samples on instructions that were decoded.
    pub fn decoded(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// All samples.
    pub fn samples(&self) -> u64 {
        self.decoded() + self.kernel + self.unknown
    }

    /// Samples on vector instructions.
    pub fn vector(&self) -> u64 {
        CLASSES
            .iter()
            .filter(|class| class.3)
            .map(|class| self.classes[class.0 as usize])
            .sum()
    }

    /// The share of vector instructions among decoded samples, where there are enough.
    pub fn vector_ratio(&self) -> Figure {
        match self.decoded() {
            0 => Err(Reason::Fixed(
                "no sample of an instruction that could be read",
            )),
            few if few < FEWEST => Err(Reason::Fixed(
                "fewer than 20 samples of its instructions so far",
            )),
            enough => Ok(self.vector() as f64 / enough as f64),
        }
    }

    /// The class with the most samples besides scalar, with its share; None where all is scalar.
    pub fn foremost(&self) -> Option<(&'static str, f64)> {
        let decoded = self.decoded();
        if decoded < FEWEST {
            return None;
        }
        let most = CLASSES[1..]
            .iter()
            .max_by_key(|class| self.classes[class.0 as usize])?;
        let count = self.classes[most.0 as usize];
        (count > 0).then(|| (most.2, count as f64 / decoded as f64))
    }
}

/// Wilson's 95 % interval of a share of `count` in `of` samples.
///
/// Source: E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference (1927).
pub fn interval(count: u64, of: u64) -> (f64, f64) {
    const Z: f64 = 1.959_963_984_540_054;
    if of == 0 {
        return (0.0, 1.0);
    }
    let (n, share) = (of as f64, count as f64 / of as f64);
    let centre = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    (
        ((centre - half) / scale).max(0.0),
        ((centre + half) / scale).min(1.0),
    )
}

/// Where addresses come from.
pub trait Source {
    /// Hands over the addresses since it was asked before.
    fn drain(&mut self, give: &mut dyn FnMut(Address));
    /// The event that is sampled.
    fn event(&self) -> &str;
    /// What is left out, and why.
    fn reasons(&self) -> Vec<String>;
    /// Samples that were lost.
    fn lost(&self) -> u64;
}

impl Source for Addresses {
    fn drain(&mut self, give: &mut dyn FnMut(Address)) {
        Self::drain(self, give);
    }

    fn event(&self) -> &str {
        Self::event(self)
    }

    fn reasons(&self) -> Vec<String> {
        Self::reasons(self).to_vec()
    }

    fn lost(&self) -> u64 {
        Self::lost(self)
    }
}

/// Opens a source of addresses on everything, or on some processes.
pub type Open = Box<dyn FnMut(Option<&[u32]>) -> Result<Box<dyn Source>, Reason>>;

/// The kernel's own samples. `cpus` is how many CPUs there are: the more, the fewer samples of each.
pub fn live(cpus: usize) -> Open {
    // Primes, so that work that is timed in milliseconds is not always met at the same place.
    let hz = match cpus {
        0..=32 => 199,
        33..=128 => 97,
        _ => 19,
    };
    Box::new(move |pids| {
        let scope = match pids {
            None => Scope::All,
            Some(pids) => Scope::Processes(pids.to_vec()),
        };
        match Addresses::open(scope, hz) {
            Ok(addresses) => Ok(Box::new(addresses) as Box<dyn Source>),
            Err(steelyard_profile::ProfileError::Refused { reason, hint }) => {
                Err(Reason::made(format!("{reason}: {hint}")))
            }
            Err(error) => Err(Reason::made(error.to_string())),
        }
    })
}

type Half = HashMap<(u32, u32), Counts>;

/// Counts samples by process and thread.
pub struct Mixer {
    open: Open,
    source: Result<Box<dyn Source>, Reason>,
    /// The processes that are sampled; None for all.
    followed: Option<Vec<u32>>,
    whole_machine_refused: Option<Reason>,
    code: Box<dyn Code>,
    kinds: HashMap<(u32, u64), Option<Kind>>,
    halves: [Half; 2],
    turned_ns: Option<u64>,
}

impl Mixer {
    /// Samples everything, if that is allowed.
    pub fn new(mut open: Open, code: Box<dyn Code>) -> Self {
        let source = open(None);
        Self {
            whole_machine_refused: source.as_ref().err().cloned(),
            source,
            open,
            followed: None,
            code,
            kinds: HashMap::new(),
            halves: [Half::new(), Half::new()],
            turned_ns: None,
        }
    }

    /// Where not everything may be sampled, samples these processes from now on.
    pub fn follow(&mut self, pids: &[u32]) {
        if self.whole_machine_refused.is_none()
            || pids.is_empty()
            || self.followed.as_deref() == Some(pids)
        {
            return;
        }
        self.followed = Some(pids.to_vec());
        self.source = (self.open)(Some(pids));
    }

    /// Whether not everything may be sampled.
    pub fn is_restricted(&self) -> bool {
        self.whole_machine_refused.is_some()
    }

    /// Takes the samples that have come. `now_ns` turns old ones out.
    pub fn take(&mut self, now_ns: u64) {
        let turned_ns = *self.turned_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(turned_ns) >= HALF_NS {
            self.halves.swap(0, 1);
            self.halves[0].clear();
            self.turned_ns = Some(now_ns);
            // Code may be made anew at the same address, and ids used again.
            self.kinds.clear();
            self.code.forget();
        }
        let Ok(source) = &mut self.source else {
            return;
        };
        let (half, kinds, code) = (&mut self.halves[0], &mut self.kinds, &mut self.code);
        source.drain(&mut |sample| {
            if sample.pid == 0 || sample.pid == u32::MAX {
                return;
            }
            let counts = half.entry((sample.pid, sample.tid)).or_default();
            if sample.in_kernel {
                counts.kernel += 1;
                return;
            }
            let kind = sample.address.and_then(|address| {
                if kinds.len() >= MOST_KINDS {
                    kinds.clear();
                }
                *kinds
                    .entry((sample.pid, address))
                    .or_insert_with(|| decode(code.as_mut(), sample.pid, address))
            });
            match kind {
                Some(kind) => counts.add(kind),
                None => counts.unknown += 1,
            }
        });
    }

    /// The counts of a process, or of one of its threads.
    pub fn counts(&self, pid: u32, tid: Option<u32>) -> Result<Counts, Reason> {
        let mut sum = Counts::default();
        match tid {
            Some(tid) => {
                for counts in self.halves.iter().filter_map(|half| half.get(&(pid, tid))) {
                    sum.merge(counts);
                }
            }
            None => {
                for half in &self.halves {
                    for (_, counts) in half.iter().filter(|entry| entry.0.0 == pid) {
                        sum.merge(counts);
                    }
                }
            }
        }
        if sum.samples() == 0 {
            return Err(self.why_none(pid));
        }
        Ok(sum)
    }

    /// The counts of all processes at once.
    pub fn by_process(&self) -> HashMap<u32, Counts> {
        let mut sums: HashMap<u32, Counts> = HashMap::new();
        for ((pid, _), counts) in self.halves.iter().flatten() {
            sums.entry(*pid).or_default().merge(counts);
        }
        sums
    }

    /// Why a process has no samples.
    pub fn why_none(&self, pid: u32) -> Reason {
        if let Err(reason) = &self.source {
            return reason.clone();
        }
        if let Some(followed) = &self.followed
            && !followed.contains(&pid)
            && let Some(refused) = &self.whole_machine_refused
        {
            return Reason::made(format!(
                "only the selected or busiest process is sampled, because all may not be: {refused}"
            ));
        }
        Reason::Fixed("no samples: it ran too little")
    }

    /// The event, where something is sampled.
    pub fn event(&self) -> Result<&str, Reason> {
        match &self.source {
            Ok(source) => Ok(source.event()),
            Err(reason) => Err(reason.clone()),
        }
    }

    /// What samples cannot show here, in sentences.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        match &self.source {
            Err(reason) => notes.push(format!("instruction mix: {reason}")),
            Ok(source) => {
                if source.event() == "cpu-clock" {
                    notes.push(
                        "instruction mix: by cpu-clock, since there are no cycles to sample: the instruction \
                         is the one at the timer's interrupt"
                            .to_owned(),
                    );
                }
                notes.extend(
                    source
                        .reasons()
                        .into_iter()
                        .map(|reason| format!("instruction mix: {reason}")),
                );
                if source.lost() > 0 {
                    notes.push(format!(
                        "instruction mix: {} samples were lost",
                        source.lost()
                    ));
                }
            }
        }
        if let Some(reason) = self.code.why_unread() {
            notes.push(format!("instruction mix: {reason}"));
        }
        notes
    }
}

/// Reads and decodes the instruction at an address.
fn decode(code: &mut dyn Code, pid: u32, address: u64) -> Option<Kind> {
    let bytes = code.read(pid, address)?;
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    return classify::classify(&bytes, code.bits(pid));
    #[cfg(target_arch = "aarch64")]
    return a64::classify(u32::from_le_bytes(*bytes.first_chunk()?));
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = bytes;
        None
    }
}

/// Decodes `bytes` in every way there is: none may panic. For tests and the fuzz target.
#[doc(hidden)]
pub fn decode_anything(bytes: &[u8]) {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    for bits in [32, 64] {
        classify::classify(bytes, bits);
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(word) = bytes.first_chunk() {
        a64::classify(u32::from_le_bytes(*word));
    }
}

#[cfg(test)]
mod tests;
