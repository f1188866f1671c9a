//! Stacks read from memory that is made up, and from a real interpreter.

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;

use super::layout::{FLAGS, LENGTH};
use super::memory::Memory;
use super::stack::ThreadStack;
use super::*;

/// Memory from address 4096 on.
#[derive(Debug, Clone)]
struct Made(Vec<u8>);

const BASE: u64 = 4096;

impl Made {
    fn put(&mut self, address: u64, bytes: &[u8]) {
        let at = (address - BASE) as usize;
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put_word(&mut self, address: u64, word: u64) {
        self.put(address, &word.to_le_bytes());
    }
}

impl Memory for Made {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let at = usize::try_from(address.checked_sub(BASE)?).ok()?;
        bytes.copy_from_slice(self.0.get(at..at.checked_add(bytes.len())?)?);
        Some(())
    }
}

impl Memory for Rc<RefCell<Made>> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        self.borrow().read(address, bytes)
    }
}

/// An interpreter of this layout with one thread in `inner`, which `outer` called.
fn made(minor: u32) -> (Made, u64) {
    let layout = layout_of(minor).expect("a layout");
    let mut memory = Made(vec![0; 64 << 10]);
    let (runtime, interpreter, thread) = (BASE, BASE + 0x1000, BASE + 0x4000);
    let (inner, outer, shim) = (BASE + 0x4800, BASE + 0x4900, BASE + 0x4a00);
    memory.put_word(runtime + layout.interpreters, interpreter);
    memory.put_word(interpreter + layout.threads, thread);
    match layout.native_id {
        Some(at) => memory.put_word(thread + at, 77),
        None => {
            memory.put_word(thread + layout.pthread, BASE + 0x5000);
            memory.put_word(BASE + 0x5000 + 0x2d0, 77);
        }
    }
    match layout.current {
        layout::Current::Direct(at) => memory.put_word(thread + at, inner),
        layout::Current::CFrame(at, within) => {
            memory.put_word(thread + at, BASE + 0x6000);
            memory.put_word(BASE + 0x6000 + within, inner);
        }
    }
    memory.put_word(inner + layout.previous, outer);
    if let Some((at, marks)) = layout.owner {
        memory.put_word(outer + layout.previous, shim);
        memory.put(shim + at, &[marks]);
    }
    for (frame, code, name) in [
        (inner, BASE + 0x7000, "inner"),
        (outer, BASE + 0x8000, "Öuter"),
    ] {
        memory.put_word(frame + layout.code, code);
        for (field, at, text) in [
            (layout.name, code + 0x200, name),
            (layout.file, code + 0x400, "/a.py"),
        ] {
            memory.put_word(code + field, at);
            let is_ascii = text.is_ascii();
            memory.put_word(at + LENGTH, text.chars().count() as u64);
            memory.put_word(at + FLAGS, 1 << 2 | 1 << 5 | u64::from(is_ascii) << 6);
            let start = if is_ascii {
                layout.text.0
            } else {
                layout.text.1
            };
            let letters: Vec<u8> = text.chars().map(|letter| letter as u8).collect();
            memory.put(at + start, &letters);
        }
    }
    (memory, runtime)
}

fn read(memory: Made, minor: u32, runtime: u64) -> (Vec<ThreadStack>, Vec<String>) {
    let mut names = NameTable::default();
    let mut reader = StackReader::new(memory, layout_of(minor).expect("a layout"), runtime);
    (reader.read(&mut names, |id| id == 77), names.names)
}

#[test]
fn stacks_of_every_layout_are_read_from_the_innermost_frame() {
    for minor in 9..=13 {
        let (memory, runtime) = made(minor);
        let (stacks, names) = read(memory, minor, runtime);
        assert_eq!(names, ["py::inner:/a.py", "py::Öuter:/a.py"], "3.{minor}");
        let expected = ThreadStack {
            tid: Some(77),
            frames: vec![0, 1],
        };
        assert_eq!(stacks, [expected], "3.{minor}");
    }
}

#[test]
fn a_code_object_that_takes_anothers_place_has_its_own_name() {
    let (memory, runtime) = made(11);
    let memory = Rc::new(RefCell::new(memory));
    let layout = layout_of(11).expect("a layout");
    let mut names = NameTable::default();
    let mut reader = StackReader::new(Rc::clone(&memory), layout, runtime);
    let before = reader.read(&mut names, |id| id == 77);
    // At the address of the innermost code object there is now one with the name of the other.
    memory
        .borrow_mut()
        .put_word(BASE + 0x7000 + layout.name, BASE + 0x8000 + 0x200);
    let after = reader.read(&mut names, |id| id == 77);
    assert_eq!(names.names[before[0].frames[0] as usize], "py::inner:/a.py");
    assert_eq!(names.names[after[0].frames[0] as usize], "py::Öuter:/a.py");
}

#[test]
fn rings_end() {
    for minor in 9..=13 {
        let layout = layout_of(minor).expect("a layout");
        let (thread, inner, outer) = (BASE + 0x4000, BASE + 0x4800, BASE + 0x4900);
        let (whole, runtime) = made(minor);
        let (expected, _) = read(whole.clone(), minor, runtime);

        let mut frames = whole.clone();
        frames.put_word(outer + layout.previous, inner);
        let (stacks, _) = read(frames, minor, runtime);
        assert_eq!(stacks[0].frames.len(), 512, "3.{minor}");

        // Each thread once, whether or not it is in a function.
        let mut threads = whole.clone();
        threads.put_word(thread + layout.next_thread, thread);
        threads.put_word(BASE + 0x1000 + layout.next_interpreter, BASE + 0x1000);
        let (stacks, _) = read(threads.clone(), minor, runtime);
        assert_eq!(stacks, expected, "3.{minor}");
        match layout.current {
            layout::Current::Direct(at) => threads.put_word(thread + at, 0),
            layout::Current::CFrame(_, within) => threads.put_word(BASE + 0x6000 + within, 0),
        }
        assert_eq!(read(threads, minor, runtime).0, [], "3.{minor}");

        // The interpreter's own frames are none of the program's, so that none counts.
        if let Some((at, marks)) = layout.owner {
            let mut own = whole;
            own.put(outer + at, &[marks]);
            own.put_word(outer + layout.previous, outer);
            assert_eq!(read(own, minor, runtime).0, [], "3.{minor}");
        }
    }
}

/// Where `made` puts what is followed.
fn places() -> impl Strategy<Value = u64> {
    let offsets = vec![0, 0x1000, 0x4000, 0x4800, 0x4900, 0x4a00, 0x6000];
    prop::sample::select(offsets).prop_map(|offset| BASE + offset)
}

/// Words that lead there, or to the end of all addresses.
fn links() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => places(),
        1 => (0_u64..512).prop_map(|below| u64::MAX - below),
    ]
}

proptest! {
    #[test]
    fn memory_that_changed_meanwhile_is_read_to_an_end_without_panic(
        damage in prop::collection::vec((0_usize..(64 << 10), any::<u8>()), 0..200),
        // Most of what is followed lies in the first words of states and frames.
        relinked in prop::collection::vec((places(), 0_u64..16, links()), 0..12),
        minor in 9_u32..14,
    ) {
        let (mut memory, runtime) = made(minor);
        for (at, value) in damage {
            memory.0[at] = value;
        }
        for (at, word, link) in relinked {
            memory.put_word(at + 8 * word, link);
        }
        let (stacks, names) = read(memory, minor, runtime);
        prop_assert!(stacks.iter().all(|stack| stack.frames.iter().all(|&one| (one as usize) < names.len())));
    }
}
