//! Whether call chains that the kernel took along frame pointers reach the function that their thread began with.
//!
//! The kernel does not tell where a chain broke off: code without frame pointers ends it, or leaves out some
//! callers. The outermost frame decides. A chain is whole when that is a function that threads begin with;
//! in a C library without local symbols, as distributions ship it, those have no name.

use std::collections::HashMap;

use crate::names::UNKNOWN;
use crate::sample::Place;
use crate::stacks::{Frame, StackTable};
use crate::unwind::share;

/// Functions that threads and processes begin with: the dynamic linker, glibc, musl, Go. Sorted.
const BEGINS: [&str; 21] = [
    "__clone",
    "__clone3",
    "__libc_start_call_main",
    "__libc_start_main",
    "__libc_start_main_impl",
    "_dl_start",
    "_dl_start_user",
    "_start",
    "_start_c",
    "clone",
    "clone3",
    "libc_start_main_stage2",
    "runtime.goexit",
    "runtime.mcall",
    "runtime.morestack",
    "runtime.mstart",
    "runtime.rt0_go",
    "runtime.systemstack",
    "start",
    "start_thread",
    "thread_start",
];

/// Frames of a chain that is so short that hardly anything can be said of who called whom.
const SHORT: usize = 2;
/// Stacks below which a share says little, and the share of short ones from which on it is reported.
const LEAST_STACKS: u64 = 50;
const REPORTED_RATIO: f64 = 0.1;

fn begins_thread(frame: &Frame, depth: usize) -> bool {
    // `clone3@@GLIBC_2.34`, `runtime.goexit.abi0`, `__libc_start_main@plt`.
    let name = frame.name.split('@').next().unwrap_or_default();
    let name = name.strip_suffix(".abi0").unwrap_or(name);
    if BEGINS.binary_search(&name).is_ok() {
        return true;
    }
    let is_library = ["libc.so", "libc-", "libpthread", "ld-musl", "ld-linux"]
        .iter()
        .any(|start| frame.module.starts_with(start));
    // Chains that break off at once end in functions of the C library as well, which must not pass for begins.
    *frame.name == *UNKNOWN && is_library && depth > SHORT
}

/// How many chains there are, and how many of them are not whole.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bottoms {
    /// Samples of which a part is a program's.
    pub stacks: u64,
    /// Those that do not reach a thread's begin.
    pub cut: u64,
    short: u64,
    /// Short stacks by the module that they end in.
    modules: HashMap<Box<str>, u64>,
}

impl Bottoms {
    /// Looks at stacks of places, whose frames are `frame`'s.
    pub fn of<'a>(stacks: &StackTable, places: &[Place], frame: impl Fn(u32) -> &'a Frame) -> Self {
        let mut found = Self::default();
        for stack in stacks.iter() {
            let chain = stack.numbers.get(1..).unwrap_or_default();
            let is_program = |number: &&u32| {
                matches!(
                    places[**number as usize],
                    Place::File { .. } | Place::Anonymous { .. }
                )
            };
            let depth = chain.iter().filter(is_program).count();
            let Some(&outermost) = chain.last().filter(|_| depth > 0) else {
                continue;
            };
            found.stacks += stack.count;
            if matches!(places[outermost as usize], Place::Interpreted(_)) {
                // The interpreter knows its callers to the first.
                continue;
            }
            let outermost = frame(outermost);
            if begins_thread(outermost, depth) {
                continue;
            }
            found.cut += stack.count;
            if depth <= SHORT {
                found.short += stack.count;
                // A caller in no file, of code in one, is what a register held that is no frame pointer there.
                let callee = chain.iter().rev().skip(1).find(is_program);
                let module = match callee.map(|&callee| frame(callee)) {
                    Some(callee) if outermost.module.is_empty() => callee.module.clone(),
                    _ => outermost.module.clone(),
                };
                *found.modules.entry(module).or_default() += stack.count;
            }
        }
        found
    }

    /// A sentence when so many chains are short that the profile misleads.
    pub fn reason(&self) -> Option<String> {
        if self.stacks < LEAST_STACKS || (self.short as f64) < REPORTED_RATIO * self.stacks as f64 {
            return None;
        }
        let most = self
            .modules
            .iter()
            .max_by_key(|&(name, count)| (count, name));
        let (mostly, remedy) = match most {
            Some((name, _)) if !name.is_empty() => {
                (format!("in {name}"), "--call-graph dwarf needs none")
            }
            // There is no DWARF information of it either.
            _ => (
                "in memory that no file is mapped to".to_owned(),
                "if a JVM made that code, -XX:+PreserveFramePointer keeps them",
            ),
        };
        Some(format!(
            "{} of the programs' stacks end after one or two functions, as frame pointers do in code that \
             was built without them, mostly {mostly}: {remedy}",
            share(self.short, self.stacks)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str, module: &str) -> Frame {
        Frame {
            name: name.into(),
            module: module.into(),
        }
    }

    #[test]
    fn a_thread_begins_where_its_library_says() {
        assert!(BEGINS.is_sorted());
        assert!(begins_thread(&frame("clone3@@GLIBC_2.34", "libc.so.6"), 1));
        assert!(begins_thread(&frame("runtime.goexit.abi0", "server"), 5));
        assert!(begins_thread(&frame(UNKNOWN, "libc.so.6"), 3));
        assert!(!begins_thread(&frame(UNKNOWN, "libc.so.6"), 2));
        assert!(!begins_thread(&frame(UNKNOWN, "server"), 9));
        assert!(!begins_thread(&frame("malloc", "libc.so.6"), 9));
    }

    #[test]
    fn short_stacks_are_distinguished_from_whole_ones() {
        let file = |offset| Place::File { module: 0, offset };
        let places = [Place::Kernel(1), file(1), file(2), file(3)];
        let frames = [
            frame("read", "kernel"),
            frame("leaf", "server"),
            frame("main", "server"),
            frame("_start", "server"),
        ];
        let mut stacks = StackTable::default();
        stacks.add(&[0, 0], 100, 0); // a kernel thread
        stacks.add(&[0, 0, 1, 2, 3], 80, 0);
        stacks.add(&[0, 1, 2, 1], 5, 0); // cut, but not short
        stacks.add(&[0, 0, 1], 15, 0);
        let found = Bottoms::of(&stacks, &places, |number| &frames[number as usize]);
        assert_eq!((found.stacks, found.cut, found.short), (100, 20, 15));
        let reason = found.reason().unwrap();
        assert!(reason.starts_with("15 % of the programs' stacks end after one or two functions"));
        assert!(
            reason.contains("mostly in server: --call-graph dwarf"),
            "{reason}"
        );
        stacks.add(&[0, 1, 2, 3], 60, 0);
        let found = Bottoms::of(&stacks, &places, |number| &frames[number as usize]);
        assert_eq!(found.reason(), None);
    }

    #[test]
    fn a_wrong_caller_is_laid_to_the_code_that_it_seems_to_call() {
        let places = [
            Place::Kernel(1),
            Place::File {
                module: 0,
                offset: 1,
            },
            Place::Anonymous { pid: 1, address: 7 },
        ];
        let frames = [
            frame("read", "kernel"),
            frame("critical", "locks"),
            frame(UNKNOWN, ""),
        ];
        let mut stacks = StackTable::default();
        stacks.add(&[0, 1, 2], 100, 0);
        let found = Bottoms::of(&stacks, &places, |number| &frames[number as usize]);
        let reason = found.reason().unwrap();
        assert!(
            reason.contains("mostly in locks: --call-graph dwarf"),
            "{reason}"
        );
        // Code made at run time by itself.
        let mut stacks = StackTable::default();
        stacks.add(&[0, 2], 100, 0);
        let found = Bottoms::of(&stacks, &places, |number| &frames[number as usize]);
        assert!(found.reason().unwrap().contains("no file is mapped to"));
    }
}
