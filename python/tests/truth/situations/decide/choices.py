"""Probability that a machine is ahead of another, and servers that an improvement saves."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from steelyard.decide.choice.economics import Economics
from steelyard.decide.choice.order import order_of
from steelyard.decide.choice.results import Order, Workload
from steelyard.decide.choice.savings import savings_of
from steelyard.decide.tables.model import MeasuredMachine, Measurement
from steelyard.stats.intervals import ratio_interval

from ...situation import Claim, Outcome, Random, Situation, Statistic

_AHEAD = 0.975
"""Two-sided, this is a false order of equal machines in one of 20 cases."""
_ECONOMICS = Economics(4.0, 0.1, 1.3)


def _deviations(random: Random, shape: str, size: tuple[int, ...]) -> np.ndarray:
    if shape == "heavy":
        return random.standard_t(3, size) / 3**0.5
    if shape == "skewed":
        return math.log(2) - random.exponential(1, size)
    return random.standard_normal(size)


def _machine(
    random: Random,
    name: str,
    level: float,
    *,
    sessions: int,
    runs: int,
    noise: float,
    day: float,
    members: int,
    common: float,
    shape: str,
) -> MeasuredMachine:
    """Return a machine whose runs share the noise of their session, and members some of that of a run."""
    days = day * random.standard_normal(sessions)
    shared = _deviations(random, shape, (sessions, runs))
    results = {}
    for member in range(members):
        own = _deviations(random, shape, (sessions, runs))
        mixed = math.sqrt(common) * shared + math.sqrt(1 - common) * own
        logs = math.log(1000 * level) + noise * mixed + days[:, np.newaxis]
        results[f"m{member}"] = Measurement(tuple(tuple(row) for row in np.exp(logs).tolist()))
    return MeasuredMachine(name, {}, results)


def _pair(
    random: Random,
    ratio: float,
    *,
    runs: int = 5,
    sessions: int = 1,
    noises: tuple[float, float] = (0.03, 0.03),
    day: float = 0.0,
    members: int = 1,
    common: float = 0.0,
    shape: str = "normal",
    stated: float | None = None,
) -> tuple[Order, float]:
    """Return what is said of two machines, and the true ratio of the first over the second."""
    machines = [
        _machine(
            random, name, level, sessions=sessions, runs=runs, noise=noise, day=day, members=members,
            common=common, shape=shape,
        )
        for name, level, noise in zip("AB", (ratio, 1.0), noises, strict=True)
    ]  # fmt: skip
    workloads = [Workload(f"m{at}", "1/s", "higher", 1 / members) for at in range(members)]
    logs = [
        np.mean([math.log(machine.results[each.name].value) for each in workloads]) for machine in machines
    ]
    measured = float(np.exp(logs[0] - logs[1]))
    if measured < 1:
        return order_of(machines[1], machines[0], workloads, 1 / measured, stated), 1 / ratio
    return order_of(machines[0], machines[1], workloads, measured, stated), ratio


def _holds(random: Random, ratio: float = 1.05, **how: object) -> Outcome:
    found, truth = _pair(random, ratio, **how)  # type: ignore[arg-type]
    if found.low is None or found.high is None:
        return Outcome(None)
    return Outcome(found.low <= truth <= found.high, width=math.log(found.high / found.low))


def _false_order(random: Random, **how: object) -> Outcome:
    """Whether two equal machines are put in an order with a probability of 97.5 %."""
    found, _ = _pair(random, 1.0, **how)  # type: ignore[arg-type]
    return Outcome(None if found.probability is None else found.probability >= _AHEAD)


def _wrong_order(random: Random, **how: object) -> Outcome:
    """Whether the probability is that of being wrong: of orders stated with 80 to 95 %, how many are wrong.

    The ratio of the machines is itself from a population of machines, as wide as a few per cent.
    """
    found, truth = _pair(random, float(np.exp(0.2 * random.standard_normal())), **how)  # type: ignore[arg-type]
    if found.probability is None or not 0.8 <= found.probability < 0.95:
        return Outcome(None)
    return Outcome(truth < 1)


def _known(random: Random, ratio: float, **how: object) -> Outcome:
    found, truth = _pair(random, ratio, **how)  # type: ignore[arg-type]
    return Outcome(found.probability is not None and found.probability >= _AHEAD and truth > 1)


def _one_run(random: Random) -> Outcome:
    found, _ = _pair(random, 1.05, runs=1)
    return Outcome(found.probability is None and found.low is None)


def _saved(random: Random, runs: int, noise: float, servers: int, improvement: float = 0.01) -> Outcome:
    """Servers saved by an improvement that was measured on a few runs before and after."""
    after = (1 + improvement) * (1 + noise * random.standard_normal(runs))
    before = 1 + noise * random.standard_normal(runs)
    interval = ratio_interval(list(after), list(before))
    if interval.low is None or interval.high is None:
        return Outcome(None)
    found = savings_of(
        float(np.median(after) / np.median(before) - 1),
        (interval.low - 1, interval.high - 1),
        [servers],
        1000,
        machine=None,
        currency="",
        economics=_ECONOMICS,
        watts=300.0,
        cost=10_000.0,
    )
    (one,) = found.fleets
    if one.saved_low is None or one.saved_high is None:
        return Outcome(None)
    truth = servers * (1 - 1 / (1 + improvement))
    # Servers are whole: the interval is one wider than that of the improvement.
    return Outcome(one.saved_low - 1 <= truth <= one.saved_high + 1, width=one.saved_high - one.saved_low)


_HEAVY = "tails of Student's t with 3 degrees of freedom"
_FEW = "3 runs each"

STATISTICS = (
    Statistic(
        name="Choice of machines: their order",
        covers=("steelyard.decide.choice.results.Order",),
        about="Student's t of the difference of mean logarithms, Welch's or pooled, the wider; the"
        " replicate is a run over all workloads, or a session's mean. An order is stated where its"
        " probability is 97.5 %.",
        situations=(
            *(
                Situation(
                    f"the ratio, {name}",
                    Claim.HOLDS,
                    partial(_holds, **how),
                    trials=1000,
                    quick=100,
                    bar=bar,
                )
                for name, how, bar in (
                    ("5 runs each, equal noise", {}, None),
                    (_FEW, {"runs": 3}, 0.93),
                    ("5 runs each, 1 % and 6 % noise", {"noises": (0.01, 0.06)}, 0.93),
                    ("5 runs each, 6 % and 1 % noise", {"noises": (0.06, 0.01)}, 0.93),
                    (f"5 runs each, {_HEAVY}", {"shape": "heavy"}, 0.93),
                    ("10 runs each, skewed", {"runs": 10, "shape": "skewed"}, 0.93),
                    (
                        "4 workloads, half of the noise in common",
                        {"members": 4, "common": 0.5},
                        None,
                    ),
                    (
                        "5 sessions of 4 runs, 4 % from day to day, 1 % within",
                        {"sessions": 5, "runs": 4, "noises": (0.01, 0.01), "day": 0.04},
                        None,
                    ),
                    ("one run each, noise stated as it is", {"runs": 1, "stated": 0.03}, None),
                )
            ),
            Situation(
                "the ratio, one session of 5 runs, 3 % from day to day",
                Claim.HOLDS,
                partial(_holds, day=0.03, noises=(0.01, 0.01)),
                trials=1000,
                quick=100,
                is_limit=True,
                note="one session cannot show how days differ: name the sessions",
            ),
            *(
                Situation(
                    f"equal machines, {name}",
                    Claim.FALSE,
                    partial(_false_order, **how),
                    trials=1000,
                    quick=100,
                )
                for name, how in (
                    ("5 runs each, equal noise", {}),
                    (_FEW, {"runs": 3}),
                    ("5 runs each, 1 % and 6 % noise", {"noises": (0.01, 0.06)}),
                    (f"5 runs each, {_HEAVY}", {"shape": "heavy"}),
                    ("4 workloads, half of the noise in common", {"members": 4, "common": 0.5}),
                    (
                        "3 sessions of 4 runs, 4 % from day to day, 1 % within",
                        {"sessions": 3, "runs": 4, "noises": (0.01, 0.01), "day": 0.04},
                    ),
                )
            ),
            Situation(
                "orders stated with 80 to 95 %: wrong ones, 5 runs each",
                Claim.FALSE,
                partial(_wrong_order, noises=(0.15, 0.15)),
                trials=4000,
                quick=300,
                bar=0.15,
            ),
            Situation(
                "orders stated with 80 to 95 %: wrong ones, 1 and 5 parts of noise",
                Claim.FALSE,
                partial(_wrong_order, noises=(0.05, 0.25)),
                trials=4000,
                quick=300,
                bar=0.15,
            ),
            Situation(
                "the better one is stated, 10 % apart, 5 runs each, 3 % noise",
                Claim.FOUND,
                partial(_known, ratio=1.1),
                trials=400,
                quick=50,
            ),
            Situation("one run each", Claim.SILENT, _one_run, trials=100, quick=20),
        ),
    ),
    Statistic(
        name="Choice of machines: servers saved",
        covers=(
            "steelyard.decide.choice.savings.FleetSaving",
            "steelyard.decide.choice.savings.Savings",
        ),
        about="The ends of the improvement's interval, each as N (1 - 1 / (1 + x)).",
        situations=(
            *(
                Situation(
                    f"{servers:,} servers, 1 % more from {runs} runs with {noise:.0%} noise",
                    Claim.HOLDS,
                    partial(_saved, runs=runs, noise=noise, servers=servers),
                    trials=1000,
                    quick=100,
                    bar=bar,
                )
                for servers, runs, noise, bar in (
                    (100_000, 10, 0.01, None),
                    (100_000, 4, 0.01, 0.93),
                    (1_000_000, 10, 0.05, None),
                )
            ),
        ),
    ),
)
