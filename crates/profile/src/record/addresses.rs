//! Samples only where CPUs are, for as long as somebody looks: the process, the thread and the address.
//!
//! In: what to sample. Out: addresses as they come, whenever the reader asks for them. Not here: names,
//! stacks, what stands at an address.

use std::time::Duration;

use super::events::Events;
use super::{CallGraph, Scope, Settings};
use crate::ProfileError;
use crate::sample::{Assembler, Attributes, Record};

/// Where a CPU was when it was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// Process; 0 for an idle CPU.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The address of the instruction; None when the kernel does not tell.
    pub address: Option<u64>,
    /// The CPU was in the kernel.
    pub in_kernel: bool,
}

/// Sampling that goes on until it is dropped.
pub struct Addresses {
    events: Events,
    attributes: Attributes,
    lost: u64,
}

impl Addresses {
    /// Begins to sample `scope`, which is no command, `hz` times a second of each busy CPU.
    pub fn open(scope: Scope, hz: u32) -> Result<Self, ProfileError> {
        let settings = Settings {
            scope,
            event: None,
            hz,
            duration: None::<Duration>,
            descendants_of: None,
            plain_commands: false,
            call_graph: CallGraph::None,
            with_idle: false,
            interpreted: false,
            lines: false,
            keeps_times: false,
            command: Vec::new(),
        };
        let events = Events::open(&settings, None)?;
        let mut attributes = Attributes::default();
        attributes.add(events.attribute.clone(), []);
        events.enable();
        Ok(Self {
            events,
            attributes,
            lost: 0,
        })
    }

    /// Hands over the samples since it was called before. A ring that is not emptied in time loses samples,
    /// which [`Addresses::lost`] counts.
    pub fn drain(&mut self, mut give: impl FnMut(Address)) {
        for cpu in &mut self.events.rings {
            cpu.ring.drain(|kind, misc, body| {
                if !Assembler::wants(kind) {
                    return;
                }
                match self.attributes.read(kind, misc, body) {
                    Some(Record::Sample(sample)) => give(Address {
                        pid: sample.pid,
                        tid: sample.tid,
                        address: sample.ip,
                        in_kernel: sample.in_kernel,
                    }),
                    Some(Record::Lost(count)) => self.lost += count,
                    _ => {}
                }
            });
        }
    }

    /// The event: `cycles`, or `cpu-clock` where the kernel offers none.
    pub fn event(&self) -> &str {
        &self.events.attribute.name
    }

    /// What is left out, and why.
    pub fn reasons(&self) -> &[String] {
        &self.events.reasons
    }

    /// Samples that were lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_busy_process_is_sampled_where_it_is() {
        let pid = std::process::id();
        let mut addresses = match Addresses::open(Scope::Processes(vec![pid]), 997) {
            Ok(addresses) => addresses,
            Err(error) => {
                println!("skipped: {error}");
                return;
            }
        };
        let begin = Instant::now();
        let mut seen = Vec::new();
        // Until the kernel has interrupted it, however busy the machine is.
        while seen.is_empty() && begin.elapsed() < Duration::from_secs(30) {
            for value in 0..100_000_u64 {
                std::hint::black_box(value);
            }
            addresses.drain(|address| seen.push(address));
        }
        assert!(seen.iter().all(|address| address.pid == pid));
        assert!(seen.iter().any(|address| address.address.is_some()));
        assert!(["cycles", "cpu-clock"].contains(&addresses.event()));
    }
}
