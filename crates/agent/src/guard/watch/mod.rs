//! The guard itself: takes each finished window, and ends with incidents.
//!
//! In: the samples of a window, the specifications as they are, the time. Out: incidents that are over, as rows of the
//! store; caps, if these are enabled; lines of the audit log; figures of its own.
//!
//! Invariants: an incident is returned once, when it is over: when its cap has ended, or after the time that a cap would have
//! lasted; a victim has one incident at a time, and its outliers count for one; nothing waits here, neither for the store
//! nor for a lock.
//!
//! Source: Zhang et al., "CPI2: CPU performance isolation for shared compute clusters", EuroSys 2013, sections 4 and 5.

use std::collections::HashMap;

use super::capping::audit::{Audit, Line};
use super::capping::caps::{Caps, Order};
use super::capping::journal::Entry;
use super::clock::Moment;
use super::detection::confirm::Tests;
use super::detection::decide::{Decision, Groups, decide, is_named};
use super::detection::episodes::Episodes;
use super::detection::history::{History, Refused, Suspect};
use super::detection::sample::{TaskName, fault};
use super::incident::{age_of_spec, begin, evidence, finish, window_end};
use super::settings::{Action, Rule, Settings};
use super::specs::spec::{Specs, threshold};
use super::stats::Stats;
use crate::rows::{Incident, TaskSample};

/// An incident that is not over.
struct Open {
    incident: Incident,
    victim: TaskName,
    /// When its observation ends by itself; a cap's end ends it before or after.
    until_boot_s: f64,
    capped: bool,
    /// Whether an antagonist is named.
    named: bool,
    /// Windows that began from here on show what the action did.
    acted_unix_s: i64,
    cpi_sum: f64,
    cpi_count: usize,
}

/// A sample against its specification.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Judged {
    /// There is nothing to compare it with.
    Unknown,
    /// It has no CPI, or too little usage for one to mean anything.
    Uncounted,
    /// Its CPI, with the threshold.
    Counted { cpi: f64, threshold: f64 },
}

/// The guard of one machine.
pub struct Guard {
    settings: Settings,
    machine: String,
    own_cgroup: Option<String>,
    history: History,
    open: Vec<Open>,
    /// Up to which window a victim's outliers have had their incident.
    dealt: HashMap<TaskName, i64>,
    /// By the tested rule: how many anomalous windows a victim had by now.
    episodes: Episodes,
    /// By the tested rule: what caps showed.
    tests: Tests,
    /// None unless caps may be made.
    caps: Option<Caps>,
    audit: Audit,
    stats: Stats,
}

impl Guard {
    /// A guard that has seen nothing. `caps` is what it caps with, if it may; `own_cgroup` is never capped.
    pub fn new(
        settings: Settings,
        machine: String,
        own_cgroup: Option<String>,
        caps: Option<Caps>,
        audit: Audit,
    ) -> Self {
        let mut keep_s = settings.correlation_window_s.max(settings.outlier_window_s);
        if settings.rule == Rule::Tested {
            keep_s = keep_s.max(settings.evidence_window_s);
        }
        Self {
            settings,
            machine,
            own_cgroup,
            history: History::new(keep_s),
            open: Vec::new(),
            dealt: HashMap::new(),
            episodes: Episodes::default(),
            tests: Tests::default(),
            caps,
            audit,
            stats: Stats::default(),
        }
    }

    /// Its audit log.
    pub fn audit(&mut self) -> &mut Audit {
        &mut self.audit
    }

    /// Figures of its own.
    pub fn stats(&self) -> Stats {
        Stats {
            caps_active: self.caps.as_ref().map_or(0, Caps::len) as u64,
            incidents_open: self.open.len() as u64,
            ..self.stats
        }
    }

    /// Takes the samples of a finished window. Returns the incidents that are over.
    pub fn on_window(
        &mut self,
        now: Moment,
        samples: &[TaskSample],
        specs: &Specs,
    ) -> Vec<Incident> {
        self.notice_clock(now, samples);
        let mut suffering: Vec<(TaskName, &TaskSample, f64)> = Vec::new();
        for sample in samples {
            if fault(sample).is_some() {
                self.stats.samples_rejected += 1;
                continue;
            }
            let judged = self.judge(sample, specs);
            let (cpi, limit) = match judged {
                Judged::Counted { cpi, threshold } => (Some(cpi), Some(threshold)),
                _ => (None, None),
            };
            let outlier = cpi.zip(limit).is_some_and(|(cpi, limit)| cpi > limit);
            match self.history.add(sample, cpi, outlier) {
                Ok(()) => {}
                Err(Refused::Duplicate | Refused::Late | Refused::Full) => {
                    self.stats.samples_rejected += 1;
                    continue;
                }
            }
            self.count(judged, outlier);
            let name = TaskName::of(sample);
            self.observe(&name, sample, cpi, outlier);
            if let Some(limit) = limit.filter(|_| outlier) {
                suffering.push((name, sample, limit));
            }
        }
        self.history.prune();
        self.forget_dealt();
        for (name, sample, limit) in suffering {
            self.consider(now, name, sample, limit, specs);
        }
        self.tick(now)
    }

    /// Ends what is over: to be called each second or so. Returns the incidents that are over.
    pub fn tick(&mut self, now: Moment) -> Vec<Incident> {
        let ended = match &mut self.caps {
            Some(caps) => caps.tick(now, &mut self.audit),
            None => Vec::new(),
        };
        self.close(now, ended, false)
    }

    /// Takes back every cap and ends every incident: the agent is about to end.
    pub fn stop(&mut self, now: Moment, why: &str) -> Vec<Incident> {
        let ended = match &mut self.caps {
            Some(caps) => caps.end_all(now, why, &mut self.audit),
            None => Vec::new(),
        };
        self.close(now, ended, true)
    }

    /// A clock that was set back would make every sample late, one set forth makes the past too old: both begin anew.
    fn notice_clock(&mut self, now: Moment, samples: &[TaskSample]) {
        let newest = samples
            .iter()
            .map(|sample| sample.window_start_unix_s)
            .max();
        let (Some(newest), Some(known)) = (newest, self.history.newest_unix_s()) else {
            return;
        };
        let back_s = (known - newest) as f64;
        if back_s <= self.settings.outlier_window_s {
            return;
        }
        self.history.clear();
        self.dealt.clear();
        self.episodes.clear();
        self.stats.clock_steps += 1;
        let line = Line {
            what: "clock",
            why: format!("the clock went back by {back_s} s"),
            outcome: "the history of all tasks is discarded".into(),
            ..Line::default()
        };
        self.tell(now, &line);
    }

    fn judge(&self, sample: &TaskSample, specs: &Specs) -> Judged {
        let (Some(cpi), Some(source)) = (sample.cpi, &sample.cpi_source) else {
            return Judged::Uncounted;
        };
        if sample.cpu_usage() < self.settings.min_usage {
            return Judged::Uncounted;
        }
        match specs.find(&sample.task.job, source) {
            None => Judged::Unknown,
            Some(spec) => Judged::Counted {
                cpi,
                threshold: threshold(spec, self.settings.threshold_sigmas),
            },
        }
    }

    fn count(&mut self, judged: Judged, outlier: bool) {
        self.stats.samples += 1;
        match judged {
            Judged::Unknown => self.stats.samples_without_spec += 1,
            Judged::Uncounted => self.stats.samples_uncounted += 1,
            Judged::Counted { .. } => self.stats.outliers += u64::from(outlier),
        }
    }

    /// What a victim's sample says about the action that was taken for it.
    fn observe(&mut self, name: &TaskName, sample: &TaskSample, cpi: Option<f64>, outlier: bool) {
        let Some(open) = self.open.iter_mut().find(|open| open.victim == *name) else {
            return;
        };
        if outlier {
            open.incident.end_unix_s = Some(window_end(sample));
        }
        if let Some(cpi) = cpi.filter(|_| sample.window_start_unix_s >= open.acted_unix_s) {
            open.cpi_sum += cpi;
            open.cpi_count += 1;
        }
    }

    fn forget_dealt(&mut self) {
        let Some(newest) = self.history.newest_unix_s() else {
            return;
        };
        let window_s = self.settings.outlier_window_s;
        self.dealt
            .retain(|_, &mut until| (newest - until) as f64 <= window_s);
        let window_s = self.settings.correlation_window_s;
        self.episodes.forget(newest, window_s);
    }

    /// A task with an outlier: is it anomalous, and what is to be done?
    fn consider(
        &mut self,
        now: Moment,
        name: TaskName,
        sample: &TaskSample,
        limit: f64,
        specs: &Specs,
    ) {
        let open = self.open.iter().find(|open| open.victim == name);
        // By the tested rule an incident without a name may get one while it lasts.
        if open.is_some_and(|open| open.named || self.settings.rule == Rule::Paper) {
            return;
        }
        let since = self.dealt.get(&name).copied();
        let window_s = self.settings.outlier_window_s;
        let Some(outliers) = self
            .history
            .outliers(&name, window_s, since)
            .filter(|outliers| outliers.count >= self.settings.outliers)
        else {
            return;
        };
        let Some(suspects) = self.suspects(&name, sample, limit) else {
            return;
        };
        let decision = self.decide(&name, sample, &suspects);
        let named = suspects
            .first()
            .is_some_and(|first| is_named(&self.settings, first));
        let earlier = self.open.iter().position(|open| open.victim == name);
        if earlier.is_some() && !named {
            return;
        }
        let earlier = earlier.map(|place| self.open.remove(place).incident);
        let mut incident = begin(
            &self.machine,
            sample,
            &outliers,
            limit,
            &suspects,
            &decision,
        );
        incident.reason += &age_of_spec(now, sample, specs, self.settings.spec_stale_s);
        match earlier {
            // The same incident, of which more is known now.
            Some(earlier) => {
                incident.incident = earlier.incident;
                incident.start_unix_s = earlier.start_unix_s;
            }
            None => self.stats.incidents += 1,
        }
        let evidence = evidence(sample, &outliers, limit, &suspects);
        self.act(now, &mut incident, &suspects, &decision, evidence);
        let capped = incident.action == Action::Cap.as_str();
        self.open.push(Open {
            incident,
            victim: name,
            until_boot_s: now.boot_s + self.settings.cap_s,
            capped,
            named,
            acted_unix_s: now.unix_whole_s(),
            cpi_sum: 0.0,
            cpi_count: 0,
        });
    }

    /// The suspects of a victim that is anomalous now; None where the tested rule does not look at this window.
    fn suspects(
        &mut self,
        name: &TaskName,
        sample: &TaskSample,
        limit: f64,
    ) -> Option<Vec<Suspect>> {
        let window_s = self.settings.correlation_window_s;
        if self.settings.rule == Rule::Paper {
            return Some(self.history.suspects(name, window_s, limit));
        }
        let looks = self.episodes.count(name, sample.window_start_unix_s);
        let settings = &self.settings;
        looks.then(|| {
            self.history.weighed(
                name,
                window_s,
                settings.evidence_window_s,
                limit,
                &settings.bar,
            )
        })
    }

    fn decide(&self, name: &TaskName, sample: &TaskSample, suspects: &[Suspect]) -> Decision {
        let groups = Groups {
            victim: &sample.task.cgroup,
            own: self.own_cgroup.as_deref(),
        };
        let victim = (name, sample.task.job_class);
        let capped = |group: &str| self.caps.as_ref()?.incident_of(group);
        decide(&self.settings, victim, suspects, groups, capped)
    }

    /// Does what was decided, as far as it is allowed, and records it.
    fn act(
        &mut self,
        now: Moment,
        incident: &mut Incident,
        suspects: &[Suspect],
        decision: &Decision,
        evidence: serde_json::Value,
    ) {
        let chosen = decision.suspect.map(|place| &suspects[place]);
        if let Some((suspect, ratio)) = chosen.zip(decision.cap_cpu_ratio) {
            self.act_upon(now, incident, suspect, ratio);
        }
        match incident.action.as_str() {
            "cap" => self.stats.caps += 1,
            "dry-run" => self.stats.dry_runs += 1,
            _ => {}
        }
        let line = Line {
            what: "incident",
            why: incident.reason.clone(),
            incident: Some(&incident.incident),
            cgroup: chosen.map(|suspect| suspect.cgroup.as_str()),
            evidence,
            outcome: incident.action.clone(),
            ..Line::default()
        };
        self.tell(now, &line);
    }

    fn act_upon(&mut self, now: Moment, incident: &mut Incident, suspect: &Suspect, ratio: f64) {
        let in_force = self
            .open
            .iter()
            .filter(|open| open.incident.action != Action::None.as_str())
            .count();
        if in_force >= self.settings.max_caps {
            incident.reason += &format!("; not done: {in_force} caps are in force, the maximum");
            return;
        }
        let (seconds, note) = self.tests.seconds(&self.settings, incident, suspect, now);
        incident.reason += &note;
        let Some(seconds) = seconds else {
            return;
        };
        match (self.settings.action, &mut self.caps) {
            (Action::None, _) => incident.reason += "; not done: guard.action is none",
            (Action::DryRun, _) | (Action::Cap, None) => {
                incident.action = Action::DryRun.as_str().into();
                incident.cap_cpu_ratio = Some(ratio);
            }
            (Action::Cap, Some(caps)) => {
                incident.action = Action::Cap.as_str().into();
                incident.cap_cpu_ratio = Some(ratio);
                incident.cap_start_unix_s = Some(now.unix_whole_s());
                let order = Order {
                    cgroup: &suspect.cgroup,
                    cpu_ratio: ratio,
                    seconds,
                    incident,
                    why: &incident.reason,
                };
                if let Err(error) = caps.make(now, &order, &mut self.audit) {
                    self.stats.cap_failures += 1;
                    incident.action = Action::None.as_str().into();
                    incident.cap_cpu_ratio = None;
                    incident.cap_start_unix_s = None;
                    incident.reason += &format!("; not done: {error}");
                }
            }
        }
    }

    /// Ends incidents whose caps have ended, those without a cap whose time is over, or all.
    fn close(&mut self, now: Moment, ended: Vec<Entry>, all: bool) -> Vec<Incident> {
        for entry in &ended {
            let undone = entry.ended.as_ref().is_some_and(|ended| ended.undone);
            self.stats.caps_ended += 1;
            self.stats.caps_not_undone += u64::from(!undone);
        }
        let mut over = Vec::new();
        let mut place = 0;
        while place < self.open.len() {
            let open = &mut self.open[place];
            let entry = ended
                .iter()
                .find(|entry| entry.incident.incident == open.incident.incident);
            let is_over = match (&entry, open.capped) {
                (Some(_), _) => true,
                // A cap that cannot be put back keeps its incident open, unless the agent ends.
                (None, true) => all,
                (None, false) => all || now.boot_s >= open.until_boot_s,
            };
            if !is_over {
                place += 1;
                continue;
            }
            let mut open = self.open.remove(place);
            if open.capped {
                finish(&mut open.incident, entry);
            }
            open.incident.victim_cpi_after =
                (open.cpi_count > 0).then(|| open.cpi_sum / open.cpi_count as f64);
            if open.capped {
                self.tests.keep(&open.incident, open.cpi_count, now.boot_s);
            }
            if open.named {
                self.episodes.end(&open.victim);
            }
            // By the tested rule outliers that named nobody still count for the next look.
            let is_dealt = open.named || self.settings.rule == Rule::Paper;
            if let Some(newest) = self.history.newest_unix_s().filter(|_| is_dealt) {
                self.dealt.insert(open.victim, newest);
            }
            over.push(open.incident);
        }
        over
    }

    /// Adds a line to the audit log.
    pub fn tell(&mut self, now: Moment, line: &Line) {
        if let Err(error) = self.audit.write(now, line) {
            tracing::warn!(%error, outcome = line.outcome, "the audit log cannot be written");
        }
    }
}

#[cfg(test)]
mod tests;
