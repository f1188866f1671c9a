//! Which child of a process another process descends from.
//!
//! In: the records of processes that were made while sampling, and /proc for those that were there before. Out: the
//! child's id, which becomes the label of samples. Invariant: a process keeps its child when its parents end and it
//! is adopted by another, as daemons are, if it was looked at, or made, before.

use std::collections::HashMap;

use steelyard_kernel::Stat;

use crate::sample::Spaces;

/// Steps from a process to its ancestors at most; a guard against circles of ids that were used again.
const DEEPEST: usize = 256;

/// Parts the child's id from the command.
pub const CHILD_END: char = '/';

/// The descendants of one process by its children.
pub struct Descendants {
    root: u32,
    /// Process -> the child of the root, None where it descends from elsewhere; with the parent that said so.
    known: HashMap<u32, (Option<u32>, Option<u32>)>,
    parent: fn(u32) -> Option<u32>,
}

impl Descendants {
    /// Those of `root`.
    pub fn of(root: u32) -> Self {
        Self {
            root,
            known: HashMap::new(),
            parent: parent_in_proc,
        }
    }

    /// The child of the root that a process is or descends from.
    pub fn child_of(&mut self, pid: u32, spaces: &Spaces) -> Option<u32> {
        let mut way = Vec::new();
        let mut at = pid;
        let mut child = None;
        while way.len() < DEEPEST && at > 1 && at != self.root {
            let made_by = spaces.parent_of(at);
            match self.known.get(&at) {
                // An id that was used again since has another parent.
                Some(&(known, by)) if by == made_by => {
                    child = known;
                    break;
                }
                _ => {}
            }
            let parent = made_by.or_else(|| (self.parent)(at));
            way.push((at, made_by));
            if parent == Some(self.root) {
                child = Some(at);
                break;
            }
            at = parent.unwrap_or(0);
        }
        for (each, made_by) in way {
            self.known.insert(each, (child, made_by));
        }
        child
    }
}

/// The parent that /proc tells; None when the process is gone.
pub fn parent_in_proc(pid: u32) -> Option<u32> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    Stat::parse(&text)?.parent
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 - 10 - 20 - 21 - 22, and 10 - 30; 40 is another's.
    fn parent(pid: u32) -> Option<u32> {
        match pid {
            20 | 30 => Some(10),
            21 | 22 => Some(pid - 1),
            10 | 40 => Some(1),
            _ => None,
        }
    }

    fn descendants() -> Descendants {
        Descendants {
            parent,
            ..Descendants::of(10)
        }
    }

    #[test]
    fn processes_belong_to_the_child_they_descend_from() {
        let mut spaces = Spaces::default();
        let mut descendants = descendants();
        let found: Vec<_> = [20, 22, 30, 40, 10, 0, 99]
            .map(|pid| descendants.child_of(pid, &spaces))
            .into();
        assert_eq!(
            found,
            [Some(20), Some(20), Some(30), None, None, None, None]
        );
        // One that was made and has ended since.
        spaces.fork(99, 22, 99, 22);
        assert_eq!(descendants.child_of(99, &spaces), Some(20));
        // The same number, used again.
        spaces.fork(99, 40, 99, 40);
        assert_eq!(descendants.child_of(99, &spaces), None);
    }

    #[test]
    fn a_circle_of_ids_ends() {
        let mut spaces = Spaces::default();
        spaces.fork(50, 51, 50, 51);
        spaces.fork(51, 50, 51, 50);
        assert_eq!(descendants().child_of(50, &spaces), None);
    }

    #[test]
    fn this_process_descends_from_its_grandparent() {
        let parent = std::os::unix::process::parent_id();
        if let Some(above) = parent_in_proc(parent).filter(|&above| above > 1) {
            let found = Descendants::of(above).child_of(std::process::id(), &Spaces::default());
            assert_eq!(found, Some(parent));
        }
    }
}
