//! Puts records of several ring buffers into the order of their times.
//!
//! Each CPU has a ring of its own, and a mapping may be in one while the samples that need it are in another.
//! A round is one pass over all rings: what was written before a round began lies in it or in one before, so
//! that after each round everything up to the latest time of the round *before* is complete. `perf` marks
//! rounds in its files by the same reasoning (PERF_RECORD_FINISHED_ROUND).

/// Records that wait, as bytes in one place: most rounds are small, and each record is copied once.
#[derive(Debug, Default)]
pub struct Rounds {
    bytes: Vec<u8>,
    waiting: Vec<Waiting>,
    latest: u64,
    complete_to: u64,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    time: u64,
    start: usize,
    length: u32,
    kind: u32,
    misc: u16,
}

/// Bytes that may wait. A file without round marks waits whole up to here, then gives up perfect order.
const MOST_BYTES: usize = 512 << 20;

impl Rounds {
    /// Lets a record wait for its turn.
    pub fn push(&mut self, time: u64, kind: u32, misc: u16, body: &[u8]) {
        self.latest = self.latest.max(time);
        self.waiting.push(Waiting {
            time,
            start: self.bytes.len(),
            length: body.len() as u32,
            kind,
            misc,
        });
        self.bytes.extend_from_slice(body);
    }

    /// Whether so much waits that it must be given out, complete or not.
    pub fn is_full(&self) -> bool {
        self.bytes.len() > MOST_BYTES
    }

    /// A round has ended: gives out what is complete.
    pub fn end_round(&mut self, give: impl FnMut(u32, u16, &[u8])) {
        self.give_out(self.complete_to, give);
        self.complete_to = self.latest;
    }

    /// Gives out everything.
    pub fn end(&mut self, give: impl FnMut(u32, u16, &[u8])) {
        self.give_out(u64::MAX, give);
    }

    fn give_out(&mut self, to: u64, mut give: impl FnMut(u32, u16, &[u8])) {
        // Stable: records of one time keep the order in which they came.
        self.waiting.sort_by_key(|record| record.time);
        let complete = self.waiting.partition_point(|record| record.time <= to);
        for record in self.waiting.drain(..complete) {
            let body = &self.bytes[record.start..record.start + record.length as usize];
            give(record.kind, record.misc, body);
        }
        let mut kept = Vec::new();
        for record in &mut self.waiting {
            let body = &self.bytes[record.start..record.start + record.length as usize];
            record.start = kept.len();
            kept.extend_from_slice(body);
        }
        self.bytes = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(rounds: &mut Rounds, end: bool) -> Vec<u32> {
        let mut given = Vec::new();
        let give = |kind, _: u16, body: &[u8]| {
            assert_eq!(body, [kind as u8]);
            given.push(kind);
        };
        if end {
            rounds.end(give)
        } else {
            rounds.end_round(give)
        }
        given
    }

    #[test]
    fn a_record_waits_until_no_earlier_one_can_come() {
        let mut rounds = Rounds::default();
        let push =
            |rounds: &mut Rounds, time: u64| rounds.push(time, time as u32, 0, &[time as u8]);
        push(&mut rounds, 5);
        push(&mut rounds, 3);
        assert_eq!(times(&mut rounds, false), Vec::<u32>::new());
        push(&mut rounds, 4);
        push(&mut rounds, 9);
        assert_eq!(times(&mut rounds, false), [3, 4, 5]);
        push(&mut rounds, 7);
        assert_eq!(times(&mut rounds, true), [7, 9]);
    }
}
