//! io_uring: sends of many connections in one system call, multishot receives into buffers the kernel picks.
//!
//! One ring a thread (SINGLE_ISSUER), completions run when we ask for them (DEFER_TASKRUN), descriptors
//! registered. User data of an entry: kind, generation of the slot, slot; a completion of an earlier generation
//! only gives its buffer back. Needs Linux 6.1 and a system that allows io_uring.

mod buffers;
mod enter;
mod stamps;

use std::collections::HashMap;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::types::{Fixed, RecvMsgOut, TimeoutFlags, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use steelyard_record::monotonic_ns;

use self::buffers::Buffers;
use self::enter::{RingHandle, Wanted};
use self::stamps::Distance;
use super::socket::{pending_error, shut_down};
use super::{Event, GATHER_NS, TICK_NS, Transport, Wait, closed_kind};

const GROUP: u16 = 0;
/// How long answers are left to gather.
const CONNECT: u64 = 1;
const RECEIVE: u64 = 2;
const SEND: u64 = 3;
const TICK: u64 = 4;

fn user_data(kind: u64, generation: u32, slot: usize) -> u64 {
    kind << 56 | u64::from(generation & 0xff_ffff) << 32 | slot as u64
}

#[derive(Default)]
struct Slot {
    socket: Option<OwnedFd>,
    generation: u32,
    connected: bool,
    /// Whether a send is queued or with the kernel.
    sending: bool,
    bytes: Vec<u8>,
    sent: usize,
}

/// Bytes by io_uring.
pub struct Uring {
    ring: ManuallyDrop<IoUring>,
    buffers: ManuallyDrop<Buffers>,
    slots: Vec<Slot>,
    /// Bytes of sends that were under way when their slot was closed.
    parked: ManuallyDrop<HashMap<u64, Vec<u8>>>,
    /// Operations with the kernel, the tick excepted.
    under_way: usize,
    tick_armed: bool,
    tick: Box<Timespec>,
    handle: RingHandle,
    /// What each receive is asked for: nothing but room for a stamp.
    message: Box<libc::msghdr>,
    distance: Distance,
    /// Whether several completions can be waited for with a bound on the time.
    gathers: bool,
    /// Slots whose bytes wait for `flush`.
    queued: Vec<usize>,
    completions: Vec<(u64, i32, u32)>,
}

impl Uring {
    /// A transport of `slots` connections; fails where the system has or allows no io_uring.
    pub fn new(slots: usize) -> io::Result<Self> {
        let entries = (slots * 2 + 8).next_power_of_two().min(4096) as u32;
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize((entries * 4).max(1024))
            .build(entries)?;
        ring.submitter().register_files_sparse(slots as u32)?;
        let count = (slots * 4).next_power_of_two().clamp(64, 2048) as u16;
        let buffers = Buffers::new(count)?;
        // SAFETY: the entries are a mapping of `count` entries that outlives the ring: `drop` lets the ring
        // go first.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(
                buffers.entries as u64,
                count,
                GROUP,
                0,
            )?
        };
        // SAFETY: all-zero bytes are a valid msghdr that names no address and no memory.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_controllen = stamps::CONTROL_BYTES as _;
        Ok(Self {
            handle: RingHandle::new(&ring),
            message: Box::new(message),
            distance: Distance::default(),
            gathers: ring.params().is_feature_min_timeout(),
            ring: ManuallyDrop::new(ring),
            buffers: ManuallyDrop::new(buffers),
            slots: (0..slots).map(|_| Slot::default()).collect(),
            parked: ManuallyDrop::default(),
            under_way: 0,
            tick_armed: false,
            tick: Box::new(Timespec::new().nsec(TICK_NS as u32)),
            queued: Vec::with_capacity(slots),
            completions: Vec::with_capacity(1024),
        })
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: every entry's buffers live until its completion: sends' in their slot or parked, receives'
        // in `buffers`, the tick's time and the receives' message in their boxes.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.submit()?;
        }
        Ok(())
    }

    fn arm_receive(&mut self, slot: usize) -> io::Result<()> {
        let data = user_data(RECEIVE, self.slots[slot].generation, slot);
        self.under_way += 1;
        let receive =
            opcode::RecvMsgMulti::new(Fixed(slot as u32), &raw const *self.message, GROUP);
        self.push(&receive.build().user_data(data))
    }

    fn push_send(&mut self, slot: usize) -> io::Result<()> {
        let entry = &mut self.slots[slot];
        entry.sending = true;
        let rest = &entry.bytes[entry.sent..];
        // WAITALL has the kernel go on after a full socket buffer instead of returning a part.
        let send = opcode::Send::new(Fixed(slot as u32), rest.as_ptr(), rest.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .user_data(user_data(SEND, entry.generation, slot));
        self.under_way += 1;
        self.push(&send)
    }

    fn submit(&mut self) -> io::Result<()> {
        let queued = self.ring.submission().len() as u32;
        if queued == 0 {
            return Ok(());
        }
        // SAFETY: see `push`.
        unsafe { self.handle.submit(queued) }
    }

    /// Submits what is queued, runs the work that completions need, and waits for what is wanted.
    fn enter(&mut self, wanted: Wanted<'_>) -> io::Result<()> {
        let queued = self.ring.submission().len() as u32;
        // SAFETY: see `push`.
        unsafe { self.handle.wait(queued, wanted) }
    }

    fn wait(&mut self, wait: Wait, gather: u32) -> io::Result<()> {
        if !self.tick_armed {
            self.tick_armed = true;
            let tick = opcode::Timeout::new(&raw const *self.tick)
                .flags(TimeoutFlags::MULTISHOT)
                .build()
                .user_data(user_data(TICK, 0, 0));
            self.push(&tick)?;
        }
        let result = match wait {
            Wait::No => {
                let submission = self.ring.submission();
                if submission.is_empty() && !submission.taskrun() && !submission.cq_overflow() {
                    return Ok(());
                }
                drop(submission);
                self.enter(Wanted::default())
            }
            Wait::Tick => self.enter(Wanted {
                completions: gather,
                gather_us: if gather > 1 {
                    (GATHER_NS / 1_000) as u32
                } else {
                    0
                },
                time: None,
            }),
            Wait::Until(at_ns) => {
                let left_ns = at_ns.saturating_sub(monotonic_ns());
                let time = Timespec::new()
                    .sec(left_ns / 1_000_000_000)
                    .nsec((left_ns % 1_000_000_000) as u32);
                self.enter(Wanted {
                    completions: 1,
                    gather_us: 0,
                    time: Some(&time),
                })
            }
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // Time out, a signal, or completions that must be taken first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Hands over what has completed; true when more than sends has.
    fn take_completions(&mut self, sink: &mut dyn FnMut(usize, Event<'_>)) -> io::Result<bool> {
        let mut completions = std::mem::take(&mut self.completions);
        completions.extend(
            self.ring
                .completion()
                .map(|entry| (entry.user_data(), entry.result(), entry.flags())),
        );
        let mut notable = false;
        if !completions.is_empty() {
            let now_ns = monotonic_ns();
            for &(data, result, flags) in &completions {
                notable |= data >> 56 != SEND || result < 0;
                self.handle(data, result, flags, now_ns, sink)?;
            }
            self.buffers.publish();
            completions.clear();
        }
        self.completions = completions;
        Ok(notable)
    }

    fn handle(
        &mut self,
        data: u64,
        result: i32,
        flags: u32,
        now_ns: u64,
        sink: &mut dyn FnMut(usize, Event<'_>),
    ) -> io::Result<()> {
        let (kind, slot) = (data >> 56, data as u32 as usize);
        if kind == TICK {
            self.tick_armed = cqueue::more(flags);
            return Ok(());
        }
        let current = user_data(kind, self.slots[slot].generation, slot) == data
            && self.slots[slot].socket.is_some();
        if !cqueue::more(flags) {
            self.under_way -= 1;
        }
        match kind {
            CONNECT if current => {
                let error = self.slots[slot].socket.as_ref().and_then(pending_error);
                if let Some(error) = error {
                    sink(slot, Event::Closed(closed_kind(&error)));
                    return Ok(());
                }
                self.slots[slot].connected = true;
                sink(slot, Event::Opened);
                self.arm_receive(slot)?;
            }
            RECEIVE => {
                let buffer = cqueue::buffer_select(flags);
                if current {
                    self.received(slot, result, buffer, flags, now_ns, sink)?;
                }
                if let Some(id) = buffer {
                    self.buffers.put(id);
                }
            }
            SEND if current => self.sent(slot, result, sink)?,
            SEND => {
                self.parked.remove(&data);
            }
            _ => {}
        }
        Ok(())
    }

    fn received(
        &mut self,
        slot: usize,
        result: i32,
        buffer: Option<u16>,
        flags: u32,
        now_ns: u64,
        sink: &mut dyn FnMut(usize, Event<'_>),
    ) -> io::Result<()> {
        match (result, buffer) {
            (0, _) => sink(slot, Event::Closed("connection-closed")),
            (length, Some(id)) if length > 0 => {
                let filled = self.buffers.get(id, length as usize);
                let Ok(received) = RecvMsgOut::parse(filled, &self.message) else {
                    return Err(io::Error::other("a receive without its head"));
                };
                if received.payload_data().is_empty() {
                    sink(slot, Event::Closed("connection-closed"));
                    return Ok(());
                }
                let stamp_ns = stamps::find(received.control_data());
                let at_ns =
                    stamp_ns.map_or(now_ns, |stamp_ns| self.distance.monotonic(stamp_ns, now_ns));
                let bytes = received.payload_data();
                sink(slot, Event::Received { bytes, at_ns });
                if !cqueue::more(flags) {
                    self.arm_receive(slot)?;
                }
            }
            // All buffers were taken: they are free again by the time this is submitted.
            (error, _) if error == -libc::ENOBUFS || error == -libc::EINTR => {
                self.arm_receive(slot)?
            }
            (error, _) => sink(
                slot,
                Event::Closed(closed_kind(&io::Error::from_raw_os_error(-error))),
            ),
        }
        Ok(())
    }

    fn sent(
        &mut self,
        slot: usize,
        result: i32,
        sink: &mut dyn FnMut(usize, Event<'_>),
    ) -> io::Result<()> {
        let entry = &mut self.slots[slot];
        if result < 0 && result != -libc::EINTR && result != -libc::EAGAIN {
            entry.sending = false;
            sink(
                slot,
                Event::Closed(closed_kind(&io::Error::from_raw_os_error(-result))),
            );
            return Ok(());
        }
        entry.sent += result.max(0) as usize;
        if entry.sent < entry.bytes.len() {
            return self.push_send(slot);
        }
        entry.sending = false;
        entry.bytes.clear();
        entry.sent = 0;
        sink(slot, Event::Sent);
        Ok(())
    }
}

impl Transport for Uring {
    fn open(&mut self, slot: usize, socket: OwnedFd) -> io::Result<()> {
        if let Err(error) = stamps::ask(&socket) {
            // An answer then has the time after the read that brought it, and is not held.
            self.gathers = false;
            tracing::debug!(%error, "no receive stamps");
        }
        self.ring
            .submitter()
            .register_files_update(slot as u32, &[socket.as_raw_fd()])?;
        let entry = &mut self.slots[slot];
        entry.generation = entry.generation.wrapping_add(1);
        entry.socket = Some(socket);
        entry.connected = false;
        let data = user_data(CONNECT, entry.generation, slot);
        self.under_way += 1;
        self.push(
            &opcode::PollAdd::new(Fixed(slot as u32), libc::POLLOUT as u32)
                .build()
                .user_data(data),
        )
    }

    fn close(&mut self, slot: usize) {
        let Some(socket) = self.slots[slot].socket.take() else {
            return;
        };
        // Entries that wait for submission name the slot's descriptor by number: they go out before the
        // number may mean another socket. What fails here fails again at the next poll, and is reported there.
        let _ = self.submit();
        shut_down(&socket);
        let _ = self
            .ring
            .submitter()
            .register_files_update(slot as u32, &[-1]);
        let entry = &mut self.slots[slot];
        let bytes = std::mem::take(&mut entry.bytes);
        if std::mem::take(&mut entry.sending) {
            self.parked
                .insert(user_data(SEND, entry.generation, slot), bytes);
        }
        entry.sent = 0;
        entry.connected = false;
        entry.generation = entry.generation.wrapping_add(1);
    }

    fn can_send(&self, slot: usize) -> bool {
        let entry = &self.slots[slot];
        entry.connected && !entry.sending
    }

    fn send(&mut self, slot: usize, bytes: &mut Vec<u8>) {
        debug_assert!(self.can_send(slot));
        let entry = &mut self.slots[slot];
        std::mem::swap(&mut entry.bytes, bytes);
        entry.sending = true;
        entry.sent = 0;
        self.queued.push(slot);
    }

    fn flush(&mut self) -> io::Result<()> {
        for index in 0..self.queued.len() {
            let slot = self.queued[index];
            self.push_send(slot)?;
        }
        self.queued.clear();
        self.submit()
    }

    fn poll(
        &mut self,
        wait: Wait,
        gather: u32,
        sink: &mut dyn FnMut(usize, Event<'_>),
    ) -> io::Result<()> {
        // Sends mostly complete while they are submitted; they are no reason not to wait for an answer.
        if self.take_completions(sink)? {
            return Ok(());
        }
        self.wait(wait, if self.gathers { gather } else { 1 })?;
        self.take_completions(sink)?;
        Ok(())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        for slot in 0..self.slots.len() {
            self.close(slot);
        }
        // The kernel may use our buffers until every operation has completed.
        let until = monotonic_ns() + 1_000_000_000;
        while self.under_way > 0 && monotonic_ns() < until {
            if self.poll(Wait::Tick, 1, &mut |_, _| {}).is_err() {
                break;
            }
        }
        // SAFETY: each field is dropped once, here, and not used afterwards; the ring goes first.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            if self.under_way == 0 {
                ManuallyDrop::drop(&mut self.buffers);
                ManuallyDrop::drop(&mut self.parked);
            }
        }
    }
}
