//! Samples to shares, from a source and code that are not this machine's.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;

type Script = Rc<RefCell<Vec<Address>>>;

struct Scripted(Script);

impl Source for Scripted {
    fn drain(&mut self, give: &mut dyn FnMut(Address)) {
        self.0.borrow_mut().drain(..).for_each(give);
    }

    fn event(&self) -> &str {
        "cpu-clock"
    }

    fn reasons(&self) -> Vec<String> {
        Vec::new()
    }

    fn lost(&self) -> u64 {
        0
    }
}

/// Code in which each address has an instruction of its own.
struct Invented;

impl Code for Invented {
    fn read(&mut self, _: u32, address: u64) -> Option<Vec<u8>> {
        match address {
            // vaddps %ymm0,%ymm1,%ymm0 and add %rbx,%rax; on Arm fadd v0.4s and add x0.
            1 if cfg!(target_arch = "aarch64") => Some(vec![0x00, 0xd4, 0x21, 0x4e]),
            2 if cfg!(target_arch = "aarch64") => Some(vec![0x00, 0x00, 0x01, 0x8b]),
            1 => Some(vec![0xc5, 0xf4, 0x58, 0xc0]),
            2 => Some(vec![0x48, 0x01, 0xd8]),
            _ => None,
        }
    }

    fn bits(&mut self, _: u32) -> u32 {
        64
    }

    fn forget(&mut self) {}

    fn why_unread(&self) -> Option<String> {
        None
    }
}

fn at(pid: u32, address: u64) -> Address {
    Address {
        pid,
        tid: pid + 1,
        address: Some(address),
        in_kernel: address == 0,
    }
}

fn mixer() -> (Mixer, Script) {
    let script = Script::default();
    let given = Rc::clone(&script);
    let open =
        move |_: Option<&[u32]>| Ok(Box::new(Scripted(Rc::clone(&given))) as Box<dyn Source>);
    (Mixer::new(Box::new(open), Box::new(Invented)), script)
}

#[test]
fn samples_are_counted_by_process_and_thread() {
    let (mut mixer, script) = mixer();
    let mut samples = vec![at(7, 1); 30];
    samples.extend(vec![at(7, 2); 10]);
    samples.extend([at(7, 0), at(7, 99), at(0, 0), at(8, 2)]);
    script.borrow_mut().extend(samples);
    mixer.take(5);
    let counts = mixer.counts(7, None).unwrap();
    assert_eq!(
        (counts.decoded(), counts.kernel, counts.unknown),
        (40, 1, 1)
    );
    assert_eq!(counts.vector_ratio(), Ok(0.75));
    let name = if cfg!(target_arch = "aarch64") {
        "NEON"
    } else {
        "AVX/AVX2"
    };
    assert_eq!(counts.foremost(), Some((name, 0.75)));
    assert_eq!(mixer.counts(7, Some(8)), Ok(counts));
    assert!(mixer.counts(7, Some(9)).is_err());
    let few = mixer.counts(8, None).unwrap();
    assert!(few.vector_ratio().is_err(), "one sample tells nothing");
    assert_eq!(mixer.by_process().len(), 2);
}

#[test]
fn old_samples_are_turned_out() {
    let (mut mixer, script) = mixer();
    script.borrow_mut().push(at(7, 1));
    mixer.take(0);
    mixer.take(HALF_NS);
    assert!(mixer.counts(7, None).is_ok());
    mixer.take(2 * HALF_NS);
    assert!(mixer.counts(7, None).is_err());
}

#[test]
fn where_not_everything_may_be_sampled_one_process_is() {
    let script = Script::default();
    let given = Rc::clone(&script);
    let open = move |pids: Option<&[u32]>| match pids {
        None => Err(Reason::Fixed("not allowed")),
        Some(_) => Ok(Box::new(Scripted(Rc::clone(&given))) as Box<dyn Source>),
    };
    let mut mixer = Mixer::new(Box::new(open), Box::new(Invented));
    assert_eq!(mixer.why_none(7), Reason::Fixed("not allowed"));
    mixer.follow(&[7]);
    script.borrow_mut().push(at(7, 1));
    mixer.take(0);
    assert!(mixer.counts(7, None).is_ok());
    assert!(mixer.why_none(8).text().contains("not allowed"));
}

#[test]
fn wilsons_interval() {
    // Newcombe (1998), table I: 81 of 263 and 0 of 20.
    let (low, high) = interval(81, 263);
    assert!((low - 0.2553).abs() < 5e-5 && (high - 0.3662).abs() < 5e-5);
    let (low, high) = interval(0, 20);
    assert!(low == 0.0 && (high - 0.1611).abs() < 5e-5);
    assert_eq!(interval(0, 0), (0.0, 1.0));
}
