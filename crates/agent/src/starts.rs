//! Begins of windows, so that no second is the begin of two: a clock that is set back would have a window begin where one has
//! begun before, and a row is known by its task and that second.

use std::collections::BTreeSet;

/// Begins that are kept: more than two days of minutes.
const KEPT: usize = 4096;

/// Seconds since 1970 at which windows of this agent have begun.
#[derive(Debug, Default)]
pub struct Starts(BTreeSet<i64>);

impl Starts {
    /// The first second from `unix_s` on at which none has begun.
    pub fn free_from(&self, unix_s: i64) -> i64 {
        let mut free = unix_s;
        for used in self.0.range(unix_s..) {
            if *used > free {
                break;
            }
            free = used + 1;
        }
        free
    }

    /// A window has begun.
    pub fn take(&mut self, unix_s: i64) {
        self.0.insert(unix_s);
        while self.0.len() > KEPT {
            self.0.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_used_once() {
        let mut starts = Starts::default();
        for second in [10, 11, 13] {
            starts.take(second);
        }
        assert_eq!(
            [9, 10, 11, 12, 13, 14].map(|second| starts.free_from(second)),
            [9, 12, 12, 12, 14, 14]
        );
    }
}
