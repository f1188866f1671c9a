//! The guard's part of the agent's configuration: the table `[guard]`.
//!
//! In: TOML. Out: settings, or one line that says which key is wrong. Invariant: every key has an entry in [`KEYS`], from which the
//! reference is checked.

use std::time::Duration;

use serde::Deserialize;

use super::detection::evidence::Bar;
use super::settings::{Action, JobList, Rule, Settings};

/// Every key: its name, its default as TOML (empty where nothing holds), what it means.
pub const KEYS: &[(&str, &str, &str)] = &[
    (
        "action",
        "\"dry-run\"",
        "`none` (record incidents), `dry-run` (also record which task would be capped) or `cap`.",
    ),
    (
        "threshold_sigmas",
        "",
        "Standard deviations above the mean CPI from which a sample is an outlier; the specification's threshold when absent.",
    ),
    (
        "min_usage",
        "0.25",
        "CPU-s/s below which a sample does not count.",
    ),
    ("outliers", "3", "Outliers that make a task anomalous ..."),
    ("outlier_window_s", "300.0", "... within so many seconds."),
    (
        "correlation_window_s",
        "600.0",
        "Seconds over which suspects' usage is correlated with the victim's CPI.",
    ),
    (
        "rule",
        "\"tested\"",
        "`tested` (by evidence that holds among bursty tasks) or `paper` (by correlation alone).",
    ),
    (
        "min_correlation",
        "0.35",
        "Correlation from which a suspect is acted upon, by the rule `paper`.",
    ),
    (
        "evidence_window_s",
        "7200.0",
        "Seconds over which the rule `tested` looks back.",
    ),
    (
        "false_name_ratio",
        "0.01",
        "Largest p value of a name by the rule `tested`; 1 / this many windows are needed.",
    ),
    (
        "first_cap_s",
        "180.0",
        "Seconds that the first cap of a suspect for a victim lasts at most, by the rule `tested`.",
    ),
    ("cap_s", "300.0", "Seconds that a cap lasts."),
    (
        "batch_cap_cpu_ratio",
        "0.1",
        "CPU-s/s that a capped batch task keeps, 0.001 or more.",
    ),
    (
        "best_effort_cap_cpu_ratio",
        "0.01",
        "CPU-s/s that a capped best-effort task keeps.",
    ),
    ("max_caps", "4", "Maximum number of caps at once."),
    (
        "victims_allow",
        "[]",
        "Latency-sensitive jobs that are protected, all when empty; `*` stands for any text.",
    ),
    (
        "victims_deny",
        "[]",
        "Jobs that are not protected, whatever `victims_allow` says.",
    ),
    (
        "antagonists_allow",
        "[]",
        "Batch and best-effort jobs that may be capped, all when empty.",
    ),
    (
        "antagonists_deny",
        "[]",
        "Jobs that may not be capped, whatever `antagonists_allow` says.",
    ),
    (
        "spec_stale_s",
        "172800.0",
        "Age at which a specification is reported as stale. It is still used.",
    ),
    (
        "refresh_s",
        "600.0",
        "Time between reads of specifications from the store.",
    ),
    (
        "watchdog",
        "true",
        "Whether a small process undoes caps when the agent is killed; the next start undoes them in any case.",
    ),
];

/// What the table says.
#[derive(Debug, Clone, PartialEq)]
pub struct GuardConfig {
    /// By what the guard judges, and what it may do.
    pub settings: Settings,
    /// Time between two looks for specifications.
    pub refresh: Duration,
    /// Whether a watchdog is to be had while there is a cap.
    pub watchdog: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Text {
    action: String,
    threshold_sigmas: Option<f64>,
    min_usage: f64,
    outliers: usize,
    outlier_window_s: f64,
    correlation_window_s: f64,
    rule: String,
    min_correlation: f64,
    evidence_window_s: f64,
    false_name_ratio: f64,
    first_cap_s: f64,
    cap_s: f64,
    batch_cap_cpu_ratio: f64,
    best_effort_cap_cpu_ratio: f64,
    max_caps: usize,
    victims_allow: Vec<String>,
    victims_deny: Vec<String>,
    antagonists_allow: Vec<String>,
    antagonists_deny: Vec<String>,
    spec_stale_s: f64,
    refresh_s: f64,
    watchdog: bool,
}

impl Default for Text {
    fn default() -> Self {
        let settings = Settings::default();
        Self {
            action: settings.action.as_str().into(),
            threshold_sigmas: settings.threshold_sigmas,
            min_usage: settings.min_usage,
            outliers: settings.outliers,
            outlier_window_s: settings.outlier_window_s,
            correlation_window_s: settings.correlation_window_s,
            rule: settings.rule.as_str().into(),
            min_correlation: settings.min_correlation,
            evidence_window_s: settings.evidence_window_s,
            false_name_ratio: settings.bar.false_name_ratio,
            first_cap_s: settings.first_cap_s,
            cap_s: settings.cap_s,
            batch_cap_cpu_ratio: settings.batch_cap_cpu_ratio,
            best_effort_cap_cpu_ratio: settings.best_effort_cap_cpu_ratio,
            max_caps: settings.max_caps,
            victims_allow: settings.victims.allow,
            victims_deny: settings.victims.deny,
            antagonists_allow: settings.antagonists.allow,
            antagonists_deny: settings.antagonists.deny,
            spec_stale_s: settings.spec_stale_s,
            refresh_s: 600.0,
            watchdog: true,
        }
    }
}

impl GuardConfig {
    /// What the table says, or in one line what is wrong with it.
    pub fn parse(table: &toml::Table) -> Result<Self, String> {
        let text: Text = table
            .clone()
            .try_into()
            .map_err(|error: toml::de::Error| format!("guard: {}", error.message()))?;
        let action = Action::parse(&text.action).ok_or_else(|| {
            format!(
                "guard.action is {:?}, not none, dry-run or cap",
                text.action
            )
        })?;
        let rule = Rule::parse(&text.rule)
            .ok_or_else(|| format!("guard.rule is {:?}, not tested or paper", text.rule))?;
        let refresh = Duration::try_from_secs_f64(text.refresh_s)
            .ok()
            .filter(|refresh| !refresh.is_zero())
            .ok_or_else(|| format!("guard.refresh_s is {}, not a time", text.refresh_s))?;
        let settings = Settings {
            action,
            threshold_sigmas: text.threshold_sigmas,
            min_usage: text.min_usage,
            outliers: text.outliers,
            outlier_window_s: text.outlier_window_s,
            correlation_window_s: text.correlation_window_s,
            rule,
            min_correlation: text.min_correlation,
            evidence_window_s: text.evidence_window_s,
            bar: Bar {
                false_name_ratio: text.false_name_ratio,
                ..Bar::default()
            },
            first_cap_s: text.first_cap_s,
            cap_s: text.cap_s,
            batch_cap_cpu_ratio: text.batch_cap_cpu_ratio,
            best_effort_cap_cpu_ratio: text.best_effort_cap_cpu_ratio,
            max_caps: text.max_caps,
            victims: JobList {
                allow: text.victims_allow,
                deny: text.victims_deny,
            },
            antagonists: JobList {
                allow: text.antagonists_allow,
                deny: text.antagonists_deny,
            },
            spec_stale_s: text.spec_stale_s,
        };
        if let Some(fault) = settings.fault() {
            return Err(format!("guard: {fault}"));
        }
        Ok(Self {
            settings,
            refresh,
            watchdog: text.watchdog,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<GuardConfig, String> {
        GuardConfig::parse(&text.parse().unwrap())
    }

    #[test]
    fn defaults_are_those_of_the_reference() {
        let empty = parse("").unwrap();
        assert_eq!(empty.settings, Settings::default());
        for (name, default, _) in KEYS.iter().filter(|key| !key.1.is_empty()) {
            assert_eq!(
                parse(&format!("{name} = {default}")).unwrap(),
                empty,
                "{name}"
            );
        }
    }

    #[test]
    fn every_key_is_documented() {
        let error = parse("nonsense = 1").unwrap_err();
        let (_, list) = error.split_once("expected one of ").unwrap();
        let known: Vec<_> = list.split('`').skip(1).step_by(2).collect();
        let documented: Vec<_> = KEYS.iter().map(|key| key.0).collect();
        assert_eq!(known, documented);
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        for (text, wanted) in [
            ("action = \"kill\"", "guard.action is \"kill\""),
            ("cap_s = -1.0", "guard: the length of a cap"),
            ("refresh_s = 0.0", "guard.refresh_s is 0"),
            ("rule = \"mine\"", "guard.rule is \"mine\""),
            ("false_name_ratio = 0.0", "guard: 0 is not a probability"),
            ("outliers = -1", "guard: "),
            ("min_usage = \"x\"", "guard: "),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_whole_table() {
        let config = parse(
            "action = \"cap\"\ncap_s = 5.0\nantagonists_deny = [\"system-*\"]\nrefresh_s = 1.0\nwatchdog = false\n",
        )
        .unwrap();
        assert_eq!(config.settings.action, Action::Cap);
        assert_eq!(config.settings.antagonists.deny, ["system-*"]);
        assert_eq!(config.refresh, Duration::from_secs(1));
        assert!(!config.watchdog);
    }
}
