//! How likely a share of slow requests is in a length of time.
//!
//! Requests of one moment share their fate: while a queue is long every request is slow, and while it is short
//! none is. So the share is not binomial but the time that a process of two states, fast and slow, spends in the
//! slow one. Its density is known in closed form (Perry, Stadje and Zacks 1999; Bessel functions of the first
//! order). It is right from probes much shorter than the states last, which see all or nothing, to much
//! longer ones, where it is nearly normal.
//!
//! In: the two states' mean lengths as a share and a relaxation time, and how the probe began. Out: the
//! probability of as many slow requests as were counted. Not here: what these are at a rate ([`super::curve`]).

/// A process of two states.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoStates {
    /// Long-run share of the slow state.
    pub ratio: f64,
    /// Time after which the state is forgotten: one over the sum of the rates of both changes.
    pub relaxation_s: f64,
}

/// What a probe counted, and over how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spell {
    /// Slow requests.
    pub bad: f64,
    /// All requests.
    pub all: f64,
    /// Length of the measure phase.
    pub measure_s: f64,
    /// Length of the load before it, which began without a queue.
    pub warmup_s: f64,
}

impl TwoStates {
    /// Probability of the count of slow requests in `spell`.
    pub fn likelihood(&self, spell: &Spell) -> f64 {
        let ratio = self.ratio.clamp(1e-9, 1.0 - 1e-9);
        let time = spell.measure_s;
        let to_slow = ratio / self.relaxation_s;
        let to_fast = (1.0 - ratio) / self.relaxation_s;
        let slow_first = ratio * (1.0 - (-spell.warmup_s / self.relaxation_s).exp());
        let fast_first = 1.0 - slow_first;
        // One request's share of the time.
        let width = time / spell.all.max(1.0);
        let slow = (time * spell.bad / spell.all.max(1.0)).clamp(0.25 * width, time - 0.25 * width);
        let fast = time - slow;
        // Exponent of the density, with that of the Bessel functions taken into it.
        let scale = (-((to_slow * fast).sqrt() - (to_fast * slow).sqrt()).powi(2)).exp();
        let (zero, one) = bessel(2.0 * (to_slow * to_fast * fast * slow).sqrt());
        let from_fast = to_slow * zero + (to_slow * to_fast * fast / slow).sqrt() * one;
        let from_slow = to_fast * zero + (to_slow * to_fast * slow / fast).sqrt() * one;
        let density = scale * (fast_first * from_fast + slow_first * from_slow);
        if spell.bad < 0.5 {
            self.never(spell) + 0.5 * width * density
        } else if spell.bad > spell.all - 0.5 {
            slow_first * (-to_fast * time).exp() + 0.5 * width * density
        } else {
            width * density
        }
    }

    /// Probability that the slow state never comes.
    fn never(&self, spell: &Spell) -> f64 {
        let to_slow = self.ratio / self.relaxation_s;
        let slow_first = self.ratio * (1.0 - (-spell.warmup_s / self.relaxation_s).exp());
        (1.0 - slow_first) * (-to_slow * spell.measure_s).exp()
    }
}

/// Spells of two kinds, short and long: a queue crosses a bound often by little and rarely by much, so that the
/// lengths of slow spells vary more than exponential ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spells {
    /// Short ones.
    pub short: TwoStates,
    /// Long ones.
    pub long: TwoStates,
}

impl Spells {
    /// Probability of the count of slow requests in `spell`: only short ones if no long one came, else the long
    /// ones' and about as many of the short ones as usual.
    pub fn likelihood(&self, spell: &Spell) -> f64 {
        let alone = self.long.never(spell) * self.short.likelihood(spell);
        let usual = self.short.ratio * spell.all;
        let bad = if spell.bad > spell.all - 0.5 {
            spell.bad
        } else {
            (spell.bad - usual).max(0.5)
        };
        alone + self.long.likelihood(&Spell { bad, ..*spell })
    }

    /// Long-run share of slow requests.
    pub fn ratio(&self) -> f64 {
        self.short.ratio + self.long.ratio
    }
}

/// Modified Bessel functions of order 0 and 1 times `exp(-x)`, to 2e-7 (Abramowitz and Stegun 9.8.1 to 9.8.4).
fn bessel(x: f64) -> (f64, f64) {
    let sum = |terms: &[f64], t: f64| terms.iter().rev().fold(0.0, |sum, term| sum * t + term);
    if x < 3.75 {
        let t = (x / 3.75).powi(2);
        let zero = [
            1.0,
            3.515_622_9,
            3.089_942_4,
            1.206_749_2,
            0.265_973_2,
            0.036_076_8,
            0.004_581_3,
        ];
        let one = [
            0.5,
            0.878_905_94,
            0.514_988_69,
            0.150_849_34,
            0.026_587_33,
            0.003_015_32,
            0.000_324_11,
        ];
        let scale = (-x).exp();
        (scale * sum(&zero, t), scale * x * sum(&one, t))
    } else {
        let t = 3.75 / x;
        let zero = [
            0.398_942_28,
            0.013_285_92,
            0.002_253_19,
            -0.001_575_65,
            0.009_162_81,
            -0.020_577_06,
            0.026_355_37,
            -0.016_476_33,
            0.003_923_77,
        ];
        let one = [
            0.398_942_28,
            -0.039_880_24,
            -0.003_620_18,
            0.001_638_01,
            -0.010_315_55,
            0.022_829_67,
            -0.028_953_12,
            0.017_876_54,
            -0.004_200_59,
        ];
        (sum(&zero, t) / x.sqrt(), sum(&one, t) / x.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    #[test]
    fn bessel_functions_match_tables() {
        for (x, zero, one) in [(1.0f64, 1.266_066, 0.565_159), (5.0, 27.239_87, 24.335_64)] {
            let (a, b) = bessel(x);
            assert!((a * x.exp() / zero - 1.0).abs() < 1e-5, "{x}");
            assert!((b * x.exp() / one - 1.0).abs() < 1e-5, "{x}");
        }
    }

    /// Occupation times drawn directly fall where the likelihood says, for short probes and for long ones.
    #[test]
    fn drawn_processes_spend_the_time_that_the_likelihood_says() {
        for (ratio, relaxation_s, warmup_s) in [(0.05, 4.0, 2.0), (0.3, 0.7, 0.0), (0.9, 3.0, 9.0)]
        {
            let states = TwoStates {
                ratio,
                relaxation_s,
            };
            let (time, all) = (10.0, 40.0);
            let mut random = Purpose::Requests.stream(3, 1);
            let draws = 20_000;
            let mut counts = [0.0; 41];
            for _ in 0..draws {
                let mut slow = random.unit() < ratio * (1.0 - (-warmup_s / relaxation_s).exp());
                let (mut at, mut sum) = (0.0, 0.0);
                while at < time {
                    let rate = if slow { 1.0 - ratio } else { ratio } / relaxation_s;
                    let length = (random.exponential() / rate).min(time - at);
                    sum += if slow { length } else { 0.0 };
                    (at, slow) = (at + length, !slow);
                }
                counts[(sum / time * all).round() as usize] += 1.0 / f64::from(draws);
            }
            let mut whole = 0.0;
            for (bad, &count) in counts.iter().enumerate() {
                let spell = Spell {
                    bad: bad as f64,
                    all,
                    measure_s: time,
                    warmup_s,
                };
                let likely = states.likelihood(&spell);
                whole += likely;
                assert!(
                    (likely - count).abs() < 0.012,
                    "{ratio} {bad}: {likely} {count}"
                );
            }
            assert!((whole - 1.0).abs() < 0.03, "{ratio}: {whole}");
        }
    }
}
