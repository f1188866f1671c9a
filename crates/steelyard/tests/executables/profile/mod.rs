//! `steelyard-profile` as its users meet it: a busy child sampled, other programs' profiles folded, bad input.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

mod children;
mod dwarf;
mod python;
mod support;

use self::support::{counts, is_refused, key, profile, stderr};

const BUSY: &str = "STEELYARD_TEST_BUSY_MS";

#[inline(never)]
fn steelyard_test_burns(until: Instant) -> u64 {
    let mut sum = 0_u64;
    while Instant::now() < until {
        // Operators only: in a build without optimisation a method would be a function of its own.
        let mut value = 0_u64;
        while value < 500_000 {
            sum = (sum >> 1) ^ value;
            value += 1;
        }
    }
    sum
}

/// The child of the tests below: not a test of its own, hence quick without its variable.
#[test]
fn busy_child() {
    if let Some(time) = std::env::var(BUSY).ok().and_then(|time| time.parse().ok()) {
        black_box(steelyard_test_burns(
            Instant::now() + Duration::from_millis(time),
        ));
    }
}

fn child() -> [String; 4] {
    let this = std::env::current_exe().expect("the test's own path");
    [
        this.display().to_string(),
        "--exact".into(),
        "profile::busy_child".into(),
        "--test-threads=1".into(),
    ]
}

/// The leaf with the most samples, and its share.
fn hottest(text: &str) -> (String, f64) {
    let mut leaves: BTreeMap<&str, u64> = BTreeMap::new();
    let counts = counts(text);
    for (stack, count) in &counts {
        *leaves
            .entry(stack.rsplit(';').next().expect("a frame"))
            .or_default() += count;
    }
    let all: u64 = leaves.values().sum();
    let (leaf, most) = leaves
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .expect("a sample");
    (leaf.to_owned(), most as f64 / all as f64)
}

/// Holds times against folded stacks: as many samples of the stack on each line as it counts.
fn every_sample_has_its_time(folded: &str, times: &str) {
    let mut by_stack = BTreeMap::new();
    let mut before = 0;
    for line in times.lines().skip(1) {
        let (time_ns, stack) = line.split_once(' ').expect("two numbers");
        let time_ns: u64 = time_ns.parse().expect("a time");
        assert!(before <= time_ns, "{line}");
        before = time_ns;
        let stack: usize = stack.parse().expect("a number");
        *by_stack.entry(stack).or_insert(0_u64) += 1;
    }
    let counted = folded
        .lines()
        .filter(|line| !line.starts_with("# "))
        .map(|line| line.rsplit_once(' ').expect("a count").1.parse().unwrap());
    assert_eq!(
        by_stack.into_values().collect::<Vec<_>>(),
        counted.collect::<Vec<u64>>()
    );
}

#[test]
fn a_command_is_sampled_and_its_hottest_function_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let [folded, pprof, times] =
        ["x.folded", "x.pb.gz", "x.times"].map(|name| folder.path().join(name));
    let output = profile()
        .args(["record", "--hz", "499", "--json", "--folded"])
        .arg(&folded)
        .arg("-o")
        .arg(&pprof)
        .arg("--times")
        .arg(&times)
        .arg("--")
        .args(child())
        .env(BUSY, "700")
        .output()
        .expect("it runs");
    if is_refused(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = std::fs::read_to_string(&folded).expect("folded stacks");
    let (leaf, share) = hottest(&text);
    assert!(
        leaf.starts_with("executables::profile::steelyard_test_burns [executables-"),
        "{leaf}"
    );
    assert!(share > 0.5, "{share}\n{text}");
    assert_eq!(key(&text, "scope").as_deref(), Some("command"));
    assert_eq!(key(&text, "hz").as_deref(), Some("499"));
    let line = String::from_utf8_lossy(&output.stdout);
    let json: serde_json::Value =
        serde_json::from_str(line.lines().last().expect("a line")).expect("JSON");
    let samples: u64 = counts(&text).values().sum();
    assert_eq!(json["samples"], samples);
    // 700 ms of CPU time at 499 Hz are 349 samples; a shared machine gives the child less time, never more.
    assert!((20..500).contains(&samples), "{samples}");
    every_sample_has_its_time(&text, &std::fs::read_to_string(&times).expect("times"));

    let again = profile().arg("fold").arg(&pprof).output().expect("it runs");
    assert_eq!(
        counts(&String::from_utf8_lossy(&again.stdout)),
        counts(&text)
    );
}

#[test]
fn a_process_and_the_whole_machine_can_be_sampled() {
    for scope in ["--pid", "--all"] {
        let mut busy = Command::new(&child()[0])
            .args(&child()[1..])
            .env(BUSY, "20000")
            .stdout(Stdio::null())
            .spawn()
            .expect("a child");
        let mut command = profile();
        command.args(["record", "--hz", "199", "--duration", "700ms", scope]);
        if scope == "--pid" {
            command.arg(busy.id().to_string());
        }
        let output = command.output().expect("it runs");
        busy.kill().expect("the child is there");
        busy.wait().expect("it ends");
        if is_refused(&output) {
            return;
        }
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let burning: u64 = counts(&text)
            .iter()
            .filter(|(stack, _)| stack.contains("steelyard_test_burns"))
            .map(|(_, count)| count)
            .sum();
        assert!(burning > 5, "{scope}\n{text}\n{}", stderr(&output));
        assert!(
            key(&text, "duration_s")
                .expect("a time")
                .parse::<f64>()
                .expect("a number")
                >= 0.7
        );
    }
}

#[test]
fn what_cannot_be_sampled_is_reported_in_one_line() {
    for (arguments, code, word) in [
        (&["record"][..], 2, "nothing to sample"),
        (
            &["record", "--pid", "4194304", "--duration", "1s"],
            2,
            "4194304",
        ),
        (
            &["record", "--cgroup", "/nowhere", "--duration", "1s"],
            2,
            "/nowhere",
        ),
        (&["record", "--", "/nowhere/program"], 3, "/nowhere/program"),
        (&["fold", "/nowhere/file"], 2, "/nowhere/file"),
        (&["fold", "/dev/null"], 2, "neither"),
    ] {
        let output = profile().args(arguments).output().expect("it runs");
        if is_refused(&output) {
            continue;
        }
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
    }
}

#[test]
fn a_command_that_fails_leaves_a_profile_and_its_code() {
    let output = profile()
        .args(["record", "--", "sh", "-c", "exit 7"])
        .output()
        .expect("it runs");
    if is_refused(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(4));
    assert!(
        stderr(&output).contains("ended with 7"),
        "{}",
        stderr(&output)
    );
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("# unit: samples\n"));
}

/// A folder of recorded data that is no part of the repository.
fn shared(folder: &str) -> Option<Vec<PathBuf>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data")
        .join(folder);
    let Ok(entries) = std::fs::read_dir(&path) else {
        eprintln!("skipped: {} is not here", path.display());
        return None;
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.file_name().is_some_and(|name| name != "LICENSE"));
    files.sort();
    Some(files)
}

fn fold(file: &Path) -> String {
    fold_by("samples", file)
}

fn fold_by(weight: &str, file: &Path) -> String {
    let output = profile()
        .args(["fold", "--weight", weight])
        .arg(file)
        .output()
        .expect("it runs");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}: {}",
        file.display(),
        stderr(&output)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// Samples of a text by command, counted without the reader: a sample's first line is one that begins in the
/// first column.
fn samples_by_command(text: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(['\t', '#']))
    {
        let command = line.split_whitespace().next().expect("a word").to_owned();
        *found.entry(command).or_default() += 1;
    }
    found
}

fn folded_by_command(text: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for (stack, count) in counts(text) {
        let command = stack
            .split(';')
            .next()
            .expect("a command")
            .split_whitespace()
            .next()
            .expect("a word");
        *found.entry(command.to_owned()).or_default() += count;
    }
    found
}

#[test]
fn recorded_text_is_folded_without_loss() {
    let Some(files) = shared("perfscript") else {
        return;
    };
    assert_eq!(files.len(), 3);
    for file in files {
        let folded = fold(&file);
        let text = std::fs::read_to_string(&file).expect("text");
        assert_eq!(
            folded_by_command(&folded),
            samples_by_command(&text),
            "{}",
            file.display()
        );
        assert_eq!(key(&folded, "reason"), None);
        assert!(
            !folded.contains("_RNv") && !folded.contains("_Z5"),
            "{}",
            file.display()
        );
    }
}

/// `perf script`'s text of a file, None where there is no perf.
fn perf_script(file: &Path) -> Option<String> {
    let output = Command::new("perf")
        .args(["script", "--no-inline", "-i"])
        .arg(file)
        .output();
    match output {
        Ok(output) if output.status.success() => {
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        _ => {
            eprintln!("skipped: perf script does not run here");
            None
        }
    }
}

fn fold_text(text: &str, folder: &Path) -> String {
    let path = folder.join("script.txt");
    std::fs::write(&path, text).expect("a file");
    fold(&path)
}

#[test]
fn recorded_files_hold_the_samples_that_perf_finds_in_them() {
    let Some(files) = shared("perfdata") else {
        return;
    };
    assert_eq!(files.len(), 5);
    let folder = tempfile::tempdir().expect("a folder");
    for file in files {
        let folded = fold(&file);
        let Some(text) = perf_script(&file) else {
            return;
        };
        let expected = fold_text(&text, folder.path());
        assert_eq!(
            folded_by_command(&folded),
            folded_by_command(&expected),
            "{}",
            file.display()
        );
        // Depth tells whether call chains are complete, without names, which only that machine has.
        let depths = |text: &str| {
            counts(text)
                .iter()
                .map(|(stack, count)| stack.matches(';').count() as u64 * count)
                .sum::<u64>()
        };
        assert_eq!(depths(&folded), depths(&expected), "{}", file.display());
    }
}

/// Sums of periods of the first event by command, as `perf report` prints them; None where there is no perf.
fn perf_report(file: &Path) -> Option<BTreeMap<String, u64>> {
    let output = Command::new("perf")
        .args(["report", "--stdio", "-g", "none", "--no-children"])
        .args(["-F", "period,comm", "-t", ";", "-w", "20,20", "-i"])
        .arg(file)
        .output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: perf report does not run here");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let rows = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (periods, command) = line.split_once(';')?;
            let period: u64 = periods.split_whitespace().next()?.parse().ok()?;
            Some((command.split_whitespace().next()?.to_owned(), period))
        });
    let mut found = BTreeMap::new();
    for (command, period) in rows {
        *found.entry(command).or_default() += period;
    }
    Some(found)
}

#[test]
fn files_sampled_by_frequency_are_weighed_as_perf_report_weighs_them() {
    let Some(files) = shared("perfdata") else {
        return;
    };
    for file in files {
        let name = file.display();
        let Some(expected) = perf_report(&file) else {
            return;
        };
        let folded = fold_by("period", &file);
        assert_eq!(folded_by_command(&folded), expected, "{name}");
        assert_eq!(key(&folded, "unit"), key(&folded, "event"), "{name}");
        // The number of samples behind the sums is reported.
        let samples = fold(&file);
        let count: u64 = counts(&samples).values().sum();
        assert_eq!(key(&folded, "samples"), Some(count.to_string()), "{name}");
        // Where a period was asked for instead of a frequency, samples are all worth the same.
        let by_frequency = key(&folded, "hz").is_some();
        let expected = if by_frequency { &folded } else { &samples };
        assert_eq!(&fold_by("auto", &file), expected, "{name}");
    }
}

#[test]
fn names_from_outside_do_not_steer_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("script.txt");
    let text = "a\u{9b}31m 7/7 [000] 1.5: 10 cy\x1bcles: \n\t 12 f\x1b[2J (/opt/\x1b]0;x\x07y)\n\n\
                a 7/7 [000] 1.6: 10 other\x1bevent: \n\t 12 f (/opt/y)\n\n";
    std::fs::write(&path, text).expect("a file");
    let folded = fold(&path);
    assert!(
        folded.contains("\\x1b[2J") && folded.contains("other\\x1bevent"),
        "{folded}"
    );
    let missing = profile()
        .args(["fold", "--event", "no\x1bne"])
        .arg(&path)
        .output()
        .expect("it runs");
    for text in [folded.as_str(), &stderr(&missing)] {
        let odd = |letter: char| letter.is_control() && letter != '\n';
        assert!(!text.contains(odd), "{text:?}");
    }
}

#[test]
fn a_fresh_recording_of_perf_is_named_as_perf_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("perf.data");
    let made = Command::new("perf")
        .args(["record", "-q", "-F", "199", "-e", "cpu-clock", "-g", "-o"])
        .arg(&file)
        .arg("--")
        .args(child())
        .env(BUSY, "500")
        .stdout(Stdio::null())
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        eprintln!("skipped: perf record does not run here");
        return;
    }
    let folded = fold(&file);
    let Some(text) = perf_script(&file) else {
        return;
    };
    let expected = fold_text(&text, folder.path());
    assert_eq!(folded_by_command(&folded), folded_by_command(&expected));
    let (ours, theirs) = (hottest(&folded), hottest(&expected));
    assert!(ours.0.contains("steelyard_test_burns"), "{ours:?}");
    assert_eq!(ours, theirs);
    // A file through a pipe cannot be sought in, and is read all the same.
    let mut piped = profile()
        .args(["fold", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let bytes = std::fs::read(&file).expect("the file");
    piped
        .stdin
        .take()
        .expect("a pipe")
        .write_all(&bytes)
        .expect("it reads");
    let output = piped.wait_with_output().expect("it ends");
    assert_eq!(
        counts(&String::from_utf8_lossy(&output.stdout)),
        counts(&folded)
    );
}
