//! Events that can be sampled, by the names that `perf list` gives them.
//!
//! In: a name. Out: type and number for perf_event_open(2). Source: linux/perf_event.h.
//!
//! Not here: events of a processor's own definitions, which have a raw number (`r1a2b`).

use perf_event_open_sys::bindings;

use crate::sample::{HARDWARE, SOFTWARE};

const ALIASES: [(&str, &str); 6] = [
    ("cpu-cycles", "cycles"),
    ("branch-instructions", "branches"),
    ("faults", "page-faults"),
    ("cs", "context-switches"),
    ("migrations", "cpu-migrations"),
    ("idle-cycles-backend", "stalled-cycles-backend"),
];
/// PERF_COUNT_HW_CACHE_*, in their order.
const CACHES: [&str; 7] = [
    "L1-dcache",
    "L1-icache",
    "LLC",
    "dTLB",
    "iTLB",
    "branch",
    "node",
];
const OPERATIONS: [(&str, &str); 3] = [
    ("loads", "load-misses"),
    ("stores", "store-misses"),
    ("prefetches", "prefetch-misses"),
];

/// An event whose occurrences are sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledEvent {
    /// Its name.
    pub name: String,
    /// PERF_TYPE_*.
    pub type_: u32,
    /// Event of that type.
    pub config: u64,
}

impl SampledEvent {
    /// The processor's cycles.
    pub fn cycles() -> Self {
        Self::of("cycles", bindings::PERF_TYPE_HARDWARE, 0)
    }

    /// Time on a CPU, by a timer.
    pub fn cpu_clock() -> Self {
        Self::of("cpu-clock", bindings::PERF_TYPE_SOFTWARE, 0)
    }

    fn of(name: &str, type_: u32, config: u64) -> Self {
        Self {
            name: name.to_owned(),
            type_,
            config,
        }
    }

    /// The event of this name.
    ///
    /// # Errors
    /// One sentence that says which names there are.
    pub fn named(name: &str) -> Result<Self, String> {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        let bare = alias.map_or(name, |(_, name)| name);
        let at = |names: &[&str]| Some(names.iter().position(|known| *known == bare)? as u64);
        let known = at(&HARDWARE)
            .map(|config| (bindings::PERF_TYPE_HARDWARE, config))
            .or_else(|| Some((bindings::PERF_TYPE_SOFTWARE, at(&SOFTWARE)?)))
            .or_else(|| Some((bindings::PERF_TYPE_HW_CACHE, cache(bare)?)))
            .or_else(|| Some((bindings::PERF_TYPE_RAW, raw(bare)?)));
        let (type_, config) = known.ok_or_else(|| {
            format!(
                "no event {name}: known are {}, {}, caches as LLC-load-misses, and raw numbers as r1a2b",
                HARDWARE.join(", "),
                SOFTWARE[..9].join(", ")
            )
        })?;
        Ok(Self::of(bare, type_, config))
    }
}

fn cache(name: &str) -> Option<u64> {
    let found = CACHES.iter().enumerate().find_map(|(at, cache)| {
        let operation = name.strip_prefix(cache)?.strip_prefix('-')?;
        Some((at as u64, operation))
    });
    let (cache, operation) = found?;
    OPERATIONS
        .iter()
        .enumerate()
        .find_map(|(at, (accesses, misses))| {
            let result = [*accesses, *misses]
                .iter()
                .position(|one| *one == operation)?;
            Some(cache | (at as u64) << 8 | (result as u64) << 16)
        })
}

fn raw(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r').filter(|digits| !digits.is_empty())?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number
        .then(|| u64::from_str_radix(digits, 16).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_numbers_of_the_kernel() {
        for (name, type_, config) in [
            ("cycles", 0, 0),
            ("cache-misses", 0, 3),
            ("branch-instructions", 0, 4),
            ("cpu-clock", 1, 0),
            ("page-faults", 1, 2),
            ("cs", 1, 3),
            ("L1-dcache-load-misses", 3, 0x1_0000),
            ("LLC-stores", 3, 0x102),
            ("r1A2b", 4, 0x1a2b),
        ] {
            let event = SampledEvent::named(name).unwrap();
            assert_eq!((event.type_, event.config), (type_, config), "{name}");
        }
        assert_eq!(SampledEvent::named("faults").unwrap().name, "page-faults");
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_exist() {
        for name in ["", "r", "cache-miss", "LLC-", "rxyz", "sched:sched_switch"] {
            let reason = SampledEvent::named(name).unwrap_err();
            assert!(reason.contains("cache-misses"), "{reason}");
        }
    }
}
