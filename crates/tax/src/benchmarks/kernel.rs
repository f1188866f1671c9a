//! What a call of the kernel costs: a cheap system call, the clock without one, a short sleep, a page fault, a pipe.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use steelyard_kernel::usage::Usage;

use crate::TaxError;
use crate::benchmark::{Category, Microbenchmark, Prepared, Setup, Worker};

const SLEEP_NS: u64 = 10_000;
const PAGES: usize = 64;

struct Kernel {
    name: &'static str,
    operation: &'static str,
    waits: bool,
    repeats: bool,
    cycle: u64,
    make: fn() -> Box<dyn Worker>,
}

/// All benchmarks of this category.
pub fn benchmarks() -> Vec<Box<dyn Microbenchmark>> {
    let plain = |name, operation, make: fn() -> Box<dyn Worker>| Kernel {
        name,
        operation,
        waits: false,
        repeats: true,
        cycle: 1,
        make,
    };
    vec![
        Box::new(plain("syscall-getppid", "gets the parent's id", || {
            Box::new(Getppid)
        })),
        Box::new(plain(
            "clock-vdso",
            "reads CLOCK_MONOTONIC without a system call",
            || Box::new(Clock { call: read_vdso }),
        )),
        Box::new(plain(
            "clock-syscall",
            "reads CLOCK_MONOTONIC by a system call",
            || Box::new(Clock { call: read_syscall }),
        )),
        Box::new(Kernel {
            waits: true,
            ..plain(
                "nanosleep-10us",
                "sleeps 10 µs: the rest is lateness",
                || Box::new(Nanosleep),
            )
        }),
        Box::new(Kernel {
            cycle: PAGES as u64,
            ..plain(
                "page-fault",
                "touches a page that the kernel must allocate",
                || {
                    Box::new(Faults {
                        start: std::ptr::null_mut(),
                        page: 4096,
                    })
                },
            )
        }),
        Box::new(plain(
            "pipe-64",
            "writes 64 bytes into a pipe and reads them back",
            || Box::new(Pipe { ends: None }),
        )),
    ]
}

impl Microbenchmark for Kernel {
    fn name(&self) -> &str {
        self.name
    }

    fn category(&self) -> Category {
        Category::Kernel
    }

    fn operation(&self) -> &str {
        self.operation
    }

    fn waits(&self) -> bool {
        self.waits
    }

    fn repeats(&self) -> bool {
        self.repeats
    }

    fn prepare(&self, setup: &Setup) -> Result<Prepared, TaxError> {
        Ok(Prepared::new((0..setup.workers).map(|_| (self.make)()).collect()).cycle(self.cycle))
    }
}

fn last(what: &str) -> String {
    format!("{what}: {}", io::Error::last_os_error())
}

struct Getppid;

impl Worker for Getppid {
    fn verify(&mut self) -> Result<(), String> {
        // SAFETY: neither call has preconditions.
        let (direct, wrapped) = unsafe { (libc::syscall(libc::SYS_getppid), libc::getppid()) };
        if direct == i64::from(wrapped) {
            Ok(())
        } else {
            Err(format!("the parent is {direct} and {wrapped}"))
        }
    }

    fn run(&mut self, operations: u64) -> u64 {
        let mut asked = 0;
        for _ in 0..operations {
            // SAFETY: the call has no preconditions; by its number, so that no library answers from memory.
            let parent = unsafe { libc::syscall(libc::SYS_getppid) };
            asked += u64::from(std::hint::black_box(parent) >= 0);
        }
        asked
    }
}

struct Clock {
    call: fn(&mut libc::timespec) -> libc::c_long,
}

fn read_vdso(time: &mut libc::timespec) -> libc::c_long {
    // SAFETY: `time` is a valid place for one timespec.
    libc::c_long::from(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time) })
}

fn read_syscall(time: &mut libc::timespec) -> libc::c_long {
    // SAFETY: as above.
    unsafe {
        libc::syscall(
            libc::SYS_clock_gettime,
            libc::CLOCK_MONOTONIC,
            time as *mut libc::timespec,
        )
    }
}

const ZERO: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

fn ns(time: &libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Worker for Clock {
    fn verify(&mut self) -> Result<(), String> {
        let (mut before, mut now, mut after) = (ZERO, ZERO, ZERO);
        read_syscall(&mut before);
        (self.call)(&mut now);
        read_syscall(&mut after);
        if ns(&before) <= ns(&now) && ns(&now) <= ns(&after) && ns(&before) > 0 {
            Ok(())
        } else {
            Err("the clock does not lie between two readings by system call".to_owned())
        }
    }

    fn run(&mut self, operations: u64) -> u64 {
        let (mut time, mut previous, mut backward) = (ZERO, 0, 0);
        for _ in 0..operations {
            (self.call)(&mut time);
            let now = ns(&time);
            backward += u64::from(now < previous);
            previous = now;
        }
        operations ^ (backward << 48)
    }
}

struct Nanosleep;

impl Nanosleep {
    fn sleep() -> bool {
        let wanted = libc::timespec {
            tv_sec: 0,
            tv_nsec: SLEEP_NS as libc::c_long,
        };
        // SAFETY: `wanted` outlives the call, and what is left is not asked for.
        unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &wanted, std::ptr::null_mut()) == 0
        }
    }
}

impl Worker for Nanosleep {
    fn verify(&mut self) -> Result<(), String> {
        let begin = steelyard_record::monotonic_ns();
        let slept = Self::sleep();
        let took = steelyard_record::monotonic_ns() - begin;
        if slept && took >= SLEEP_NS {
            Ok(())
        } else {
            Err(format!("a sleep of {SLEEP_NS} ns took {took} ns"))
        }
    }

    fn run(&mut self, operations: u64) -> u64 {
        // A signal may cut a sleep short: it is slept again, so that every batch does the same.
        for _ in 0..operations {
            while !Self::sleep() {}
        }
        operations
    }
}

/// A few pages that are given back to the kernel before each cycle.
struct Faults {
    start: *mut u8,
    page: usize,
}

// SAFETY: the mapping belongs to this worker alone.
unsafe impl Send for Faults {}

impl Faults {
    fn drop_pages(&self) -> bool {
        // SAFETY: the range is our mapping, and nothing refers into it.
        unsafe { libc::madvise(self.start.cast(), PAGES * self.page, libc::MADV_DONTNEED) == 0 }
    }

    /// Touches the pages; returns how many were not zero, as fresh ones are.
    fn touch(&self, pages: usize) -> u64 {
        let mut stale = 0;
        for index in 0..pages {
            // SAFETY: `index` is below PAGES, so that the byte lies inside the mapping.
            unsafe {
                let byte = self.start.add(index * self.page);
                // The write is what a server does first; a read alone may be given the shared zero page.
                let old = byte.replace(1);
                stale += u64::from(old != 0);
            }
        }
        stale
    }
}

impl Worker for Faults {
    fn begin(&mut self) -> Result<(), String> {
        // SAFETY: sysconf has no preconditions.
        self.page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGES * self.page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(last("mmap"));
        }
        self.start = start.cast();
        // A huge page would be one fault for all of them; a kernel without huge pages refuses, which is as good.
        // SAFETY: the range is the mapping made above.
        unsafe { libc::madvise(start, PAGES * self.page, libc::MADV_NOHUGEPAGE) };
        Ok(())
    }

    fn verify(&mut self) -> Result<(), String> {
        self.touch(PAGES);
        if !self.drop_pages() {
            return Err(last("madvise(MADV_DONTNEED)"));
        }
        let before = Usage::of_thread().minor_faults;
        let stale = self.touch(PAGES);
        let faults = Usage::of_thread().minor_faults - before;
        if stale == 0 && faults >= PAGES as u64 {
            Ok(())
        } else {
            Err(format!(
                "{PAGES} fresh pages made {faults} faults, and {stale} were not zero"
            ))
        }
    }

    fn run(&mut self, operations: u64) -> u64 {
        let mut wrong = 0;
        for _ in 0..operations / PAGES as u64 {
            wrong += u64::from(!self.drop_pages());
            wrong += self.touch(PAGES);
        }
        operations ^ (wrong << 48)
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        if !self.start.is_null() {
            // SAFETY: the mapping was made in `begin`, and nothing refers into it.
            unsafe { libc::munmap(self.start.cast(), PAGES * self.page) };
        }
    }
}

struct Pipe {
    ends: Option<(OwnedFd, OwnedFd)>,
}

impl Pipe {
    fn pass(&self, message: &[u8; 64]) -> Option<[u8; 64]> {
        let (reader, writer) = self.ends.as_ref()?;
        let mut back = [0u8; 64];
        // SAFETY: both buffers have 64 bytes, and a pipe takes and gives so few whole.
        unsafe {
            let sent = libc::write(writer.as_raw_fd(), message.as_ptr().cast(), 64);
            let got = libc::read(reader.as_raw_fd(), back.as_mut_ptr().cast(), 64);
            (sent == 64 && got == 64).then_some(back)
        }
    }
}

impl Worker for Pipe {
    fn begin(&mut self) -> Result<(), String> {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(last("pipe"));
        }
        // SAFETY: both were just made, and nobody else has them.
        self.ends = Some(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) });
        Ok(())
    }

    fn verify(&mut self) -> Result<(), String> {
        let message = std::array::from_fn(|index| index as u8 ^ 0x5a);
        match self.pass(&message) {
            Some(back) if back == message => Ok(()),
            Some(_) => Err("a pipe returned other bytes".to_owned()),
            None => Err(last("a pipe")),
        }
    }

    fn run(&mut self, operations: u64) -> u64 {
        let mut wrong = 0;
        let mut message = [7u8; 64];
        for index in 0..operations {
            message[0] = index as u8;
            wrong += u64::from(self.pass(&message) != Some(message));
        }
        operations ^ (wrong << 48)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_is_right_and_repeats_its_checksum() {
        for benchmark in benchmarks() {
            let setup = Setup {
                seed: 1,
                workers: 1,
            };
            let mut prepared = benchmark.prepare(&setup).expect("prepared");
            let worker = &mut prepared.workers[0];
            worker.begin().expect("begun");
            worker.verify().expect("right");
            let operations = prepared.cycle * 3;
            assert_eq!(
                worker.run(operations),
                operations,
                "{}: nothing went wrong",
                benchmark.name()
            );
            assert_eq!(worker.run(operations), operations, "{}", benchmark.name());
        }
    }
}
