//! Who a task is, and whether what is said of it can be true.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::rows::TaskSample;

/// Who a task is: its job and its name in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskName {
    /// The job.
    pub job: String,
    /// The task.
    pub task: String,
}

impl TaskName {
    /// The task of a sample.
    pub fn of(sample: &TaskSample) -> Self {
        Self {
            job: sample.task.job.clone(),
            task: sample.task.task.clone(),
        }
    }
}

impl fmt::Display for TaskName {
    /// `job/task`, or the job alone for a job of one task that is called alike.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.job == self.task {
            return to.write_str(&self.job);
        }
        write!(to, "{}/{}", self.job, self.task)
    }
}

/// Why a sample cannot be true, if it cannot.
pub fn fault(sample: &TaskSample) -> Option<&'static str> {
    if !(sample.window_s.is_finite() && sample.window_s > 0.0) {
        return Some("the window has no length");
    }
    if !(sample.cpu_s.is_finite() && sample.cpu_s >= 0.0) {
        return Some("the CPU time is negative or not finite");
    }
    match sample.cpi {
        Some(cpi) if !(cpi.is_finite() && cpi > 0.0) => Some("the CPI is not above 0 and finite"),
        _ => None,
    }
}
