//! When the tested rule looks at a victim: at the 3rd, 9th, 27th ... of its anomalous windows that belong together.
//!
//! In: anomalous windows. Out: whether to look. Each look is another chance to name a wrong task.

use std::collections::HashMap;

use super::evidence::is_look;
use super::sample::TaskName;

/// The anomalous windows of each victim: how many by now, and when the last of them began.
#[derive(Debug, Default)]
pub struct Episodes(HashMap<TaskName, (usize, i64)>);

impl Episodes {
    /// Counts an anomalous window. Returns whether it is looked at.
    pub fn count(&mut self, victim: &TaskName, start_unix_s: i64) -> bool {
        let (count, last) = self.0.entry(victim.clone()).or_default();
        (*count, *last) = (*count + 1, start_unix_s);
        is_look(*count)
    }

    /// Ends the episodes without an anomalous window in the last `window_s` seconds.
    pub fn forget(&mut self, newest_unix_s: i64, window_s: f64) {
        self.0
            .retain(|_, &mut (_, last)| (newest_unix_s - last) as f64 <= window_s);
    }

    /// Ends the episode of a victim: what comes is counted anew.
    pub fn end(&mut self, victim: &TaskName) {
        self.0.remove(victim);
    }

    /// Ends all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
