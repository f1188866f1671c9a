//! What the guard may do, and by which figures it judges. The defaults are the paper's (Zhang et al., "CPI2", EuroSys
//! 2013) but for the rule by which suspects are named; every one of them is a parameter.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::detection::evidence::Bar;
use crate::rows::JobClass;

/// What is done about an antagonist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Nothing: incidents are recorded.
    None,
    /// What would be done is decided and recorded, and not done.
    DryRun,
    /// The antagonist's CPU time is capped for a while.
    Cap,
}

impl Action {
    /// The word of the store's column `action` and of the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::DryRun => "dry-run",
            Self::Cap => "cap",
        }
    }

    /// The action of a word of the command line or of the store.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::None, Self::DryRun, Self::Cap]
            .into_iter()
            .find(|action| action.as_str() == word)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.as_str())
    }
}

/// By which rule a suspect is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// By tested evidence (see `evidence`).
    Tested,
    /// By the paper's correlation alone: among many bursty tasks it mostly names a wrong one.
    Paper,
}

impl Rule {
    /// The word of the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tested => "tested",
            Self::Paper => "paper",
        }
    }

    /// The rule of a word of the configuration.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Tested, Self::Paper]
            .into_iter()
            .find(|rule| rule.as_str() == word)
    }
}

/// Names by patterns in which `*` stands for any text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobList {
    /// The jobs that may be; all when empty.
    pub allow: Vec<String>,
    /// The jobs that may not be, whatever `allow` says.
    pub deny: Vec<String>,
}

impl JobList {
    /// Why `job` is not in the list, if it is not.
    pub fn refusal(&self, job: &str) -> Option<String> {
        if let Some(pattern) = self.deny.iter().find(|pattern| matches(pattern, job)) {
            return Some(format!("{pattern:?} is on the deny list"));
        }
        if self.allow.is_empty() || self.allow.iter().any(|pattern| matches(pattern, job)) {
            return None;
        }
        Some("not on the allow list".into())
    }
}

/// Whether `name` is what `pattern` describes. Linear in both: a star is only ever moved forward.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, seen));
            at += 1;
        } else if pattern.get(at) == Some(&name[seen]) {
            at += 1;
            seen += 1;
        } else if let Some((place, from)) = star {
            star = Some((place, from + 1));
            at = place + 1;
            seen = from + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

/// The guard's parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What is done about an antagonist.
    pub action: Action,
    /// Standard deviations above the mean from which a sample is an outlier; None: the specification's own threshold.
    pub threshold_sigmas: Option<f64>,
    /// CPU-seconds per second below which a victim's sample does not count.
    pub min_usage: f64,
    /// Outliers that make a task anomalous ...
    pub outliers: usize,
    /// ... within so many seconds.
    pub outlier_window_s: f64,
    /// Seconds of time-aligned samples by which suspects are ranked.
    pub correlation_window_s: f64,
    /// By which rule a suspect is named.
    pub rule: Rule,
    /// Correlation from which a suspect is acted upon, by the paper's rule.
    pub min_correlation: f64,
    /// Seconds over which the tested rule looks back.
    pub evidence_window_s: f64,
    /// What the tested rule asks for.
    pub bar: Bar,
    /// Seconds that the first cap of a suspect for a victim lasts, by the tested rule.
    pub first_cap_s: f64,
    /// Seconds that a cap lasts.
    pub cap_s: f64,
    /// CPU-seconds per second that a batch antagonist keeps.
    pub batch_cap_cpu_ratio: f64,
    /// CPU-seconds per second that a best-effort antagonist keeps.
    pub best_effort_cap_cpu_ratio: f64,
    /// Maximum number of caps at once.
    pub max_caps: usize,
    /// Jobs that may be protected, among the latency-sensitive ones.
    pub victims: JobList,
    /// Jobs that may be capped, among the batch and best-effort ones.
    pub antagonists: JobList,
    /// Age in seconds from which a specification is called stale. It is still used.
    pub spec_stale_s: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            action: Action::DryRun,
            threshold_sigmas: None,
            min_usage: 0.25,
            outliers: 3,
            outlier_window_s: 300.0,
            correlation_window_s: 600.0,
            rule: Rule::Tested,
            min_correlation: 0.35,
            evidence_window_s: 7200.0,
            bar: Bar::default(),
            first_cap_s: 180.0,
            cap_s: 300.0,
            batch_cap_cpu_ratio: 0.1,
            best_effort_cap_cpu_ratio: 0.01,
            max_caps: 4,
            victims: JobList::default(),
            antagonists: JobList::default(),
            // Specifications are rebuilt daily: older ones mean that a rebuild was missed.
            spec_stale_s: 2.0 * 86_400.0,
        }
    }
}

impl Settings {
    /// CPU-seconds per second that a capped task of this class keeps; None for a class that is never capped.
    pub fn cap_cpu_ratio(&self, class: JobClass) -> Option<f64> {
        match class {
            JobClass::LatencySensitive => None,
            JobClass::Batch => Some(self.batch_cap_cpu_ratio),
            JobClass::BestEffort => Some(self.best_effort_cap_cpu_ratio),
        }
    }

    /// What is wrong with these settings, if anything.
    pub fn fault(&self) -> Option<String> {
        let positive = [
            ("outlier window", self.outlier_window_s),
            ("correlation window", self.correlation_window_s),
            ("evidence window", self.evidence_window_s),
            ("length of a test cap", self.first_cap_s),
            ("length of a cap", self.cap_s),
            ("age of a stale specification", self.spec_stale_s),
        ];
        for (name, value) in positive {
            if !(value.is_finite() && value > 0.0) {
                return Some(format!("the {name} must be more than 0 s, not {value}"));
            }
        }
        for (name, value) in [
            ("batch", self.batch_cap_cpu_ratio),
            ("best-effort", self.best_effort_cap_cpu_ratio),
        ] {
            // The kernel's shortest quota is 1 ms, and its longest period 1 s.
            if !(value.is_finite() && value >= 0.001) {
                return Some(format!(
                    "a {name} task must be left 0.001 CPU-s/s or more, not {value}"
                ));
            }
        }
        if self.outliers == 0 {
            return Some("no outlier at all would make every task anomalous".into());
        }
        if !(-1.0..=1.0).contains(&self.min_correlation) {
            return Some(format!(
                "a correlation lies in [-1, 1], so {} cannot be a threshold",
                self.min_correlation
            ));
        }
        let ratio = self.bar.false_name_ratio;
        // Below, no history that is kept could name anybody.
        if !(0.001..1.0).contains(&ratio) {
            return Some(format!(
                "{ratio} is not a probability of a wrong name, from 0.001 to below 1"
            ));
        }
        if !(self.min_usage.is_finite() && self.min_usage >= 0.0) {
            return Some(format!("{} CPU-s/s is not a usage", self.min_usage));
        }
        match self.threshold_sigmas {
            Some(sigmas) if !(sigmas.is_finite() && sigmas > 0.0) => {
                Some(format!("{sigmas} standard deviations is not a threshold"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_defaults_are_the_papers() {
        let settings = Settings::default();
        assert_eq!(settings.fault(), None);
        assert_eq!(settings.action, Action::DryRun);
        assert_eq!((settings.outliers, settings.outlier_window_s), (3, 300.0));
        assert_eq!(settings.cap_cpu_ratio(JobClass::Batch), Some(0.1));
        assert_eq!(settings.cap_cpu_ratio(JobClass::BestEffort), Some(0.01));
        assert_eq!(settings.cap_cpu_ratio(JobClass::LatencySensitive), None);
    }

    #[test]
    fn a_list_denies_before_it_allows() {
        let list = JobList {
            allow: vec!["index*".into(), "*-batch".into()],
            deny: vec!["index-of-record".into()],
        };
        assert_eq!(list.refusal("indexer"), None);
        assert_eq!(list.refusal("log-batch"), None);
        assert!(list.refusal("index-of-record").unwrap().contains("deny"));
        assert!(list.refusal("web").unwrap().contains("allow"));
        assert_eq!(JobList::default().refusal("anything"), None);
    }

    #[test]
    fn settings_that_cannot_be_are_named() {
        let bad = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.fault().unwrap()
        };
        assert!(bad(|s| s.cap_s = 0.0).contains("length of a cap"));
        assert!(bad(|s| s.outliers = 0).contains("anomalous"));
        assert!(bad(|s| s.batch_cap_cpu_ratio = 0.0).contains("batch"));
        assert!(bad(|s| s.min_correlation = f64::NAN).contains("correlation"));
        assert!(bad(|s| s.threshold_sigmas = Some(-1.0)).contains("threshold"));
    }

    proptest! {
        #[test]
        fn a_pattern_matches_what_it_is_made_of(parts in prop::collection::vec("[a-c]{0,3}", 1..5), filler in "[a-c*]{0,4}") {
            let pattern = parts.join("*");
            let name = parts.join(&filler);
            prop_assert!(matches(&pattern, &name));
            prop_assert!(matches("*", &name));
            if !pattern.contains('*') {
                let longer = name.clone() + "x";
                prop_assert!(!matches(&pattern, &longer));
            }
        }
    }
}
