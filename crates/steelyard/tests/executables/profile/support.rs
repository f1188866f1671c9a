//! What tests of `steelyard-profile` share: its command, and its folded output read back.

use std::collections::BTreeMap;
use std::process::{Command, Output};

pub fn profile() -> Command {
    Command::new(env!("CARGO_BIN_EXE_steelyard-profile"))
}

/// Folded lines without the comments, by stack.
pub fn counts(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (stack, count) = line.rsplit_once(' ').expect("a count");
            (stack.to_owned(), count.parse().expect("a number"))
        })
        .collect()
}

/// The value of a comment line, such as `# samples: 12`.
pub fn key(text: &str, key: &str) -> Option<String> {
    let prefix = format!("# {key}: ");
    text.lines()
        .find_map(|line| line.strip_prefix(&prefix))
        .map(str::to_owned)
}

/// Standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether sampling is refused here; a test that needs it then prints why and ends.
pub fn is_refused(output: &Output) -> bool {
    let refused = output.status.code() == Some(3) && stderr(output).contains("cannot sample");
    if refused {
        eprintln!("skipped: {}", stderr(output));
    }
    refused
}
