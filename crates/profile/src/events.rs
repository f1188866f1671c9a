//! Which event's samples a profile holds. Counts of different events do not add up, so that it is one: the one
//! that is asked for, else the first that was recorded. The halves of a hybrid CPU's event are one.

use std::collections::BTreeMap;

/// Units of hybrid CPUs that count the same events for their kind of core, as the kernel names them.
const CORE_UNITS: [&str; 4] = ["cpu", "armv", "apple_", "arm_"];

/// Stands between the names of an event that has several.
const BETWEEN: &str = " + ";

/// Events that are named one by one in the reason for what was left out.
const MOST_EVENTS: usize = 64;

/// Names that are listed in a reason.
const MOST_NAMED: usize = 8;

/// An event without its modifiers, and the modifiers: `cycles` and `ppp` of `cpu_core/cycles/ppp`, `cycles:ppp` and
/// `cpu_core/cycles:ppp/`. `unit` says whether the unit that counts it is kept.
fn parts(event: &str, with_unit: bool) -> (&str, &str) {
    let core = event.split_once('/').filter(|(unit, rest)| {
        CORE_UNITS.iter().any(|known| unit.starts_with(known))
            // Numbers of an event differ from one kind of core to the next.
            && !rest.contains('=')
    });
    let Some((unit, rest)) = core else {
        return without_modifiers(event);
    };
    let (inner, after) = rest.rsplit_once('/').unwrap_or((rest, ""));
    let (name, modifiers) = without_modifiers(inner);
    let modifiers = if modifiers.is_empty() {
        after.trim_start_matches(':')
    } else {
        modifiers
    };
    if with_unit {
        (&event[..unit.len() + 1 + name.len()], modifiers)
    } else {
        (name, modifiers)
    }
}

fn without_modifiers(event: &str) -> (&str, &str) {
    match event.rsplit_once(':') {
        Some((name, modifiers))
            if !modifiers.is_empty()
                && modifiers.bytes().all(|m| b"ukhpPGHIDWSeb".contains(&m)) =>
        {
            (name, modifiers)
        }
        _ => (event, ""),
    }
}

/// Whether two names are the same event but for the type of core.
fn are_halves(one: &str, other: &str) -> bool {
    parts(one, false) == parts(other, false)
}

/// Whether `event` is what was asked for, or one of several.
fn is_asked(asked: &str, event: &str) -> bool {
    asked.split(BETWEEN).any(|asked| is_one(asked, event))
}

/// Whether `event` is what was asked for: modifiers and the unit matter where they are asked for.
fn is_one(asked: &str, event: &str) -> bool {
    let of_unit = parts(asked, false) != parts(asked, true);
    let (asked_name, asked_modifiers) = parts(asked, of_unit);
    let (name, modifiers) = parts(event, of_unit);
    asked == event
        || (asked_name == name && (asked_modifiers.is_empty() || asked_modifiers == modifiers))
}

/// Takes the samples of one event and counts the others.
#[derive(Debug)]
pub struct EventFilter {
    asked: Option<String>,
    /// The event that is taken where none is asked for.
    first: Option<String>,
    /// Events that the input says were recorded.
    recorded: Vec<String>,
    /// Names that were taken, the last one first: names repeat.
    names: Vec<String>,
    others: BTreeMap<String, u64>,
}

impl EventFilter {
    /// Takes `event`, or the first that was recorded, or that comes.
    pub fn new(event: Option<&str>) -> Self {
        Self {
            asked: event.map(str::to_owned),
            first: None,
            recorded: Vec::new(),
            names: Vec::new(),
            others: BTreeMap::new(),
        }
    }

    /// Notes the next event that was recorded. The events that `perf` adds for its own use are none.
    pub fn recorded(&mut self, event: &str) {
        let own = event == "dummy" || event.starts_with("dummy:") || event.is_empty();
        if own || self.recorded.len() >= MOST_EVENTS || self.recorded.iter().any(|e| e == event) {
            return;
        }
        self.recorded.push(event.to_owned());
        if self.first.is_none() {
            self.first = Some(event.to_owned());
        }
    }

    /// Whether a sample of `event` is taken.
    pub fn takes(&mut self, event: &[u8]) -> bool {
        if self.names.iter().any(|name| name.as_bytes() == event) {
            return true;
        }
        let name = String::from_utf8_lossy(event);
        let taken = match (&self.asked, &self.first) {
            (Some(asked), _) => is_asked(asked, &name),
            (None, Some(first)) => are_halves(first, &name),
            (None, None) => {
                self.first = Some(name.clone().into_owned());
                true
            }
        };
        if taken && self.names.len() < MOST_EVENTS {
            self.names.push(name.into_owned());
        } else if !taken && (self.others.len() < MOST_EVENTS || self.others.contains_key(&*name)) {
            *self.others.entry(name.into_owned()).or_default() += 1;
        }
        taken
    }

    /// The event taken, each of its names; None when the input names none.
    pub fn chosen(&self) -> Option<String> {
        if !self.names.is_empty() {
            return Some(self.names.join(BETWEEN)).filter(|name| !name.is_empty());
        }
        let wanted = self.asked.as_ref().or(self.first.as_ref());
        wanted.filter(|name| !name.is_empty()).cloned()
    }

    /// Whether an attribute of this name belongs to the event taken.
    pub fn is_taken(&self, event: &str) -> bool {
        self.names.iter().any(|name| name == event)
    }

    /// The first recorded event with samples, where the first of all has none and none is asked for.
    pub fn next_choice(&self) -> Option<String> {
        if self.asked.is_some() || !self.names.is_empty() {
            return None;
        }
        let recorded = self.recorded.iter();
        let mut recorded = recorded.filter(|name| self.others.contains_key(*name));
        let found = recorded.next().or_else(|| self.others.keys().next());
        found.cloned()
    }

    /// Why samples are missing, when some are.
    pub fn left_out(&self) -> Option<String> {
        let count: u64 = self.others.values().sum();
        let names: Vec<&str> = self.others.keys().map(String::as_str).collect();
        let others = listed(&names);
        let chosen = self.chosen().unwrap_or_default();
        if !self.names.is_empty() {
            return (count > 0).then(|| {
                format!("{count} samples of other events are left out ({others}): --event chooses")
            });
        }
        let asked = self.asked.as_ref()?;
        if self.recorded.iter().any(|event| is_asked(asked, event)) {
            let others = if count > 0 {
                format!("; there are {count} of {others}")
            } else {
                String::new()
            };
            return Some(format!("no samples of {chosen}{others}"));
        }
        let recorded: Vec<&str> = self.recorded.iter().map(String::as_str).collect();
        let known = if recorded.is_empty() { names } else { recorded };
        Some(match known.as_slice() {
            [] => return None,
            [""] => format!("no event {chosen}: the samples do not tell their event"),
            known => format!("no event {chosen}, but {}", listed(known)),
        })
    }
}

fn listed(names: &[&str]) -> String {
    let shown = names[..names.len().min(MOST_NAMED)].join(", ");
    match names.len().saturating_sub(MOST_NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_types_do_not_make_another_event_and_modifiers_do() {
        for (one, other) in [
            ("cpu_core/cycles:ppp/", "cpu_atom/cycles:ppp/"),
            ("cpu_core/cycles/ppp", "cpu_lowpower/cycles/ppp"),
            ("armv8_cortex_a53/cycles/", "armv8_cortex_a73/cycles/"),
        ] {
            assert!(are_halves(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("cycles", "instructions"),
            ("cycles:u", "cycles:k"),
            ("sched:sched_switch", "sched:sched_wakeup"),
            ("cpu_core/event=0x3c/", "cpu_atom/event=0x3c/"),
            ("ibs_op//", "ibs_fetch//"),
        ] {
            assert!(!are_halves(one, other), "{one} {other}");
        }
    }

    #[test]
    fn an_event_is_asked_for_with_or_without_unit_and_modifiers() {
        for event in ["cycles:u", "cpu_core/cycles/", "cpu_atom/cycles:ppp/"] {
            assert!(is_asked("cycles", event), "{event}");
        }
        assert!(is_asked("cpu_core/cycles/", "cpu_core/cycles:ppp/"));
        // As the halves are named together.
        assert!(is_asked(
            "cpu_core/cycles/ + cpu_atom/cycles/",
            "cpu_atom/cycles/"
        ));
        assert!(!is_asked("cpu_core/cycles/", "cpu_atom/cycles/"));
        assert!(!is_asked("cycles:u", "cycles:k"));
    }

    #[test]
    fn the_first_event_is_taken_and_the_others_are_counted() {
        let mut filter = EventFilter::new(None);
        assert!(filter.takes(b"cycles"));
        assert!(!filter.takes(b"instructions"));
        assert!(filter.takes(b"cycles"));
        assert_eq!(filter.chosen().as_deref(), Some("cycles"));
        let left_out = filter.left_out().unwrap();
        assert!(left_out.starts_with("1 samples of other events"));
    }

    #[test]
    fn the_first_recorded_event_is_taken_whichever_comes_first() {
        let mut filter = EventFilter::new(None);
        for event in [
            "dummy:HG",
            "cpu_core/cycles/",
            "cpu_atom/cycles/",
            "page-faults",
        ] {
            filter.recorded(event);
        }
        assert!(!filter.takes(b"page-faults"));
        assert_eq!(filter.next_choice().as_deref(), Some("page-faults"));
        assert!(filter.takes(b"cpu_atom/cycles/"));
        assert!(filter.takes(b"cpu_core/cycles/"));
        assert_eq!(filter.next_choice(), None);
        // Both halves are named.
        let chosen = filter.chosen().unwrap();
        assert_eq!(chosen, "cpu_atom/cycles/ + cpu_core/cycles/");
    }

    #[test]
    fn an_unknown_event_names_those_that_exist() {
        let mut filter = EventFilter::new(Some("cycles"));
        filter.recorded("cpu-clock");
        filter.recorded("page-faults");
        assert!(!filter.takes(b"page-faults"));
        let left_out = filter.left_out();
        assert_eq!(
            left_out.as_deref(),
            Some("no event cycles, but cpu-clock, page-faults")
        );
        let mut filter = EventFilter::new(Some("cpu-clock"));
        filter.recorded("cpu-clock");
        filter.takes(b"page-faults");
        let left_out = filter.left_out();
        assert_eq!(
            left_out.as_deref(),
            Some("no samples of cpu-clock; there are 1 of page-faults")
        );
    }
}
