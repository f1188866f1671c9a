//! Names of places: functions of files (ELF symbol tables, their debug files', by blazesym), of the kernel, and of code made at run
//! time.
//!
//! In: stacks of places, and where they were recorded. Out: a profile of names.
//!
//! Invariants: a name is given only where the file here is known to be the one that was running there; what
//! has no name is `[unknown]` in its module, and the profile says why.
//!
//! Not here: inlined functions.

mod bottom;
mod builds;
mod files;
mod interpreted;
mod kallsyms;
mod lines;
mod list;
mod perf_map;
mod stores;
mod vdso;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

use bottom::Bottoms;
use builds::Builds;
use files::{Absent, same_build_id};
pub use files::{Files, Origin};
pub use kallsyms::KernelSymbols;
pub use list::{Function, Listed, list_functions};
pub use perf_map::PerfMap;

use crate::elf;
use crate::names::{KERNEL, UNKNOWN, function_name, module_name};
use crate::sample::{Assembled, Place};
use crate::{Profile, WeightUnit};

/// Names what was counted.
pub fn name_all(assembled: Assembled, files: &Files) -> Profile {
    let mut profile = Profile::default();
    let names = Names::of(&assembled, files, &mut profile);
    let mut numbers = Vec::with_capacity(assembled.places.len());
    let mut builds = Builds::default();
    for (at, place) in assembled.places.iter().enumerate() {
        let (name, module) = match place {
            Place::Kernel(_) => (names.by_place.get(&at), KERNEL.into()),
            Place::File { module, .. } => {
                let path = &assembled.modules[*module as usize].path;
                (names.by_place.get(&at), module_name(path, false))
            }
            Place::Anonymous { .. } => (names.by_place.get(&at), "".into()),
            Place::Interpreted(number) => (assembled.interpreted.get(*number as usize), "".into()),
            Place::Nowhere => (None, "".into()),
        };
        if let (None, Place::File { module, offset }, true) = (name, place, assembled.keeps_offsets)
            && let Some(build) = builds.of(*module, &assembled, files)
        {
            numbers.push(profile.frames.intern(&format!("0x{offset:x}"), &build));
            continue;
        }
        let name = name.map_or(UNKNOWN.into(), |name| function_name(name));
        numbers.push(profile.frames.intern(&name, &module));
    }
    let commands: Vec<u32> = assembled
        .commands
        .iter()
        .map(|name| {
            profile
                .frames
                .intern(&crate::names::clean(name.as_str().into()), "")
        })
        .collect();
    let shown = names.shown(&numbers, &mut profile);
    let mut stack = Vec::new();
    let mut stack_numbers = Vec::with_capacity(assembled.stacks.len());
    for counted in assembled.stacks.iter() {
        let (&command, places) = counted
            .numbers
            .split_first()
            .expect("a stack begins with its command");
        stack.clear();
        stack.push(commands[command as usize]);
        let native = places
            .iter()
            .position(|&place| matches!(assembled.places[place as usize], Place::Interpreted(_)));
        let (native, functions) = places.split_at(native.unwrap_or(places.len()));
        let frame = |&place: &u32| &profile.frames.frames()[numbers[place as usize] as usize];
        let kept = interpreted::native_frames(native.iter().map(frame), !functions.is_empty());
        stack.extend(native[..kept].iter().map(|&place| shown[place as usize]));
        stack.extend(functions.iter().map(|&place| shown[place as usize]));
        stack_numbers.push(profile.stacks.add(&stack, counted.count, counted.weight));
    }
    profile.times = assembled.times.clone().map(|mut times| {
        times.renumber(|number| stack_numbers.get(number as usize).copied());
        times
    });
    describe(&assembled, &mut profile);
    count_cut(&assembled, &numbers, &mut profile);
    if let Some(reason) = assembled.left_out {
        profile.reduced(reason);
    }
    profile
}

/// Notes what was sampled and how.
fn describe(assembled: &Assembled, profile: &mut Profile) {
    if let Some(event) = &assembled.event {
        profile.set_event(event);
    }
    profile.next_event = assembled.next_event.clone();
    profile.periods = assembled.periods;
    if assembled.periods_missing {
        profile.weight_unit = WeightUnit::None;
    }
    profile.head.hz = assembled.frequency.map(|hz| hz as f64);
    profile.head.lost = Some(assembled.lost);
}

/// Notes how many stacks of programs are not whole, and why.
fn count_cut(assembled: &Assembled, numbers: &[u32], profile: &mut Profile) {
    if assembled.not_unwound > 0 {
        profile.reduced("stacks of this kind of processor are not unwound: callers are missing");
    }
    let (stacks, cut, reason) = if let Some(tally) = &assembled.unwound {
        let name = |module: u32| match assembled.modules.get(module as usize) {
            Some(module) => module_name(&module.path, false).into_owned(),
            None => UNKNOWN.to_owned(),
        };
        (tally.stacks, tally.cut(), tally.reason(name))
    } else if assembled.has_chains {
        let frames = profile.frames.frames();
        let frame = |place: u32| &frames[numbers[place as usize] as usize];
        let bottoms = Bottoms::of(&assembled.stacks, &assembled.places, frame);
        (bottoms.stacks, bottoms.cut, bottoms.reason())
    } else {
        return;
    };
    profile.head.user_stacks = Some(stacks);
    profile.head.cut_stacks = Some(cut);
    if let Some(reason) = reason {
        profile.reduced(reason);
    }
}

/// Names by the number of their place.
#[derive(Default)]
struct Names {
    by_place: HashMap<usize, String>,
    /// Lines of the source, where they are wanted.
    lines: BTreeMap<usize, String>,
}

impl Names {
    fn of(assembled: &Assembled, files: &Files, profile: &mut Profile) -> Self {
        let mut names = Self::default();
        let mut by_module: BTreeMap<u32, Vec<(usize, u64)>> = BTreeMap::new();
        let mut by_process: BTreeMap<u32, Vec<(usize, u64)>> = BTreeMap::new();
        let mut kernel = Vec::new();
        for (at, place) in assembled.places.iter().enumerate() {
            match *place {
                Place::Kernel(address) => kernel.push((at, address)),
                Place::File { module, offset } => {
                    by_module.entry(module).or_default().push((at, offset))
                }
                Place::Anonymous { pid, address } => {
                    by_process.entry(pid).or_default().push((at, address))
                }
                Place::Interpreted(_) | Place::Nowhere => {}
            }
        }
        if !kernel.is_empty()
            && let Err(reason) = names.kernel(&kernel, assembled, files)
        {
            profile.reduced(reason);
        }
        names.modules(&by_module, assembled, files, profile);
        for (pid, places) in by_process {
            names.process(pid, &places);
        }
        names
    }

    fn kernel(
        &mut self,
        places: &[(usize, u64)],
        assembled: &Assembled,
        files: &Files,
    ) -> Result<(), String> {
        let symbols = files.kernel_symbols()?;
        // The kernel's place differs from boot to boot.
        let moved = match &assembled.kernel_anchor {
            Some((name, then)) if !files.origin.live => {
                let now = symbols.address_of(name).ok_or_else(|| {
                    format!(
                        "kernel functions have no names, because this kernel has no symbol {name}"
                    )
                })?;
                now.wrapping_sub(*then)
            }
            _ => 0,
        };
        for &(at, address) in places {
            if let Some(name) = symbols.find(address.wrapping_add(moved)) {
                self.by_place.insert(at, name.to_owned());
            }
        }
        Ok(())
    }

    fn process(&mut self, pid: u32, places: &[(usize, u64)]) {
        let Some(map) = PerfMap::load(pid) else {
            return;
        };
        for &(at, address) in places {
            if let Some(name) = map.find(address) {
                self.by_place.insert(at, name.to_owned());
            }
        }
    }

    fn modules(
        &mut self,
        by_module: &BTreeMap<u32, Vec<(usize, u64)>>,
        assembled: &Assembled,
        files: &Files,
        profile: &mut Profile,
    ) {
        let symbolizer = Symbolizer::builder()
            .enable_code_info(false)
            .enable_inlined_fns(false)
            .enable_demangling(false)
            .enable_auto_reload(false)
            .build();
        let (mut others, mut unreadable) = (Vec::new(), Vec::new());
        for (&number, places) in by_module {
            let module = &assembled.modules[number as usize];
            let path = match files.path_of(module) {
                Ok(path) => path,
                Err(Absent::Another) => {
                    others.push(module_name(&module.path, false).into_owned());
                    continue;
                }
                Err(Absent::Unreadable) => {
                    unreadable.push(module_name(&module.path, false).into_owned());
                    continue;
                }
            };
            let offsets: Vec<u64> = places.iter().map(|&(_, offset)| offset).collect();
            for (&(at, _), name) in
                places
                    .iter()
                    .zip(functions(&symbolizer, files, &path, &offsets))
            {
                if let Some(name) = name {
                    self.by_place.insert(at, name);
                }
            }
            if files.wants_lines {
                self.find_lines(files, &path, places);
            }
        }
        if let Some(list) = listed(&others) {
            profile.reduced(format!(
                "no names in files that are not those recorded: {list}"
            ));
        }
        if let Some(list) = listed(&unreadable) {
            profile.reduced(format!("no names in files that cannot be opened: {list}"));
        }
    }
}

impl Names {
    /// Finds the lines of places in the file at `path`.
    fn find_lines(&mut self, files: &Files, path: &Path, places: &[(usize, u64)]) {
        let Some(segments) = elf::segments(path) else {
            return;
        };
        let (numbers, addresses): (Vec<usize>, Vec<u64>) = places
            .iter()
            .filter_map(|&(at, offset)| Some((at, elf::address_of(&segments, offset)?)))
            .unzip();
        let mut lines = lines::lines_of(path, &addresses);
        if lines.iter().all(Option::is_none) {
            let build_id = blazesym::helper::read_elf_build_id(path).ok().flatten();
            let debug_file = build_id.as_deref().and_then(|id| files.debug_file(id));
            if let Some(debug_file) = debug_file {
                lines = lines::lines_of(&debug_file, &addresses);
            }
        }
        let found = numbers.into_iter().zip(lines);
        self.lines
            .extend(found.filter_map(|(at, line)| Some((at, line?))));
    }

    /// The numbers of places' frames as they are shown: with their lines, where those are known.
    fn shown(&self, numbers: &[u32], profile: &mut Profile) -> Vec<u32> {
        let mut shown = numbers.to_vec();
        for (&at, line) in &self.lines {
            let frame = &profile.frames.frames()[numbers[at] as usize];
            let (name, module) = (format!("{} ({line})", frame.name), frame.module.clone());
            shown[at] = profile.frames.intern(&name, &module);
        }
        shown
    }
}

fn listed(names: &[String]) -> Option<String> {
    let shown = names
        .iter()
        .take(5)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match names.len() {
        0 => None,
        1..=5 => Some(shown),
        more => Some(format!("{shown} and {} more", more - 5)),
    }
}

/// Names of the functions at file offsets: from the file's own symbols, and from its debug file where those do
/// not tell.
fn functions(
    symbolizer: &Symbolizer,
    files: &Files,
    path: &Path,
    offsets: &[u64],
) -> Vec<Option<String>> {
    let mut names = symbols(symbolizer, path, Input::FileOffset(offsets));
    names.resize(offsets.len(), None);
    let missing: Vec<usize> = (0..offsets.len())
        .filter(|&at| names[at].is_none())
        .collect();
    if missing.is_empty() {
        return names;
    }
    let build_id = blazesym::helper::read_elf_build_id(path).ok().flatten();
    let debug_file = build_id.as_deref().and_then(|id| files.debug_file(id));
    if let (Some(debug_file), Some(segments)) = (debug_file, elf::segments(path)) {
        let address = |at: &usize| elf::address_of(&segments, offsets[*at]);
        let (missing, addresses): (Vec<usize>, Vec<u64>) = missing
            .iter()
            .filter_map(|at| Some((*at, address(at)?)))
            .unzip();
        let found = symbols(symbolizer, &debug_file, Input::VirtOffset(&addresses));
        for (at, name) in missing.into_iter().zip(found) {
            names[at] = name;
        }
    }
    names
}

/// What a file's symbol table says; nothing when it cannot be read.
fn symbols(symbolizer: &Symbolizer, path: &Path, input: Input<&[u64]>) -> Vec<Option<String>> {
    let mut source = Elf::new(path);
    source.debug_syms = false;
    let found = symbolizer
        .symbolize(&Source::Elf(source), input)
        .unwrap_or_default();
    let name = |symbol| match symbol {
        Symbolized::Sym(symbol) => Some(symbol.name.into_owned()),
        Symbolized::Unknown(_) => None,
    };
    found.into_iter().map(name).collect()
}
