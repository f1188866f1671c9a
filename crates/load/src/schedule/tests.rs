use super::*;
use crate::random::Purpose;
use crate::settings::Turn;
use proptest::prelude::*;

const START_NS: u64 = 1_000;

fn schedule(arrival: &Arrival, rate: f64, share: Share, duration_ns: u64, seed: u64) -> Schedule {
    let random = Purpose::Arrivals.stream(seed, u64::from(share.thread));
    Schedule::new(arrival, rate, duration_ns, share, START_NS, random)
}

fn until(schedule: &mut Schedule, end_ns: u64) -> Vec<u64> {
    let mut times = Vec::new();
    while schedule.peek() < end_ns {
        times.push(schedule.peek());
        schedule.advance();
    }
    times
}

/// The merged times of all threads in a measure phase that begins at once.
fn times(arrival: &Arrival, rate: f64, threads: u32, duration_ns: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (0..threads)
        .flat_map(|thread| {
            let mut schedule = schedule(arrival, rate, Share { thread, threads }, duration_ns, 9);
            schedule.measure(START_NS);
            until(&mut schedule, START_NS + duration_ns)
        })
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn constant_threads_interleave_evenly_and_keep_the_rate() {
    let all = times(&Arrival::Constant, 33_333.0, 3, 10_000_000_000);
    assert_eq!(all.len(), 333_330);
    let period = 1e9 / 33_333.0;
    for (i, pair) in all.windows(2).enumerate() {
        assert!(
            ((pair[1] - pair[0]) as f64 - period).abs() <= 2.0,
            "gap {i}"
        );
    }
}

/// The statistic of Anderson and Darling (1952) for gaps that should be exponential with this mean.
fn anderson_darling(gaps: &[f64], mean: f64) -> f64 {
    let mut sorted = gaps.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let sum: f64 = (0..n)
        .map(|i| {
            // ln F(x_i) + ln(1 - F(x_{n+1-i})), of which the second is minus the gap over the mean. A gap
            // was rounded to a nanosecond, so that gaps below half of that are not distinguished.
            let below = -(-sorted[i].max(0.5) / mean).exp_m1();
            (2 * i + 1) as f64 * (below.ln() - sorted[n - 1 - i] / mean)
        })
        .sum();
    -(n as f64) - sum / n as f64
}

/// Critical values for a law that is given in full (D'Agostino and Stephens, Goodness-of-Fit Techniques, 1986,
/// table 4.2): 5 % and 1 % of samples of the law itself exceed them.
const EXCEEDED_BY_5_PERCENT: f64 = 2.492;
const EXCEEDED_BY_1_PERCENT: f64 = 3.857;

fn gaps(times: &[u64]) -> Vec<f64> {
    times.windows(2).map(|w| (w[1] - w[0]) as f64).collect()
}

#[test]
fn poisson_gaps_pass_anderson_darling_as_often_as_exponential_ones_do() {
    let share = Share {
        thread: 0,
        threads: 1,
    };
    let (mut above_5, mut above_1) = (0, 0);
    for seed in 0..400 {
        let mut schedule = schedule(&Arrival::Poisson, 20_000.0, share, 1, seed);
        let gaps: Vec<f64> = gaps(&until(&mut schedule, START_NS + 100_000_000));
        let statistic = anderson_darling(&gaps, 50_000.0);
        above_5 += u32::from(statistic > EXCEEDED_BY_5_PERCENT);
        above_1 += u32::from(statistic > EXCEEDED_BY_1_PERCENT);
    }
    // Binomial with means 20 and 4: beyond these bounds is less likely than 1 in 10,000 on either side. Too few
    // would be as wrong as too many: gaps more regular than a Poisson process has them.
    assert!((5..=38).contains(&above_5), "{above_5}");
    assert!(above_1 <= 13, "{above_1}");
}

#[test]
fn merged_poisson_threads_pass_anderson_darling() {
    let all = times(&Arrival::Poisson, 50_000.0, 4, 2_000_000_000);
    // The count is Poisson with mean 100,000 and standard deviation 316.
    assert!((98_700..=101_300).contains(&all.len()), "{}", all.len());
    let statistic = anderson_darling(&gaps(&all), 20_000.0);
    assert!(statistic < EXCEEDED_BY_5_PERCENT, "{statistic}");
}

#[test]
fn anderson_darling_refuses_what_is_no_poisson_process() {
    let even = gaps(&times(&Arrival::Constant, 20_000.0, 1, 100_000_000));
    assert!(anderson_darling(&even, 50_000.0) > 100.0);
    // The right rate, but the gaps are uniform between nothing and twice the mean.
    let mut random = Purpose::Arrivals.stream(1, 0);
    let uniform: Vec<f64> = (0..2_000).map(|_| random.unit() * 100_000.0).collect();
    assert!(anderson_darling(&uniform, 50_000.0) > EXCEEDED_BY_1_PERCENT);
    // The right shape, but the rate is 10 % off.
    let slow: Vec<f64> = (0..2_000)
        .map(|_| random.exponential() * 55_000.0)
        .collect();
    assert!(anderson_darling(&slow, 50_000.0) > EXCEEDED_BY_1_PERCENT);
    // A timer that can only fire every 20 us.
    let coarse: Vec<f64> = (0..2_000)
        .map(|_| (random.exponential() * 50_000.0 / 20_000.0).ceil() * 20_000.0)
        .collect();
    assert!(anderson_darling(&coarse, 50_000.0) > EXCEEDED_BY_1_PERCENT);
}

#[test]
fn a_long_schedule_keeps_its_rate() {
    let share = Share {
        thread: 0,
        threads: 1,
    };
    let mut schedule = schedule(&Arrival::Poisson, 100_000.0, share, 1, 1);
    for _ in 0..10_000_000 {
        schedule.advance();
    }
    let rate = 10_000_000.0 / ((schedule.peek() - START_NS) as f64 / 1e9);
    assert!((rate / 100_000.0 - 1.0).abs() < 0.001, "{rate}");
}

#[test]
fn a_ramp_offers_exactly_the_integral_of_its_rate() {
    const SECOND: u64 = 1_000_000_000;
    for (text, threads) in [
        ("ramp:1000-3000", 1),
        ("ramp:3000-1000", 3),
        ("ramp:0-4000", 2),
        ("ramp:4000-0", 1),
    ] {
        let arrival = Arrival::parse(text).unwrap();
        let all = times(&arrival, 0.0, threads, 10 * SECOND);
        assert_eq!(all.len(), 20_000, "{text}");
        let Arrival::Ramp {
            from_per_s,
            to_per_s,
        } = arrival
        else {
            unreachable!()
        };
        // After every second the count is the integral up to there.
        for second in 1..10u64 {
            let t = second as f64;
            let expected = from_per_s * t + (to_per_s - from_per_s) / 10.0 * t * t / 2.0;
            let found = all.partition_point(|&at| at < START_NS + second * SECOND) as f64;
            assert!(
                (found - expected).abs() <= 1.0,
                "{text} at {second} s: {found}, {expected}"
            );
        }
    }
}

#[test]
fn steps_offer_each_rate_for_its_part() {
    const SECOND: u64 = 1_000_000_000;
    for threads in [1, 3] {
        let arrival = Arrival::parse("step:1000,0,250.5,4000").unwrap();
        let all = times(&arrival, 0.0, threads, 8 * SECOND);
        let counts: Vec<usize> = (0..4)
            .map(|part| {
                let (begin, end) = (
                    START_NS + part * 2 * SECOND,
                    START_NS + (part + 1) * 2 * SECOND,
                );
                all.iter().filter(|&&at| at >= begin && at < end).count()
            })
            .collect();
        assert_eq!(counts, [2000, 0, 501, 8000]);
        assert!(
            gaps(&all[..2000])
                .iter()
                .all(|gap| (gap - 1e6).abs() <= 1.0)
        );
    }
}

#[test]
fn a_recording_is_taken_by_the_threads_in_turn() {
    let recording = Recording::parse("gaps_us\n100\n300\n", "r".to_owned()).unwrap();
    let arrival = Arrival::Recorded(recording.into());
    assert_eq!(arrival.mean_rate_per_s(), Some(5_000.0));
    for threads in [1, 3] {
        let all = times(&arrival, 0.0, threads, 1_000_000);
        let since: Vec<u64> = all.iter().map(|at| at - START_NS).collect();
        assert_eq!(since, [100_000, 400_000, 500_000, 800_000, 900_000]);
    }
}

#[test]
fn a_law_of_the_measure_phase_begins_with_it() {
    const PHASE_NS: u64 = 10_000_000;
    let share = Share {
        thread: 0,
        threads: 1,
    };
    for (text, before) in [
        ("ramp:2000-4000", 15),
        ("step:1000,5000", 8),
        ("ramp:0-6000", 1),
    ] {
        let arrival = Arrival::parse(text).unwrap();
        let mut schedule = schedule(&arrival, 0.0, share, PHASE_NS, 1);
        // The begin becomes known while the warm-up runs.
        let early = until(&mut schedule, START_NS + 2_000_000);
        let begin_ns = START_NS + 7_300_000;
        schedule.measure(begin_ns);
        let warm_up = early.len() + until(&mut schedule, begin_ns).len();
        assert_eq!(
            warm_up,
            before - usize::from(text.contains(":0-")),
            "{text}"
        );
        assert_eq!(schedule.peek(), begin_ns, "{text}");
        assert_eq!(
            until(&mut schedule, begin_ns + PHASE_NS).len(),
            30,
            "{text}"
        );
    }
}

proptest! {
    /// What the processes of a load offer is what one process would, arrival by arrival.
    #[test]
    fn processes_together_keep_the_schedule(
        threads in proptest::collection::vec(1u32..4, 1..5),
        law in 0usize..3,
        (from, to) in (1.0f64..50_000.0, 0.0f64..50_000.0),
    ) {
        const PHASE_NS: u64 = 20_000_000;
        let arrival = match law {
            0 => Arrival::Ramp { from_per_s: from, to_per_s: to },
            1 => Arrival::Step([from, 0.0, to].into()),
            _ => {
                let text = format!("gaps_us\n{}\n{}\n0\n", 1e6 / from, 1e6 / from.max(to));
                Arrival::Recorded(Recording::parse(&text, String::new()).unwrap().into())
            }
        };
        let processes = threads.len() as u32;
        let mut together: Vec<u64> = Vec::new();
        for (process, &threads) in (0..).zip(&threads) {
            let turn = Turn { process, processes };
            for thread in 0..threads {
                let mut schedule = schedule(&arrival, 0.0, turn.share(thread, threads), PHASE_NS, 9);
                schedule.measure(START_NS);
                together.extend(until(&mut schedule, START_NS + PHASE_NS));
            }
        }
        together.sort_unstable();
        prop_assert_eq!(together, times(&arrival, 0.0, 1, PHASE_NS));
    }
}
