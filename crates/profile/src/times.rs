//! When samples were taken, and on which stack.
//!
//! In: samples of a recording. Out: text; a head with the first sample's time on CLOCK_MONOTONIC, and one line a
//! sample: ns since the first, and the number of its stack, which is that of its line in the folded stacks of the same profile, from 0. Invariant: memory is bounded; of longer recordings
//! there are no times.

use std::io::{self, Write};

/// Samples that are kept: at 99 Hz some 44 hours of one CPU, and 64 MiB.
const MOST: usize = 1 << 22;

/// Times of samples, ns, with the numbers of their stacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    samples: Vec<(u64, u32)>,
    is_full: bool,
}

impl Times {
    /// Takes one more sample.
    pub fn add(&mut self, time_ns: u64, stack: u32) {
        if self.samples.len() < MOST {
            self.samples.push((time_ns, stack));
        } else {
            self.is_full = true;
        }
    }

    /// Numbers stacks anew; samples of those that have no new number go.
    pub fn renumber(&mut self, number: impl Fn(u32) -> Option<u32>) {
        self.samples
            .retain_mut(|(_, stack)| number(*stack).map(|new| *stack = new).is_some());
    }

    /// Whether there were more samples than are kept.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Writes them in the order in which they were taken.
    pub fn write(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        let mut samples = self.samples.clone();
        samples.sort_unstable();
        let first = samples.first().map_or(0, |&(time_ns, _)| time_ns);
        writeln!(
            out,
            "# ns since the first sample (CLOCK_MONOTONIC {first}), number of its stack"
        )?;
        for (time_ns, stack) in samples {
            writeln!(out, "{} {stack}", time_ns - first)?;
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_written_in_the_order_of_their_times() {
        let mut times = Times::default();
        times.add(2_000, 1);
        times.add(1_000, 0);
        times.add(1_500, 2);
        times.renumber(|stack| (stack != 0).then(|| stack - 1));
        let mut out = Vec::new();
        times.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "# ns since the first sample (CLOCK_MONOTONIC 1500), number of its stack\n0 1\n500 0\n"
        );
    }
}
