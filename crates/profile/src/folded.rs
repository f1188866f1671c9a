//! Folded stacks: one line a stack, `command;root;...;leaf COUNT`, after comment lines `# key: value`.
//!
//! A frame is the function, and ` [module]` where the module is known. The format is what flame graph tools
//! read; the comment lines are Steelyard's, and readers ignore keys that they do not know.
//!
//! In: a profile, and what to count. Out: text. Invariants: no name holds `;` or a control character; the head
//! says what counts are.

use std::io::{self, Write};

use crate::Profile;
use crate::names::printable;
use crate::stacks::Frame;

/// Writes `profile` to `out`, counted in samples.
pub fn write(profile: &Profile, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    write_weighted(profile, false, out)
}

/// Writes `profile` to `out`, counted in samples or, `by_period`, in occurrences of the event.
pub fn write_weighted(
    profile: &Profile,
    by_period: bool,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    write_head(profile, by_period, out)?;
    // Each frame is put together once, not once for each stack that it is in.
    let texts: Vec<String> = profile.frames.frames().iter().map(text).collect();
    let mut line = Vec::with_capacity(4096);
    for stack in profile.stacks() {
        let count = if by_period { stack.weight } else { stack.count };
        // A stack whose samples have no period weighs nothing.
        if count == 0 {
            continue;
        }
        line.clear();
        let (&command, frames) = stack.numbers.split_first().unwrap_or((&0, &[]));
        line.extend_from_slice(texts[command as usize].as_bytes());
        for &frame in frames.iter().rev() {
            line.push(b';');
            line.extend_from_slice(texts[frame as usize].as_bytes());
        }
        writeln!(line, " {count}")?;
        out.write_all(&line)?;
    }
    out.flush()
}

fn text(frame: &Frame) -> String {
    if frame.module.is_empty() {
        frame.name.to_string()
    } else {
        format!("{} [{}]", frame.name, frame.module)
    }
}

fn write_head(
    profile: &Profile,
    by_period: bool,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    let head = &profile.head;
    let mut line = |key: &str, value: String| writeln!(out, "# {key}: {}", printable(&value));
    let samples = || head.unit.clone().unwrap_or_else(|| "samples".to_owned());
    if by_period {
        line("unit", profile.period_unit().to_owned())?;
        line("samples", profile.stacks.samples().to_string())?;
    } else {
        line("unit", samples())?;
    }
    if let Some(event) = &head.event {
        line("event", event.clone())?;
    }
    if let Some(hz) = head.hz {
        line("hz", hz.to_string())?;
    }
    if let Some(duration_s) = head.duration_s {
        line("duration_s", format!("{duration_s:.3}"))?;
    }
    for (key, value) in [
        ("lost", head.lost),
        ("idle", head.idle),
        ("user_stacks", head.user_stacks),
        ("cut_stacks", head.cut_stacks),
        ("cpus", head.cpus),
    ] {
        if let Some(value) = value {
            line(key, value.to_string())?;
        }
    }
    if let Some(scope) = &head.scope {
        line("scope", scope.clone())?;
    }
    for (key, value) in [
        ("recorder_cpu_s", head.recorder_cpu_s),
        ("naming_cpu_s", head.naming_cpu_s),
    ] {
        if let Some(cpu_s) = value {
            line(key, format!("{cpu_s:.4}"))?;
        }
    }
    for reason in &head.reasons {
        line("reason", reason.clone())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_written_from_the_root_to_the_leaf() {
        let mut profile = Profile::default();
        profile.set_event("cpu-clock");
        profile.head.lost = Some(3);
        profile.reduced("no kernel symbols:\nkptr_restrict");
        let command = profile.frames.intern("my prog", "");
        let root = profile.frames.intern("main", "prog");
        let leaf = profile.frames.intern("[unknown]", "libfoo.so");
        profile.add(&[command, leaf, root], 1);
        profile.add(&[command, leaf, root], 1);
        profile.add(&[command], 1);
        let mut out = Vec::new();
        write(&profile, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "# unit: samples\n# event: cpu-clock\n# lost: 3\n\
             # reason: no kernel symbols:\\x0akptr_restrict\n\
             my prog;main [prog];[unknown] [libfoo.so] 2\nmy prog 1\n"
        );
    }

    #[test]
    fn counts_are_samples_or_occurrences_as_asked() {
        let mut profile = Profile::default();
        profile.set_event("cycles");
        let command = profile.frames.intern("prog", "");
        let leaf = profile.frames.intern("main", "prog");
        profile.add(&[command, leaf], 1);
        profile.add(&[command, leaf], 1_000_000);
        profile.add(&[command], 4);
        let text = |by_period| {
            let mut out = Vec::new();
            write_weighted(&profile, by_period, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            text(true),
            "# unit: cycles\n# samples: 3\n# event: cycles\nprog;main [prog] 1000001\nprog 4\n"
        );
        assert_eq!(
            text(false),
            "# unit: samples\n# event: cycles\nprog;main [prog] 2\nprog 1\n"
        );
    }
}
