"""Made-up fleets in which a workload is known on some machines: does its projection elsewhere hold?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from steelyard.decide.projection.problem import Question
from steelyard.decide.projection.project import project
from tests.decide.projection.fleets import SIZES, World, fleet, hidden

from ...situation import Claim, Outcome, Random, Situation, Statistic

CONFIDENCE = 0.8
_BAR = 0.75
_QUESTION = Question(targets=("web",), confidence=CONFIDENCE, compares_suites=False)


def _outcome(random: Random, world: World, known: int, *, larger: bool = False) -> Outcome:
    """Project a machine of the last processor, of which ``known`` machines are measured."""
    table = fleet(random, world, SIZES[-2] if larger else SIZES[-1])
    if larger:
        # The new processor alone has twice the CPUs of any other.
        other = fleet(random, replace(world, processors=1, machines=1))
        machine = replace(other.machines[0], name="new-0")
        own = {"processor": "P new", "cpus": float(SIZES[-1])}
        growth = float(SIZES[-1]) / float(machine.attributes["cpus"])
        results = {}
        for name, found in machine.results.items():
            power = {"integer": 0.0, "compress": 0.0, "stream": 0.6}.get(name, 0.9)
            results[name] = replace(found, sessions=((found.value * growth**power,),))
        table = replace(table, machines=(*table.machines, replace(machine, attributes=own, results=results)))
    last = table.machines[-1].attributes["processor"]
    mine = [one.name for one in table.machines if one.attributes["processor"] == last]
    names = set(mine[: len(mine) - known])
    truth = {one.name: one.results["web"].value for one in table.machines}
    found = project(hidden(table, names), _QUESTION)
    asked = str(random.choice(sorted(names)))
    machine_found = next(one for one in found.machines if one.name == asked)
    low, high, middle = machine_found.low, machine_found.high, machine_found.projected
    assert middle is not None
    error = float(np.log(middle / truth[asked]))
    if low is None or high is None:
        return Outcome(None, error)
    return Outcome(low <= truth[asked] <= high, error, float(np.log(high / low)))


def _refused(random: Random, world: World) -> Outcome:
    """Whether nothing is stated of a machine whose processors are too few."""
    table = fleet(random, world)
    last = table.machines[-1].attributes["processor"]
    names = {one.name for one in table.machines if one.attributes["processor"] == last}
    found = project(hidden(table, names), _QUESTION)
    return Outcome(all(one.low is None for one in found.machines))


def _situation(name: str, world: World, known: int = 0, *, note: str = "", larger: bool = False) -> Situation:
    return Situation(
        name,
        Claim.HOLDS,
        partial(_outcome, world=world, known=known, larger=larger),
        trials=30,
        bar=_BAR,
        note=note,
    )


STATISTICS = (
    Statistic(
        "Projections of machines",
        ("steelyard.decide.projection.result.ProjectedMachine",),
        (
            _situation(
                "14 processors of 4 machines, the 15th new; families differ by 12 %", World(processors=15)
            ),
            _situation("the same, families by Student's t of 2 degrees", World(processors=15, tails=2.0)),
            _situation(
                "the same, half of the processors collapse from 16 CPUs on",
                World(processors=15, collapse=0.8),
            ),
            _situation("6 processors known", World(processors=7)),
            _situation("the same, families do not differ", World(processors=15, family=0.0)),
            _situation("one machine of the processor known", World(processors=15), 1),
            _situation(
                "a new processor with twice the CPUs of any other",
                World(processors=15),
                larger=True,
                note="The interval is wider than inside of the known sizes.",
            ),
            Situation(
                "3 processors known",
                Claim.SILENT,
                partial(_refused, world=World(processors=4, machines=3)),
                trials=40,
                quick=5,
            ),
        ),
        "The interval is stated for 80 % of machines, the bar is 75 %; the width is that of its logarithm.",
    ),
)
