//! One process or control group whose score is wanted, window after window.
//!
//! Pages are read again only when they may have moved: a process whose count of page faults and resident size are what
//! they were has neither taken nor given memory, and the kernel's own balancing moves pages at faults too. What is moved
//! from outside (compaction, migratepages) is seen when the reading is too old.

use steelyard_kernel::numa::{Missing, Nodes, Pages, read_pages_into};
use steelyard_kernel::{Tree, page_bytes};
use steelyard_record::NumaSubject;

use super::cpu::CpuWatch;
use super::groups::{self, GroupFolders};
use super::process::{Context, Keeper, ProcessCpu, Who};
use super::{Placement, Request};

/// What CPU time a score stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Basis {
    Window,
    Lifetime,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub pid: u32,
    /// How it is watched, or why it cannot be.
    cpu: Result<ProcessCpu, Missing>,
    pages: Option<Known>,
}

/// Pages as they were read.
#[derive(Debug)]
struct Known {
    pages: Result<Pages, Missing>,
    read_ns: u64,
    /// Faults and resident pages then.
    state: ([Option<u64>; 2], Option<u64>),
}

impl Process {
    pub(super) fn start(context: &mut Context<'_>, pid: u32) -> Self {
        Self {
            pid,
            cpu: ProcessCpu::start(context, pid),
            pages: None,
        }
    }

    /// Whether its id may be another process's by now.
    pub(super) fn has_ended(&self) -> bool {
        match &self.cpu {
            Ok(cpu) => cpu.has_ended,
            Err(why) => *why == Missing::ENDED,
        }
    }

    pub(super) fn begin(&mut self, context: &mut Context<'_>) {
        if let Ok(cpu) = &mut self.cpu {
            cpu.begin(context);
        }
    }

    pub(super) fn look(&mut self, context: &mut Context<'_>) {
        if let Ok(cpu) = &mut self.cpu {
            cpu.look(context);
        }
    }

    /// The row of the window that ends now.
    pub(super) fn row(
        &mut self,
        context: &mut Context<'_>,
        request: &Request,
        now_ns: u64,
    ) -> NumaSubject {
        let mut row = empty("process", Some(self.pid), String::new());
        let cpu = match &mut self.cpu {
            Ok(cpu) => cpu,
            Err(why) => return without(row, why),
        };
        row.name = harmless(&cpu.who.name);
        if cpu.who.is_kernel {
            return without(row, &Missing::KERNEL_THREAD);
        }
        let window = cpu.window_ns();
        let (basis, ns) = if window.iter().any(|ns| *ns > 0) {
            (Basis::Window, window.to_vec())
        } else if request.idle {
            (Basis::Lifetime, cpu.lifetime_ns(context))
        } else {
            return without(row, &Missing::fixed("it did not run in the window"));
        };
        if cpu.has_ended {
            return without(row, &Missing::ENDED);
        }
        let seconds = ns.iter().map(|ns| *ns as f64 / 1e9).collect();
        tell_cpu(&mut row, basis, THREADS, seconds);
        let pages = pages_of(&mut self.pages, cpu, context, request, now_ns);
        tell(row, pages, "numa_maps", context.nodes, request)
    }
}

const THREADS: &str = "last CPU of each thread at each look";

/// The pages of a process, read again where they may have changed.
fn pages_of<'k>(
    known: &'k mut Option<Known>,
    cpu: &ProcessCpu,
    context: &mut Context<'_>,
    request: &Request,
    now_ns: u64,
) -> Result<&'k Pages, Missing> {
    if let Some(why) = not_wanted(context.nodes, &cpu.who, request) {
        return Err(why);
    }
    let state = (cpu.who.faults, cpu.who.rss_pages);
    let is_fresh = known.as_ref().is_some_and(|known| {
        known.pages.is_ok()
            && known.state == state
            && now_ns.saturating_sub(known.read_ns) < request.pages_fresh_ns
    });
    if !is_fresh {
        *known = Some(Known {
            pages: read_pages_into(context.tree, context.nodes, cpu.pid(), context.buffer),
            read_ns: now_ns,
            state,
        });
    }
    let known = known.as_ref().expect("it was read just now");
    known.pages.as_ref().map_err(Clone::clone)
}

/// Why a process's memory is not looked through.
fn not_wanted(nodes: &Nodes, who: &Who, request: &Request) -> Option<Missing> {
    if nodes.len() == 1 && !request.pages_on_one_node {
        return Some(ONE_NODE);
    }
    let bytes = who.rss_pages?.saturating_mul(page_bytes());
    let largest = request.largest_bytes?;
    (bytes > largest).then(|| {
        Missing::new(format!(
            "it has {bytes} bytes resident, more than {largest}: reading their nodes would delay it"
        ))
    })
}

const ONE_NODE: Missing = Missing::fixed("the machine has one NUMA node: all memory is local");

/// A control group.
pub(super) struct Group {
    name: String,
    watch: Result<(CpuWatch, GroupFolders), Missing>,
}

impl Group {
    pub(super) fn start(tree: &Tree, nodes: &Nodes, keeper: &Keeper, path: &str) -> Self {
        let watch = GroupFolders::find(tree, path).and_then(|folders| {
            let watch = CpuWatch::of_folders(tree, nodes, folders.clone(), keeper)?;
            Ok((watch, folders))
        });
        Self {
            name: path.to_owned(),
            watch,
        }
    }

    pub(super) fn begin(&mut self) {
        if let Ok((watch, _)) = &mut self.watch {
            watch.begin();
        }
    }

    pub(super) fn look(&mut self, is_last: bool) {
        if let Ok((watch, _)) = &mut self.watch
            && (is_last || watch.wants_looks())
        {
            watch.look();
        }
    }

    pub(super) fn row(&mut self, tree: &Tree, nodes: &Nodes, request: &Request) -> NumaSubject {
        let row = empty("cgroup", None, harmless(&self.name));
        let (watch, folders) = match &mut self.watch {
            Ok(watch) => watch,
            Err(why) => return without(row, why),
        };
        let mut row = row;
        let mut basis = Basis::Window;
        let mut seconds = watch.cpu_seconds_per_node();
        if request.idle && seconds.iter().all(|seconds| *seconds <= 0.0) {
            basis = Basis::Lifetime;
            seconds = watch.lifetime_seconds_per_node();
        }
        if seconds.iter().any(|seconds| *seconds > 0.0) {
            tell_cpu(&mut row, basis, watch.source(), seconds);
        }
        let pages = if nodes.len() == 1 && !request.pages_on_one_node {
            Err(ONE_NODE)
        } else {
            groups::read(tree, nodes, folders)
        };
        tell(
            row,
            pages.as_ref().map_err(Clone::clone),
            "memory.numa_stat",
            nodes,
            request,
        )
    }
}

fn empty(subject: &str, pid: Option<u32>, name: String) -> NumaSubject {
    NumaSubject {
        subject: subject.to_owned(),
        pid,
        name,
        score: None,
        missing: None,
        cpu_basis: None,
        cpu_source: None,
        cpu_seconds_per_node: None,
        memory_source: None,
        memory_missing: None,
        memory_bytes_per_node: None,
        shared_bytes_per_node: None,
        huge_bytes_per_node: None,
        anon_bytes: None,
        file_bytes: None,
    }
}

fn without(mut row: NumaSubject, why: &Missing) -> NumaSubject {
    row.missing = Some(why.to_string());
    row.memory_missing = Some(why.to_string());
    row
}

fn tell_cpu(row: &mut NumaSubject, basis: Basis, source: &str, seconds: Vec<f64>) {
    row.cpu_basis = Some(
        match basis {
            Basis::Window => "window",
            Basis::Lifetime => "lifetime",
        }
        .to_owned(),
    );
    row.cpu_source = Some(source.to_owned());
    row.cpu_seconds_per_node = Some(seconds);
}

/// The row with what is known of memory, and the score.
fn tell(
    mut row: NumaSubject,
    pages: Result<&Pages, Missing>,
    source: &str,
    nodes: &Nodes,
    request: &Request,
) -> NumaSubject {
    let score = match &pages {
        Ok(pages) => {
            row.memory_source = Some(source.to_owned());
            row.memory_bytes_per_node = Some(pages.bytes_per_node.clone());
            row.shared_bytes_per_node
                .clone_from(&pages.shared_bytes_per_node);
            row.huge_bytes_per_node = Some(pages.huge_bytes_per_node.clone());
            row.anon_bytes = pages.anon_bytes;
            row.file_bytes = pages.file_bytes;
            let placement = Placement {
                cpu_seconds_per_node: row.cpu_seconds_per_node.clone().unwrap_or_default(),
                pages: (*pages).clone(),
            };
            placement.score(nodes.distances())
        }
        Err(why) => {
            row.memory_missing = Some(why.to_string());
            Err(why.clone())
        }
    };
    match score {
        Ok(score) => row.score = Some(score),
        // All memory is local by definition, whatever could be read.
        Err(why) if why == ONE_NODE && !request.pages_on_one_node => row.score = Some(1.0),
        Err(why) => row.missing = Some(why.to_string()),
    }
    row
}

/// A name without control characters: names come from anybody.
fn harmless(name: &str) -> String {
    name.chars()
        .map(|letter| {
            if letter.is_control() {
                '\u{fffd}'
            } else {
                letter
            }
        })
        .collect()
}
