//! An incident as a row of the store, from its beginning to what is said of its end.

use serde_json::json;

use super::capping::journal::Entry;
use super::clock::Moment;
use super::detection::decide::Decision;
use super::detection::history::{Outliers, Suspect};
use super::detection::sample::TaskName;
use super::settings::Action;
use super::specs::spec::Specs;
use crate::rows::{Incident, TaskSample};

/// Suspects named in the audit log for each incident.
const SUSPECTS_LISTED: usize = 5;

/// An incident of which nothing is done yet: `sample` is the one that made its task anomalous against `limit`.
pub fn begin(
    machine: &str,
    sample: &TaskSample,
    outliers: &Outliers,
    limit: f64,
    suspects: &[Suspect],
    decision: &Decision,
) -> Incident {
    let name = TaskName::of(sample);
    let suspect = decision.suspect.map(|place| &suspects[place]);
    Incident {
        incident: format!("{machine}:{name}:{}", outliers.last_start_unix_s),
        victim_job: name.job,
        victim_task: name.task,
        start_unix_s: outliers.last_start_unix_s,
        end_unix_s: Some(window_end(sample)),
        threshold_cpi: limit,
        victim_cpi: outliers.cpi_mean,
        outliers: outliers.count as i64,
        antagonist_job: suspect.map(|suspect| suspect.name.job.clone()),
        antagonist_task: suspect.map(|suspect| suspect.name.task.clone()),
        antagonist_class: suspect.map(|suspect| suspect.class),
        correlation: suspect.map(|suspect| suspect.correlation),
        action: Action::None.as_str().into(),
        reason: decision.reason.clone(),
        cap_cpu_ratio: None,
        cap_start_unix_s: None,
        cap_end_unix_s: None,
        undone: None,
        victim_cpi_after: None,
    }
}

/// What is to be said about a specification that is older than `stale_s`.
pub fn age_of_spec(now: Moment, sample: &TaskSample, specs: &Specs, stale_s: f64) -> String {
    let spec = sample
        .cpi_source
        .as_ref()
        .and_then(|source| specs.find(&sample.task.job, source));
    let age_s = spec.map_or(0.0, |spec| now.unix_s - spec.built_unix_s as f64);
    if age_s <= stale_s {
        return String::new();
    }
    format!("; the specification is {:.1} days old", age_s / 86_400.0)
}

/// What is to be said of a cap's end; None: it is still in force, and the agent ends.
pub fn finish(incident: &mut Incident, entry: Option<&Entry>) {
    let ended = entry.and_then(|entry| entry.ended.as_ref());
    incident.cap_end_unix_s = ended.map(|ended| ended.unix_s.floor() as i64);
    incident.undone = Some(ended.is_some_and(|ended| ended.undone));
    let outcome = ended.map_or("not put back yet", |ended| ended.outcome.as_str());
    incident.reason += &format!("; {outcome}");
}

/// When a sample's window ended, in whole seconds of Unix time.
pub fn window_end(sample: &TaskSample) -> i64 {
    sample.window_start_unix_s + sample.window_s.ceil() as i64
}

/// The figures that an incident was decided by, for the audit log.
pub fn evidence(
    sample: &TaskSample,
    outliers: &Outliers,
    limit: f64,
    suspects: &[Suspect],
) -> serde_json::Value {
    let suspects: Vec<_> = suspects
        .iter()
        .take(SUSPECTS_LISTED)
        .map(|suspect| {
            json!({
                "task": suspect.name.to_string(),
                "class": suspect.class.name(),
                "correlation": suspect.correlation,
                "cpu_usage": suspect.usage_in_outliers,
                "p_value": suspect.evidence.as_ref().and_then(|found| found.p_value),
                "explained_ratio": suspect.evidence.as_ref().and_then(|found| found.explained_ratio),
                "effect_ratio": suspect.evidence.as_ref().and_then(|found| found.effect_ratio),
                "misses_rise": suspect.evidence.as_ref().and_then(|found| found.misses_rise),
                "refusal": suspect.evidence.as_ref().and_then(|found| found.refusal.as_deref()),
            })
        })
        .collect();
    json!({
        "victim": TaskName::of(sample).to_string(),
        "victim_class": sample.task.job_class.name(),
        "cpi": outliers.cpi_mean,
        "threshold_cpi": limit,
        "outliers": outliers.count,
        "first_unix_s": outliers.first_start_unix_s,
        "last_unix_s": outliers.last_start_unix_s,
        "suspects": suspects,
    })
}
