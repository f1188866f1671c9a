//! Programs whose hot loops are known, looked at as they run: what is shown is what they execute.
//!
//! Where the kernel lets nothing be sampled, as in some containers, the tests say so and pass.

#![cfg(target_arch = "x86_64")]

use std::arch::asm;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use steelyard_kernel::Tree;
use steelyard_top::mix::{Class, Counts};
use steelyard_top::session::{By, Outside, Session};

const LOOP: &str = "STEELYARD_TOP_TEST_LOOP";

/// The loops, run by the tests below in processes of their own.
#[test]
#[ignore = "runs until it is killed: the other tests start it"]
fn hot_loop() {
    match std::env::var(LOOP).as_deref() {
        Ok("avx") => loop {
            // SAFETY: additions and a countdown; the registers are declared.
            unsafe {
                asm!(
                    "2:",
                    // Long, so that an interrupt that is taken some instructions late still falls on one.
                    ".rept 16",
                    "vaddps ymm0, ymm0, ymm1",
                    "vaddps ymm2, ymm2, ymm1",
                    "vaddps ymm3, ymm3, ymm1",
                    "vaddps ymm4, ymm4, ymm1",
                    "vaddps ymm5, ymm5, ymm1",
                    "vaddps ymm6, ymm6, ymm1",
                    "vaddps ymm7, ymm7, ymm1",
                    "vaddps ymm0, ymm0, ymm1",
                    ".endr",
                    "dec {count}",
                    "jnz 2b",
                    "vzeroupper",
                    count = inout(reg) 1_000_000_u64 => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                );
            }
        },
        Ok("sse") => loop {
            // SAFETY: as above.
            unsafe {
                asm!(
                    "2:",
                    ".rept 16",
                    "addps xmm0, xmm1",
                    "addps xmm2, xmm1",
                    "addps xmm3, xmm1",
                    "addps xmm4, xmm1",
                    ".endr",
                    "dec {count}",
                    "jnz 2b",
                    count = inout(reg) 1_000_000_u64 => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
                );
            }
        },
        Ok("scalar") => loop {
            // SAFETY: as above; each turn loads and stores a word of its own.
            unsafe {
                let mut word = 0_u64;
                asm!(
                    "2:",
                    "add {sum}, 3",
                    "mov {sum}, [{word}]",
                    "imul {sum}, {sum}, 5",
                    "mov [{word}], {sum}",
                    "dec {count}",
                    "jnz 2b",
                    sum = inout(reg) 1_u64 => _,
                    word = in(reg) &raw mut word,
                    count = inout(reg) 1_000_000_u64 => _,
                );
            }
        },
        _ => {}
    }
}

/// A process that runs a loop until it is dropped.
struct Loop(Child);

impl Loop {
    fn start(name: &str) -> Self {
        let program = std::env::current_exe().expect("this test's file");
        let child = Command::new(program)
            .args(["--exact", "hot_loop", "--ignored"])
            .env(LOOP, name)
            .stdout(Stdio::null())
            .spawn()
            .expect("a process");
        Self(child)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the instructions of a loop look like; None where nothing may be sampled.
fn counts(name: &str) -> Option<Counts> {
    let child = Loop::start(name);
    let pid = child.0.id();
    let tree = Tree::new("/");
    let mut session =
        Session::new(&tree, vec![pid], By::Process, true, Outside::live()).expect("a process");
    session.look();
    // However busy the machine is: until enough samples have come.
    for _ in 0..300 {
        std::thread::sleep(Duration::from_millis(100));
        let snapshot = session.look();
        if let Some(Err(reason)) = &snapshot.mix_event
            && snapshot.rows[0].mix.is_err()
        {
            println!("skipped: {reason}");
            return None;
        }
        match &snapshot.rows[0].mix {
            Ok(counts) if counts.decoded() >= 60 => return Some(*counts),
            _ => {}
        }
    }
    panic!("too few samples in half a minute");
}

fn share(counts: &Counts, class: Class) -> f64 {
    counts.classes[class as usize] as f64 / counts.decoded() as f64
}

#[test]
fn a_loop_of_avx_is_shown_as_avx() {
    if !std::arch::is_x86_feature_detected!("avx") {
        println!("skipped: this CPU has no AVX");
        return;
    }
    if let Some(counts) = counts("avx") {
        assert!(share(&counts, Class::Avx) > 0.5, "{counts:?}");
        assert!(share(&counts, Class::Sse) < 0.1, "{counts:?}");
        assert_eq!(counts.wide, 0, "{counts:?}");
    }
}

#[test]
fn a_loop_of_sse_is_shown_as_sse() {
    if let Some(counts) = counts("sse") {
        assert!(share(&counts, Class::Sse) > 0.4, "{counts:?}");
        assert!(share(&counts, Class::Avx) < 0.1, "{counts:?}");
    }
}

#[test]
fn a_scalar_loop_has_no_vectors_but_loads_and_stores() {
    if let Some(counts) = counts("scalar") {
        assert!(share(&counts, Class::Scalar) > 0.9, "{counts:?}");
        assert!(counts.loads + counts.stores > 0, "{counts:?}");
    }
}
