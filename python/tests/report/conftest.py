"""A score for the pages of reports."""

from steelyard.decide.score import Score, ScorePart

SCORE = Score(
    benchmark="tao",
    tier="quick",
    metric="requests_per_s",
    unit="1/s",
    value=118_000.0,
    baseline_value=91_900.0,
    ratio=1.284,
    ratio_low=None,
    ratio_high=None,
    runs=1,
    baseline="Desk machine",
    provenance="Measured on two CPUs.",
    reservations=("one run only",),
    parts={"fast_requests_per_s": 0.742, "slow_requests_per_s": 2.08},
    no_interval="one run, no error bars: add --repeat 7",
    run_ratios=(1.284,),
    baseline_ratios=(0.953, 1.0, 1.076),
    baseline_suspect_runs=2,
    baseline_date="2026-11-21",
    baseline_runs=3,
    baseline_spread_ratio=0.123,
    worst_part=ScorePart("fast_requests_per_s", 0.742),
    best_part=ScorePart("slow_requests_per_s", 2.08),
)
