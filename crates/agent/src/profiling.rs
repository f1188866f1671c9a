//! Profiles of randomly chosen minutes, by task.
//!
//! Which minutes: a hash of machine, minute and seed, below the share that is wanted. No machine knows of another, and a
//! fleet's profiled machine-minutes are spread evenly all the same.
//!
//! In: tasks and the kernel's samples of all CPUs. Out: `profiles` rows, a folded stack each, with the names that the
//! machine's own files give; what they do not name is written as `0xOFFSET [module@BUILDID]`, for the store's `symbols`.
//! Names are given here because most files of a fleet have symbols, a name is shorter than an offset with a build id, and
//! a stack's text is then whole without a second table; what is stripped keeps what is needed to name it later.
//!
//! A minute is profiled by a process of its own (`steelyard-agent profile`), so that the memory that names need is given
//! back, and nothing that goes wrong with them touches the samples of tasks.
//!
//! Not here: sampling (`profile`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ring::digest;
use steelyard_kernel::Tree;
use steelyard_profile::record::{CallGraph, Scope, Settings, Spaces, record_labelled};
use steelyard_profile::{Profile, ProfileError, WeightUnit};

use crate::rows::{ProfileRow, Task};
use steelyard_kernel::cgroup::{Hierarchies, group_of};

/// The job and task of samples that are no task's.
pub const NOBODY: &str = "[system]";

/// Parts the number of a task from the command; a letter that names never hold.
const LABEL_END: char = '\u{fdd0}';

/// Whether a minute (minutes since 1970) is profiled on a machine.
pub fn is_chosen(machine: &str, minute: i64, seed: u64, ratio: f64) -> bool {
    let text = format!("{machine}\n{minute}\n{seed}");
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    let first = hash.as_ref()[..8].try_into().expect("a hash has 32 bytes");
    // 53 bits, as many as a number from 0 to 1 has.
    let share = (u64::from_le_bytes(first) >> 11) as f64 / (1_u64 << 53) as f64;
    share < ratio
}

/// Tells which task a process is of.
pub struct Attribution {
    tree: Tree,
    controller: &'static str,
    tasks: Vec<Arc<Task>>,
    by_pid: HashMap<u32, Option<usize>>,
}

impl Attribution {
    /// Attributes processes of `tree` to `tasks`.
    pub fn new(tree: &Tree, hierarchies: &Hierarchies, tasks: Vec<Arc<Task>>) -> Self {
        Self {
            tree: tree.clone(),
            controller: if hierarchies.version() == Some(1) {
                "cpuacct"
            } else {
                ""
            },
            tasks,
            by_pid: HashMap::new(),
        }
    }

    /// The number of the task that a process is of; None where it is of none, or has ended unseen.
    pub fn task_of(&mut self, pid: u32) -> Option<usize> {
        if let Some(known) = self.by_pid.get(&pid) {
            return *known;
        }
        let text = self
            .tree
            .text(format!("proc/{pid}/cgroup"))
            .unwrap_or_default();
        let found = group_of(&text, self.controller).and_then(|path| {
            let inside = |task: &Arc<Task>| {
                let rest = path.strip_prefix(task.cgroup.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            self.tasks.iter().position(inside)
        });
        self.by_pid.insert(pid, found);
        found
    }

    /// Looks at all processes there are, so that those that end soon are known.
    pub fn look(&mut self) {
        for pid in self.tree.ids("proc") {
            self.task_of(pid);
        }
    }
}

/// What to profile.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// For how long.
    pub duration: Duration,
    /// Samples a second of each busy CPU.
    pub hz: u32,
    /// Maximum number of stacks.
    pub max_stacks: usize,
    /// Share of machine-minutes that are profiled.
    pub sampled_ratio: f64,
    /// When the window begins.
    pub start_unix_s: i64,
}

/// Profiles this machine now.
pub fn profile(
    wanted: &Wanted,
    mut attribution: Attribution,
) -> Result<Vec<ProfileRow>, ProfileError> {
    let settings = Settings {
        scope: Scope::All,
        descendants_of: None,
        plain_commands: false,
        event: None,
        hz: wanted.hz,
        duration: Some(wanted.duration),
        call_graph: CallGraph::FramePointers,
        with_idle: false,
        interpreted: false,
        lines: false,
        keeps_times: false,
        command: Vec::new(),
    };
    attribution.look();
    let tasks = attribution.tasks.clone();
    let label = move |pid, _: &Spaces| {
        // The idle loop is recognized by its command.
        (pid != 0).then(|| {
            let task = attribution.task_of(pid);
            let number = task.map_or_else(String::new, |number| number.to_string());
            format!("{number}{LABEL_END}")
        })
    };
    let recorded = record_labelled(&settings, Some(Box::new(label)))?;
    Ok(rows(&recorded.profile, &tasks, wanted))
}

/// The rows of a profile whose commands have the numbers of tasks before them.
pub fn rows(profile: &Profile, tasks: &[Arc<Task>], wanted: &Wanted) -> Vec<ProfileRow> {
    let frames = profile.frames.frames();
    let texts: Vec<String> = frames
        .iter()
        .map(|frame| match frame.module.is_empty() {
            true => frame.name.to_string(),
            false => format!("{} [{}]", frame.name, frame.module),
        })
        .collect();
    let event = profile
        .head
        .event
        .clone()
        .unwrap_or_else(|| "unknown".to_owned());
    let hz = profile.head.hz.unwrap_or(f64::from(wanted.hz));
    let window_s = profile
        .head
        .duration_s
        .unwrap_or(wanted.duration.as_secs_f64());
    let mut rows: Vec<ProfileRow> = profile
        .stacks()
        .map(|stack| {
            let (command, frames) = stack
                .numbers
                .split_first()
                .map_or(("", &[][..]), |(command, frames)| {
                    (texts[*command as usize].as_str(), frames)
                });
            let (label, command) = command.split_once(LABEL_END).unwrap_or(("", command));
            let task = label
                .parse::<usize>()
                .ok()
                .and_then(|number| tasks.get(number));
            let mut text = command.to_owned();
            for frame in frames.iter().rev() {
                text.push(';');
                text.push_str(&texts[*frame as usize]);
            }
            let weight = match profile.weight_unit {
                WeightUnit::None => stack.count as f64 * 1e9 / hz,
                WeightUnit::Nanoseconds | WeightUnit::Events => stack.weight as f64,
            };
            ProfileRow {
                job: task.map_or_else(|| NOBODY.to_owned(), |task| task.job.clone()),
                task: task.map_or_else(|| NOBODY.to_owned(), |task| task.task.clone()),
                window_start_unix_s: wanted.start_unix_s,
                window_s,
                event: event.clone(),
                hz,
                stack: text,
                samples: stack.count as i64,
                weight,
                sampled_ratio: wanted.sampled_ratio,
            }
        })
        .collect();
    // The most frequent first, so that a bound cuts the rarest off; the order is that of the text where it is open.
    rows.sort_by(|one, other| {
        other
            .samples
            .cmp(&one.samples)
            .then_with(|| (&one.task, &one.stack).cmp(&(&other.task, &other.stack)))
    });
    rows.truncate(wanted.max_stacks);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{JobClass, Labels};

    #[test]
    fn minutes_are_chosen_as_often_as_wanted_and_by_machine() {
        let chosen = |machine: &str, seed| {
            (0..20_000)
                .filter(|minute| is_chosen(machine, *minute, seed, 0.1))
                .collect::<Vec<i64>>()
        };
        let (one, other, seeded) = (chosen("a", 0), chosen("b", 0), chosen("a", 1));
        for minutes in [&one, &other, &seeded] {
            // 2000 expected; five standard deviations of a binomial are 212.
            assert!(minutes.len().abs_diff(2000) < 212, "{}", minutes.len());
        }
        let common = one.iter().filter(|minute| other.contains(minute)).count();
        assert!(common.abs_diff(200) < 75, "{common}");
        assert_ne!(one, seeded);
        assert!(
            (0..100)
                .all(|minute| is_chosen("a", minute, 0, 1.0) && !is_chosen("a", minute, 0, 0.0))
        );
    }

    #[test]
    fn processes_are_attributed_by_their_group() {
        let folder = tempfile::tempdir().unwrap();
        for (pid, text) in [
            (5, "4:memory:/x\n3:cpu,cpuacct:/web/inner\n0::/\n"),
            (6, "3:cpuacct:/webber\n"),
            (7, "0::/web\n"),
        ] {
            let path = folder.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("cgroup"), text).unwrap();
        }
        let task = Arc::new(Task {
            job: "web".to_owned(),
            task: "web/1".to_owned(),
            job_class: JobClass::Batch,
            labels: Labels::new(),
            cgroup: "/web".to_owned(),
        });
        let tree = Tree::new(folder.path());
        let one = Hierarchies::parse(b"c /c cgroup rw,cpuacct 0 0\n");
        let mut attribution = Attribution::new(&tree, &one, vec![Arc::clone(&task)]);
        assert_eq!(
            [5, 6, 7, 99].map(|pid| attribution.task_of(pid)),
            [Some(0), None, None, None]
        );
        let two = Hierarchies::parse(b"c /c cgroup2 rw 0 0\n");
        let mut attribution = Attribution::new(&tree, &two, vec![task]);
        assert_eq!([5, 7].map(|pid| attribution.task_of(pid)), [None, Some(0)]);
    }

    #[test]
    fn stacks_become_rows_of_their_tasks() {
        let task = Arc::new(Task {
            job: "web".to_owned(),
            task: "web/1".to_owned(),
            job_class: JobClass::Batch,
            labels: Labels::new(),
            cgroup: "/web".to_owned(),
        });
        let mut profile = Profile::default();
        profile.set_event("cpu-clock");
        let own = profile.frames.intern(&format!("0{LABEL_END}nginx"), "");
        let other = profile.frames.intern(&format!("{LABEL_END}kthread"), "");
        let main = profile.frames.intern("main", "nginx");
        let odd = profile.frames.intern("0x1f0", "libx.so@ab12");
        for _ in 0..3 {
            profile.add(&[own, odd, main], 20);
        }
        profile.add(&[other], 10);
        let wanted = Wanted {
            duration: Duration::from_secs(50),
            hz: 49,
            max_stacks: 10,
            sampled_ratio: 0.25,
            start_unix_s: 60,
        };
        let found = rows(&profile, &[task], &wanted);
        assert_eq!(
            (found[0].job.as_str(), found[0].samples, found[0].weight),
            ("web", 3, 60.0)
        );
        assert_eq!(found[0].stack, "nginx;main [nginx];0x1f0 [libx.so@ab12]");
        assert_eq!(
            (found[1].task.as_str(), found[1].stack.as_str()),
            (NOBODY, "kthread")
        );
        let bounded = Wanted {
            max_stacks: 1,
            ..wanted
        };
        assert_eq!(rows(&profile, &[], &bounded).len(), 1);
    }
}
