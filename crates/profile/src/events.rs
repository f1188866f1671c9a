//! Which event's samples a profile holds. Counts of different events do not add up, so that it is one.

use std::collections::BTreeMap;

/// An event without its modifiers and without the name of a hybrid CPU's core type, so that the halves of a
/// hybrid machine count as one event.
fn bare(event: &str) -> &str {
    let event = ["cpu_core/", "cpu_atom/", "cpu_lowpower/"]
        .iter()
        .find_map(|core| {
            event
                .strip_prefix(core)
                .map(|rest| rest.trim_end_matches('/'))
        })
        .unwrap_or(event);
    match event.rsplit_once(':') {
        Some((name, modifiers))
            if !modifiers.is_empty()
                && modifiers.bytes().all(|m| b"ukhpPGHIDWSeb".contains(&m)) =>
        {
            name
        }
        _ => event,
    }
}

/// Whether two names are the same event but for modifiers and the type of core.
pub fn same_event(one: &str, other: &str) -> bool {
    one == other || bare(one) == bare(other)
}

/// Events that are told apart in the reason for what was left out.
const MOST_EVENTS: usize = 64;

/// Takes the samples of one event and counts the others.
#[derive(Debug)]
pub struct EventFilter {
    chosen: Option<String>,
    /// The last name that was taken: names repeat.
    last: Vec<u8>,
    asked: bool,
    others: BTreeMap<String, u64>,
    taken: u64,
}

impl EventFilter {
    /// Takes `event`, or the first that comes.
    pub fn new(event: Option<&str>) -> Self {
        Self {
            chosen: event.map(str::to_owned),
            last: Vec::new(),
            asked: event.is_some(),
            others: BTreeMap::new(),
            taken: 0,
        }
    }

    /// Whether a sample of `event` is taken.
    pub fn takes(&mut self, event: &[u8]) -> bool {
        if self.taken > 0 && event == self.last {
            self.taken += 1;
            return true;
        }
        let name = String::from_utf8_lossy(event);
        let chosen = self.chosen.get_or_insert_with(|| name.clone().into_owned());
        if same_event(chosen, &name) {
            self.last = event.to_owned();
            self.taken += 1;
            return true;
        }
        if self.others.len() < MOST_EVENTS || self.others.contains_key(&*name) {
            *self.others.entry(name.into_owned()).or_default() += 1;
        }
        false
    }

    /// The event taken; None when the input names none.
    pub fn chosen(&self) -> Option<&str> {
        self.chosen.as_deref().filter(|event| !event.is_empty())
    }

    /// Why samples are missing, when some are.
    pub fn left_out(&self) -> Option<String> {
        let count: u64 = self.others.values().sum();
        if count == 0 {
            return None;
        }
        let names: Vec<&str> = self.others.keys().map(String::as_str).take(8).collect();
        let names = names.join(", ");
        Some(match (self.asked, self.taken) {
            (true, 0) => format!(
                "no samples of {}; there are {count} of {names}",
                self.chosen().unwrap_or("")
            ),
            _ => format!("{count} samples of other events are left out ({names}): --event chooses"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_and_core_types_do_not_make_another_event() {
        assert!(same_event("cpu_core/cycles:ppp/", "cpu_atom/cycles:ppp/"));
        assert!(same_event("cycles", "cycles:ppp"));
        assert!(!same_event("cycles", "instructions"));
        assert!(!same_event("sched:sched_switch", "sched:sched_wakeup"));
    }

    #[test]
    fn the_first_event_is_taken_and_the_others_are_counted() {
        let mut filter = EventFilter::new(None);
        assert!(filter.takes(b"cycles"));
        assert!(!filter.takes(b"instructions"));
        assert!(filter.takes(b"cycles"));
        assert_eq!(filter.chosen(), Some("cycles"));
        assert!(
            filter
                .left_out()
                .unwrap()
                .starts_with("1 samples of other events")
        );
    }
}
