"""Distances of two workloads: by metric, by mix, by group and overall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from steelyard.decide.fidelity.comparison import Fidelity, compare
from steelyard.decide.fidelity.workload import Mix, Replicate, WorkloadProfile, measurement, mix

from ...situation import Claim, Outcome, Random, Situation, Statistic
from ..steadiness import noise

_SEVERAL: Mapping[str, tuple[float, float]] = {
    "throughput_per_s": (1000.0, 1000.0),
    "context_switches_per_s": (5000.0, 5600.0),
    "page_faults_per_s": (300.0, 300.0),
    "latency_p50_ns": (1e6, 1.02e6),
    "latency_p99_ns": (5e6, 9e6),
    "response_bytes": (400.0, 400.0),
}
"""Metric -> its true values in A and B: some the same, some a little apart, one far."""


def _profile(
    metrics: Mapping[str, Sequence[float]], replicate: Replicate, mixes: Mapping[str, Mix] | None = None
) -> WorkloadProfile:
    made = {
        name: measurement(name, float(np.mean(values)), values=list(values), replicate=replicate)
        for name, values in metrics.items()
    }
    return WorkloadProfile("sample", "run", made, mixes or {})


def _of_metric(found: Fidelity, truth: float) -> Outcome:
    [one] = found.metrics
    if one.low is None or one.high is None or one.distance is None:
        return Outcome(None)
    return Outcome(one.low <= truth <= one.high, one.distance - truth, one.high - one.low)


def _false(found: Fidelity) -> Outcome:
    return Outcome(found.metrics[0].is_distinguishable)


def _windows(random: Random, count: int, correlation: float, apart: float) -> Outcome:
    """One metric of two runs, 8 % from window to window."""
    a, b = (level * (1 + 0.08 * noise(random, count, correlation)) for level in (1 + apart, 1.0))
    sides = (_profile({"throughput_per_s": values * 1000}, Replicate.WINDOW) for values in (a, b))
    return _of_metric(compare(*sides), abs(float(np.log1p(apart))))


def _repeats(random: Random, count: int, apart: float, spread: float = 0.04) -> Outcome:
    sides = (
        _profile(
            {"throughput_per_s": 1000 * level * (1 + spread * random.standard_normal(count))},
            Replicate.REPEAT,
        )
        for level in (1 + apart, 1.0)
    )
    return _of_metric(compare(*sides), abs(float(np.log1p(apart))))


def _same(random: Random, counts: tuple[int, int]) -> Outcome:
    """One workload, measured twice; a single run has windows of its own."""
    sides = []
    for count in counts:
        runs = 1000 * (1 + 0.05 * random.standard_normal(count))
        if count == 1:
            inside = runs[0] * (1 + 0.01 * random.standard_normal(20))
            sides.append(_profile({"throughput_per_s": inside}, Replicate.WINDOW))
        else:
            sides.append(_profile({"throughput_per_s": runs}, Replicate.REPEAT))
    return _false(compare(*sides))


def _tailed(random: Random, count: int, sigma: float) -> Outcome:
    """Windows of a lognormal latency: the mean is 1.3 times as large in A."""
    a, b = (level * 1e6 * random.lognormal(-sigma * sigma / 2, sigma, count) for level in (1.3, 1.0))
    sides = (_profile({"latency_p99_ns": values}, Replicate.WINDOW) for values in (a, b))
    return _of_metric(compare(*sides), float(np.log(1.3)))


def _bursty(random: Random, count: int) -> Outcome:
    """Bursts: a tenth of the windows, a few in a row, has four times the faults."""
    sides = []
    for level in (1.5, 1.0):
        state, values = False, []
        for _ in range(count):
            state = random.random() < (0.7 if state else 0.033)
            values.append(level * 1000 * (4 if state else 1) * (1 + 0.05 * random.standard_normal()))
        sides.append(_profile({"page_faults_per_s": values}, Replicate.WINDOW))
    return _of_metric(compare(*sides), float(np.log(1501 / 1001)))


def _constant(random: Random) -> Outcome:
    sides = (_profile({"throughput_per_s": [level] * 20}, Replicate.WINDOW) for level in (10.0, 12.0))
    return Outcome(compare(*sides).metrics[0].low is None)


def _few(random: Random) -> Outcome:
    sides = (
        _profile({"throughput_per_s": 10 + random.standard_normal(4)}, Replicate.WINDOW) for _ in range(2)
    )
    return Outcome(compare(*sides).metrics[0].low is None)


def _shares(moved: float) -> tuple[list[float], list[float]]:
    """Return the true shares of 12 functions in A, and in B, where ``moved`` of the whole is elsewhere."""
    a = np.array([0.3, 0.2, 0.1, 0.08, 0.07, 0.06, 0.05, 0.04, 0.04, 0.03, 0.02, 0.01])
    b = a.copy()
    b[0] -= moved
    b[5] += moved
    return a.tolist(), b.tolist()


def _mix_of_samples(random: Random, moved: float, samples: int) -> Outcome:
    sides = []
    for shares in _shares(moved):
        counted = random.multinomial(samples, shares) / samples
        functions = mix(
            "functions", {f"f{at}": float(share) for at, share in enumerate(counted)}, samples=samples
        )
        sides.append(_profile({}, Replicate.WINDOW, {"functions": functions}))
    return _of_metric(compare(*sides), moved)


def _mix_of_windows(random: Random, moved: float, concentration: float) -> Outcome:
    """Shares of eight parts of the time, each with a mix of its own around the whole's."""
    sides = []
    for shares in _shares(moved):
        parts = random.dirichlet(concentration * np.array(shares), 8)
        windows = [{f"f{at}": float(share) for at, share in enumerate(part)} for part in parts]
        mean = {f"f{at}": float(share) for at, share in enumerate(parts.mean(axis=0))}
        sides.append(
            _profile(
                {}, Replicate.WINDOW, {"functions": mix("functions", mean, windows=windows, samples=800)}
            )
        )
    return _of_metric(compare(*sides), moved)


def _truth(names: Sequence[str]) -> float:
    sides = (_profile({name: [_SEVERAL[name][side]] for name in names}, Replicate.REPEAT) for side in (0, 1))
    return compare(*sides).overall.distance


def _overall(
    random: Random,
    replicate: Replicate,
    count: int,
    correlation: float = 0.0,
    common: float = 0.0,
    without: str | None = None,
    is_same: bool = False,
) -> Outcome:
    """Several metrics in four groups; ``common`` of their noise is the same in all."""
    names = [name for name in _SEVERAL if name != without]
    sides = []
    for side in (0, 1):
        shared = noise(random, count, correlation)
        metrics = {}
        for name in names:
            own = noise(random, count, correlation)
            mixed = common**0.5 * shared + (1 - common) ** 0.5 * own
            metrics[name] = _SEVERAL[name][0 if is_same else side] * (1 + 0.05 * mixed)
        sides.append(_profile(metrics, replicate))
    found = compare(*sides).overall
    if found.low is None or found.high is None:
        return Outcome(None)
    truth = 0.0 if is_same else _truth(names)
    return Outcome(found.low <= truth <= found.high, found.distance - truth, found.high - found.low)


def _above_noise(random: Random, replicate: Replicate, count: int, correlation: float = 0.0) -> Outcome:
    """One workload, measured twice: whether it is farther apart than the noise that is stated."""
    sides = []
    for _ in range(2):
        metrics = {
            name: values[0] * (1 + 0.05 * noise(random, count, correlation))
            for name, values in _SEVERAL.items()
        }
        sides.append(_profile(metrics, replicate))
    found = compare(*sides).overall
    return Outcome(None if found.noise is None else found.distance > found.noise)


_RUN_TO_RUN = "windows of one run do not know how another run differs; beside it stands that they do not"
_WIDE = "distances near 0 are folded, so that the interval is wider than it says"

STATISTICS = (
    Statistic(
        name="Distance of two workloads",
        covers=(
            "steelyard.decide.fidelity.noise.Interval",
            "steelyard.decide.fidelity.comparison.MetricDistance",
            "steelyard.decide.fidelity.comparison.GroupDistance",
            "steelyard.decide.fidelity.comparison.Overall",
        ),
        about="Student's t of the signed distance, folded at 0; windows are worth as many as their"
        " correlation leaves; sums of distances by a multiplier bootstrap.",
        situations=(
            *(
                Situation(
                    f"a rate, {count} windows, correlation {correlation:g}, A {apart:.0%} above",
                    Claim.HOLDS,
                    partial(_windows, count=count, correlation=correlation, apart=apart),
                    trials=1000,
                    quick=quick,
                )
                for count, correlation, apart, quick in (
                    (20, 0.0, 0.1, 200),
                    (60, 0.0, 0.1, 0),
                    (60, 0.5, 0.1, 200),
                    (60, 0.8, 0.3, 0),
                    (20, 0.5, 0.1, 0),
                    (8, 0.5, 0.3, 0),
                )
            ),
            Situation(
                "a rate, 3 repeats, A 20% above",
                Claim.HOLDS,
                partial(_repeats, count=3, apart=0.2),
                trials=1000,
                quick=200,
            ),
            Situation(
                "a rate, 5 repeats, A 20% above",
                Claim.HOLDS,
                partial(_repeats, count=5, apart=0.2),
                trials=1000,
                quick=200,
            ),
            Situation(
                "a rate, 5 repeats, A 1% above",
                Claim.HOLDS,
                partial(_repeats, count=5, apart=0.01),
                trials=1000,
                note=_WIDE,
                bar=0.93,
            ),
            Situation(
                "the same workload, 5 repeats each, called different",
                Claim.FALSE,
                partial(_same, counts=(5, 5)),
                trials=1000,
                quick=200,
            ),
            Situation(
                "the same workload, one run beside 5 repeats, called different",
                Claim.FALSE,
                partial(_same, counts=(1, 5)),
                trials=1000,
                quick=200,
            ),
            Situation(
                "the same workload, one run each, called different",
                Claim.FALSE,
                partial(_same, counts=(1, 1)),
                trials=500,
                is_limit=True,
                note=_RUN_TO_RUN,
            ),
            Situation(
                "a latency, 30 windows, lognormal, sigma 0.5",
                Claim.HOLDS,
                partial(_tailed, count=30, sigma=0.5),
                trials=1000,
                quick=200,
            ),
            Situation(
                "a latency, 30 windows, lognormal, sigma 1.2",
                Claim.HOLDS,
                partial(_tailed, count=30, sigma=1.2),
                trials=1000,
            ),
            Situation(
                "faults in bursts of 4 times, 60 windows",
                Claim.HOLDS,
                partial(_bursty, count=60),
                trials=1000,
            ),
            Situation("constant values", Claim.SILENT, _constant, trials=50, quick=20),
            Situation("4 windows", Claim.SILENT, _few, trials=200, quick=20),
            *(
                Situation(
                    f"12 functions, 800 samples, {moved:.0%} of them elsewhere",
                    Claim.HOLDS,
                    partial(_mix_of_samples, moved=moved, samples=800),
                    trials=500,
                    quick=100,
                    bar=0.93,
                    note=_WIDE if moved < 0.05 else "",
                )
                for moved in (0.0, 0.02, 0.1)
            ),
            *(
                Situation(
                    f"12 functions, 8 parts of the time with mixes of their own, {moved:.0%} elsewhere",
                    Claim.HOLDS,
                    partial(_mix_of_windows, moved=moved, concentration=100.0),
                    trials=500,
                    quick=100,
                    bar=0.93,
                    note=_WIDE if moved < 0.05 else "",
                )
                for moved in (0.0, 0.1)
            ),
            Situation(
                "the same workload, 5 repeats, farther apart than the noise stated",
                Claim.FALSE,
                partial(_above_noise, replicate=Replicate.REPEAT, count=5),
                trials=500,
                quick=100,
            ),
            Situation(
                "the same workload, 30 windows, correlation 0.5, farther apart than the noise stated",
                Claim.FALSE,
                partial(_above_noise, replicate=Replicate.WINDOW, count=30, correlation=0.5),
                trials=500,
            ),
            Situation(
                "overall, 6 metrics, 5 repeats",
                Claim.HOLDS,
                partial(_overall, replicate=Replicate.REPEAT, count=5),
                trials=500,
                quick=100,
                bar=0.93,
                note=_WIDE,
            ),
            Situation(
                "overall, 6 metrics with common noise, 5 repeats",
                Claim.HOLDS,
                partial(_overall, replicate=Replicate.REPEAT, count=5, common=0.7),
                trials=500,
                quick=100,
                bar=0.93,
                note=_WIDE,
            ),
            Situation(
                "overall, 6 metrics with common noise, 30 windows, correlation 0.5",
                Claim.HOLDS,
                partial(_overall, replicate=Replicate.WINDOW, count=30, correlation=0.5, common=0.7),
                trials=500,
                quick=100,
                bar=0.93,
                note=_WIDE,
            ),
            Situation(
                "overall, one of 6 metrics missing, 5 repeats",
                Claim.HOLDS,
                partial(_overall, replicate=Replicate.REPEAT, count=5, without="latency_p99_ns"),
                trials=500,
                bar=0.93,
                note="the truth is that of the five: a missing metric is no part of it",
            ),
            Situation(
                "overall, the same workload, 5 repeats",
                Claim.HOLDS,
                partial(_overall, replicate=Replicate.REPEAT, count=5, is_same=True),
                trials=500,
                quick=100,
                bar=0.93,
                note=_WIDE,
            ),
        ),
    ),
)
