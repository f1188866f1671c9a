//! Arguments that do not fit, of every executable: one line that says what would, and exit code 2.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .output()
        .expect("the executable starts")
}

/// What it said on standard error, which is one line and nothing on standard output.
fn complaint(name: &str, output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(output.stdout.is_empty(), "{said}");
    assert_eq!(said.matches(char::is_control).count(), 1, "{said:?}");
    assert!(said.starts_with(&format!("{name}: ")), "{said}");
    assert!(said.ends_with("; see --help\n"), "{said}");
    said
}

macro_rules! programs {
    ($($name:literal),*) => { [$(($name, env!(concat!("CARGO_BIN_EXE_", $name)))),*] };
}

const PROGRAMS: [(&str, &str); 9] = programs!(
    "steelyard-exec",
    "steelyard-probe",
    "steelyard-cache",
    "steelyard-load",
    "steelyard-rank",
    "steelyard-tax",
    "steelyard-agent",
    "steelyard-profile",
    "steelyard-top"
);

fn program(name: &str) -> &'static str {
    PROGRAMS
        .iter()
        .find(|(known, _)| *known == name)
        .expect("one of them")
        .1
}

#[test]
fn help_and_version_are_no_errors() {
    for (name, program) in PROGRAMS {
        let version = run(program, &["--version"]);
        assert_eq!(version.status.code(), Some(0), "{name}");
        let said = String::from_utf8_lossy(&version.stdout).into_owned();
        assert_eq!(said, format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
        let help = run(program, &["--help"]);
        assert_eq!(help.status.code(), Some(0), "{name}");
        assert!(help.stderr.is_empty(), "{name}");
        let said = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(said.contains(&format!("Usage: {name}")), "{said}");
    }
}

#[test]
fn an_unknown_flag_is_reported_in_one_line_by_every_program() {
    for (name, program) in PROGRAMS {
        let said = complaint(name, &run(program, &["--nosuch"]));
        assert!(said.contains("'--nosuch'"), "{said}");
    }
}

#[test]
fn what_was_meant_stands_in_the_same_line() {
    let target = ["--target", "127.0.0.1:1"];
    let load = |more: &[&'static str]| [&target[..], more].concat();
    let cases: [(&str, Vec<&str>, &str); 18] = [
        (
            "steelyard-load",
            vec![],
            "were not provided: --target <ADDR:PORT>",
        ),
        (
            "steelyard-load",
            load(&["--protocol", "memcahed"]),
            "[possible values: memcached, redis, http, thrift, cql]; tip: a similar value exists: 'memcached'",
        ),
        (
            "steelyard-load",
            vec!["--targt", "127.0.0.1:1"],
            "tip: a similar argument exists: '--target'",
        ),
        (
            "steelyard-load",
            load(&["--duration", "10"]),
            "\"10\" needs a unit: ns, us, ms, s, m or h",
        ),
        (
            "steelyard-load",
            load(&["--rate"]),
            "a value is required for '--rate <PER_SECOND>'",
        ),
        (
            "steelyard-load",
            vec!["capacity", "--target", "127.0.0.1:1"],
            "were not provided: --slo <TEXT>",
        ),
        (
            "steelyard-load",
            vec!["sweep", "--order", "none"],
            "[possible values: shuffled, ascending]",
        ),
        (
            "steelyard-load",
            vec!["capcity"],
            "\"capcity\" is not a URL such as http://127.0.0.1:8080/, nor capacity or sweep",
        ),
        (
            "steelyard-tax",
            vec![],
            "a command is needed: run, health, list; see",
        ),
        (
            "steelyard-tax",
            vec!["run", "--cores", "some"],
            "[possible values: one, all, both]",
        ),
        (
            "steelyard-tax",
            vec!["health", "--disk-engine", "x"],
            "[possible values: auto, built-in]",
        ),
        (
            "steelyard-rank",
            vec![],
            "a command is needed: root, leaf; see",
        ),
        (
            "steelyard-rank",
            vec!["leaf", "--no-tls", "--delay", "slow"],
            "'--delay <DELAY>'",
        ),
        (
            "steelyard-rank",
            vec!["root", "--no-tls"],
            "were not provided: --leaf <LEAVES>",
        ),
        (
            "steelyard-cache",
            vec!["--mode", "x\n\nFor more information"],
            "[possible values: read-through, look-aside]",
        ),
        (
            "steelyard-probe",
            vec!["record", "--out", "x", "--interval", "\u{1b}[1m"],
            "is not a duration such as 10ms or 2m",
        ),
        (
            "steelyard-probe",
            vec!["sources", "--json", "--markdown"],
            "cannot be used with",
        ),
        (
            "steelyard-exec",
            vec!["--cpus", "3-1", "--", "true"],
            "is not a CPU list such as 0-3,8",
        ),
    ];
    for (name, arguments, expected) in cases {
        let said = complaint(name, &run(program(name), &arguments));
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert!(!said.contains("Usage"), "{said}");
    }
}

#[test]
fn what_is_not_text_is_refused_without_a_panic() {
    for (name, program) in PROGRAMS {
        let output = Command::new(program)
            .arg("--output")
            .arg(OsStr::from_bytes(b"caf\xe9"))
            .output()
            .expect("starts");
        assert!(complaint(name, &output).contains("is not UTF-8"), "{name}");
    }
}

#[test]
fn a_commands_own_flags_and_errors_are_its_own() {
    let exec = program("steelyard-exec");
    // After the command's name everything is the command's, with `--` before it or not.
    for before in [&[][..], &["--"], &["--grace", "1s", "--"]] {
        let echo = [
            before,
            &["echo", "--nosuch", "--help", "--version", "--cpus"],
        ]
        .concat();
        let output = run(exec, &echo);
        assert_eq!(output.status.code(), Some(0), "{echo:?}");
        assert_eq!(output.stdout, b"--nosuch --help --version --cpus\n");
    }
    // A supervised program's complaint and code 2 pass through as they are.
    let load = program("steelyard-load");
    let output = run(exec, &["--", load, "--nosuch"]);
    assert!(complaint("steelyard-load", &output).contains("'--nosuch'"));
    let said = complaint("steelyard-exec", &run(exec, &["--nosuch", "--", "true"]));
    assert!(said.contains("unexpected argument '--nosuch'"), "{said}");
    let said = complaint("steelyard-exec", &run(exec, &["--die-with-parent"]));
    assert!(said.contains("were not provided: <COMMAND>"), "{said}");
}

/// A program, arguments that every call has, ones that fit, ones that do not, and the flag that is blamed.
type Case<'a> = (
    &'a str,
    &'a [&'a str],
    &'a [&'a str],
    &'a [&'a str],
    &'a str,
);

#[test]
fn a_check_judges_what_the_parser_cannot_and_does_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("output");
    let output = output.to_str().expect("text");
    // Nothing listens on port 1: a check that began the work would fail.
    let load = ["--check", "--target", "127.0.0.1:1", "--output", output];
    let capacity = [&["capacity"][..], &load].concat();
    let sweep = [&["sweep"][..], &load].concat();
    let leaf = ["leaf", "--check", "--tls-dir", output];
    let root = [
        "root",
        "--check",
        "--tls-dir",
        output,
        "--leaf",
        "127.0.0.1:1",
    ];
    let cache = ["--check", "--listen", "127.0.0.1:1", "--stats-out", output];
    let cases: [Case<'_>; 9] = [
        ("steelyard-load", &load, &[], &["--rate", "0"], "--rate"),
        (
            "steelyard-load",
            &load,
            &[],
            &["--arrival", "never"],
            "--arrival",
        ),
        (
            "steelyard-load",
            &load,
            &[],
            &["--key-distribution", "zipf:x"],
            "--key-distribution",
        ),
        (
            "steelyard-load",
            &capacity,
            &["--slo", "p99<=1ms"],
            &["--slo", "foo"],
            "--slo",
        ),
        (
            "steelyard-load",
            &capacity,
            &["--slo", "p99<=1ms"],
            &["--slo", "p99<=1ms", "--probes", "4"],
            "--probes",
        ),
        (
            "steelyard-load",
            &sweep,
            &[],
            &["--points", "1"],
            "--points",
        ),
        (
            "steelyard-rank",
            &leaf,
            &["--delay", "constant:1ms"],
            &["--delay", "x"],
            "--delay",
        ),
        (
            "steelyard-rank",
            &root,
            &[],
            &["--feature-functions", "0"],
            "--feature-functions",
        ),
        (
            "steelyard-cache",
            &cache,
            &[],
            &["--memory", "1kB"],
            "--memory",
        ),
    ];
    for (name, base, good, bad, expected) in cases {
        let fits = run(program(name), &[base, good].concat());
        let said = String::from_utf8_lossy(&fits.stderr).into_owned();
        assert_eq!(fits.status.code(), Some(0), "{base:?}: {said}");
        assert!(fits.stdout.is_empty() && said.is_empty(), "{said}");
        let refused = run(program(name), &[base, bad].concat());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{bad:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0);
}

/// A command of every executable that prints more than a line.
fn printing(folder: &std::path::Path) -> Vec<(&'static str, Vec<String>)> {
    let script = folder.join("script.txt");
    let sample = "app 1 [000] 1.0: 1 cycles:\n\t401000 main+0x0 (/bin/app)\n\n";
    std::fs::write(&script, sample).expect("the folder is writable");
    let own = std::process::id().to_string();
    let fold = ["fold", script.to_str().expect("it is UTF-8")];
    let commands: [(&str, &[&str]); 13] = [
        ("steelyard-agent", &["--help"]),
        ("steelyard-cache", &["--help"]),
        ("steelyard-exec", &["--help"]),
        ("steelyard-load", &["capacity", "--help"]),
        ("steelyard-probe", &["sources"]),
        ("steelyard-probe", &["sources", "--json"]),
        (
            "steelyard-probe",
            &["numa", "--pid", &own, "--duration", "0s"],
        ),
        ("steelyard-profile", &fold),
        ("steelyard-rank", &["--help"]),
        ("steelyard-tax", &["list"]),
        ("steelyard-tax", &["list", "--json"]),
        ("steelyard-top", &["--once", "--interval", "100ms"]),
        (
            "steelyard-top",
            &["--count", "999", "--interval", "100ms", "--json"],
        ),
    ];
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    commands.map(|(name, words)| (name, owned(words))).to_vec()
}

fn ends_with(name: &str, arguments: &[String], stdout: impl Into<Stdio>) -> (Option<i32>, String) {
    let ended = Command::new(program(name))
        .args(arguments)
        .stdout(stdout)
        .output()
        .expect("the executable starts");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    (ended.status.code(), said)
}

#[test]
fn every_executable_ends_with_0_when_its_reader_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, arguments) in printing(folder.path()) {
        let (reader, pipe) = std::io::pipe().expect("a pipe");
        let (other_end, socket) = UnixStream::pair().expect("a pair of sockets");
        drop((reader, other_end));
        for stdout in [OwnedFd::from(pipe), OwnedFd::from(socket)] {
            let ended = ends_with(name, &arguments, stdout);
            assert_eq!(ended, (Some(0), String::new()), "{name} {arguments:?}");
        }
    }
}

#[test]
fn a_full_disk_below_standard_output_is_a_failure_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, arguments) in printing(folder.path()) {
        // clap prints help, and ignores whether anybody gets it.
        if arguments.iter().any(|word| word == "--help") {
            continue;
        }
        let full = std::fs::File::options().write(true).open("/dev/full");
        let (code, said) = ends_with(name, &arguments, full.expect("Linux has it"));
        assert_eq!(code, Some(4), "{name} {arguments:?}: {said}");
        let why = "cannot write to standard output: No space left on device (os error 28)\n";
        assert_eq!(said, format!("{name}: {why}"), "{arguments:?}");
    }
}
