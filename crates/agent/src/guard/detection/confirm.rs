//! What caps showed of a suspect: whether its victim recovered under them, and suffered again without.
//!
//! In: ended caps with the victim's CPI under them. Out: whether a suspect that is named again may be capped, and for how long.
//!
//! The first cap of a suspect for a victim is a test and short. Where at least half of the excess over the threshold stayed under it,
//! the suspect is not confirmed, and not capped for this victim for an hour. Where the victim fell to its threshold and the same
//! suspect is named again afterwards, it is confirmed: with the cap the victim was well, and without it it suffers.
//!
//! Invariant: what was found is forgotten after [`HOLDS_S`]: machines change.

use std::collections::HashMap;

use super::history::Suspect;
use super::sample::TaskName;
use crate::guard::clock::Moment;
use crate::guard::settings::{Action, Rule, Settings};
use crate::rows::Incident;

/// How long a test holds, in seconds.
pub const HOLDS_S: f64 = 3600.0;
/// Windows under a cap from which something can be said.
const LEAST_WINDOWS: usize = 2;

/// What a cap showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// The victim fell to its threshold.
    Recovered,
    /// At least half of its excess stayed.
    Stayed,
    /// Between both, or too few windows.
    Unclear,
}

/// What a cap of so many windows with this mean CPI of the victim showed.
pub fn shown(incident: &Incident, windows: usize) -> Shown {
    let Some(cpi) = incident
        .victim_cpi_after
        .filter(|_| windows >= LEAST_WINDOWS)
    else {
        return Shown::Unclear;
    };
    let halfway = (incident.threshold_cpi + incident.victim_cpi) / 2.0;
    if cpi <= incident.threshold_cpi {
        Shown::Recovered
    } else if cpi >= halfway {
        Shown::Stayed
    } else {
        Shown::Unclear
    }
}

/// The tests of the last hour, by victim and suspect.
#[derive(Debug, Default)]
pub struct Tests(HashMap<(TaskName, TaskName), (Shown, f64)>);

impl Tests {
    /// Keeps what an ended cap showed.
    pub fn keep(&mut self, incident: &Incident, windows: usize, boot_s: f64) {
        let (Some(job), Some(task)) = (&incident.antagonist_job, &incident.antagonist_task) else {
            return;
        };
        let victim = TaskName {
            job: incident.victim_job.clone(),
            task: incident.victim_task.clone(),
        };
        let suspect = TaskName {
            job: job.clone(),
            task: task.clone(),
        };
        self.0
            .insert((victim, suspect), (shown(incident, windows), boot_s));
        self.0.retain(|_, &mut (_, when)| boot_s - when <= HOLDS_S);
    }

    /// How long a suspect that is named for `incident` may be capped, None for not at all, and what is to be said about it.
    pub fn seconds(
        &self,
        settings: &Settings,
        incident: &Incident,
        suspect: &Suspect,
        now: Moment,
    ) -> (Option<f64>, String) {
        if settings.rule == Rule::Paper || settings.action != Action::Cap {
            return (Some(settings.cap_s), String::new());
        }
        let victim = TaskName {
            job: incident.victim_job.clone(),
            task: incident.victim_task.clone(),
        };
        match self.of(&victim, &suspect.name, now.boot_s) {
            Some(Shown::Stayed) => {
                let note =
                    "; not done: not confirmed, the victim did not recover under its last cap";
                (None, note.into())
            }
            Some(Shown::Recovered) => {
                let note = "; confirmed: the victim recovered under its last cap and suffers again";
                (Some(settings.cap_s), note.into())
            }
            Some(Shown::Unclear) | None => {
                let seconds = settings.cap_s.min(settings.first_cap_s);
                let note = format!("; not confirmed yet: a test of {seconds} s");
                (Some(seconds), note)
            }
        }
    }

    /// What the last cap of `suspect` for `victim` showed; None where there was none within the hour.
    pub fn of(&self, victim: &TaskName, suspect: &TaskName, boot_s: f64) -> Option<Shown> {
        let (shown, when) = self.0.get(&(victim.clone(), suspect.clone()))?;
        (boot_s - when <= HOLDS_S).then_some(*shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::testing::{incident, name};

    fn after(cpi: Option<f64>) -> Incident {
        // A threshold of 2 and a CPI of 4 before.
        Incident {
            victim_cpi_after: cpi,
            ..incident("a")
        }
    }

    #[test]
    fn a_cap_shows_recovery_its_absence_or_nothing() {
        for (cpi, windows, expected) in [
            (Some(1.8), 3, Shown::Recovered),
            (Some(2.0), 2, Shown::Recovered),
            (Some(2.5), 3, Shown::Unclear),
            (Some(3.0), 3, Shown::Stayed),
            (Some(1.8), 1, Shown::Unclear),
            (None, 0, Shown::Unclear),
        ] {
            assert_eq!(
                shown(&after(cpi), windows),
                expected,
                "{cpi:?} of {windows}"
            );
        }
    }

    #[test]
    fn a_test_holds_for_an_hour_and_for_its_pair_only() {
        let mut tests = Tests::default();
        tests.keep(&after(Some(3.9)), 3, 100.0);
        let (web, hog) = (name("web"), name("hog"));
        assert_eq!(tests.of(&web, &hog, 3_700.0), Some(Shown::Stayed));
        assert_eq!(tests.of(&web, &hog, 3_701.0), None);
        assert_eq!(tests.of(&hog, &web, 200.0), None);
    }
}
