//! A profile in memory: distinct stacks of named frames with their counts, and what is known about them.

use crate::stacks::{FrameTable, Periods, Stack, StackTable};
use crate::times::Times;

/// What a profile says about itself: the comment lines of a folded file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Head {
    /// Unit of the counts, samples when None.
    pub unit: Option<String>,
    /// Event whose occurrences were sampled.
    pub event: Option<String>,
    /// Samples a second of each busy CPU that were asked for.
    pub hz: Option<f64>,
    /// Time covered, s.
    pub duration_s: Option<f64>,
    /// Samples that the kernel or the recorder had to drop.
    pub lost: Option<u64>,
    /// Samples of the idle loop, which are not in the stacks. None where they were not counted apart.
    pub idle: Option<u64>,
    /// Samples whose stack is a program's, in part at least. None where call chains were not sampled.
    pub user_stacks: Option<u64>,
    /// Those whose stack does not reach the function that its thread began with.
    pub cut_stacks: Option<u64>,
    /// What was sampled: `all`, `pid 1,2`, `cgroup PATH`, `command`.
    pub scope: Option<String>,
    /// CPUs sampled.
    pub cpus: Option<u64>,
    /// CPU time that recording itself took, s.
    pub recorder_cpu_s: Option<f64>,
    /// CPU time that naming took after the recording had ended, s.
    pub naming_cpu_s: Option<f64>,
    /// What is missing, and why: one sentence each.
    pub reasons: Vec<String>,
}

/// The unit of the stacks' weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WeightUnit {
    /// The input does not tell the samples' periods.
    #[default]
    None,
    /// CPU time.
    Nanoseconds,
    /// Occurrences of the event.
    Events,
}

/// What a stack's count is in folded stacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Weight {
    /// Occurrences of the event, where samples stand for different numbers of them; samples otherwise.
    #[default]
    Auto,
    /// Samples.
    Samples,
    /// Occurrences of the event: the samples' periods.
    Period,
}

/// Stacks of named frames.
#[derive(Debug, Default)]
pub struct Profile {
    /// What it says about itself.
    pub head: Head,
    /// Functions, and the names of commands (frames without a module).
    pub frames: FrameTable,
    /// Stacks: the command's number, then the frames' from the leaf to the root.
    pub stacks: StackTable,
    /// When samples were taken, where that is kept.
    pub times: Option<Times>,
    /// What the stacks' weight counts.
    pub weight_unit: WeightUnit,
    /// Whether samples stand for different numbers of occurrences.
    pub periods: Periods,
    /// The first recorded event with samples, where the one that was taken has none.
    pub next_event: Option<String>,
}

impl Profile {
    /// What counts stand for where `weight` is asked for: whether they are sums of periods.
    ///
    /// # Errors
    /// One sentence when periods are asked for and not known.
    pub fn is_by_period(&self, weight: Weight) -> Result<bool, String> {
        let known = self.weight_unit != WeightUnit::None;
        match weight {
            Weight::Samples => Ok(false),
            Weight::Auto => Ok(known && self.periods == Periods::Differ),
            Weight::Period if known => Ok(true),
            Weight::Period => Err("its samples do not tell their periods".to_owned()),
        }
    }

    /// The unit of periods: `nanoseconds`, or the event.
    pub fn period_unit(&self) -> &str {
        match (self.weight_unit, self.head.event.as_deref()) {
            (WeightUnit::Nanoseconds, _) => "nanoseconds",
            (_, Some(event)) => event,
            _ => "events",
        }
    }

    /// Counts a stack whose first number is the command's.
    pub fn add(&mut self, numbers: &[u32], weight: u64) {
        self.periods.meet(weight);
        self.stacks.add(numbers, 1, weight);
    }

    /// All stacks in the order of their first appearance.
    pub fn stacks(&self) -> impl Iterator<Item = Stack<'_>> {
        self.stacks.iter()
    }

    /// Notes why something is missing, once.
    pub fn reduced(&mut self, reason: impl Into<String>) {
        let reason = reason.into();
        if !self.head.reasons.contains(&reason) {
            self.head.reasons.push(reason);
        }
    }

    /// Notes which unit the weights of `event`'s samples have.
    pub fn set_event(&mut self, event: &str) {
        let clock = ["cpu-clock", "task-clock"]
            .iter()
            .any(|name| event.starts_with(name));
        self.weight_unit = if clock {
            WeightUnit::Nanoseconds
        } else {
            WeightUnit::Events
        };
        self.head.event = Some(event.to_owned());
    }
}
