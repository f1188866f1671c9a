//! Whose work is counted: everybody's, each CPU's, processes', control groups'.
//!
//! In: a scope and targets as the command line names them. Out: entities, one for each name in the table,
//! with what the kernel is asked for.

use std::fs::File;
use std::path::{Path, PathBuf};

use steelyard_kernel::Tree;
use steelyard_kernel::cgroup::Hierarchies;

use super::pmu::{Pmu, Reach};
use super::set::CounterSettings;

/// Whose work is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Everybody's, all CPUs added up.
    System,
    /// Everybody's, each CPU for itself.
    Cpu,
    /// That of processes and of those they make.
    Process,
    /// That of the members of control groups and of the groups below.
    Cgroup,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::System, Self::Cpu, Self::Process, Self::Cgroup];

    /// The word for it in the table and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Cpu => "cpu",
            Self::Process => "process",
            Self::Cgroup => "cgroup",
        }
    }
}

/// What is counted under one name.
#[derive(Debug)]
pub struct Entity {
    /// The name in the table.
    pub name: String,
    /// What the kernel is asked for.
    pub subject: Subject,
}

/// What the kernel is asked for.
#[derive(Debug)]
pub enum Subject {
    /// All CPUs.
    Cpus,
    /// One CPU.
    Cpu(u32),
    /// A process: its threads now, and what they make later.
    Process(u32),
    /// What the calling thread executes next, in a process of its own.
    NextCommand,
    /// The calling thread.
    Own,
    /// A control group's folder.
    Cgroup(File),
}

/// The CPUs of `subject` on which `pmu` is opened; empty for threads, which are followed.
pub fn cpus(subject: &Subject, pmu: &Pmu, online: &[u32]) -> Vec<u32> {
    let all: Vec<u32> = match &pmu.reach {
        Reach::Everywhere => online.to_vec(),
        Reach::Cores(cpus) | Reach::Machine(cpus) => cpus
            .iter()
            .copied()
            .filter(|cpu| online.contains(cpu))
            .collect(),
    };
    match subject {
        Subject::Cpus | Subject::Cgroup(_) => all,
        Subject::Cpu(cpu) => all.into_iter().filter(|known| known == cpu).collect(),
        Subject::Process(_) | Subject::NextCommand | Subject::Own => Vec::new(),
    }
}

/// A target that cannot be counted: its name and the reason.
pub type Refused = (String, String);

/// The entities of `scope`, of those targets that it concerns.
pub fn entities(
    scope: Scope,
    settings: &CounterSettings,
    tree: &Tree,
    online: &[u32],
) -> (Vec<Entity>, Vec<Refused>) {
    let whole = |name: String, subject| Entity { name, subject };
    let targets = &settings.targets;
    match scope {
        Scope::System => (vec![whole(String::new(), Subject::Cpus)], Vec::new()),
        Scope::Cpu => {
            let cpus = online.iter();
            let each = cpus.map(|cpu| whole(format!("cpu{cpu}"), Subject::Cpu(*cpu)));
            (each.collect(), Vec::new())
        }
        Scope::Process => {
            let pids: Vec<u32> = targets
                .iter()
                .filter_map(|target| target.parse().ok())
                .collect();
            if pids.is_empty() {
                let (name, subject) = match settings.command {
                    true => ("command", Subject::NextCommand),
                    false => ("self", Subject::Own),
                };
                return (vec![whole(name.to_owned(), subject)], Vec::new());
            }
            let each = pids
                .iter()
                .map(|pid| whole(pid.to_string(), Subject::Process(*pid)));
            (each.collect(), Vec::new())
        }
        Scope::Cgroup => cgroups(targets, tree),
    }
}

/// Whether a target is a process id or a control group.
pub fn is_pid(target: &str) -> bool {
    target.parse::<u32>().is_ok_and(|pid| pid > 0)
}

fn cgroups(targets: &[String], tree: &Tree) -> (Vec<Entity>, Vec<Refused>) {
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    let mounted = Hierarchies::of(tree);
    let mount = hierarchy(&mounted);
    for target in targets.iter().filter(|target| !is_pid(target)) {
        let label = format!("control group {target}");
        let Some(mount) = mount else {
            refused.push((
                label,
                "neither a cgroup2 nor a perf_event hierarchy is mounted: mount -t cgroup2 none DIR".to_owned(),
            ));
            continue;
        };
        let name = group_name(target, mount);
        if Path::new(&name)
            .components()
            .any(|part| part.as_os_str() == "..")
        {
            refused.push((label, "a name with .. in it".to_owned()));
            continue;
        }
        let path = tree.path(mount).join(name.trim_start_matches('/'));
        match File::open(&path) {
            Ok(folder) => found.push(Entity {
                name,
                subject: Subject::Cgroup(folder),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => refused.push((
                label,
                format!(
                    "{} does not exist: counters use only this hierarchy",
                    path.display()
                ),
            )),
            Err(error) => refused.push((label, format!("{}: {error}", path.display()))),
        }
    }
    (found, refused)
}

/// The group's path in its hierarchy, as the table of control groups names it too, where the whole path of its
/// folder was given.
fn group_name(target: &str, mount: &Path) -> String {
    let below = Path::new(target.trim_start_matches('/')).strip_prefix(mount);
    below.map_or_else(
        |_| format!("/{}", target.trim_matches('/')),
        |below| format!("/{}", below.display()),
    )
}

/// Where the hierarchy that perf_event belongs to is mounted, relative to the root: a version 1 hierarchy that
/// has it, else version 2, where it is always present. Source: cgroup-v2.rst, `perf_event`.
fn hierarchy(mounted: &Hierarchies) -> Option<&PathBuf> {
    mounted.controller("perf_event").or(mounted.unified())
}

/// The threads of a process, in order; empty when it has ended.
pub fn threads(tree: &Tree, pid: u32) -> Vec<u32> {
    let names = tree.names(format!("proc/{pid}/task"));
    let mut threads: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    threads.sort_unstable();
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_of_perf_event_is_its_own_or_the_unified_one() {
        let found = |mounts: &[u8]| hierarchy(&Hierarchies::parse(mounts)).cloned();
        let both = b"cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                     cgroup /sys/fs/cgroup/perf cgroup rw,perf_event 0 0\n";
        assert_eq!(found(both), Some(PathBuf::from("sys/fs/cgroup/perf")));
        let unified = b"cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(found(unified), Some(PathBuf::from("sys/fs/cgroup/unified")));
        assert_eq!(
            found(b"cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n"),
            None
        );
    }

    #[test]
    fn a_group_has_one_name_however_it_is_given() {
        let mount = Path::new("sys/fs/cgroup");
        for given in ["/a/b", "a/b", "/sys/fs/cgroup/a/b", "/a/b/"] {
            assert_eq!(group_name(given, mount), "/a/b", "{given}");
        }
        assert_eq!(group_name("/", mount), "/");
        assert_eq!(group_name("/sys/fs/cgroup", mount), "/");
    }
}
