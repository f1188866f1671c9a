//! Man pages and shell completions of a program, generated from the declarations of its flags.
//!
//! Every executable writes its own with `--generate-docs DIR`, where packages put them (`DIR/share/man/man1/...`).
//! They are not kept in the repository, so that they cannot differ from the flags.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;

const FLAG: &str = "--generate-docs";

/// Where completions of a shell are looked for below a prefix such as `/usr`, and how the file is named.
fn place(shell: Shell, program: &str) -> Option<(&'static str, String)> {
    match shell {
        Shell::Bash => Some(("share/bash-completion/completions", program.to_owned())),
        Shell::Zsh => Some(("share/zsh/site-functions", format!("_{program}"))),
        Shell::Fish => Some(("share/fish/vendor_completions.d", format!("{program}.fish"))),
        _ => None,
    }
}

/// Fails unless every command in `command` has two examples or more that `program` understands.
fn check_examples(program: &Command, command: &Command) -> io::Result<()> {
    let mut commands = command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set());
    commands.try_for_each(|inner| check_examples(program, inner))?;
    if command.is_subcommand_required_set() {
        return Ok(());
    }
    let text = command.get_after_help().map(ToString::to_string);
    let text = text.unwrap_or_default();
    let examples: Vec<&str> = text.lines().skip(1).collect();
    if examples.len() < 2 {
        let name = command.get_name();
        return Err(io::Error::other(format!(
            "{name} has fewer than two examples"
        )));
    }
    for example in examples {
        let unquoted = example.replace('\'', "");
        let parsed = program
            .clone()
            .try_get_matches_from(unquoted.split_whitespace());
        parsed.map_err(|error| io::Error::other(format!("{example}: {error}")))?;
    }
    Ok(())
}

/// Writes the man pages and completions of `command` below `folder`.
fn write(command: &Command, folder: &Path) -> io::Result<()> {
    check_examples(command, command)?;
    let mut command = command.clone();
    let pages = folder.join("share/man/man1");
    fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(command.clone(), &pages)?;
    let program = command.get_name().to_owned();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let Some((place, name)) = place(shell, &program) else {
            continue;
        };
        let place = folder.join(place);
        fs::create_dir_all(&place)?;
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, &program, &mut script);
        fs::write(place.join(name), script)?;
    }
    Ok(())
}

/// Writes them and ends the process, where the command line is `--generate-docs DIR`.
pub(crate) fn write_if_asked(command: &Command) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [flag, folder] = arguments.as_slice() else {
        return;
    };
    if flag != FLAG {
        return;
    }
    if let Err(error) = write(command, Path::new(folder)) {
        eprintln!("{}: {folder}: {error}", command.get_name());
        std::process::exit(4);
    }
    std::process::exit(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_completions_name_every_flag_of_every_command() {
        let command = Command::new("steelyard-sample")
            .about("Take a sample")
            .after_help(crate::examples!(
                "steelyard-sample",
                "steelyard-sample --rate 9"
            ))
            .arg(
                clap::Arg::new("rate")
                    .long("rate")
                    .help("Requests per second"),
            )
            .subcommand(
                Command::new("sweep")
                    .after_help(crate::examples!(
                        "steelyard-sample sweep",
                        "steelyard-sample sweep --steps 3"
                    ))
                    .arg(clap::Arg::new("steps").long("steps").help("How many")),
            );
        let folder = tempfile::tempdir().unwrap();
        write(&command, folder.path()).unwrap();
        let read = |path: &str| fs::read_to_string(folder.path().join("share").join(path)).unwrap();
        assert!(read("man/man1/steelyard-sample.1").contains("Requests per second"));
        assert!(read("man/man1/steelyard-sample-sweep.1").contains("How many"));
        assert!(read("man/man1/steelyard-sample.1").contains("\\-\\-rate 9"));
        let odd = command.after_help("Examples:\n  steelyard-sample\n  steelyard-sample --odd");
        assert!(write(&odd, folder.path()).is_err());
        for path in [
            "bash-completion/completions/steelyard-sample",
            "zsh/site-functions/_steelyard-sample",
            "fish/vendor_completions.d/steelyard-sample.fish",
        ] {
            let script = read(path);
            assert!(
                script.contains("rate") && script.contains("steps"),
                "{path}"
            );
        }
    }
}
