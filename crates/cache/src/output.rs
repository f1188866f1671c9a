//! A connection's answers in order, with gaps for those that slow threads still owe.
//!
//! Invariant: bytes leave in the order in which they were asked for; a gap holds back what follows it.

use std::collections::VecDeque;

#[derive(Debug)]
enum Part {
    Bytes(Vec<u8>),
    Owed,
}

/// The answers of one connection.
#[derive(Debug, Default)]
pub struct Output {
    ready: Vec<u8>,
    parts: VecDeque<Part>,
    /// Ticket of the first part.
    first: u64,
    /// Bytes of all parts but the last.
    held_bytes: usize,
    owed: usize,
}

impl Output {
    /// Where the next answer goes.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        if self.parts.is_empty() {
            return &mut self.ready;
        }
        if matches!(self.parts.back(), Some(Part::Owed)) {
            self.parts.push_back(Part::Bytes(Vec::new()));
        }
        match self.parts.back_mut() {
            Some(Part::Bytes(bytes)) => bytes,
            _ => unreachable!("the last part was just made one of bytes"),
        }
    }

    /// Leaves a gap, to be filled by `fill` with the ticket returned.
    pub fn owe(&mut self) -> u64 {
        self.held_bytes += self.last_bytes();
        self.parts.push_back(Part::Owed);
        self.owed += 1;
        self.first + self.parts.len() as u64 - 1
    }

    /// Undoes the last `owe`.
    pub fn take_back(&mut self) {
        let part = self.parts.pop_back();
        debug_assert!(matches!(part, Some(Part::Owed)));
        self.owed -= 1;
        self.held_bytes -= self.last_bytes();
    }

    /// Fills a gap.
    pub fn fill(&mut self, ticket: u64, bytes: Vec<u8>) {
        let at = (ticket - self.first) as usize;
        debug_assert!(matches!(self.parts[at], Part::Owed));
        if at + 1 < self.parts.len() {
            self.held_bytes += bytes.len();
        }
        self.owed -= 1;
        self.parts[at] = Part::Bytes(bytes);
        while let Some(Part::Bytes(_)) = self.parts.front() {
            let last = self.parts.len() == 1;
            if let Some(Part::Bytes(bytes)) = self.parts.pop_front() {
                self.held_bytes -= if last { 0 } else { bytes.len() };
                self.ready.extend_from_slice(&bytes);
            }
            self.first += 1;
        }
    }

    fn last_bytes(&self) -> usize {
        match self.parts.back() {
            Some(Part::Bytes(bytes)) => bytes.len(),
            _ => 0,
        }
    }

    /// Bytes that may be sent now.
    #[inline]
    pub fn ready(&mut self) -> &mut Vec<u8> {
        &mut self.ready
    }

    /// Bytes kept.
    #[inline]
    pub fn kept_bytes(&self) -> usize {
        self.ready.len() + self.held_bytes + self.last_bytes()
    }

    /// Bytes of its buffers.
    #[inline]
    pub fn held_capacity(&self) -> usize {
        self.ready.capacity() + self.held_bytes + self.last_bytes()
    }

    /// Gives back the memory of answers that have left.
    pub fn give_back_idle(&mut self) {
        if self.ready.is_empty() {
            self.ready = Vec::new();
        }
    }

    /// Answers owed by slow threads.
    #[inline]
    pub fn owed(&self) -> usize {
        self.owed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn order_is_kept(gaps in proptest::collection::vec(any::<bool>(), 0..40), seed: u64) {
            let mut output = Output::default();
            let mut expected = Vec::new();
            let mut owed = Vec::new();
            for (number, gap) in gaps.iter().enumerate() {
                let text = format!("<{number}>").into_bytes();
                expected.extend_from_slice(&text);
                if *gap {
                    owed.push((output.owe(), text));
                } else {
                    output.tail().extend_from_slice(&text);
                }
            }
            let mut seed = seed | 1;
            while !owed.is_empty() {
                prop_assert_eq!(output.owed(), owed.len());
                let owed_bytes: usize = owed.iter().map(|(_, text)| text.len()).sum();
                prop_assert_eq!(output.kept_bytes(), expected.len() - owed_bytes);
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (ticket, text) = owed.swap_remove((seed >> 33) as usize % owed.len());
                output.fill(ticket, text);
                prop_assert!(expected.starts_with(output.ready()));
            }
            prop_assert_eq!(output.ready(), &expected);
        }
    }
}
