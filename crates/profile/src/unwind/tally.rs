//! How many stacks of programs are whole, and why the others are not.

use std::collections::BTreeMap;

use super::{End, Spot};

/// Counts of walks by how they ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Stacks that were walked.
    pub stacks: u64,
    /// Those that are longer than their copy.
    pub beyond_copy: u64,
    /// Those that ended where rules are known, by the number of the module.
    pub astray: BTreeMap<u32, u64>,
    /// Those that ended where a file has no rules or cannot be read, by the number of the module.
    pub without_rules: BTreeMap<u32, u64>,
    /// Those that ended in code without a file.
    pub in_made_code: u64,
    /// Those that ended at an address where nothing is mapped.
    pub nowhere: u64,
}

impl Tally {
    /// Counts a walk. `knows` says whether the rules of a place are known.
    pub fn count(&mut self, end: End, knows: impl Fn(Spot) -> bool) {
        self.stacks += 1;
        match end {
            End::Bottom => {}
            End::OfCopy => self.beyond_copy += 1,
            End::Astray(spot) => match spot {
                Spot::File { module, .. } => {
                    let counts = if knows(spot) {
                        &mut self.astray
                    } else {
                        &mut self.without_rules
                    };
                    *counts.entry(module).or_default() += 1;
                }
                Spot::Anonymous => self.in_made_code += 1,
                Spot::Nowhere => self.nowhere += 1,
            },
        }
    }

    /// Stacks whose begin was not reached.
    pub fn cut(&self) -> u64 {
        let counted = |by_module: &BTreeMap<u32, u64>| by_module.values().sum::<u64>();
        let without_file = self.in_made_code + self.nowhere;
        self.beyond_copy + without_file + counted(&self.astray) + counted(&self.without_rules)
    }

    /// Why stacks are not whole, in a sentence; None when few enough are not.
    pub fn reason(&self, name: impl Fn(u32) -> String) -> Option<String> {
        let cut = self.cut();
        if cut == 0 || percent(cut, self.stacks) < REPORTED_FROM_PERCENT {
            return None;
        }
        let mut parts = Vec::new();
        if self.beyond_copy > 0 {
            parts.push(format!(
                "{} are deeper than what was copied of them (--stack-bytes with more)",
                share(self.beyond_copy, self.stacks)
            ));
        }
        for (counts, what) in [
            (&self.without_rules, "code without unwind information"),
            (&self.astray, "code whose unwind information leads nowhere"),
        ] {
            let count: u64 = counts.values().sum();
            let most = counts.iter().max_by_key(|&(_, count)| *count);
            if let Some((&module, _)) = most {
                parts.push(format!(
                    "{} end in {what}, mostly {}",
                    share(count, self.stacks),
                    name(module)
                ));
            }
        }
        if self.in_made_code > 0 {
            parts.push(format!(
                "{} end in memory that no file is mapped to, as code made at run time is, where only frame \
                 pointers could be followed (a JVM keeps them with -XX:+PreserveFramePointer)",
                share(self.in_made_code, self.stacks)
            ));
        }
        if self.nowhere > 0 {
            parts.push(format!(
                "{} end at an address where nothing was mapped",
                share(self.nowhere, self.stacks)
            ));
        }
        Some(format!(
            "{} of the programs' stacks do not reach the function that their thread began with: {}",
            share(cut, self.stacks),
            parts.join(", ")
        ))
    }
}

/// Shares below this are not worth a sentence.
const REPORTED_FROM_PERCENT: f64 = 1.0;

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// A share for a person.
pub fn share(part: u64, whole: u64) -> String {
    match percent(part, whole) {
        few if few < 10.0 => format!("{few:.1} %"),
        many => format!("{many:.0} %"),
    }
}
