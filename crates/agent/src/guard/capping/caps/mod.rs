//! Caps: made with their undoing written down first, and always taken back.
//!
//! In: a control group, what it is to be left, and for how long. Out: the kernel's knobs changed, and put back on expiry, on
//! request, after an error, and, after a crash, at the next start ([`replay`]).
//!
//! Invariants: the journal holds a cap before its first knob is changed and until its last is back; a knob is put back only
//! while it says what the cap made it say: what another program wrote meanwhile is left as it is and recorded in the audit log;
//! a group that was removed, or removed and made again, is left alone.
//!
//! Not here: whom to cap (see `decide`).

use std::path::{Path, PathBuf};

use super::audit::{Audit, Line};
use super::journal::{Ended, Entry, Journal, Opening};
use super::quota::{Change, Group, Hierarchy, QuotaError};
use super::watchdog::Watchdog;
use crate::guard::clock::Moment;
use crate::rows::Incident;

/// Why a cap was not made. Nothing is changed when one of these is returned, unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum CapError {
    /// The group has no more than the cap would leave it.
    #[error("its quota already leaves it no more than the cap would")]
    Already,
    /// A knob could not be read or written; what had been changed was put back.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// The kernel took a value and shows another.
    #[error("{file} says {found:?} after {written:?} was written")]
    Ignored {
        /// The knob.
        file: &'static str,
        /// What was written.
        written: String,
        /// What it says.
        found: String,
    },
    /// No cap without its undoing on the disk, and none without a line in the audit log.
    #[error("{what} cannot be written, and there is no cap without it: {source}")]
    Unrecorded {
        /// The journal or the audit log.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Outcome of putting a cap's knobs back.
#[derive(Debug)]
pub enum Undoing {
    /// They were put back.
    Done,
    /// They were as before: the cap was never made, or was taken back already.
    NotNeeded,
    /// The group is no more, and its cap with it.
    Gone,
    /// Somebody else changed them: left alone. Each knob with what it says.
    Changed(Vec<(&'static str, String)>),
    /// The kernel refused.
    Failed(QuotaError),
}

impl Undoing {
    /// Whether nothing is left of the cap.
    pub fn is_undone(&self) -> bool {
        matches!(self, Self::Done | Self::NotNeeded | Self::Gone)
    }

    /// As a sentence.
    pub fn outcome(&self) -> String {
        match self {
            Self::Done => "put back".into(),
            Self::NotNeeded => "already as before".into(),
            Self::Gone => "the group is gone, and the cap with it".into(),
            Self::Changed(found) => {
                let found: Vec<_> = found
                    .iter()
                    .map(|(file, text)| format!("{file} says {text:?}"))
                    .collect();
                format!(
                    "changed by another program, left as it is: {}",
                    found.join(", ")
                )
            }
            Self::Failed(error) => format!("not put back: {error}"),
        }
    }
}

/// Puts an entry's knobs back, as far as they are still the cap's. `boot_id` is the kernel's name for this time.
pub fn put_back(entry: &Entry, boot_id: &str) -> Undoing {
    if entry.boot_id != boot_id {
        return Undoing::Gone;
    }
    let group = match entry.hierarchy.open(Path::new(&entry.cgroup)) {
        Ok(group) if group.inode() != entry.inode => return Undoing::Gone,
        Ok(group) => group,
        Err(QuotaError::Gone { .. }) => return Undoing::Gone,
        Err(error) => return Undoing::Failed(error),
    };
    match put_back_knobs(&group, &entry.changes) {
        Err(QuotaError::Gone { .. }) => Undoing::Gone,
        Err(error) => Undoing::Failed(error),
        Ok(undoing) => undoing,
    }
}

fn put_back_knobs(group: &Group, changes: &[Change]) -> Result<Undoing, QuotaError> {
    let foreign = foreign(group, changes)?;
    if !foreign.is_empty() {
        return Ok(Undoing::Changed(foreign));
    }
    let mut undoing = Undoing::NotNeeded;
    for change in changes.iter().rev() {
        if group.read(change.knob)?.as_deref() != Some(&change.old) {
            group.write(change.knob, &change.old)?;
            undoing = Undoing::Done;
        }
    }
    Ok(undoing)
}

/// The knobs that say neither what they said before nor what the cap made them say.
fn foreign(group: &Group, changes: &[Change]) -> Result<Vec<(&'static str, String)>, QuotaError> {
    let mut found = Vec::new();
    for change in changes {
        // A knob that was there goes away with its group.
        let text = group.read(change.knob)?.ok_or_else(|| QuotaError::Gone {
            path: group.path().to_owned(),
        })?;
        if text != change.old && text != change.new {
            found.push((change.knob.file(), text));
        }
    }
    Ok(found)
}

/// What is asked for.
#[derive(Debug)]
pub struct Order<'a> {
    /// Path of the control group.
    pub cgroup: &'a str,
    /// CPU-s/s that it is left.
    pub cpu_ratio: f64,
    /// How long, in seconds.
    pub seconds: f64,
    /// The incident that it answers.
    pub incident: &'a Incident,
    /// Why, as a sentence.
    pub why: &'a str,
}

/// A cap in force.
#[derive(Debug)]
struct Active {
    entry: Entry,
    until_boot_s: f64,
    /// Whether the failure to undo it was reported.
    reported: bool,
}

/// Called at each step, so that tests can crash between any two.
pub type Step = Box<dyn FnMut(&'static str) + Send>;

/// The caps of one agent.
pub struct Caps {
    journal: Journal,
    hierarchy: Hierarchy,
    owner: String,
    boot_id: String,
    active: Vec<Active>,
    /// Caps that ended while something else was done, to be reported at the next tick.
    ended: Vec<Entry>,
    made: u64,
    watchdog: Option<Watchdog>,
    step: Step,
}

impl Caps {
    /// No caps yet. `owner` names this agent among all that ever used this state folder.
    pub fn new(journal: Journal, hierarchy: Hierarchy, owner: String, boot_id: String) -> Self {
        Self {
            journal,
            hierarchy,
            owner,
            boot_id,
            active: Vec::new(),
            ended: Vec::new(),
            made: 0,
            watchdog: None,
            step: Box::new(|_| {}),
        }
    }

    /// Has `watchdog` watch over every cap.
    pub fn with_watchdog(mut self, watchdog: Watchdog) -> Self {
        self.watchdog = Some(watchdog);
        self
    }

    #[cfg(test)]
    /// Calls `step` with the name of each step when it is done.
    pub fn with_steps(mut self, step: Step) -> Self {
        self.step = step;
        self
    }

    /// Caps in force.
    pub fn len(&self) -> usize {
        self.active.len()
    }

    #[cfg(test)]
    /// Whether none is in force.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// The incident for which the group is capped, if it is.
    pub fn incident_of(&self, cgroup: &str) -> Option<&str> {
        let active = self
            .active
            .iter()
            .find(|active| active.entry.cgroup == cgroup)?;
        Some(&active.entry.incident.incident)
    }

    /// Makes a cap.
    pub fn make(&mut self, now: Moment, order: &Order, audit: &mut Audit) -> Result<(), CapError> {
        let group = self.hierarchy.open(Path::new(order.cgroup))?;
        let changes = group.plan(order.cpu_ratio)?;
        if changes.is_empty() {
            return Err(CapError::Already);
        }
        self.made += 1;
        let entry = Entry::from(Opening {
            id: format!("{:016.0}-{:04}", now.unix_s * 1e3, self.made),
            owner: self.owner.clone(),
            boot_id: self.boot_id.clone(),
            hierarchy: self.hierarchy.clone(),
            cgroup: order.cgroup.to_owned(),
            inode: group.inode(),
            changes,
            times: (now.unix_s, now.unix_s + order.seconds),
            incident: order.incident.clone(),
        });
        (self.step)("planned");
        self.journal
            .write(&entry)
            .map_err(|source| CapError::Unrecorded {
                what: "the journal",
                source,
            })?;
        (self.step)("in the journal");
        // Before the first knob is changed. Where it cannot be had, the next start still takes the cap back.
        let watched = match &mut self.watchdog {
            Some(watchdog) => watchdog.wake(),
            None => Ok(()),
        };
        let outcome = match watched {
            Ok(()) => format!("capped for {} s", order.seconds),
            Err(error) => format!(
                "capped for {} s, without a watchdog: {error}",
                order.seconds
            ),
        };
        let made = self.change(now, &entry, (order.why, outcome), &group, audit);
        match made {
            Ok(()) => self.active.push(Active {
                entry,
                until_boot_s: now.boot_s + order.seconds,
                reported: false,
            }),
            Err(_) => self.take_back_at_once(now, entry, audit),
        }
        made
    }

    fn change(
        &mut self,
        now: Moment,
        entry: &Entry,
        (why, outcome): (&str, String),
        group: &Group,
        audit: &mut Audit,
    ) -> Result<(), CapError> {
        let line = Line {
            what: "cap",
            why: why.to_owned(),
            incident: Some(&entry.incident.incident),
            cgroup: Some(&entry.cgroup),
            changes: &entry.changes,
            outcome,
            ..Line::default()
        };
        audit
            .write(now, &line)
            .map_err(|source| CapError::Unrecorded {
                what: "the audit log",
                source,
            })?;
        (self.step)("in the audit log");
        for change in &entry.changes {
            group.write(change.knob, &change.new)?;
            (self.step)("changed");
        }
        for change in &entry.changes {
            let found = group.read(change.knob)?.unwrap_or_default();
            if found != change.new {
                return Err(CapError::Ignored {
                    file: change.knob.file(),
                    written: change.new.clone(),
                    found,
                });
            }
        }
        Ok(())
    }

    /// After an error in the middle: what cannot be put back now is tried again at every tick.
    fn take_back_at_once(&mut self, now: Moment, entry: Entry, audit: &mut Audit) {
        let id = entry.id.clone();
        self.active.push(Active {
            entry,
            until_boot_s: f64::NEG_INFINITY,
            reported: false,
        });
        let mut ended = self.end_due(now, "the cap could not be made", audit);
        ended.retain(|entry| entry.id != id);
        self.ended.append(&mut ended);
    }

    /// Undoes the caps that are over, and drops those that another program changed.
    pub fn tick(&mut self, now: Moment, audit: &mut Audit) -> Vec<Entry> {
        for active in &mut self.active {
            // What cannot be looked at now is looked at when it is put back.
            let changed = self
                .hierarchy
                .open(Path::new(&active.entry.cgroup))
                .and_then(|group| foreign(&group, &active.entry.changes));
            if changed.is_ok_and(|found| !found.is_empty()) {
                active.until_boot_s = f64::NEG_INFINITY;
            }
        }
        let mut ended = std::mem::take(&mut self.ended);
        ended.append(&mut self.end_due(now, "its time is over", audit));
        ended
    }

    /// Takes back all caps.
    pub fn end_all(&mut self, now: Moment, why: &str, audit: &mut Audit) -> Vec<Entry> {
        for active in &mut self.active {
            active.until_boot_s = f64::NEG_INFINITY;
        }
        let mut ended = std::mem::take(&mut self.ended);
        ended.append(&mut self.end_due(now, why, audit));
        ended
    }

    fn end_due(&mut self, now: Moment, why: &str, audit: &mut Audit) -> Vec<Entry> {
        let mut ended = Vec::new();
        let mut place = 0;
        while place < self.active.len() {
            let active = &mut self.active[place];
            if active.until_boot_s > now.boot_s {
                place += 1;
                continue;
            }
            let undoing = put_back(&active.entry, &self.boot_id);
            (self.step)("put back");
            if let Undoing::Failed(_) = undoing {
                if !active.reported {
                    tell(now, &active.entry, why, &undoing, audit);
                    active.reported = true;
                }
                place += 1;
                continue;
            }
            let mut entry = self.active.remove(place).entry;
            tell(now, &entry, why, &undoing, audit);
            (self.step)("reported");
            entry.ended = Some(Ended {
                unix_s: now.unix_s,
                undone: undoing.is_undone(),
                outcome: undoing.outcome(),
            });
            if let Err(error) = self.journal.remove(&entry.id) {
                tracing::warn!(%error, "the journal entry of an undone cap cannot be removed");
            }
            (self.step)("out of the journal");
            ended.push(entry);
        }
        if self.active.is_empty()
            && let Some(watchdog) = &mut self.watchdog
        {
            watchdog.rest();
        }
        ended
    }
}

fn tell(now: Moment, entry: &Entry, why: &str, undoing: &Undoing, audit: &mut Audit) {
    let line = Line {
        what: "undo",
        why: why.to_owned(),
        incident: Some(&entry.incident.incident),
        cgroup: Some(&entry.cgroup),
        changes: &entry.changes,
        outcome: undoing.outcome(),
        ..Line::default()
    };
    // A full disk must not keep a cap in force: what cannot be written here goes to the agent's own log.
    if let Err(error) = audit.write(now, &line) {
        tracing::warn!(%error, cgroup = entry.cgroup, outcome = line.outcome, "the audit log cannot be written");
    }
}

/// What a replay found.
#[derive(Debug, Default)]
pub struct Replayed {
    /// Caps that were taken back, or had been, with the outcome.
    pub ended: Vec<Entry>,
    /// Caps that could not be taken back; their entries stay.
    pub failed: Vec<(Entry, QuotaError)>,
    /// Entries that cannot be read, set aside.
    pub unreadable: Vec<PathBuf>,
}

/// Takes back what an agent left capped, of the entries that are `meant`. Entries stay in the journal, with their outcome,
/// until [`forget`], so that their incidents can still be reported.
pub fn replay(
    journal: &Journal,
    now: Moment,
    boot_id: &str,
    meant: impl Fn(&Entry) -> bool,
    why: &str,
    audit: &mut Audit,
) -> std::io::Result<Replayed> {
    let mut replayed = Replayed::default();
    let (entries, unreadable) = journal.entries()?;
    for mut entry in entries {
        if !meant(&entry) {
            continue;
        }
        if entry.ended.is_none() {
            let undoing = put_back(&entry, boot_id);
            tell(now, &entry, why, &undoing, audit);
            if let Undoing::Failed(error) = undoing {
                replayed.failed.push((entry, error));
                continue;
            }
            entry.ended = Some(Ended {
                unix_s: now.unix_s,
                undone: undoing.is_undone(),
                outcome: undoing.outcome(),
            });
            journal.write(&entry)?;
        }
        replayed.ended.push(entry);
    }
    for broken in unreadable {
        let line = Line {
            what: "undo",
            why: why.to_owned(),
            outcome: format!(
                "{}: unreadable, set aside, its knobs unknown: {}",
                broken.path.display(),
                broken.reason
            ),
            ..Line::default()
        };
        if let Err(error) = audit.write(now, &line) {
            tracing::warn!(%error, outcome = line.outcome, "the audit log cannot be written");
        }
        journal.set_aside(&broken.path)?;
        replayed.unreadable.push(broken.path);
    }
    Ok(replayed)
}

/// Removes entries whose incidents were reported.
pub fn forget(journal: &Journal, entries: &[Entry]) -> std::io::Result<()> {
    entries
        .iter()
        .try_for_each(|entry| journal.remove(&entry.id))
}

#[cfg(test)]
mod tests;
