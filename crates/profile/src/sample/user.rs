//! What a sample holds of a program's state: registers, and a copy of the stack from its pointer upwards.
//!
//! Source: perf_event_open(2), PERF_SAMPLE_REGS_USER and PERF_SAMPLE_STACK_USER; the registers' numbers are
//! those of arch/*/include/uapi/asm/perf_regs.h.

use super::Cursor;

/// The program was 64-bit: PERF_SAMPLE_REGS_ABI_64.
const ABI_64: u64 = 2;

/// Registers, and what lay on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserState<'a> {
    /// Which registers there are, a bit each.
    mask: u64,
    /// Their values, 8 bytes each, in the order of their numbers.
    registers: &'a [u8],
    /// Bytes from the stack pointer upwards. Empty when nothing could be copied.
    pub stack: &'a [u8],
    /// The copy is as long as was asked for, so that the stack may go on beyond it.
    pub is_full: bool,
}

impl<'a> UserState<'a> {
    /// A state with the registers of `mask`, 8 bytes each, lowest number first.
    pub fn new(mask: u64, registers: &'a [u8], stack: &'a [u8], is_full: bool) -> Self {
        Self {
            mask,
            registers,
            stack,
            is_full,
        }
    }

    /// The value of the register with this number.
    pub fn register(&self, number: u32) -> Option<u64> {
        let bit = 1_u64.checked_shl(number)?;
        if self.mask & bit == 0 {
            return None;
        }
        let at = 8 * (self.mask & (bit - 1)).count_ones() as usize;
        let bytes = self.registers.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}

/// Where a sample's registers and stack are, and what comes before them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserLayout {
    /// Raw data, as tracepoints have.
    pub has_raw: bool,
    /// The branches taken last.
    pub has_branches: bool,
    /// An index of the hardware before the branches.
    pub has_branch_index: bool,
    /// Registers and stack: one without the other is of no use.
    pub has_state: bool,
    /// PERF_SAMPLE_REGS_USER's mask.
    pub register_mask: u64,
}

impl UserLayout {
    /// Reads on from where the call chain ended. None when there is no state, as of kernel threads and 32-bit
    /// programs, or the record is too short for what it says it holds.
    pub fn read<'a>(&self, cursor: &mut Cursor<'a>) -> Option<UserState<'a>> {
        if !self.has_state {
            return None;
        }
        if self.has_raw {
            let bytes = cursor.u32()?;
            cursor.skip(bytes as usize)?;
        }
        if self.has_branches {
            let count = usize::try_from(cursor.u64()?).ok()?;
            let index = usize::from(self.has_branch_index);
            cursor.skip(count.checked_mul(3)?.checked_add(index)?.checked_mul(8)?)?;
        }
        let abi = cursor.u64()?;
        let registers = match abi {
            0 => &[],
            _ => cursor.take(8 * self.register_mask.count_ones() as usize)?,
        };
        let size = usize::try_from(cursor.u64()?).ok()?;
        let copied = cursor.take(size)?;
        let filled = match size {
            0 => 0,
            _ => usize::try_from(cursor.u64()?).ok()?.min(size),
        };
        let state = UserState::new(
            self.register_mask,
            registers,
            &copied[..filled],
            filled == size,
        );
        (abi == ABI_64).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(values: &[u64]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    const LAYOUT: UserLayout = UserLayout {
        has_raw: false,
        has_branches: true,
        has_branch_index: true,
        has_state: true,
        register_mask: 0b1_1100_0000,
    };

    #[test]
    fn registers_and_stack_are_found_behind_branches() {
        let bytes = words(&[1, 0, 11, 12, 13, 2, 60, 70, 80, 16, 5, 6, 8, 99]);
        let state = LAYOUT.read(&mut Cursor::new(&bytes)).unwrap();
        assert_eq!(
            [6, 7, 8].map(|n| state.register(n)),
            [Some(60), Some(70), Some(80)]
        );
        assert_eq!([5, 9, 64].map(|n| state.register(n)), [None; 3]);
        // Of the 16 bytes that were asked for, 8 could be copied.
        assert_eq!((state.stack, state.is_full), (&words(&[5])[..], false));
    }

    #[test]
    fn what_is_cut_off_or_of_no_program_is_none() {
        let bytes = words(&[1, 0, 11, 12, 13, 2, 60, 70, 80, 16, 5, 6, 16]);
        for length in 0..bytes.len() {
            assert!(LAYOUT.read(&mut Cursor::new(&bytes[..length])).is_none());
        }
        // A kernel thread has no registers, and a 32-bit program other ones.
        assert!(
            LAYOUT
                .read(&mut Cursor::new(&words(&[0, 0, 0, 0])))
                .is_none()
        );
        assert!(
            LAYOUT
                .read(&mut Cursor::new(&words(&[0, 0, 1, 60, 70, 80, 0])))
                .is_none()
        );
    }
}
