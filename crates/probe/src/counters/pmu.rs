//! The PMUs of a machine, from `/sys/bus/event_source/devices`.
//!
//! In: a tree and the name that a plan uses. Out: the instances of that name, each with its type, formats and
//! the CPUs that its events are opened on.
//!
//! Not here: whether the kernel lets anybody count with them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::format::{Format, Words, parse_event, words};
use crate::sources::watched::{label, number};
use steelyard_kernel::{Tree, cpu_list};

const DEVICES: &str = "sys/bus/event_source/devices";

/// The kernel's own types. Source: perf_event_open(2), `type`.
const GENERIC: [(&str, u32); 4] = [
    ("hardware", 0),
    ("software", 1),
    ("tracepoint", 2),
    ("hw-cache", 3),
];

/// The type of software events.
pub const SOFTWARE: u32 = 1;

/// Which CPUs a PMU's events are opened on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Every CPU has one.
    Everywhere,
    /// These CPUs have one, the cores of one kind of a hybrid machine.
    Cores(Vec<u32>),
    /// It belongs to no core: these CPUs, one a package or a die, speak for it, and it cannot tell whose work
    /// it counts.
    Machine(Vec<u32>),
}

/// One PMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pmu {
    /// Its folder's name, or the kernel's own type.
    pub name: String,
    /// `type` of its events.
    pub type_: u32,
    /// Added to the config of its events: the kernel's own hardware events on one kind of core.
    pub extended: u64,
    /// Where its events are opened.
    pub reach: Reach,
    formats: BTreeMap<String, Format>,
    directory: Option<PathBuf>,
}

impl Pmu {
    fn generic(name: &str, type_: u32) -> Self {
        Self {
            name: name.to_owned(),
            type_,
            extended: 0,
            reach: Reach::Everywhere,
            formats: BTreeMap::new(),
            directory: None,
        }
    }

    fn open(tree: &Tree, name: &str) -> Result<Self, String> {
        let directory = Path::new(DEVICES).join(name);
        let type_ = number(tree, directory.join("type"))
            .and_then(|type_| u32::try_from(type_).ok())
            .ok_or_else(|| format!("the type of PMU {name} cannot be read"))?;
        let list = |file: &str| {
            let text = label(tree, directory.join(file))?;
            Some(cpu_list::parse(text.as_bytes()).unwrap_or_default())
        };
        let reach = match (list("cpus"), list("cpumask")) {
            (Some(cpus), _) => Reach::Cores(cpus),
            (None, Some(cpus)) => Reach::Machine(cpus),
            (None, None) => Reach::Everywhere,
        };
        let formats = tree
            .names(directory.join("format"))
            .into_iter()
            .filter_map(|term| {
                let text = label(tree, directory.join("format").join(&term))?;
                Some((term, Format::parse(&text)?))
            })
            .collect();
        Ok(Self {
            name: name.to_owned(),
            type_,
            extended: 0,
            reach,
            formats,
            directory: Some(directory),
        })
    }

    /// The words of an event of this PMU. Without terms it is the one that the kernel calls `name`.
    pub fn words(
        &self,
        tree: &Tree,
        name: &str,
        terms: &BTreeMap<String, u64>,
    ) -> Result<Words, String> {
        let mut found = if terms.is_empty() {
            let listed = self.listed(tree, name)?;
            words(
                listed.iter().map(|(term, value)| (term.as_str(), *value)),
                &self.formats,
            )?
        } else {
            if self.directory.is_none() && terms.keys().any(|term| term != "config") {
                return Err(format!(
                    "an event of {} has only the term config",
                    self.name
                ));
            }
            words(
                terms.iter().map(|(term, value)| (term.as_str(), *value)),
                &self.formats,
            )?
        };
        found[0] |= self.extended;
        Ok(found)
    }

    fn listed(&self, tree: &Tree, name: &str) -> Result<Vec<(String, u64)>, String> {
        let none = || format!("PMU {} has no event {name}", self.name);
        // A name with a slash would lead out of the folder.
        let directory = self
            .directory
            .as_ref()
            .filter(|_| !name.contains('/'))
            .ok_or_else(none)?;
        let text = label(tree, directory.join("events").join(name)).ok_or_else(none)?;
        parse_event(&text)
    }
}

/// The PMUs that a plan calls `name`, at least one, or why there is none.
pub fn find(tree: &Tree, name: &str) -> Result<Vec<Pmu>, String> {
    let folders = tree.names(DEVICES);
    if let Some((_, type_)) = GENERIC.iter().find(|(generic, _)| *generic == name) {
        return Ok(generic(tree, name, *type_, &folders));
    }
    let mut named: Vec<&String> = folders.iter().filter(|folder| *folder == name).collect();
    if named.is_empty() {
        named = folders
            .iter()
            .filter(|folder| is_instance(folder, name))
            .collect();
        named.sort_by_key(|folder| (folder.len(), (*folder).clone()));
    }
    if named.is_empty() && name == "cpu" {
        named = core_folders(tree, &folders);
        // Which of a hybrid machine's kinds of core is meant, nobody said.
        named.truncate(if named.len() > 1 { 0 } else { 1 });
    }
    if named.is_empty() {
        return Err(match folders.as_slice() {
            [] => format!(
                "there is no PMU {name} here: {} is empty",
                tree.path(DEVICES).display()
            ),
            _ => format!(
                "there is no PMU {name} here; there are {}",
                folders.join(", ")
            ),
        });
    }
    named
        .into_iter()
        .map(|folder| Pmu::open(tree, folder))
        .collect()
}

/// The kernel's own types. Hardware events name a kind of core where there are several, in the upper half of
/// their config; without it the kernel counts on one kind only. Source: perf_event_open(2), extended types.
fn generic(tree: &Tree, name: &str, type_: u32, folders: &[String]) -> Vec<Pmu> {
    let hardware = matches!(name, "hardware" | "hw-cache");
    let cores = if hardware {
        core_folders(tree, folders)
    } else {
        Vec::new()
    };
    if cores.len() < 2 {
        return vec![Pmu::generic(name, type_)];
    }
    cores
        .into_iter()
        .filter_map(|folder| Pmu::open(tree, folder).ok())
        .map(|core| Pmu {
            name: core.name,
            extended: u64::from(core.type_) << 32,
            reach: core.reach,
            ..Pmu::generic(name, type_)
        })
        .collect()
}

/// PMUs of one kind of core each.
fn core_folders<'f>(tree: &Tree, folders: &'f [String]) -> Vec<&'f String> {
    folders
        .iter()
        .filter(|folder| label(tree, Path::new(DEVICES).join(folder).join("cpus")).is_some())
        .collect()
}

/// Whether `folder` is `name` with a number, as the kernel calls PMUs alike: `uncore_imc_0`, `amd_umc_11`,
/// `arm_cmn_0`, or with an address of at least three hexadecimal digits.
fn is_instance(folder: &str, name: &str) -> bool {
    let Some(rest) = folder.strip_prefix(name) else {
        return false;
    };
    let decimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match rest.strip_prefix('_') {
        Some(rest) => {
            decimal(rest) || (rest.len() >= 3 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
        }
        None => decimal(rest),
    }
}
