//! Servers that answer less under overload than they did before it: congestion collapse.
//!
//! A server whose queue, retries, collections of garbage or cold caches cost it work serves less once it is overloaded, and
//! comes back only when the load falls below what it still serves (metastable failures: Bronson et al. 2021, HotOS).
//! Between that rate and the highest that it held before, it depends on chance when it collapses, so that no probe
//! of seconds shows the rate that holds in the long run.
//!
//! In: what probes came to. Out: whether overloaded probes all completed clearly less than one that met the objective, and
//! alike. One slowed load does so as well, and so do loads that differ: hence three probes that agree. Not here: which rates
//! are probed to find out ([`super::search`]).

use super::steps::Seen;

/// How much less an overloaded server completes than it did before, as a ratio, to be called collapsed.
const GAP_RATIO: f64 = 0.1;
/// Overloaded probes that are needed, and the share of all of them that must show it; and the share that is suspicious.
const PROBES: usize = 3;
const SHARE: f64 = 0.75;
const SUSPICIOUS: f64 = 0.5;
/// The gap over the scatter of the overloaded probes.
const CLEAR: f64 = 4.0;
/// Standard deviations of a count of completed requests that are allowed for.
const SURE: f64 = 2.0;

/// A server that collapses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Collapse {
    /// The highest rate that it held before it collapsed.
    pub held_per_s: f64,
    /// The lowest rate above it at which it did not.
    pub lost_per_s: f64,
    /// What it serves once it has collapsed.
    pub served_per_s: f64,
    /// The highest rate below that after which it met the objective as it had before: there it comes back.
    pub back_per_s: Option<f64>,
}

/// What overload does to a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Overload {
    /// Nothing was seen to happen.
    Steady,
    /// Overloaded probes completed less than one that met the objective, but too few of them, or not all.
    Suspected {
        /// The highest rate that it held.
        held_per_s: f64,
        /// The least that an overloaded probe completed per second.
        served_per_s: f64,
        /// The lowest rate above what was held at which it failed.
        lost_per_s: f64,
    },
    /// It collapses.
    Collapsed(Collapse),
}

fn rate(one: &Seen) -> f64 {
    one.probe.rate_per_s
}

/// The lowest rate above `held_per_s` that was too much for a server that had not collapsed, which one that has, and
/// serves `served_per_s`, does not show; without such a probe, the highest of all that were too much.
fn lost(seen: &[Seen], held_per_s: f64, served_per_s: f64) -> Option<f64> {
    let pairs = seen
        .windows(2)
        .filter(|pair| pair[0].judgement.met && rate(&pair[0]) > served_per_s);
    let healthy = pairs.map(|pair| &pair[1]).filter(|one| !one.judgement.met);
    let above = |one: &&Seen| !one.judgement.met && rate(one) > held_per_s;
    let lowest = healthy.filter(above).map(rate).min_by(f64::total_cmp);
    lowest.or_else(|| seen.iter().filter(above).map(rate).max_by(f64::total_cmp))
}

/// What `seen` says of overload.
pub fn overload(seen: &[Seen]) -> Overload {
    let own = |one: &&Seen| !one.generator_bound;
    let surely = |one: &Seen, deviations: f64| {
        one.served.late_per_s * (1.0 + deviations / one.served.late_completed.max(16.0).sqrt())
    };
    let met = seen
        .iter()
        .filter(|one| one.judgement.met && !one.served.busy);
    let most = met.map(|one| surely(one, -SURE)).fold(0.0, f64::max);
    let busy: Vec<&Seen> = seen
        .iter()
        .filter(own)
        .filter(|one| one.served.busy)
        .collect();
    let less: Vec<f64> = busy
        .iter()
        .filter(|one| surely(one, SURE) < (1.0 - GAP_RATIO) * most)
        .map(|one| one.served.late_per_s.max(1e-9).ln())
        .collect();
    let share = less.len() as f64 / busy.len().max(1) as f64;
    if share < SUSPICIOUS {
        return Overload::Steady;
    }
    let held_per_s = seen
        .iter()
        .filter(|one| one.judgement.met)
        .map(|one| one.probe.rate_per_s)
        .fold(0.0, f64::max);
    let least = less.iter().copied().fold(f64::INFINITY, f64::min).exp();
    let lost = lost(seen, held_per_s, least);
    let suspected = Overload::Suspected {
        held_per_s,
        served_per_s: least,
        lost_per_s: lost.unwrap_or(held_per_s),
    };
    if less.len() < PROBES || share < SHARE {
        return suspected;
    }
    let n = less.len() as f64;
    let mean = less.iter().sum::<f64>() / n;
    let squares: f64 = less.iter().map(|one| (one - mean).powi(2)).sum();
    if most.ln() - mean < CLEAR * (squares / (n - 1.0)).sqrt() {
        return Overload::Steady;
    }
    let served_per_s = mean.exp();
    let first = seen.iter().position(|one| one.served.busy).unwrap_or(0);
    // It has come back where the next probe meets what a collapsed server does not serve.
    let back = seen[first..]
        .windows(2)
        .filter(|pair| pair[0].judgement.met && rate(&pair[0]) < served_per_s)
        .filter(|pair| pair[1].judgement.met && rate(&pair[1]) > served_per_s)
        .map(|pair| rate(&pair[0]))
        .max_by(f64::total_cmp);
    match lost {
        Some(lost_per_s) => Overload::Collapsed(Collapse {
            held_per_s,
            lost_per_s,
            served_per_s,
            back_per_s: back,
        }),
        None => suspected,
    }
}

#[cfg(test)]
mod tests {
    use super::super::evidence::Judgement;
    use super::super::served::Served;
    use super::super::steps::{Probe, Purpose};
    use super::*;

    /// A probe of ten seconds that completed so much, while requests waited where it did not meet the objective.
    fn probe(rate_per_s: f64, completed_per_s: f64) -> Seen {
        let met = completed_per_s > 0.95 * rate_per_s;
        Seen {
            probe: Probe {
                rate_per_s,
                warmup_s: 1.0,
                measure_s: 10.0,
                purpose: Purpose::Narrow,
            },
            judgement: Judgement {
                met,
                met_probability: f64::from(u8::from(met)),
                share: None,
            },
            throughput_per_s: completed_per_s,
            served: Served {
                completed: 10.0 * completed_per_s,
                per_s: completed_per_s,
                late_completed: 5.0 * completed_per_s,
                late_per_s: completed_per_s,
                busy: !met,
                ..Served::default()
            },
            generator_bound: false,
        }
    }

    #[test]
    fn overloaded_probes_that_all_complete_less_are_a_collapse() {
        let mut seen = vec![
            probe(300.0, 300.0),
            probe(480.0, 480.0),
            probe(600.0, 305.0),
        ];
        let Overload::Suspected { held_per_s, .. } = overload(&seen) else {
            panic!("{:?}", overload(&seen));
        };
        assert_eq!(held_per_s, 480.0);
        seen.extend([probe(620.0, 300.0), probe(400.0, 295.0)]);
        seen.extend([probe(200.0, 200.0), probe(450.0, 450.0)]);
        let Overload::Collapsed(collapse) = overload(&seen) else {
            panic!("{:?}", overload(&seen));
        };
        assert_eq!((collapse.held_per_s, collapse.lost_per_s), (480.0, 600.0));
        assert_eq!(collapse.back_per_s, Some(200.0));
        assert!((collapse.served_per_s - 300.0).abs() < 1.0);
    }

    #[test]
    fn one_slowed_load_or_loads_that_differ_are_none() {
        let slowed = [
            probe(480.0, 480.0),
            probe(600.0, 330.0),
            probe(600.0, 500.0),
            probe(550.0, 500.0),
        ];
        assert_eq!(overload(&slowed), Overload::Steady);
        let differ = [
            probe(520.0, 520.0),
            probe(600.0, 280.0),
            probe(600.0, 360.0),
            probe(600.0, 450.0),
        ];
        assert!(!matches!(overload(&differ), Overload::Collapsed(_)));
    }
}
