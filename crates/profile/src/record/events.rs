//! Opens the events that sample, as good as the kernel allows.
//!
//! In: what to sample. Out: one ring a CPU that all events of that CPU write into, and what had to be left
//! out. Each event belongs to one CPU, because the kernel maps no ring for an event that its thread takes
//! from CPU to CPU and its children inherit.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use perf::bindings::{self, perf_event_attr};
use perf_event_open_sys as perf;
use steelyard_kernel::Tree;
use steelyard_kernel::topology::online_cpus_or_first;

use super::processes;
use super::refusals::{no_such_event, paranoid, refused, ring_error, target, too_many_files};
use super::ring::Ring;
use super::sampled::SampledEvent;
use super::{CallGraph, Scope, Settings};
use crate::ProfileError;
use crate::sample::Attribute;
use crate::unwind::Processor;

/// Events with the rings that they write into.
pub struct Events {
    /// The ring of each CPU.
    pub rings: Vec<CpuRing>,
    /// What is sampled and how.
    pub attribute: Attribute,
    /// What is missing, and why.
    pub reasons: Vec<String>,
    /// CPUs sampled.
    pub cpus: usize,
    /// Processes sampled, with those that descend from them; empty unless the scope is processes.
    pub pids: Vec<u32>,
    /// Those with whose end the recording ends.
    pub asked: Vec<u32>,
    descriptors: Vec<OwnedFd>,
    ring_bytes: usize,
    on_exec: bool,
}

/// The ring of a CPU, with the event that it was mapped by.
pub struct CpuRing {
    cpu: i32,
    /// To be polled.
    pub descriptor: RawFd,
    /// The ring.
    pub ring: Ring,
}

/// A combination of event and rights that is tried.
#[derive(Debug, Clone)]
struct Attempt {
    event: SampledEvent,
    kernel: bool,
}

/// What is tried, the best first: the event that is asked for, else cycles and then the clock.
fn attempts(settings: &Settings) -> Vec<Attempt> {
    let events = match &settings.event {
        Some(event) => vec![event.clone()],
        None => vec![SampledEvent::cycles(), SampledEvent::cpu_clock()],
    };
    let attempt = |event: SampledEvent| {
        [true, false].map(|kernel| Attempt {
            event: event.clone(),
            kernel,
        })
    };
    events.into_iter().flat_map(attempt).collect()
}

/// What an event is opened on: a process, a thread or a control group.
#[derive(Debug, Clone, Copy)]
struct Target {
    id: i32,
    flags: u32,
}

impl Events {
    /// Opens events, disabled. `command` is the process of the command, which will execute it.
    pub fn open(settings: &Settings, command: Option<u32>) -> Result<Self, ProfileError> {
        let cpus: Vec<i32> = online_cpus_or_first(&Tree::new("/"))
            .into_iter()
            .map(|cpu| cpu as i32)
            .collect();
        let mut reasons = Vec::new();
        let (scope, cgroup) = resolve(settings, cpus[0], &mut reasons)?;
        let (mut pids, mut asked) = (Vec::new(), Vec::new());
        let mut targets = match (&scope, &cgroup) {
            (_, Some(directory)) => vec![Target {
                id: directory.as_raw_fd(),
                flags: bindings::PERF_FLAG_PID_CGROUP,
            }],
            (Scope::Processes(list), _) => {
                asked.clone_from(list);
                pids = processes::with_descendants(list);
                thread_targets(list, &pids)?
            }
            (Scope::Command, _) => vec![thread(command.unwrap_or(0))],
            _ => vec![thread(-1_i32 as u32)],
        };
        let whole_machine = matches!(scope, Scope::All) || cgroup.is_some();
        let on_exec = matches!(scope, Scope::Command);
        let (attempt, mut attr) = choose(settings, &targets, &cpus, whole_machine, on_exec)?;
        if !attempt.kernel {
            attr.set_exclude_kernel(1);
            reasons.push(format!(
                "kernel functions are left out, because kernel.perf_event_paranoid is {}: sysctl \
                 kernel.perf_event_paranoid=1, or run with CAP_PERFMON",
                paranoid().map_or("unknown".to_owned(), |level| level.to_string())
            ));
        }
        raise_file_limit();
        let mut events = Self {
            rings: Vec::new(),
            attribute: attribute(&attr, &attempt.event.name),
            reasons,
            cpus: cpus.len(),
            pids,
            asked,
            descriptors: Vec::new(),
            ring_bytes: ring_bytes(settings),
            on_exec,
        };
        events.open_on(&mut attr, &targets, &cpus)?;
        // Threads and processes that were made meanwhile by threads that had no event yet.
        if let Scope::Processes(list) = &scope {
            for _ in 0..3 {
                let known: Vec<i32> = targets.iter().map(|target| target.id).collect();
                events.pids = processes::with_descendants(list);
                let mut new = thread_targets(list, &events.pids).unwrap_or_default();
                new.retain(|target| !known.contains(&target.id));
                if new.is_empty() {
                    break;
                }
                events.open_on(&mut attr, &new, &cpus)?;
                targets.extend(new);
            }
        }
        if events.rings.is_empty() {
            return Err(target("the processes", "they have ended"));
        }
        Ok(events)
    }

    fn open_on(
        &mut self,
        attr: &mut perf_event_attr,
        targets: &[Target],
        cpus: &[i32],
    ) -> Result<(), ProfileError> {
        for &cpu in cpus {
            let first = self.rings.iter().find(|ring| ring.cpu == cpu);
            let mut output = first.map(|ring| ring.descriptor);
            for target in targets {
                let descriptor = match open(attr, *target, cpu) {
                    Ok(descriptor) => descriptor,
                    // The thread has ended, or the CPU was taken offline.
                    Err(error)
                        if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV)) =>
                    {
                        continue;
                    }
                    Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                        return Err(too_many_files(targets.len(), cpus.len()));
                    }
                    Err(error) => return Err(refused(&error, false)),
                };
                let raw = descriptor.as_raw_fd();
                match output {
                    Some(first) => {
                        // SAFETY: both descriptors are open events.
                        if unsafe { perf::ioctls::SET_OUTPUT(raw, first) } != 0 {
                            return Err(super::signals::system("join the ring buffers of a CPU"));
                        }
                    }
                    None => {
                        let ring =
                            Ring::map(raw, self.ring_bytes).map_err(|error| ring_error(&error))?;
                        self.rings.push(CpuRing {
                            cpu,
                            descriptor: raw,
                            ring,
                        });
                        output = Some(raw);
                    }
                }
                self.descriptors.push(descriptor);
            }
        }
        Ok(())
    }

    /// Begins sampling, unless executing the command will.
    pub fn enable(&self) {
        if !self.on_exec {
            for descriptor in &self.descriptors {
                // SAFETY: an open event; the argument selects nothing more than it.
                unsafe { perf::ioctls::ENABLE(descriptor.as_raw_fd(), 0) };
            }
        }
    }

    /// Ends sampling; what was sampled stays in the rings.
    pub fn disable(&self) {
        for descriptor in &self.descriptors {
            // SAFETY: as above.
            unsafe { perf::ioctls::DISABLE(descriptor.as_raw_fd(), 0) };
        }
    }
}

fn thread(id: u32) -> Target {
    Target {
        id: id as i32,
        flags: 0,
    }
}

/// The threads of `pids`, which are `asked` and their descendants.
fn thread_targets(asked: &[u32], pids: &[u32]) -> Result<Vec<Target>, ProfileError> {
    let mut targets = Vec::new();
    for &pid in pids {
        let threads = processes::threads(pid);
        if threads.is_empty() && asked == [pid] {
            return Err(target(format!("process {pid}"), "there is none"));
        }
        targets.extend(threads.into_iter().map(thread));
    }
    if targets.is_empty() {
        return Err(target(format!("processes {asked:?}"), "there are none"));
    }
    Ok(targets)
}

fn new_attr(
    settings: &Settings,
    attempt: &Attempt,
    whole_machine: bool,
    on_exec: bool,
) -> perf_event_attr {
    let mut attr = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        type_: attempt.event.type_,
        config: attempt.event.config,
        ..perf_event_attr::default()
    };
    attr.__bindgen_anon_1.sample_freq = u64::from(settings.hz);
    attr.set_freq(1);
    let mut sample = bindings::PERF_SAMPLE_IP
        | bindings::PERF_SAMPLE_TID
        | bindings::PERF_SAMPLE_TIME
        | bindings::PERF_SAMPLE_PERIOD;
    // Half a ring of records wakes the recorder before its time.
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = 128 << 10;
    match settings.call_graph {
        CallGraph::FramePointers => sample |= bindings::PERF_SAMPLE_CALLCHAIN,
        CallGraph::Dwarf { stack_bytes } => {
            sample |= bindings::PERF_SAMPLE_CALLCHAIN
                | bindings::PERF_SAMPLE_REGS_USER
                | bindings::PERF_SAMPLE_STACK_USER;
            attr.set_exclude_callchain_user(1);
            attr.sample_regs_user = Processor::native().map_or(0, Processor::registers);
            attr.sample_stack_user = u32::from(stack_bytes);
            attr.__bindgen_anon_2.wakeup_watermark = 256 << 10;
        }
        CallGraph::None => {}
    }
    attr.sample_type = u64::from(sample);
    attr.set_disabled(1);
    attr.set_sample_id_all(1);
    // The clock that readings of interpreters are timed by.
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    attr.set_exclude_guest(1);
    attr.set_exclude_hv(1);
    attr.set_inherit(u64::from(!whole_machine));
    attr.set_enable_on_exec(u64::from(on_exec));
    if !attempt.kernel {
        attr.set_exclude_kernel(1);
        attr.set_exclude_callchain_kernel(1);
    }
    attr
}

/// What a CPU writes in half a second, which is twice the time between two looks at its ring.
fn ring_bytes(settings: &Settings) -> usize {
    let stack_bytes = match settings.call_graph {
        CallGraph::Dwarf { stack_bytes } => usize::from(stack_bytes),
        _ => 0,
    };
    settings.hz as usize * (stack_bytes + 512) / 2
}

/// Finds the best attempt that the kernel accepts for the first target that is there.
fn choose(
    settings: &Settings,
    targets: &[Target],
    cpus: &[i32],
    whole_machine: bool,
    on_exec: bool,
) -> Result<(Attempt, perf_event_attr), ProfileError> {
    let mut last = io::Error::from_raw_os_error(libc::ESRCH);
    for attempt in attempts(settings) {
        let mut attr = new_attr(settings, &attempt, whole_machine, on_exec);
        for target in targets {
            match open(&mut attr, *target, cpus[0]) {
                Ok(_) => return Ok((attempt, attr)),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => last = error,
                Err(error) => {
                    last = error;
                    break;
                }
            }
        }
        if last.raw_os_error() == Some(libc::ESRCH) {
            return Err(self::target("the processes", "they have ended"));
        }
    }
    let missing = [libc::ENOENT, libc::EOPNOTSUPP, libc::ENODEV];
    if let Some(event) = &settings.event
        && last
            .raw_os_error()
            .is_some_and(|code| missing.contains(&code))
    {
        return Err(no_such_event(&event.name));
    }
    Err(refused(&last, whole_machine))
}

fn open(attr: &mut perf_event_attr, target: Target, cpu: i32) -> io::Result<OwnedFd> {
    let flags = u64::from(target.flags | bindings::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a whole perf_event_attr that says its size.
    let descriptor = unsafe { perf::perf_event_open(attr, target.id, cpu, -1, flags as _) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, so that nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The scope as the kernel can sample it, with the directory of a control group that it takes as such.
fn resolve(
    settings: &Settings,
    cpu: i32,
    reasons: &mut Vec<String>,
) -> Result<(Scope, Option<File>), ProfileError> {
    let Scope::Cgroup(path) = &settings.scope else {
        return Ok((settings.scope.clone(), None));
    };
    let directory = File::open(path).map_err(|error| target(path.display(), &error.to_string()))?;
    if !is_refused_cgroup(settings, &directory, cpu) {
        return Ok((settings.scope.clone(), Some(directory)));
    }
    // Another hierarchy than perf_event's, or a machine without it.
    let found = processes::of_cgroup(path);
    if found.is_empty() {
        let reason = "it is no control group with processes";
        return Err(target(path.display(), reason));
    }
    reasons.push(
        "the control group is none of perf_event's hierarchy: sampled are the processes that were in it \
         at the begin, and those they made"
            .to_owned(),
    );
    Ok((Scope::Processes(found), None))
}

/// Whether the kernel takes this directory for no control group of its perf_event hierarchy.
fn is_refused_cgroup(settings: &Settings, directory: &File, cpu: i32) -> bool {
    let target = Target {
        id: directory.as_raw_fd(),
        flags: bindings::PERF_FLAG_PID_CGROUP,
    };
    let attempt = Attempt {
        event: SampledEvent::cpu_clock(),
        kernel: false,
    };
    let mut attr = new_attr(settings, &attempt, true, false);
    let error = open(&mut attr, target, cpu)
        .err()
        .and_then(|error| error.raw_os_error());
    matches!(error, Some(libc::EBADF | libc::EINVAL | libc::ENOENT))
}

/// The attribute as the kernel was given it, in the form in which records are read.
fn attribute(attr: &perf_event_attr, name: &str) -> Attribute {
    let size = size_of::<perf_event_attr>();
    // SAFETY: perf_event_attr is plain integers without padding, all initialised.
    let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(attr).cast::<u8>(), size) };
    let mut attribute = Attribute::parse(bytes).expect("a whole perf_event_attr");
    attribute.name = name.to_owned();
    attribute
}

/// Each thread needs a file on each CPU.
fn raise_file_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for one rlimit.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
