//! Whether something is done about a victim's suspects, and about which: a pure function.
//!
//! In: suspects in their order, the settings, whom the guard may not touch. Out: a decision with its reason as a sentence.

use super::evidence::Evidence;
use super::history::Suspect;
use super::sample::TaskName;
use crate::guard::settings::Settings;
use crate::rows::JobClass;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The place of the suspect in the list: the one to act upon, or the likeliest one that may not be; None where none is
    /// suspected enough.
    pub suspect: Option<usize>,
    /// CPU-s/s that it is to be left; None: nothing is done.
    pub cap_cpu_ratio: Option<f64>,
    /// Why.
    pub reason: String,
}

/// Control groups that matter to a decision, as paths below the root of the hierarchy.
#[derive(Debug, Clone, Copy)]
pub struct Groups<'a> {
    /// The victim's.
    pub victim: &'a str,
    /// The agent's own, if it is known.
    pub own: Option<&'a str>,
}

/// Decides about a victim. `capped` says for which incident a group is capped already.
pub fn decide<'a>(
    settings: &Settings,
    victim: (&TaskName, JobClass),
    suspects: &[Suspect],
    groups: Groups,
    capped: impl Fn(&str) -> Option<&'a str>,
) -> Decision {
    let leave = |suspect, reason| Decision {
        suspect,
        cap_cpu_ratio: None,
        reason,
    };
    let enough = suspects
        .iter()
        .take_while(|suspect| is_named(settings, suspect))
        .count();
    if enough == 0 {
        return leave(None, no_suspect(settings, suspects));
    }
    if let Some(refusal) = unprotected(settings, victim) {
        return leave(Some(0), refusal);
    }
    let mut refusals = Vec::new();
    for (place, suspect) in suspects[..enough].iter().enumerate() {
        // One cause at a time: while the likeliest one is held back, nobody else is to blame for what it did.
        if let Some(incident) = capped(&suspect.cgroup) {
            let reason = format!("{} is capped already, for {incident}", suspect.name);
            return leave(Some(place), reason);
        }
        match refusal(settings, suspect, groups) {
            Ok(cap_cpu_ratio) => {
                return Decision {
                    suspect: Some(place),
                    cap_cpu_ratio: Some(cap_cpu_ratio),
                    reason: format!("{}{}", evidence(settings, suspect), but(&refusals)),
                };
            }
            Err(refusal) => refusals.push(format!("{} {refusal}", suspect.name)),
        }
    }
    leave(
        Some(0),
        format!("no task may be capped: {}", some(&refusals)),
    )
}

/// Whether a suspect is named: by its evidence where there is one, else by its correlation.
pub fn is_named(settings: &Settings, suspect: &Suspect) -> bool {
    match &suspect.evidence {
        Some(evidence) => evidence.refusal.is_none(),
        None => suspect.correlation >= settings.min_correlation,
    }
}

fn unprotected(settings: &Settings, (name, class): (&TaskName, JobClass)) -> Option<String> {
    let refusal = match class {
        JobClass::LatencySensitive => settings.victims.refusal(&name.job)?,
        _ => format!("it is {}", class.name()),
    };
    Some(format!("{name} is not protected: {refusal}"))
}

fn no_suspect(settings: &Settings, suspects: &[Suspect]) -> String {
    match suspects.first() {
        None => "no other task used CPU time in these windows".into(),
        Some(Suspect {
            name,
            evidence:
                Some(Evidence {
                    refusal: Some(refusal),
                    ..
                }),
            ..
        }) => format!("no antagonist: the likeliest is {name}: {refusal}"),
        Some(likeliest) => format!(
            "no antagonist: the likeliest, {}, has a correlation of {:.3}, below {}",
            likeliest.name, likeliest.correlation, settings.min_correlation
        ),
    }
}

fn evidence(settings: &Settings, suspect: &Suspect) -> String {
    if let Some(found) = &suspect.evidence {
        return format!(
            "{} ({}) fits with a p value of {:.4} among all suspects, explains {:.2} of the excess, and used {:.3} CPU-s/s while the victim suffered",
            suspect.name,
            suspect.class.name(),
            found.p_value.unwrap_or(f64::NAN),
            found.explained_ratio.unwrap_or(f64::NAN),
            suspect.usage_in_outliers
        );
    }
    format!(
        "{} ({}) has a correlation of {:.3}, from {} on, and used {:.3} CPU-s/s while the victim suffered",
        suspect.name,
        suspect.class.name(),
        suspect.correlation,
        settings.min_correlation,
        suspect.usage_in_outliers
    )
}

/// Those of a higher correlation that were passed over.
fn but(refusals: &[String]) -> String {
    if refusals.is_empty() {
        return String::new();
    }
    format!("; passed over: {}", some(refusals))
}

/// The first of them: a list of hundreds is no reason.
fn some(refusals: &[String]) -> String {
    const LISTED: usize = 3;
    let mut text = refusals[..refusals.len().min(LISTED)].join("; ");
    if refusals.len() > LISTED {
        text += &format!("; and {} more", refusals.len() - LISTED);
    }
    text
}

/// What the suspect is to be left, or why it is left alone.
fn refusal(settings: &Settings, suspect: &Suspect, groups: Groups) -> Result<f64, String> {
    let Some(cap_cpu_ratio) = settings.cap_cpu_ratio(suspect.class) else {
        return Err(format!("is {}", suspect.class.name()));
    };
    if let Some(refusal) = settings.antagonists.refusal(&suspect.name.job) {
        return Err(format!("may not be capped: {refusal}"));
    }
    // Usage is scaled before it is correlated, so that a task that hardly ran can come first. Holding it back would change nothing.
    if suspect.usage_in_outliers <= cap_cpu_ratio {
        return Err(format!(
            "used {:.3} CPU-s/s, no more than a cap would leave it",
            suspect.usage_in_outliers
        ));
    }
    let cgroup = &suspect.cgroup;
    if contains(cgroup, groups.victim) || contains(groups.victim, cgroup) {
        return Err("shares the victim's control group".into());
    }
    if groups.own.is_some_and(|own| contains(cgroup, own)) {
        return Err("holds this agent in its control group".into());
    }
    Ok(cap_cpu_ratio)
}

/// Whether the group `outer` is `inner` or holds it.
fn contains(outer: &str, inner: &str) -> bool {
    let names = |path: &'_ str| -> Vec<String> {
        path.split('/')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    };
    names(inner).starts_with(&names(outer))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::guard::settings::JobList;
    use crate::guard::testing::name;

    const GROUPS: Groups = Groups {
        victim: "/web",
        own: Some("/system.slice/agent"),
    };

    fn web() -> (&'static TaskName, JobClass) {
        static NAME: LazyLock<TaskName> = LazyLock::new(|| name("web"));
        (&NAME, JobClass::LatencySensitive)
    }

    fn suspect(job: &str, class: JobClass, correlation: f64, usage: f64) -> Suspect {
        Suspect {
            name: name(job),
            class,
            cgroup: format!("/{job}"),
            correlation,
            usage_in_outliers: usage,
            evidence: None,
        }
    }

    fn decided(suspects: &[Suspect]) -> Decision {
        decide(&Settings::default(), web(), suspects, GROUPS, |_| None)
    }

    #[test]
    fn the_likeliest_that_may_be_capped_is() {
        let decision = decided(&[
            suspect("search", JobClass::LatencySensitive, 0.6, 0.9),
            suspect("cron", JobClass::Batch, 0.55, 0.02),
            suspect("hog", JobClass::Batch, 0.5, 0.9),
            suspect("log", JobClass::BestEffort, 0.45, 0.9),
        ]);
        assert_eq!(
            (decision.suspect, decision.cap_cpu_ratio),
            (Some(2), Some(0.1))
        );
        for part in [
            "hog (batch)",
            "0.500",
            "search is latency-sensitive",
            "cron used 0.020",
        ] {
            assert!(decision.reason.contains(part), "{}", decision.reason);
        }
        let harder = decided(&[suspect("log", JobClass::BestEffort, 0.45, 0.9)]);
        assert_eq!(harder.cap_cpu_ratio, Some(0.01));
    }

    #[test]
    fn below_the_bar_nobody_is_named() {
        let decision = decided(&[suspect("hog", JobClass::Batch, 0.349, 0.9)]);
        assert_eq!((decision.suspect, decision.cap_cpu_ratio), (None, None));
        assert!(decision.reason.contains("0.349"), "{}", decision.reason);
        assert!(decided(&[]).reason.contains("no other task"));
        // The bar itself is enough.
        let at = decided(&[suspect("hog", JobClass::Batch, 0.35, 0.9)]);
        assert_eq!(at.suspect, Some(0));
    }

    #[test]
    fn one_cause_at_a_time() {
        let suspects = [
            suspect("hog", JobClass::Batch, 0.5, 0.9),
            suspect("other", JobClass::Batch, 0.4, 0.9),
        ];
        let capped = |group: &str| (group == "/hog").then_some("earlier");
        let decision = decide(&Settings::default(), web(), &suspects, GROUPS, capped);
        assert_eq!((decision.suspect, decision.cap_cpu_ratio), (Some(0), None));
        assert!(decision.reason.contains("earlier"), "{}", decision.reason);
    }

    #[test]
    fn lists_hold() {
        let mut settings = Settings::default();
        settings.antagonists.deny = vec!["hog*".into()];
        let suspects = [suspect("hog", JobClass::Batch, 0.5, 0.9)];
        let decision = decide(&settings, web(), &suspects, GROUPS, |_| None);
        assert!(decision.reason.contains("deny"), "{}", decision.reason);
        let settings = Settings {
            victims: JobList {
                allow: vec!["search".into()],
                deny: Vec::new(),
            },
            ..Settings::default()
        };
        let decision = decide(&settings, web(), &suspects, GROUPS, |_| None);
        assert_eq!((decision.suspect, decision.cap_cpu_ratio), (Some(0), None));
        assert!(
            decision.reason.contains("not protected"),
            "{}",
            decision.reason
        );
    }

    #[test]
    fn neither_the_victim_nor_the_agent_is_in_what_is_capped() {
        for (group, refused) in [
            ("/web", true),
            ("/web/child", true),
            ("/", true),
            ("", true),
            ("//web/", true),
            ("/website", false),
            ("/system.slice", true),
            ("/system.slice/agent", true),
            ("/system.slice/agent2", false),
        ] {
            let mut one = suspect("hog", JobClass::Batch, 0.5, 0.9);
            one.cgroup = group.into();
            let decision = decided(&[one]);
            assert_eq!(decision.cap_cpu_ratio.is_none(), refused, "{group:?}");
        }
    }

    #[test]
    fn only_who_somebody_waits_for_is_protected() {
        let suspects = [suspect("hog", JobClass::Batch, 0.5, 0.9)];
        let victim = (web().0, JobClass::Batch);
        let decision = decide(&Settings::default(), victim, &suspects, GROUPS, |_| None);
        assert_eq!((decision.suspect, decision.cap_cpu_ratio), (Some(0), None));
        assert!(
            decision.reason.contains("it is batch"),
            "{}",
            decision.reason
        );
    }

    proptest! {
        #[test]
        fn who_is_latency_sensitive_or_below_the_bar_is_never_capped(
            rows in prop::collection::vec((0..3_usize, -1.0..1.0_f64, 0.0..4.0_f64), 0..12),
        ) {
            let mut suspects: Vec<_> = rows
                .iter()
                .enumerate()
                .map(|(place, &(class, correlation, usage))| suspect(&format!("j{place}"), JobClass::ALL[class], correlation, usage))
                .collect();
            suspects.sort_by(|one, other| other.correlation.total_cmp(&one.correlation));
            let decision = decided(&suspects);
            if let Some(ratio) = decision.cap_cpu_ratio {
                let chosen = &suspects[decision.suspect.unwrap()];
                prop_assert!(chosen.class != JobClass::LatencySensitive);
                prop_assert!(chosen.correlation >= 0.35 && chosen.usage_in_outliers > ratio);
            }
        }
    }
}
