//! Stacks of programs without frame pointers: sampled and unwound here, and unwound from what perf recorded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::support::{counts, is_refused, key, profile, stderr};

/// Functions that call each other up to `DEEPEST` deep, from two threads, each for so much
/// CPU time. What each returns is used after the call, so that no compiler turns a call into a jump.
const SOURCE: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
static volatile unsigned long sink;
/* CPU time, so that a busy machine gives as many samples as an idle one. */
static double used(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static double end;
__attribute__((noinline)) unsigned long steelyard_leaf(unsigned long n) {
    for (unsigned long i = 0; i < 4000; i++) sink += i * n;
    return sink;
}
__attribute__((noinline)) unsigned long steelyard_left(int depth);
__attribute__((noinline)) unsigned long steelyard_right(int depth) {
    volatile char room[64 + 8 * 3];
    room[depth % 64] = (char)depth;
    unsigned long found = depth ? steelyard_left(depth - 1) : steelyard_leaf(3);
    return found + room[depth % 64];
}
__attribute__((noinline)) unsigned long steelyard_left(int depth) {
    unsigned long a = steelyard_leaf(depth), b = depth ? steelyard_right(depth - 1) : 1;
    return a ^ b * 7;
}
static int compare(const void *a, const void *b) { steelyard_leaf(1); return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) unsigned long steelyard_sorts(void) {
    int numbers[16];
    for (int i = 0; i < 16; i++) numbers[i] = 16 - i;
    qsort(numbers, 16, sizeof numbers[0], compare);
    return numbers[3];
}
static void *steelyard_thread(void *depth) {
    while (used() < end) sink += steelyard_right(*(int *)depth) + steelyard_sorts();
    return 0;
}
int main(int count, char **arguments) {
    (void)count;
    int depth = atoi(arguments[1]);
    end = atof(arguments[2]);
    pthread_t thread;
    pthread_create(&thread, 0, steelyard_thread, &depth);
    steelyard_thread(&depth);
    return pthread_join(thread, 0);
}
"#;

/// Compiles a program without frame pointers; None where there is no compiler.
fn program(folder: &Path, content: &str) -> Option<PathBuf> {
    let (source, program) = (folder.join("deep.c"), folder.join("deep"));
    std::fs::write(&source, content).expect("a file");
    let made = Command::new("cc")
        .args(["-O2", "-fomit-frame-pointer", "-pthread", "-o"])
        .args([&program, &source])
        .status();
    match made {
        Ok(status) => {
            assert!(status.success(), "the program does not compile");
            Some(program)
        }
        Err(error) => {
            eprintln!("skipped: no cc: {error}");
            None
        }
    }
}

fn number(text: &str, name: &str) -> u64 {
    let value = key(text, name).unwrap_or_else(|| panic!("no {name} in\n{text}"));
    value.parse().expect("a number")
}

/// Records the program; None where sampling is refused.
fn record(program: &Path, depth: u32, arguments: &[&str]) -> Option<String> {
    let output = profile()
        .args(["record", "--hz", "499"])
        .args(arguments)
        .arg("--")
        .arg(program)
        .args([&depth.to_string(), "0.3"])
        .output()
        .expect("it runs");
    if is_refused(&output) {
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// Counts by stack, with one name for what has several at the same address: `__libc_start_main@@GLIBC_2.34`,
/// `__GI___qsort_r`, `__vdso_clock_gettime`.
fn by_plain_name(text: &str) -> BTreeMap<String, u64> {
    let plain = |frame: &str| {
        let (name, module) = frame.split_once(' ').unwrap_or((frame, ""));
        let name = name.split('@').next().unwrap_or(name);
        let name = name.trim_start_matches('_').trim_start_matches("GI_");
        let name = name.trim_start_matches("vdso_").trim_start_matches('_');
        format!("{name} {module}")
    };
    let mut found = BTreeMap::new();
    for (stack, count) in counts(text) {
        let frames: Vec<String> = stack.split(';').map(plain).collect();
        *found.entry(frames.join(";")).or_default() += count;
    }
    found
}

/// The share of samples in the leaf whose stack goes all the way to main or the thread's function.
fn whole_ratio(text: &str) -> f64 {
    let (mut whole, mut all) = (0, 0);
    for (stack, count) in counts(text) {
        if stack.contains("steelyard_leaf") {
            all += count;
            if stack.contains("steelyard_thread") {
                whole += count;
            }
        }
    }
    assert!(all > 100, "{text}");
    whole as f64 / all as f64
}

#[test]
fn programs_without_frame_pointers_are_unwound_and_others_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = program(folder.path(), SOURCE) else {
        return;
    };
    let Some(unwound) = record(&program, 20, &["--call-graph", "dwarf"]) else {
        return;
    };
    assert!(whole_ratio(&unwound) > 0.98, "{unwound}");
    let (stacks, cut) = (
        number(&unwound, "user_stacks"),
        number(&unwound, "cut_stacks"),
    );
    assert!(stacks > 100 && cut * 50 <= stacks, "{unwound}");
    assert_eq!(number(&unwound, "lost"), 0);
    let pointers = record(&program, 20, &[]).expect("as before");
    assert!(whole_ratio(&pointers) < 0.5, "{pointers}");
    assert!(number(&pointers, "cut_stacks") * 2 > number(&pointers, "user_stacks"));
    assert!(
        pointers.contains("end after one or two functions"),
        "{pointers}"
    );
    // 400 frames of about a hundred bytes are more than a copy of a kilobyte holds.
    let arguments = ["--call-graph", "dwarf", "--stack-bytes", "1024"];
    let short = record(&program, 400, &arguments).expect("as before");
    assert!(number(&short, "cut_stacks") * 10 > number(&short, "user_stacks"));
    assert!(
        short.contains("are deeper than what was copied of them"),
        "{short}"
    );
}

#[test]
fn recordings_of_perf_are_unwound_as_perf_unwinds_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = program(folder.path(), SOURCE) else {
        return;
    };
    let file = folder.path().join("perf.data");
    let made = Command::new("perf")
        .args(["record", "-q", "-F", "299", "-e", "cpu-clock:u"])
        .args(["--call-graph", "dwarf,16384", "-o"])
        .arg(&file)
        .arg("--")
        .arg(&program)
        .args(["20", "0.5"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: perf record does not run here");
        return;
    }
    let fold = |input: &Path| {
        let output = profile().arg("fold").arg(input).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let ours = fold(&file);
    let script = Command::new("perf")
        .args(["script", "--no-inline", "-i"])
        .arg(&file)
        .output()
        .expect("perf is here");
    assert!(script.status.success(), "{}", stderr(&script));
    let text = folder.path().join("script.txt");
    std::fs::write(&text, &script.stdout).expect("a file");
    let theirs = by_plain_name(&fold(&text));
    let all: u64 = theirs.values().sum();
    let same: u64 = by_plain_name(&ours)
        .iter()
        .map(|(stack, count)| theirs.get(stack).map_or(0, |other| *count.min(other)))
        .sum();
    assert!(all > 100, "{ours}");
    assert!(
        same * 100 >= all * 95,
        "{same} of {all}\n{ours}\n{theirs:#?}"
    );
    assert!(whole_ratio(&ours) > 0.98, "{ours}");
    assert_eq!(number(&ours, "user_stacks"), all);
}

#[test]
fn what_a_signal_interrupted_is_found_beneath_its_handler() {
    const SIGNALS: &str = r#"
#include <signal.h>
static volatile unsigned long sink;
__attribute__((noinline)) void steelyard_handles(int n) { for (unsigned long i = 0; i < 400000000UL; i++) sink += i * n; }
__attribute__((noinline)) unsigned long steelyard_interrupted(int n) { raise(n); return sink + 1; }
int main(void) { signal(SIGUSR1, steelyard_handles); return steelyard_interrupted(SIGUSR1) == 7; }
"#;
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = program(folder.path(), SIGNALS) else {
        return;
    };
    let Some(text) = record(&program, 0, &["--call-graph", "dwarf"]) else {
        return;
    };
    let (mut crossed, mut all) = (0, 0);
    for (stack, count) in counts(&text) {
        if let Some((before, _)) = stack.split_once("steelyard_handles") {
            all += count;
            crossed +=
                count * u64::from(before.contains("main [deep];steelyard_interrupted [deep]"));
        }
    }
    assert!(
        all > 10 && crossed * 10 > all * 9,
        "{crossed} of {all}\n{text}"
    );
}
