//! Entering the ring: one system call that submits, waits, or both.

use std::io;
use std::os::fd::AsRawFd;

use io_uring::IoUring;
use io_uring::types::Timespec;

/// Flags of io_uring_enter and an operation of io_uring_register (linux/io_uring.h).
const GETEVENTS: u32 = 1 << 0;
const EXT_ARG: u32 = 1 << 3;
const REGISTERED_RING: u32 = 1 << 4;
/// Waiting for answers is no waiting for a disk: without it the kernel counts it as such, in the CPUs' iowait and in
/// the pressure of I/O.
const NO_IOWAIT: u32 = 1 << 7;
const REGISTER_RING_FDS: u32 = 20;

/// struct io_uring_getevents_arg.
#[repr(C)]
struct WaitArgument {
    signal_mask: u64,
    signal_mask_bytes: u32,
    min_wait_us: u32,
    time: u64,
}

/// struct io_uring_rsrc_update.
#[repr(C)]
struct RingUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
}

/// What a call waits for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Completions; after `gather_us` one is enough.
    pub completions: u32,
    /// How long one completion is not enough, us.
    pub gather_us: u32,
    /// How long to wait at most.
    pub time: Option<&'a Timespec>,
}

/// By what a ring is entered: its descriptor, or the index under which it is registered, with the flag that
/// says so.
#[derive(Debug, Clone, Copy)]
pub struct RingHandle {
    fd: i32,
    flags: u32,
}

impl RingHandle {
    /// Registers the ring's descriptor with the calling thread, which saves its look-up at every call, where
    /// the kernel knows such a thing.
    pub fn new(ring: &IoUring) -> Self {
        let fd = ring.as_raw_fd();
        let mut update = RingUpdate {
            offset: u32::MAX,
            reserved: 0,
            data: fd as u64,
        };
        // SAFETY: `update` is one entry of the kind that this operation takes and fills.
        let status = unsafe {
            libc::syscall(
                libc::SYS_io_uring_register,
                fd,
                REGISTER_RING_FDS,
                &raw mut update,
                1u32,
            )
        };
        let handle = if status == 1 {
            Self {
                fd: update.offset as i32,
                flags: REGISTERED_RING,
            }
        } else {
            Self { fd, flags: 0 }
        };
        handle.without_iowait()
    }

    /// The same handle, whose waits count as no I/O where the kernel knows such a thing.
    fn without_iowait(self) -> Self {
        // SAFETY: nothing is submitted and nothing waited for; a kernel that does not know the flag refuses it.
        let known = unsafe { self.enter(0, NO_IOWAIT, None) }.is_ok();
        Self {
            flags: self.flags | if known { NO_IOWAIT } else { 0 },
            ..self
        }
    }

    /// Submits `queued` entries and does no more.
    ///
    /// # Safety
    ///
    /// What the entries point to lives until they complete.
    pub unsafe fn submit(self, queued: u32) -> io::Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.enter(queued, 0, None) }
    }

    /// Submits `queued` entries and runs the work that completions need; waits if anything is wanted.
    ///
    /// # Safety
    ///
    /// What the entries point to lives until they complete.
    pub unsafe fn wait(self, queued: u32, wanted: Wanted<'_>) -> io::Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.enter(queued, GETEVENTS, Some(wanted)) }
    }

    unsafe fn enter(self, queued: u32, flags: u32, wanted: Option<Wanted<'_>>) -> io::Result<()> {
        let wanted = wanted.unwrap_or_default();
        let argument = WaitArgument {
            signal_mask: 0,
            signal_mask_bytes: 0,
            min_wait_us: wanted.gather_us,
            time: wanted
                .time
                .map_or(0, |time| std::ptr::from_ref(time) as u64),
        };
        let (pointer, bytes, extended) = if wanted.time.is_some() || wanted.gather_us > 0 {
            (&raw const argument, size_of::<WaitArgument>(), EXT_ARG)
        } else {
            (std::ptr::null(), 0, 0)
        };
        // SAFETY: the argument and the time in it live through the call; the rest is the caller's promise.
        let status = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.fd,
                queued,
                wanted.completions,
                flags | self.flags | extended,
                pointer,
                bytes,
            )
        };
        if status < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }
}
