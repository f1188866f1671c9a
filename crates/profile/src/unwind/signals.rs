//! Frames that the kernel made to call a signal handler.
//!
//! Their rules say that the interrupted program's registers lie on the stack, in expressions that read memory,
//! which framehop does not evaluate. The layout is the kernel's and never changes, so that it is read here.
//! Source: struct rt_sigframe and struct sigcontext of arch/*/include/uapi/asm/sigcontext.h.
//!
//! In: unwind information. Out: the ranges of addresses that a handler returns to.

use std::ops::Range;

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection};

/// What a CIE of such a frame begins its description with: augmentation `zRS`.
const MARK: &[u8] = b"zRS\0";
/// Ranges that a file may have: libraries have one.
const MOST_RANGES: usize = 16;

/// The ranges of addresses in which a signal handler's caller is.
pub fn ranges(information: &[u8], bases: &BaseAddresses) -> Vec<Range<u64>> {
    // Few files have any, and to look at every entry takes time in a large one.
    if memchr::memmem::find(information, MARK).is_none() {
        return Vec::new();
    }
    let mut section = EhFrame::from(EndianSlice::new(information, LittleEndian));
    section.set_address_size(8);
    let mut entries = section.entries(bases);
    let mut found = Vec::new();
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(entry) = partial.parse(EhFrame::cie_from_offset) else {
            continue;
        };
        if entry.is_signal_trampoline() && found.len() < MOST_RANGES {
            let start = entry.initial_address();
            found.push(start..start.saturating_add(entry.len()));
        }
    }
    found
}

/// Where the registers of the interrupted program are, from the stack pointer that its handler returns with.
pub struct Layout {
    /// Program counter.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
    /// Link register, on processors that have one.
    pub lr: Option<u64>,
}

/// A ucontext, whose registers follow 40 bytes; r8 to r15 come first.
pub const X86_64: Layout = Layout {
    pc: 168,
    sp: 160,
    fp: 120,
    lr: None,
};

/// 128 bytes of siginfo, then a ucontext, whose registers follow 184 bytes.
pub const AARCH64: Layout = Layout {
    pc: 568,
    sp: 560,
    fp: 544,
    lr: Some(552),
};

/// The registers of the interrupted program.
pub struct Interrupted {
    /// Program counter.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
    /// Link register, 0 where there is none.
    pub lr: u64,
}

impl Layout {
    /// Reads the registers, when the copy of the stack holds them.
    pub fn read(
        &self,
        sp: u64,
        mut read: impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<Interrupted> {
        let mut at = |offset: u64| read(sp.checked_add(offset)?).ok();
        Some(Interrupted {
            pc: at(self.pc)?,
            sp: at(self.sp)?,
            fp: at(self.fp)?,
            lr: match self.lr {
                Some(offset) => at(offset)?,
                None => 0,
            },
        })
    }
}
