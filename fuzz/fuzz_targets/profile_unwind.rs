//! Whatever registers, stack and file a sample comes with, unwinding ends, and does not panic.

#![no_main]

use std::cell::RefCell;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use steelyard_profile::unwind::{Ground, Processor, Spot, Unwinding, UserState};

thread_local! {
    /// Holds the file that the input describes.
    static SCRATCH: RefCell<File> = RefCell::new(tempfile::tempfile().expect("a temporary file"));
}

/// A hostile file, this program, and code without a file.
struct Land {
    steps: usize,
}

impl Ground for Land {
    fn spot(&mut self, address: u64) -> Spot {
        match address >> 40 {
            0 => Spot::File {
                module: 0,
                offset: address,
            },
            1 => Spot::File {
                module: 1,
                offset: address & ((1 << 40) - 1),
            },
            2 => Spot::Anonymous,
            _ => Spot::Nowhere,
        }
    }

    fn enter(&mut self, address: u64) -> Spot {
        self.steps += 1;
        self.spot(address)
    }

    fn enter_caller(&mut self, address: u64) -> Spot {
        self.enter(address)
    }

    fn file(&mut self, module: u32) -> Option<PathBuf> {
        if module == 1 {
            return std::env::current_exe().ok();
        }
        SCRATCH
            .with_borrow(|file| Some(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))))
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((head, rest)) = bytes.split_first_chunk::<34>() else {
        return;
    };
    let processor = if head[0] & 1 == 0 {
        Processor::X86_64
    } else {
        Processor::Aarch64
    };
    let file_bytes = (usize::from(head[1]) * 64).min(rest.len());
    let (elf, stack) = rest.split_at(file_bytes);
    SCRATCH.with_borrow_mut(|file| {
        file.set_len(0).expect("it is ours");
        file.rewind().expect("it can be sought in");
        file.write_all(elf).expect("there is room");
    });
    let state = UserState::new(processor.registers(), &head[2..], stack, head[0] & 2 == 0);
    let mut land = Land { steps: 0 };
    let mut unwinding = Unwinding::new(processor);
    let _ = unwinding.walk(&state, &mut land);
    assert!(land.steps <= 4097, "{} steps", land.steps);
});
