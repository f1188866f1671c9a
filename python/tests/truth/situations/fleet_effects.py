"""Effects within strata (NUMA score, another job on the machine) where samples of one machine are alike, and
tests of who was assigned what.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from steelyard.fleet.effects import stratified_effect
from steelyard.stats.assignment import (
    Mismatch,
    share_mismatch,
    split_mismatch,
    uneven_shares,
    uneven_split,
    uneven_units,
)

from ..situation import Claim, Outcome, Random, Situation, Statistic

EACH = 30
"""Samples of a machine."""


def effect_trial(
    random: Random,
    *,
    machines: int,
    effect: float = 0.2,
    own: float = 0.5,
    uneven: bool = False,
    wants: str = "interval",
) -> Outcome:
    """Hold the interval of what x does to y against the truth, or ask whether p is below 5 %.

    A machine has a speed of its own (gamma, 10 %) and, by the part ``own``, an x of its own.
    """
    each = np.maximum(2, random.geometric(1 / EACH, machines)) if uneven else np.full(machines, EACH)
    machine = np.repeat(np.arange(machines), each)
    stratum = random.integers(0, 3, len(machine))
    x = own * random.beta(2, 2, machines)[machine] + (1 - own) * random.random(len(machine))
    speed = random.gamma(100.0, 0.01, machines)[machine]
    y = np.array([1.0, 1.4, 2.5])[stratum] * (1 + effect * x) * speed * random.lognormal(0, 0.1, len(machine))
    keys, group = np.unique(np.stack([stratum, machine]), axis=1, return_inverse=True)
    group = group.ravel()
    columns = {"n": np.ones(len(x)), "x": x, "xx": x * x, "y": y, "xy": x * y}
    sums = {name: np.bincount(group, weights=values) for name, values in columns.items()}
    found = stratified_effect(keys[0], keys[1], sums)
    if found is None or found.low is None or found.high is None or found.p_value is None:
        return Outcome(None)
    if wants == "p":
        return Outcome(found.p_value <= 0.05)
    return Outcome(found.low <= effect <= found.high, width=found.high - found.low)


def effect_refused(random: Random, *, machines: int) -> Outcome:
    """Return whether nothing was stated."""
    return Outcome(effect_trial(random, machines=machines).answer is None)


def assignment_trial(random: Random, *, test: str, units: int, off: float = 0.0) -> Outcome:
    """Return whether p is below 5 % where units were drawn by lot; with ``off``, arm 1 has that much more."""
    arm = (random.random(units) < 0.5 + off).astype(np.int64)
    group = random.choice(4, units, p=[0.55, 0.25, 0.15, 0.05])
    try:
        return Outcome(_tested(random, test, arm, group, units, off).p_value <= 0.05)
    except ValueError:
        return Outcome(None)


def _tested(
    random: Random,
    test: str,
    arm: np.ndarray,
    group: np.ndarray,
    units: int,
    off: float,  # type: ignore[type-arg]
) -> Mismatch:
    if test == "split":
        return split_mismatch([int((arm == 0).sum()), int((arm == 1).sum())], [1, 1])
    if test == "groups":
        counts = np.zeros((2, 4), dtype=np.int64)
        np.add.at(counts, (arm, group), 1)
        return uneven_split(counts)
    if test == "units":
        also = random.choice(4, units)
        unit = np.arange(units)
        return uneven_units(np.tile(arm, 2), np.tile(unit, 2), np.concatenate([group, also]))
    # Work of replicates that serve both: they lean to one side by a beta distribution, and differ in size.
    size = random.lognormal(0, 0.8, (units, 4)) * np.array([5.0, 2.0, 1.0, 0.3])
    part = random.beta(20 * (0.5 + off), 20 * (0.5 - off), (units, 4))
    first, second = size * (1 - part), size * part
    if test == "work":
        return share_mismatch(first.sum(axis=1), second.sum(axis=1), 0.5)
    return uneven_shares(first, second)


STATISTICS = (
    Statistic(
        name="Effects within strata",
        covers=("steelyard.fleet.effects.Effect",),
        about="Effect of x on y; the replicate is the machine (`fleet numa`, `fleet pair`)."
        " 30 samples a machine.",
        situations=(
            Situation(
                "2 machines",
                Claim.SILENT,
                partial(effect_refused, machines=2),
                before="none silent",
                trials=200,
                quick=20,
            ),
            *(
                Situation(
                    f"{count} machines",
                    Claim.HOLDS,
                    partial(effect_trial, machines=count),
                    trials=800,
                    quick=80,
                    before=before,
                )
                for count, before in ((4, "89.6 %"), (6, "92.0 %"), (12, "93.9 %"), (60, "94.2 %"))
            ),
            Situation(
                "12 machines, x is the machine's own",
                Claim.HOLDS,
                partial(effect_trial, machines=12, own=0.9),
                before="90.9 %",
                trials=800,
            ),
            Situation(
                "12 machines of very unequal numbers of samples",
                Claim.HOLDS,
                partial(effect_trial, machines=12, uneven=True),
                before="87.0 %",
                trials=800,
            ),
            Situation(
                "no effect, 6 machines, p below 5 %",
                Claim.FALSE,
                partial(effect_trial, machines=6, effect=0.0, wants="p"),
                before="7.2 %",
                trials=800,
            ),
            Situation(
                "20 % effect, 12 machines, p below 5 %",
                Claim.FOUND,
                partial(effect_trial, machines=12, effect=0.2, wants="p"),
                before="38.8 %",
                trials=400,
            ),
            Situation(
                "20 % effect, 6 machines, p below 5 %",
                Claim.FOUND,
                partial(effect_trial, machines=6, effect=0.2, wants="p"),
                before="26.8 %",
                trials=400,
            ),
        ),
    ),
    Statistic(
        name="Who was assigned what",
        covers=("steelyard.fleet.rue.result.SampleRatio", "steelyard.stats.assignment.Mismatch"),
        about="p below 5 %; `fleet rue` reports a mismatch below 0.1 %.",
        situations=(
            Situation(
                "12 machines by lot, declared split",
                Claim.FALSE,
                partial(assignment_trial, test="split", units=12),
                trials=400,
                quick=50,
            ),
            Situation(
                "200 machines by lot, declared split",
                Claim.FALSE,
                partial(assignment_trial, test="split", units=200),
                trials=400,
            ),
            Situation(
                "30 machines by lot, 4 groups",
                Claim.FALSE,
                partial(assignment_trial, test="groups", units=30),
                trials=100,
            ),
            Situation(
                "200 machines by lot, 4 groups",
                Claim.FALSE,
                partial(assignment_trial, test="groups", units=200),
                trials=150,
            ),
            Situation(
                "40 machines by lot, each in several groups",
                Claim.FALSE,
                partial(assignment_trial, test="units", units=40),
                trials=100,
            ),
            Situation(
                "6 replicates that serve both, declared share of work",
                Claim.FALSE,
                partial(assignment_trial, test="work", units=6),
                before="8.6 %",
                trials=800,
            ),
            Situation(
                "40 replicates that serve both, declared share of work",
                Claim.FALSE,
                partial(assignment_trial, test="work", units=40),
                before="6.1 %",
                trials=800,
            ),
            Situation(
                "12 replicates that serve both, shares of work in 4 groups",
                Claim.FALSE,
                partial(assignment_trial, test="shares", units=12),
                trials=800,
            ),
            Situation(
                "40 replicates that serve both, shares of work in 4 groups",
                Claim.FALSE,
                partial(assignment_trial, test="shares", units=40),
                trials=800,
            ),
            Situation(
                "200 machines, 60 % instead of 50 %",
                Claim.FOUND,
                partial(assignment_trial, test="split", units=200, off=0.1),
                trials=400,
            ),
            Situation(
                "40 replicates that serve both, 60 % of the work",
                Claim.FOUND,
                partial(assignment_trial, test="work", units=40, off=0.1),
                trials=400,
            ),
        ),
    ),
)
