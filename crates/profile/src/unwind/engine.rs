//! From registers and a copy of the stack to the addresses of the callers.
//!
//! Rules are looked up in the files' own addresses, one unwinder a file: processes that have the same file
//! mapped share what was found out about it, and a mapping that comes or goes costs nothing.

use std::collections::HashMap;

use framehop::aarch64::{CacheAarch64, PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Error, FrameAddress, Module, Unwinder};

use super::code::Code;
use super::signals;
use super::{End, Ground, Spot};
use crate::sample::UserState;

/// What differs between processors.
pub trait Machine {
    /// What unwinding goes by.
    type Registers: Copy;
    /// Framehop's unwinder.
    type Unwinder: Unwinder<Module = Module<Vec<u8>>, UnwindRegs = Self::Registers> + Default;
    /// What it remembers.
    fn cache() -> <Self::Unwinder as Unwinder>::Cache;
    /// Program counter, stack pointer, and what else unwinding begins with.
    fn begin(state: &UserState<'_>)
    -> Option<(u64, u64, <Self::Unwinder as Unwinder>::UnwindRegs)>;
    /// The program counter of the program that a signal interrupted, and what unwinding goes on with, from the
    /// registers in the frame that the kernel made.
    fn resume(
        registers: &Self::Registers,
        read: impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<(u64, Self::Registers)>;
    /// The address of the call that a bare trampoline was called by: one that only aligns its stack and calls
    /// on, as those that CPython makes for each function where it is built without frame pointers. A guess.
    fn guess(
        registers: &mut Self::Registers,
        read: impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<u64>;
}

/// 64-bit x86.
pub struct X86_64;

impl Machine for X86_64 {
    type Registers = UnwindRegsX86_64;
    type Unwinder = UnwinderX86_64<Vec<u8>>;

    fn cache() -> CacheX86_64 {
        CacheX86_64::new()
    }

    fn begin(state: &UserState<'_>) -> Option<(u64, u64, UnwindRegsX86_64)> {
        let [bp, sp, ip] = [6, 7, 8];
        let (ip, sp) = (state.register(ip)?, state.register(sp)?);
        let bp = state.register(bp)?;
        Some((ip, sp, UnwindRegsX86_64::new(ip, sp, bp)))
    }

    fn resume(
        registers: &UnwindRegsX86_64,
        read: impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<(u64, UnwindRegsX86_64)> {
        let was = signals::X86_64.read(registers.sp(), read)?;
        Some((was.pc, UnwindRegsX86_64::new(was.pc, was.sp, was.fp)))
    }

    fn guess(
        registers: &mut UnwindRegsX86_64,
        mut read: impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<u64> {
        // Eight bytes that align the stack, then the return address.
        let place = registers.sp().checked_add(8)?;
        let caller = read(place).ok()?;
        *registers = UnwindRegsX86_64::new(caller, place.checked_add(8)?, registers.bp());
        caller.checked_sub(1)
    }
}

/// Bits that an address of Arm can have; those above it may be a return address's signature.
const ADDRESS: PtrAuthMask = PtrAuthMask((1 << 48) - 1);

/// 64-bit Arm.
pub struct Aarch64;

impl Machine for Aarch64 {
    type Registers = UnwindRegsAarch64;
    type Unwinder = UnwinderAarch64<Vec<u8>>;

    fn cache() -> CacheAarch64 {
        CacheAarch64::default()
    }

    fn begin(state: &UserState<'_>) -> Option<(u64, u64, UnwindRegsAarch64)> {
        let [fp, lr, sp, pc] = [29, 30, 31, 32];
        let (pc, sp) = (state.register(pc)?, state.register(sp)?);
        let (lr, fp) = (state.register(lr)?, state.register(fp)?);
        let registers = UnwindRegsAarch64::new_with_ptr_auth_mask(ADDRESS, lr, sp, fp);
        Some((pc, sp, registers))
    }

    fn resume(
        registers: &UnwindRegsAarch64,
        read: impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<(u64, UnwindRegsAarch64)> {
        let was = signals::AARCH64.read(registers.sp(), read)?;
        let registers = UnwindRegsAarch64::new_with_ptr_auth_mask(ADDRESS, was.lr, was.sp, was.fp);
        Some((was.pc, registers))
    }

    /// Arm's calls leave no return address on the stack, so that trampolines there have frame pointers.
    fn guess(_: &mut UnwindRegsAarch64, _: impl FnMut(u64) -> Result<u64, ()>) -> Option<u64> {
        None
    }
}

/// Stack pointers above this belong to no program.
const HIGHEST_STACK: u64 = 1 << 56;
/// Frames of a stack that are looked for at most.
const DEEPEST: usize = 4096;
/// Files whose information is kept at most.
const MOST_FILES: usize = 4096;

/// A frame.
#[derive(Clone, Copy)]
struct At {
    /// An address within the instruction that is under way: a call, but for the innermost frame and what a
    /// signal interrupted.
    address: u64,
    spot: Spot,
    /// The instruction has not begun.
    is_exact: bool,
}

/// What comes next.
#[derive(Clone, Copy)]
enum Step {
    /// A call at this address.
    Caller(u64),
    /// The instruction at this address, before which a signal came.
    Interrupted(u64),
    /// Nothing: a thread began here.
    Bottom,
    /// What lies at this address of the stack was not copied.
    Unreadable(u64),
    /// The rules lead nowhere.
    Failed,
}

/// The rules of one file, and what was found out about its addresses.
struct Unit<U: Unwinder> {
    unwinder: U,
    cache: U::Cache,
    /// None for code that is in no file that can be read.
    code: Option<Code>,
}

/// Unwinds the stacks of one kind of processor.
pub struct Engine<M: Machine> {
    units: HashMap<u32, Unit<M::Unwinder>>,
    /// Follows frame pointers, as there is nothing else to go by.
    pointers: Unit<M::Unwinder>,
}

impl<M: Machine> Default for Engine<M> {
    fn default() -> Self {
        Self {
            units: HashMap::new(),
            pointers: Self::unit(None),
        }
    }
}

impl<M: Machine> Engine<M> {
    fn unit(code: Option<Code>) -> Unit<M::Unwinder> {
        let mut unwinder = M::Unwinder::default();
        if let Some(code) = &code {
            unwinder.add_module(code.module.clone());
        }
        Unit {
            unwinder,
            cache: M::cache(),
            code,
        }
    }

    /// Steps from the innermost frame outwards, telling `ground` each, until something ends it.
    pub fn walk(&mut self, state: &UserState<'_>, ground: &mut impl Ground) -> End {
        let Some((pc, sp, mut registers)) = M::begin(state) else {
            return End::Astray(Spot::Nowhere);
        };
        let mut at = At {
            address: pc,
            spot: ground.enter(pc),
            is_exact: true,
        };
        if sp >= HIGHEST_STACK {
            return End::Astray(at.spot);
        }
        let copy_end = sp + state.stack.len() as u64;
        let mut read = |address: u64| -> Result<u64, ()> {
            let start = usize::try_from(address.checked_sub(sp).ok_or(())?).map_err(|_| ())?;
            let rest = state.stack.get(start..).ok_or(())?;
            let bytes = rest.first_chunk::<8>().ok_or(())?;
            Ok(u64::from_le_bytes(*bytes))
        };
        for _ in 0..DEEPEST {
            let before = registers;
            let step = self.step(at, &mut registers, &mut read, ground);
            let (next, is_exact) = match step {
                Step::Caller(address) => (Some(address), false),
                Step::Interrupted(address) => (Some(address), true),
                Step::Bottom => return End::Bottom,
                Step::Unreadable(_) | Step::Failed => (None, false),
            };
            let next = next.map(|address| (address, ground.enter_caller(address)));
            let next = next.filter(|&(_, spot)| spot != Spot::Nowhere);
            let next = next.or_else(|| {
                registers = before;
                let address = (at.spot == Spot::Anonymous && !at.is_exact)
                    .then(|| M::guess(&mut registers, &mut read))??;
                // A guess is believed only where it leads back into a file's code.
                matches!(ground.spot(address), Spot::File { .. })
                    .then(|| (address, ground.enter_caller(address)))
            });
            at = match (next, step) {
                (Some((address, spot)), _) => At {
                    address,
                    spot,
                    is_exact,
                },
                (None, Step::Unreadable(address)) if address >= copy_end && state.is_full => {
                    return End::OfCopy;
                }
                (None, _) => return self.lost(at, ground),
            };
        }
        End::Astray(at.spot)
    }

    /// Finds the caller of a frame.
    fn step(
        &mut self,
        at: At,
        registers: &mut M::Registers,
        mut read: impl FnMut(u64) -> Result<u64, ()>,
        ground: &mut impl Ground,
    ) -> Step {
        let (unit, address) = self.unit_of(at.spot, at.address, ground);
        let code = unit.code.as_ref();
        if code.is_some_and(|code| code.is_signal(address)) {
            return match M::resume(registers, &mut read) {
                Some((pc, interrupted)) => {
                    *registers = interrupted;
                    Step::Interrupted(pc)
                }
                None => Step::Failed,
            };
        }
        let frame = if at.is_exact {
            Some(FrameAddress::from_instruction_pointer(address))
        } else {
            // The rule is that of the call, which the byte before the return address belongs to.
            FrameAddress::from_return_address(address.wrapping_add(1))
        };
        let Some(frame) = frame else {
            return Step::Failed;
        };
        let stepped = unit
            .unwinder
            .unwind_frame(frame, registers, &mut unit.cache, &mut read);
        match stepped {
            Ok(Some(caller)) => Step::Caller(caller.wrapping_sub(1)),
            Ok(None) => Step::Bottom,
            Err(Error::CouldNotReadStack(address)) => Step::Unreadable(address),
            Err(_) => Step::Failed,
        }
    }

    /// What it means that a frame has no caller: nobody calls where a process begins.
    fn lost(&mut self, at: At, ground: &mut impl Ground) -> End {
        let (unit, address) = self.unit_of(at.spot, at.address, ground);
        let code = unit.code.as_ref();
        match code.is_some_and(|code| code.is_entry(address)) {
            true => End::Bottom,
            false => End::Astray(at.spot),
        }
    }

    /// The rules for a place, and its address in their terms.
    fn unit_of(
        &mut self,
        spot: Spot,
        at: u64,
        ground: &mut impl Ground,
    ) -> (&mut Unit<M::Unwinder>, u64) {
        let Spot::File { module, offset } = spot else {
            return (&mut self.pointers, at);
        };
        if !self.units.contains_key(&module) && self.units.len() < MOST_FILES {
            let code = ground.file(module).and_then(|path| Code::read(&path));
            self.units.insert(module, Self::unit(code));
        }
        match self.units.get_mut(&module) {
            Some(unit) => match unit.code.as_ref().and_then(|code| code.address_of(offset)) {
                Some(address) => (unit, address),
                None => (&mut self.pointers, at),
            },
            None => (&mut self.pointers, at),
        }
    }

    /// Whether the rules of a place are known, instead of guessed to be frame pointers.
    pub fn knows(&self, spot: Spot) -> bool {
        let Spot::File { module, .. } = spot else {
            return false;
        };
        let code = self.units.get(&module).and_then(|unit| unit.code.as_ref());
        code.is_some_and(|code| code.has_information)
    }
}
