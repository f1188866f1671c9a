"""Sizes for a demand: whether the machines that are recommended meet it, and intervals of one more trial."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from steelyard.decide.sizing.curves import SizeCurve, of_repeats
from steelyard.decide.sizing.making import size
from steelyard.decide.sizing.request import SizeRequest
from steelyard.decide.sizing.sources import Measured
from steelyard.decide.tables.model import MachineTable, MeasuredMachine, Measurement, ResultColumn
from steelyard.stats.scaling.choice import Topology

from ...situation import Claim, Outcome, Random, Situation, Statistic

_SIBLING = 0.3


def _true(cpus: int, cores: int, contention: float) -> float:
    """Return throughput: a law over cores, whose siblings add a share."""
    base = min(cpus, cores)
    rate = 1000 * base / (1 + contention * (base - 1))
    return rate * (1 + _SIBLING * (cpus - base) / cores)


def _curve(
    random: Random, steps: tuple[int, ...], cores: int, cpus: int, blocks: int, noise: float, common: float
) -> SizeCurve:
    contention = 0.002 + 0.02 * random.random()
    shared = math.sqrt(common) * random.standard_normal(blocks)
    values = {
        step: [
            _true(step, cores, contention)
            * math.exp(noise * (shared[block] + math.sqrt(1 - common) * random.standard_normal()))
            for block in range(blocks)
        ]
        for step in steps
    }
    return SizeCurve("m", values, Topology(cpus, cores, cpus // cores), source=repr(contention))


def _short(
    random: Random,
    steps: tuple[int, ...] = (1, 2, 4, 8, 16, 32),
    cores: int = 16,
    cpus: int = 32,
    blocks: int = 5,
    noise: float = 0.03,
    common: float = 0.3,
    whole: bool = True,
) -> Outcome:
    """Whether the recommended machines do less than the demand."""
    curve = _curve(random, steps, cores, cpus, blocks, noise, common)
    demand = 10 ** random.uniform(5, 7)
    request = SizeRequest(demand=repr(demand), whole=whole)
    best = size(Measured(curves=[curve]), None, request).recommended
    if best is None or best.count is None or best.cpus is None or not best.is_assured:
        return Outcome(None)
    made = best.count * _true(best.cpus, cores, float(curve.source))
    return Outcome(made < demand, width=best.expected_margin_ratio)


def _table_short(random: Random, runs: int, noise: float, stated: float | None, shape: str) -> Outcome:
    """The same from a table of three machine types with repeats of a result."""
    levels = {"A": 1000.0, "B": 1500.0, "C": 2100.0}
    machines = []
    for name, level in levels.items():
        deviations = random.standard_t(3, runs) / 3**0.5 if shape == "heavy" else random.standard_normal(runs)
        values = tuple((level * np.exp(noise * deviations)).tolist())
        machines.append(
            MeasuredMachine(name, {"cpus": 8.0, "price": level}, {"web_per_s": Measurement((values,))})
        )
    table = MachineTable(tuple(machines), (ResultColumn("web_per_s", "1/s"),))
    demand = 10 ** random.uniform(5, 7)
    request = SizeRequest(
        demand=repr(demand), power_price=0.0, noise=None if stated is None else repr(stated)
    )
    watts = {name: {"budgeted_power_w": 200.0} for name in levels}
    best = size(Measured(), table.with_attributes(watts), request).recommended
    if best is None or best.count is None or not best.is_assured:
        return Outcome(None)
    return Outcome(best.count * levels[best.machine] < demand, width=best.expected_margin_ratio)


def _one_more(random: Random, runs: int, noise: float, stated: bool = False) -> Outcome:
    values = 1000 * np.exp(noise * random.standard_normal(runs + 1))
    found = of_repeats([values[:-1].tolist()], noise if stated else None)
    if found.low is None or found.high is None:
        return Outcome(None)
    return Outcome(found.low <= values[-1] <= found.high, width=math.log(found.high / found.low))


def _silent(random: Random) -> Outcome:
    found = of_repeats([(1000 + random.standard_normal(2)).tolist()], None)
    return Outcome(found.low is None)


STATISTICS = (
    Statistic(
        name="Choice of machines: sizes for a rate",
        covers=("steelyard.decide.sizing.curves.Throughput",),
        about="As many machines as the lower ends of their intervals (of one trial) call for: false where"
        " they do less than the rate that is to be served. Repeats have Student's t for one more of them.",
        situations=(
            *(
                Situation(name, Claim.FALSE, partial(_short, **how), trials=200, quick=20)
                for name, how in (
                    ("all CPUs of 16 cores with siblings, 5 blocks, 3 % noise", {}),
                    ("3 blocks, 6 % noise", {"blocks": 3, "noise": 0.06}),
                    (
                        "parts of the machine, the best of 8 sizes",
                        {"whole": False},
                    ),
                    (
                        "48 of 64 cores measured, all are used",
                        {"steps": (1, 2, 4, 8, 16, 32, 48), "cores": 64, "cpus": 64},
                    ),
                )
            ),
            *(
                Situation(name, Claim.FALSE, partial(_table_short, **how), trials=1000, quick=100)
                for name, how in (
                    (
                        "3 types, 5 runs each, 3 % noise",
                        {"runs": 5, "noise": 0.03, "stated": None, "shape": "normal"},
                    ),
                    (
                        "3 types, 3 runs each, heavy tails",
                        {"runs": 3, "noise": 0.03, "stated": None, "shape": "heavy"},
                    ),
                    (
                        "3 types, one run each, noise stated as it is",
                        {"runs": 1, "noise": 0.05, "stated": 0.05, "shape": "normal"},
                    ),
                )
            ),
            Situation(
                "one more run, after 5",
                Claim.HOLDS,
                partial(_one_more, runs=5, noise=0.05),
                trials=1000,
                quick=100,
            ),
            Situation(
                "one more run, after 3",
                Claim.HOLDS,
                partial(_one_more, runs=3, noise=0.05),
                trials=1000,
                quick=100,
            ),
            Situation(
                "one more run, after one, noise stated",
                Claim.HOLDS,
                partial(_one_more, runs=1, noise=0.05, stated=True),
                trials=1000,
                quick=100,
            ),
            Situation("two runs", Claim.SILENT, _silent, trials=100, quick=20),
        ),
    ),
)
