"""The answer of ``steelyard compare``: two runs, or two suites member by member.

In: `RunComparison` or `SuiteComparison` with the runs. Out: an `Answer`.

Not here: what differs (``analyze``), their counters (``counters``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.analyze.comparison import ProfileChange, ResultDifference, RunComparison
from steelyard.analyze.suite_comparison import SuiteComparison
from steelyard.records import Run
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Block,
    Cell,
    Column,
    Figure,
    Notes,
    Section,
    measured,
    table,
)
from steelyard.report.compare.counters import counter_blocks
from steelyard.report.metrics import metric_name, metric_text

WORDS = {None: "undecided", True: "better", False: "worse"}


def runs_answer(runs: tuple[Run, Run], comparison: RunComparison, *, command: str) -> Answer:
    """Return the answer of two runs."""
    return Answer(
        "Comparison",
        _heading(len(comparison.differences), len(comparison.same)),
        run_sections(runs, comparison),
        lines=(f"A {runs[0].run_id}, B {runs[1].run_id}",),
        eyebrow=runs[0].benchmark,
        cautions=comparison.cautions,
        command=command,
        source="two runs",
    )


def suites_answer(
    names: tuple[str, str],
    comparison: SuiteComparison,
    details: Mapping[str, tuple[tuple[Run, Run], RunComparison]],
    *,
    command: str,
) -> Answer:
    """Return the answer of two suites; ``details`` compares the runs that stand for each member."""
    sections = [_members(comparison), _conditions(comparison.conditions, {})]
    for name, (runs, inner) in details.items():
        for section in run_sections(runs, inner):
            anchor, title = f"{name}-{section.anchor}", f"{name}: {section.title.lower()}"
            sections.append(Section(anchor, title, section.blocks, section.intro, on_terminal=False))
    return Answer(
        "Comparison of suites",
        f"{len(comparison.members)} benchmarks compared",
        [section for section in sections if _has_rows(section)],
        lines=(f"A {names[0]}, B {names[1]}",),
        eyebrow="suite",
        cautions=comparison.cautions,
        command=command,
        source="two suites",
    )


def _heading(differences: int, same: int) -> str:
    verb = "differs" if differences == 1 else "differ"
    return f"{fmt.several(differences, 'result')} {verb} by 1 % or more, {same} do not"


def _members(comparison: SuiteComparison) -> Section:
    rows = [
        (
            member.benchmark,
            metric_name(member.metric, member.benchmark),
            _in_unit(member.a.value, member.unit),
            _in_unit(member.b.value, member.unit),
            member.ratio
            if member.ratio_low is None
            else Figure(member.ratio, member.ratio_low, member.ratio_high),
            WORDS[member.better],
            f"{member.a.counted} of {member.a.runs}, {member.b.counted} of {member.b.runs}",
        )
        for member in comparison.members
    ]
    columns = (
        "benchmark",
        "metric",
        Column("A"),
        Column("B"),
        Column("B over A", is_answer=True),
        "B is",
        Column("runs counted", is_text=True, rank=1),
    )
    only = [f"Only in A: {name}" for name in comparison.only_a]
    only += [f"Only in B: {name}" for name in comparison.only_b]
    return Section("members", "Members", (table(columns, rows), Notes(tuple(only))))


def _in_unit(value: float | None, unit: str | None) -> Cell | None:
    """Return a figure of a metric, whose unit is not its column's."""
    return None if value is None else measured(value, unit)


def _of_metric(name: str, run: Run) -> Cell:
    metric = run.metrics[name]
    return Cell(
        metric_text(name, metric), figure=Figure(metric.value, missing=metric.missing or "", unit=metric.unit)
    )


def run_sections(runs: tuple[Run, Run], comparison: RunComparison) -> list[Section]:
    """Return everything that differs between two runs; a section without a row is not shown."""
    results = [
        (
            metric_name(difference.name, runs[0].benchmark),
            *(_of_metric(difference.name, run) for run in runs),
            difference.ratio,
            better_if(difference, runs[0]),
        )
        for difference in results_of(comparison)
    ]
    columns = ("result", Column("A"), Column("B"), Column("B over A"), "better if")
    machines = [(row.noun, str(row.a), str(row.b), row.effect.name.lower()) for row in comparison.machine]
    sections = [
        Section("results", "Results", (table(columns, results, caption=_same(comparison)),)),
        _conditions(comparison.conditions, comparison.parameters),
        Section("machines", "Machines", (table(("what", "A", "B", "effect"), machines),)),
        Section("counters", "Counters", _counters(comparison)),
        _findings(comparison),
        _profile(comparison.profile),
    ]
    return [section for section in sections if _has_rows(section)]


def better_if(difference: ResultDifference, run: Run) -> str:
    """Return which direction of a metric is the better one: two runs tell no more than that."""
    better = run.metrics[difference.name].better
    return better if better in ("higher", "lower") else ""


def results_of(comparison: RunComparison) -> list[ResultDifference]:
    """Return the headline first, also where it is the same, then its cost, then the results that differ."""
    headline = comparison.headline
    others = [one for one in comparison.differences if headline is None or one.name != headline.name]
    others.sort(key=lambda one: not one.name.endswith(COST))
    return others if headline is None else [headline, *others]


def _has_rows(section: Section) -> bool:
    return any(getattr(block, "rows", None) or getattr(block, "items", None) for block in section.blocks)


def _same(comparison: RunComparison) -> str:
    return f"{len(comparison.same)} more results are within 1 % of each other." if comparison.same else ""


def _conditions(
    conditions: Mapping[str, tuple[Any, Any]], parameters: Mapping[str, tuple[Any, Any]]
) -> Section:
    rows = [(name, _text(pair[0]), _text(pair[1])) for name, pair in conditions.items()]
    rows += [(f"parameter {name}", _text(pair[0]), _text(pair[1])) for name, pair in parameters.items()]
    return Section("conditions", "Conditions that differ", (table(("condition", "A", "B"), rows),))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


COST = "_per_server_cpu_s"
"""Ending of the metrics that say what a request costs the servers themselves."""


def _counters(comparison: RunComparison) -> tuple[Block, ...]:
    if comparison.counters is None:
        return ()
    names = [*(one.name for one in comparison.differences), *comparison.same]
    return counter_blocks(comparison.counters, has_own_cost=any(name.endswith(COST) for name in names))


def _findings(comparison: RunComparison) -> Section:
    items = [f"Only in A: {name}" for name in comparison.findings_gone]
    items += [f"Only in B: {name}" for name in comparison.findings_new]
    if comparison.pressure[0] != comparison.pressure[1]:
        left, right = (", ".join(points) or "none" for points in comparison.pressure)
        items.append(f"Pressure points: {left} in A, {right} in B")
    return Section("findings", "Findings", (Notes(tuple(items)),))


def _profile(rows: Sequence[ProfileChange]) -> Section:
    made = [(row.name, row.by, row.a_ratio, row.b_ratio, row.difference_ratio) for row in rows]
    columns = ("name", "by", Column("A", "ratio"), Column("B", "ratio"), Column("difference", "ratio"))
    return Section("profile", "Profile", (table(columns, made),))
