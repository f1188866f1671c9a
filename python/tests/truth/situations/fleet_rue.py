"""Speedups of configurations where machines of one rack are alike.

Machines differ by log-normal factors of 15 %, racks by more or less; the work of a machine varies by a third.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from steelyard.fleet.rue.compare import compare_one
from steelyard.fleet.rue.usage import Factor, Observed, RueSettings

from ..situation import Claim, Outcome, Random, Situation, Statistic

MACHINE_SD = 0.15
EACH = 20
"""Machines of a rack."""


def _observed(
    random: Random, racks: int, rack_sd: float, speedup: float, named: str, *, by_rack: bool
) -> Observed:
    """Return sums of machines of ``racks`` racks an arm, as the engine would return them."""
    count = 2 * racks * EACH
    rack = np.repeat(np.arange(2 * racks), EACH)
    arm = (rack >= racks).astype(np.int64) if by_rack else random.permutation(np.arange(count) % 2)
    factor = np.exp(
        rack_sd * random.standard_normal(2 * racks)[rack] + MACHINE_SD * random.standard_normal(count)
    )
    work = 1000 * random.gamma(9.0, 1 / 9, count)
    usage = work * factor * np.where(arm == 1, 1 / speedup, 1.0)
    machines = [f"r{r:02d}-m{at:03d}" if named == "name" else f"m{at:03d}" for at, r in enumerate(rack)]
    factors = {"job": Factor(np.zeros(count, dtype=np.int64), ("web",))}
    if named == "label":
        factors["rack"] = Factor(rack.astype(np.int64), tuple(f"{at:03d}" for at in range(2 * racks)))
    return Observed(
        configuration=Factor(arm, ("new", "old")),
        factors=factors,
        replicate=np.arange(count),
        samples=np.full(count, 10),
        usage={"cpu": usage},
        work={"cpu": work},
        counted={"cpu": np.full(count, 10)},
        no_work=0,
        missing={"cpu": 0},
        machine=Factor(np.arange(count), tuple(machines)),
    )


def rue_trial(
    random: Random,
    *,
    racks: int,
    rack_sd: float,
    named: str = "name",
    by_rack: bool = True,
    cluster_by: str | None = None,
    speedup: float = 1.0,
    looks: str = "once",
    wants: str = "interval",
) -> Outcome:
    """Hold the interval of one look against the speedup, or ask whether anything is decided."""
    observed = _observed(random, racks, rack_sd, speedup, named, by_rack=by_rack)
    labels = ("rack",) if named == "label" else ()
    settings = RueSettings("config", labels=labels, looks=looks, cluster_by=cluster_by)
    found = compare_one(observed, (0, 1), "cpu", settings)
    span = None if found.reweighted is None else found.reweighted.speedup.interval(looks)
    if wants == "side":
        return Outcome(span is not None and (span[0] > 1 or span[1] < 1))
    if span is None:
        return Outcome(None)
    return Outcome(span[0] <= speedup <= span[1], width=float(np.log(span[1] / span[0])))


def _on_platforms(random: Random, each: int, cost: float, speedup: float) -> Observed:
    """Return machines of two platforms, 70 % of configuration 1's of the first, 70 % of 2's of the second."""
    arm = np.repeat([0, 1], each)
    platform = (random.random(2 * each) < np.where(arm == 0, 0.3, 0.7)).astype(np.int64)
    machines = np.arange(2 * each)
    work = 1000 * random.gamma(9.0, 1 / 9, 2 * each)
    usage = work * np.exp(MACHINE_SD * random.standard_normal(2 * each)) * np.where(platform == 1, cost, 1.0)
    counts = np.full(2 * each, 10)
    return Observed(
        configuration=Factor(arm, ("new", "old")),
        factors={
            "job": Factor(np.zeros(2 * each, dtype=np.int64), ("web",)),
            "platform": Factor(platform, ("skylake", "zen3")),
        },
        replicate=machines,
        samples=counts,
        usage={"cpu": usage / np.where(arm == 1, speedup, 1.0)},
        work={"cpu": work},
        counted={"cpu": counts},
        no_work=0,
        missing={"cpu": 0},
        machine=Factor(machines, tuple(f"m{at}" for at in machines)),
    )


def platform_trial(
    random: Random, *, each: int, cost: float = 1.4, speedup: float = 1.0, wants: str = "interval"
) -> Outcome:
    """Hold the interval of one look against the speedup, or ask whether any side is decided."""
    observed = _on_platforms(random, each, cost, speedup)
    found = compare_one(observed, (0, 1), "cpu", RueSettings("config", looks="once"))
    span = None if found.reweighted is None else found.reweighted.speedup.interval("once")
    if wants == "side":
        return Outcome(span is not None and (span[0] > 1 or span[1] < 1))
    if span is None:
        return Outcome(None)
    return Outcome(span[0] <= speedup <= span[1], width=float(np.log(span[1] / span[0])))


def _trial(**keywords: object) -> partial[Outcome]:
    return partial(rue_trial, **keywords)  # type: ignore[arg-type]


STATISTICS = (
    Statistic(
        name="RUE where machines of a rack are alike",
        covers=("steelyard.fleet.rue.result.Speedup", "steelyard.stats.ratios.Effect"),
        about=(
            "20 machines a rack, which differ by 15 %. Intervals are for one look; width is of the speedup's"
            " logarithm. Racks are in machines' names, in a label, or declared."
        ),
        situations=(
            Situation(
                "20 machines an arm, each by itself",
                Claim.HOLDS,
                _trial(racks=1, rack_sd=0.0, named="no"),
                trials=300,
            ),
            Situation(
                "racks sd 5 %, 2 racks an arm, in names",
                Claim.HOLDS,
                _trial(racks=2, rack_sd=0.05),
                before="75 %",
                trials=300,
                quick=60,
            ),
            Situation(
                "racks sd 10 %, 2 racks an arm, in names",
                Claim.HOLDS,
                _trial(racks=2, rack_sd=0.1),
                before="48 %",
                trials=300,
                quick=60,
            ),
            Situation(
                "racks sd 10 %, 2 racks an arm, a label",
                Claim.HOLDS,
                _trial(racks=2, rack_sd=0.1, named="label"),
                before="48 %",
                trials=200,
            ),
            Situation(
                "racks sd 10 %, 10 racks an arm, in names",
                Claim.HOLDS,
                _trial(racks=10, rack_sd=0.1),
                before="55 %",
                trials=200,
            ),
            Situation(
                "racks sd 10 %, 10 racks an arm, declared",
                Claim.HOLDS,
                _trial(racks=10, rack_sd=0.1, named="label", cluster_by="rack"),
                before="55 %",
                trials=200,
            ),
            Situation(
                "racks alike, 10 racks an arm, in names",
                Claim.HOLDS,
                _trial(racks=10, rack_sd=0.0),
                before="92 %",
                trials=200,
            ),
            Situation(
                "racks sd 10 %, machines of both arms in each of 10 racks",
                Claim.HOLDS,
                _trial(racks=5, rack_sd=0.1, by_rack=False),
                before="97 %",
                trials=200,
            ),
            Situation(
                "racks sd 10 %, 2 racks an arm, in no name or label",
                Claim.FALSE,
                _trial(racks=2, rack_sd=0.1, named="no", wants="side"),
                before="52 %",
                trials=200,
                is_limit=True,
                note="no label shows the racks: declare them; counted is a difference where there is none",
            ),
            Situation(
                "any look, racks sd 10 %, 2 racks an arm, in names",
                Claim.FALSE,
                _trial(racks=2, rack_sd=0.1, looks="any", wants="side"),
                before="24 %",
                trials=200,
                quick=60,
            ),
            Situation(
                "10 % faster, racks sd 5 %, 2 racks an arm, in names",
                Claim.FOUND,
                _trial(racks=2, rack_sd=0.05, speedup=1.1, wants="side"),
                before="63 %, with false alarms in 25 %",
                trials=200,
            ),
            Situation(
                "10 % faster, racks sd 5 %, 10 racks an arm, in names",
                Claim.FOUND,
                _trial(racks=10, rack_sd=0.05, speedup=1.1, wants="side"),
                before="100 %",
                trials=200,
            ),
            Situation(
                "10 % faster, racks sd 5 %, machines of both arms in each of 4 racks",
                Claim.FOUND,
                _trial(racks=2, rack_sd=0.05, speedup=1.1, by_rack=False, wants="side"),
                before="79 %",
                trials=200,
            ),
            Situation(
                "10 % faster, racks alike, 10 racks an arm, in names",
                Claim.FOUND,
                _trial(racks=10, rack_sd=0.0, speedup=1.1, wants="side"),
                before="100 %",
                trials=200,
            ),
        ),
    ),
    Statistic(
        name="RUE where configurations run on other platforms",
        covers=("steelyard.fleet.rue.result.Speedup",),
        about=(
            "Machines differ by 15 %, platforms in cost by 40 %: 7 of 10 machines of configuration 1 are of"
            " one platform, of configuration 2 of the other. Intervals are for one look."
        ),
        situations=(
            *(
                Situation(
                    f"{each} machines an arm",
                    Claim.HOLDS,
                    partial(platform_trial, each=each),
                    before=before,
                    trials=600,
                    quick=60 if each == 7 else 0,
                )
                for each, before in ((5, "86 %"), (7, "83 %"), (10, "85 %"), (20, "94 %"))
            ),
            Situation(
                "10 machines an arm, 30 % faster",
                Claim.FOUND,
                partial(platform_trial, each=10, speedup=1.3, wants="side"),
                before="61 %, with false alarms in 15 %",
                trials=300,
                bar=0.6,
            ),
            Situation(
                "20 machines an arm, 30 % faster",
                Claim.FOUND,
                partial(platform_trial, each=20, speedup=1.3, wants="side"),
                before="95 %",
                trials=300,
                bar=0.9,
            ),
            Situation(
                "10 machines an arm, 30 % faster, platforms alike",
                Claim.FOUND,
                partial(platform_trial, each=10, cost=1.0, speedup=1.3, wants="side"),
                before="88 %",
                trials=300,
                bar=0.6,
            ),
        ),
    ),
)
