//! Functions of Python programs have names in profiles: a real interpreter sampled.

use std::process::Command;

use super::support::{counts, is_refused, profile, stderr};

/// Works in two functions for a time of its own CPU each, and prints both times.
const SCRIPT: &str = "
import sys, time
def spends(seconds):
    begin = time.process_time()
    total = 0
    while time.process_time() - begin < seconds:
        for value in range(1000):
            total += value * value
    return time.process_time() - begin
def hot():
    return spends(1.0)
def cold():
    return sum(spends(0.05) for _ in range(8))
print(hot(), cold())
";

#[test]
fn functions_of_python_have_names_and_their_shares() {
    let version = Command::new("python3")
        .args([
            "-c",
            "import sys; print(sys.implementation.name, sys.version_info[1])",
        ])
        .output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let known = ["9", "10", "11", "12", "13"].map(|minor| format!("cpython {minor}\n"));
    if !version
        .as_ref()
        .is_ok_and(|version| known.contains(version))
    {
        eprintln!("skipped: no CPython 3.9 to 3.13 here: {version:?}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (script, folded) = (
        folder.path().join("script.py"),
        folder.path().join("x.folded"),
    );
    std::fs::write(&script, SCRIPT).expect("a file");
    let output = profile()
        .args(["record", "--hz", "499", "--folded"])
        .arg(&folded)
        .args(["--", "python3"])
        .arg(&script)
        .output()
        .expect("it runs");
    if is_refused(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = std::fs::read_to_string(&folded).expect("folded stacks");
    let counts = counts(&text);
    let among = |name: &str| {
        let name = format!("py::{name}:{}", script.display());
        let found = counts.iter().filter(|(stack, _)| stack.contains(&name));
        found.map(|(_, count)| count).sum::<u64>() as f64
    };
    let (hot, cold, all) = (among("hot"), among("cold"), among("<module>"));
    assert!(all >= 30.0 && hot + cold > 0.8 * all, "{text}");
    // The times that the program itself spent in both.
    let spent = String::from_utf8_lossy(&output.stdout);
    let spent: Vec<f64> = spent
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let expected = spent[0] / (spent[0] + spent[1]);
    let share = hot / (hot + cold);
    let error = (expected * (1.0 - expected) / (hot + cold)).sqrt();
    // Half of the 0.4 s of `cold` may pass unseen before the interpreter is found, and chance has five sigmas.
    assert!(
        (share - expected).abs() < 0.15 + 5.0 * error,
        "{share} {expected}\n{text}"
    );
    // What the interpreter does for a function stands inside of it.
    let inside = |stack: &&String| stack.contains("py::spends:") && !stack.ends_with(".py");
    assert!(counts.keys().any(|stack| inside(&stack)), "{text}");
    let native = profile()
        .args(["record", "--native", "--folded"])
        .arg(&folded)
        .args(["--", "python3", "-c", "sum(i * i for i in range(3000000))"])
        .output()
        .expect("it runs");
    assert_eq!(native.status.code(), Some(0), "{}", stderr(&native));
    assert!(
        !std::fs::read_to_string(&folded)
            .expect("stacks")
            .contains("py::")
    );
}
