"""What is to be projected, and what the table has for it.

In: a `MachineTable` and a `Question`. Out: a `Problem`: the target in logarithms, the results to use, the
groups of machines that are alike. Raises UsageError for what cannot be projected, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from steelyard._base import UsageError
from steelyard.decide.projection.features import Floats, groups_of, together_with
from steelyard.decide.projection.geomean import log_scores
from steelyard.decide.tables.model import MachineTable, Measurement, ResultColumn

MODEL = "model"
GEOMEAN = "geomean"
METHODS = (MODEL, GEOMEAN)
_EQUAL_AT_LEAST = 3
"""Machines with as many results, and all of them equal to the last digit, are one under two names."""


@dataclass(frozen=True)
class Question:
    """What is to be projected, and how."""

    targets: tuple[str, ...]
    """Results; several are projected as their geometric mean."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weights of targets, such as the power of each workload."""
    use: tuple[str, ...] = ()
    """Patterns of results to project from; by default all that were not measured together with the target."""
    without: tuple[str, ...] = ()
    """Patterns of results to leave out."""
    method: str = ""
    """`MODEL` or `GEOMEAN`; by default the model where enough machines are known."""
    calibration: str = ""
    """The machine that others are put in proportion to; by default the first with target and results."""
    group_by: str = ""
    """The attribute whose machines are left out together; by default processor, family or generation."""
    forward: bool = False
    """Whether groups are projected from earlier ones alone, by year."""
    every_group: bool = False
    """Whether each group is left out alone, however many there are."""
    confidence: float = 0.8
    suites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Patterns of results by suite; by default by the first word of results."""
    compares_suites: bool = True
    """Whether suites are tried alone."""
    explain: bool = False
    learning: bool = False
    wanted_error_ratio: float | None = None


@dataclass(frozen=True)
class Problem:
    """A question with what was found for it in the table."""

    table: MachineTable
    question: Question
    results: tuple[str, ...]
    left_out_results: tuple[str, ...]
    target: Floats
    """Logarithms, NaN where it is unknown."""
    name: str
    unit: str
    better: str
    group_attribute: str
    groups: NDArray[np.str_]
    twins: Mapping[int, int]
    """Machines that have exactly the results of an earlier one, which may be they under another name."""
    calibration: int
    notes: tuple[str, ...]

    @property
    def known(self) -> NDArray[np.bool_]:
        """Return where the target is known."""
        found: NDArray[np.bool_] = np.isfinite(self.target)
        return found

    @property
    def is_higher_better(self) -> bool:
        """Return whether more of the target is better."""
        return self.better == "higher"


def problem_of(table: MachineTable, question: Question) -> Problem:
    """Return what the table has for a question. Raises UsageError for what cannot be projected."""
    names = [column.name for column in table.results]
    if not question.targets:
        raise UsageError("nothing to project", hint=f"--target, one of {', '.join(names[:8])}")
    _check_names(table, question, names)
    if len(table.machines) < 2:
        raise UsageError("one machine only: there is nothing to project it from", hint="give more machines")
    table = _with_result(table, question.targets)
    names = [column.name for column in table.results]
    others = [name for name in names if name not in question.targets]
    beside = sorted({one for target in question.targets for one in together_with(target, others)})
    used = [name for name in others if not matches(name, question.without)]
    if question.use:
        used = [name for name in used if matches(name, question.use)]
        if not used:
            raise UsageError("no result fits --use", hint=f"results: {', '.join(others[:8]) or 'none'}")
    else:
        used = [name for name in used if name not in beside]
    known_of = {name: int(np.isfinite(table.values(name)).sum()) for name in used}
    used = [name for name in used if known_of[name] > 1]
    attribute, groups = groups_of(table, question.group_by or None)
    twins = _twins(table, used)
    for at, first in twins.items():
        groups[at] = groups[first]
    target, unit, better = _target(table, question)
    known = np.isfinite(target)
    if not known.any():
        raise UsageError(f"{' + '.join(question.targets)} is known on no machine", hint="measure it on some")
    notes = list(table.notes)
    if known.sum() > 1 and np.ptp(target[known]) == 0:
        raise UsageError(
            f"{question.targets[0]} is the same on all {known.sum()} machines: nothing to project",
            hint="give another --target",
        )
    return Problem(
        table,
        question,
        tuple(used),
        tuple(name for name in beside if name not in used),
        target,
        " + ".join(question.targets),
        unit,
        better,
        attribute,
        groups,
        twins,
        _calibration(table, question, known, used),
        tuple(notes),
    )


def _check_names(table: MachineTable, question: Question, names: Sequence[str]) -> None:
    """Raise UsageError for a target that no machine has, and for an attribute that none has."""
    for name in question.targets:
        if name in names or np.isfinite(table.numbers(name)).any():
            continue
        if name in table.attributes:
            raise UsageError(f"{name} is a text: nothing to project", hint=f"results: {', '.join(names[:8])}")
        lacking = next((machine for machine in table.machines if name in machine.missing), None)
        if lacking is not None:
            why = f"{lacking.name}: {lacking.why_missing(name)}"
            raise UsageError(f"{name} is known on no machine; {why}", hint="measure it on some")
        table.column(name)
    asked = question.group_by
    if asked and asked not in (*table.attributes, "machine"):
        known = ", ".join(table.attributes[:8])
        raise UsageError(f"--group-by {asked}: no machine has it", hint=f"one of {known or 'machine'}")


def _twins(table: MachineTable, used: Sequence[str]) -> dict[int, int]:
    """Return the machines that have exactly the results of an earlier one."""
    first: dict[tuple[float, ...], int] = {}
    found = {}
    used = [name for name in used if _is_fine(table.values(name))]
    for at, machine in enumerate(table.machines):
        key = tuple(machine.results[name].value if name in machine.results else -1.0 for name in used)
        if sum(value > 0 for value in key) < _EQUAL_AT_LEAST:
            continue
        if first.setdefault(key, at) != at:
            found[at] = first[key]
    return found


def _is_fine(values: Floats) -> bool:
    """Whether a result seldom has the same value on two machines."""
    known = values[np.isfinite(values)]
    return len(np.unique(known)) > len(known) / 2


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether any pattern, as a shell has them, fits a result's name, or is it."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def _with_result(table: MachineTable, targets: Sequence[str]) -> MachineTable:
    """Return the table with targets that are numbers of machines, such as power, as results."""
    lacking = [name for name in targets if name not in {column.name for column in table.results}]
    if not lacking:
        return table
    machines = []
    for machine in table.machines:
        numbers = {name: machine.number(name) for name in lacking}
        found = {name: Measurement(((value,),)) for name, value in numbers.items() if value and value > 0}
        attributes = {name: value for name, value in machine.attributes.items() if name not in lacking}
        machines.append(replace(machine, attributes=attributes, results={**machine.results, **found}))
    columns = [ResultColumn(name, "w" if name.endswith("_w") else "1") for name in lacking]
    return replace(table, machines=tuple(machines), results=(*table.results, *columns))


def _target(table: MachineTable, question: Question) -> tuple[Floats, str, str]:
    """Return the target's logarithms, its unit, and which way is better."""
    if len(question.targets) == 1:
        column = table.column(question.targets[0])
        return np.log(table.values(column.name)), column.unit, column.better
    return log_scores(table, question.targets, question.weights), "1", "higher"


def _calibration(
    table: MachineTable, question: Question, known: NDArray[np.bool_], used: Sequence[str]
) -> int:
    if question.calibration:
        machine = table.machine(question.calibration)
        at = table.machines.index(machine)
        if not known[at]:
            raise UsageError(
                f"{machine.name} has no {' + '.join(question.targets)}: it cannot calibrate",
                hint="name another machine with --calibration",
            )
        return at
    counts = np.array([sum(name in machine.results for name in used) for machine in table.machines])
    return int(np.argmax(np.where(known, counts, -1)))
