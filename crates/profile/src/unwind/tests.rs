//! Stacks made by hand, walked along frame pointers and by this program's own rules, and hostile ones.

use proptest::prelude::*;

use super::*;

const STACK: u64 = 0x7ffc_0000_1000;

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Code without a file from 0x1000 to 0x9000, and this program as module 0 from 0x100000.
#[derive(Default)]
struct Land {
    entered: Vec<u64>,
}

impl Ground for Land {
    fn spot(&mut self, address: u64) -> Spot {
        match address {
            0x1000..0x9000 => Spot::Anonymous,
            0x10_0000.. => Spot::File {
                module: 0,
                offset: address - 0x10_0000,
            },
            _ => Spot::Nowhere,
        }
    }

    fn enter(&mut self, address: u64) -> Spot {
        self.entered.push(address);
        self.spot(address)
    }

    fn enter_caller(&mut self, address: u64) -> Spot {
        let spot = self.enter(address);
        if spot == Spot::Nowhere {
            self.entered.pop();
        }
        spot
    }

    fn file(&mut self, _: u32) -> Option<PathBuf> {
        std::env::current_exe().ok()
    }
}

/// Registers of x86 as the kernel writes them: frame pointer, stack pointer, program counter.
fn walk(registers: [u64; 3], stack: &[u64], is_full: bool) -> (Vec<u64>, End, Tally) {
    let (registers, stack) = (bytes(&registers), bytes(stack));
    let state = UserState::new(Processor::X86_64.registers(), &registers, &stack, is_full);
    let mut unwinding = Unwinding::new(Processor::X86_64);
    let mut land = Land::default();
    let end = unwinding.walk(&state, &mut land);
    (land.entered, end, unwinding.tally)
}

#[test]
fn code_without_rules_is_walked_along_frame_pointers() {
    // A frame is the caller's frame pointer and the return address; the last one's frame pointer is 0.
    let stack = [7, 7, STACK + 32, 0x2001, 0, 0x3001, 9];
    let (entered, end, tally) = walk([STACK + 16, STACK, 0x1500], &stack, true);
    assert_eq!(entered, [0x1500, 0x2000, 0x3000]);
    assert_eq!((end, tally.stacks, tally.cut()), (End::Bottom, 1, 0));
}

#[test]
fn how_a_stack_is_cut_is_reported() {
    let beyond = [STACK + 64, 0x2001];
    let (entered, end, _) = walk([STACK, STACK, 0x1500], &beyond, true);
    assert_eq!((entered.len(), end), (2, End::OfCopy));
    // A copy that is shorter than asked for holds the whole stack: what lies beyond is no frame.
    let (_, end, _) = walk([STACK, STACK, 0x1500], &beyond, false);
    assert_eq!(end, End::Astray(Spot::Anonymous));
    let (entered, end, _) = walk([STACK, STACK, 0x1500], &[STACK + 16, 0x20], true);
    assert_eq!((entered, end), (vec![0x1500], End::Astray(Spot::Anonymous)));
    let (entered, end, tally) = walk([0, u64::MAX, 0x500], &[], true);
    assert_eq!((entered, end), (vec![0x500], End::Astray(Spot::Nowhere)));
    assert_eq!((tally.cut(), tally.nowhere, tally.in_made_code), (1, 1, 0));
    // No JVM's flag helps where nothing is.
    let said = tally
        .reason(|_| String::new())
        .expect("all of its stacks are cut");
    assert!(
        said.ends_with("100 % end at an address where nothing was mapped"),
        "{said}"
    );
}

#[test]
fn a_bare_trampoline_is_crossed_into_a_file_only() {
    // 0x2000 is called by frame pointers; its own frame is eight bytes and the return address.
    let stack = |caller| [7, 7, 0, 0x2001, 5, caller, 9];
    let registers = [STACK + 16, STACK, 0x1500];
    let (entered, ..) = walk(registers, &stack(0x10_0801), true);
    // The frame pointer of the trampoline is 0, by which frame pointers end: that goes first.
    assert_eq!(entered, [0x1500, 0x2000]);
    let mut strayed = stack(0x10_0801);
    strayed[2] = 77;
    let (entered, ..) = walk(registers, &strayed, true);
    assert_eq!(entered[..3], [0x1500, 0x2000, 0x10_0800]);
    let mut strayed = stack(0x3001);
    strayed[2] = 77;
    let (entered, end, _) = walk(registers, &strayed, true);
    assert_eq!((entered.len(), end), (2, End::Astray(Spot::Anonymous)));
}

#[test]
fn registers_that_are_not_there_end_the_walk() {
    let state = UserState::new(1 << 7, &[0; 8], &[], false);
    for processor in [Processor::X86_64, Processor::Aarch64] {
        let end = Unwinding::new(processor).walk(&state, &mut Land::default());
        assert_eq!(end, End::Astray(Spot::Nowhere));
    }
}

#[test]
fn the_reason_names_the_largest_causes() {
    let mut tally = Tally::default();
    let file = |module| End::Astray(Spot::File { module, offset: 0 });
    for _ in 0..60 {
        tally.count(End::Bottom, |_| true);
    }
    for (end, times) in [(End::OfCopy, 25), (file(1), 5), (file(2), 10)] {
        for _ in 0..times {
            tally.count(end, |spot| matches!(spot, Spot::File { module: 1, .. }));
        }
    }
    assert_eq!((tally.stacks, tally.cut()), (100, 40));
    let reason = tally.reason(|module| format!("lib{module}.so")).unwrap();
    assert!(
        reason.starts_with("40 % of the programs' stacks do not reach"),
        "{reason}"
    );
    assert!(reason.contains("25 % are deeper than"), "{reason}");
    assert!(
        reason.contains("10 % end in code without unwind information, mostly lib2.so"),
        "{reason}"
    );
    tally.stacks = 100_000;
    assert_eq!(tally.reason(|_| String::new()), None);
}

proptest! {
    #[test]
    fn nothing_panics_and_walks_end(
        registers in prop::array::uniform4(prop_oneof![
            any::<u64>(), STACK..STACK + 4096, 0x10_0000_u64..0x40_0000, Just(0), Just(u64::MAX),
        ]),
        stack in prop::collection::vec(
            prop_oneof![any::<u64>(), STACK..STACK + 4096, 0x10_0000_u64..0x40_0000, Just(0)], 0..512),
        is_full in any::<bool>(),
    ) {
        let (registers, stack) = (bytes(&registers), bytes(&stack));
        for processor in [Processor::X86_64, Processor::Aarch64] {
            let state = UserState::new(processor.registers(), &registers, &stack, is_full);
            let mut unwinding = Unwinding::new(processor);
            let mut land = Land::default();
            unwinding.walk(&state, &mut land);
            prop_assert!(!land.entered.is_empty() || processor == Processor::X86_64);
            prop_assert!(land.entered.len() <= 4097);
        }
    }
}
