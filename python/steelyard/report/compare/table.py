"""A comparison of two runs, or of two suites, on a terminal.

In: `RunComparison` or `SuiteComparison` with the runs. Out: renderables for a `rich` console.

Not here: what differs (``analyze``), the page (``page``).
"""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.analyze.comparison import RunComparison
from steelyard.analyze.suite_comparison import MemberComparison, SuiteComparison
from steelyard.records import Run
from steelyard.report import format as fmt
from steelyard.report.compare.counters import counter_lines
from steelyard.report.compare.page import COST, WORDS, better_if, results_of
from steelyard.report.metrics import metric_name, metric_text
from steelyard.report.terminal import safe

_ROWS_AT_MOST = 20


def runs_summary(runs: tuple[Run, Run], comparison: RunComparison) -> RenderableType:
    """Return what differs between two runs, most telling first."""
    parts: list[RenderableType] = [
        safe(f"{letter}  {run.run_id}") for letter, run in zip("AB", runs, strict=True)
    ]
    parts += [safe(f"!  {caution}") for caution in comparison.cautions]
    table = Table("result", "A", "B", "B over A", "better if", box=box.SIMPLE_HEAD, pad_edge=False)
    results = results_of(comparison)
    for difference in results[:_ROWS_AT_MOST]:
        texts = [fmt.plain(metric_text(difference.name, run.metrics[difference.name])) for run in runs]
        table.add_row(
            safe(metric_name(difference.name, runs[0].benchmark)),
            *texts,
            _ratio(difference.ratio),
            better_if(difference, runs[0]),
        )
    parts += [Text(), table]
    if len(results) > _ROWS_AT_MOST:
        parts.append(Text(f"{len(results) - _ROWS_AT_MOST} more results differ (--report, --json)"))
    if comparison.same:
        parts.append(Text(f"{len(comparison.same)} results within 1 %", style="dim"))
    if comparison.counters is not None:
        own = any(one.name.endswith(COST) for one in comparison.differences)
        own = own or any(name.endswith(COST) for name in comparison.same)
        parts += counter_lines(comparison.counters, has_own_cost=own)
    parts += [safe(f"{name}: {left} -> {right}") for name, (left, right) in comparison.conditions.items()]
    parts += [
        safe(f"parameter {name}: {left} -> {right}") for name, (left, right) in comparison.parameters.items()
    ]
    parts += [
        safe(f"machine ({row['effect']}): {row['what']}: {row['a']} -> {row['b']}")
        for row in comparison.machine[:_ROWS_AT_MOST]
    ]
    if comparison.pressure[0] != comparison.pressure[1]:
        words = [", ".join(points) or "none" for points in comparison.pressure]
        parts.append(safe(f"pressure points: {words[0]} -> {words[1]}"))
    parts += [safe(f"only in A: {name}") for name in comparison.findings_gone]
    parts += [safe(f"only in B: {name}") for name in comparison.findings_new]
    parts += [
        safe(f"profile: {row['name']} {row['a_ratio']:.1%} -> {row['b_ratio']:.1%}")
        for row in comparison.profile[:_ROWS_AT_MOST]
    ]
    return Group(*parts)


def suites_summary(names: tuple[str, str], comparison: SuiteComparison) -> RenderableType:
    """Return what differs between two suites, a line for each member."""
    parts: list[RenderableType] = [safe(f"A  {names[0]}"), safe(f"B  {names[1]}")]
    parts += [safe(f"!  {caution}") for caution in comparison.cautions]
    table = Table("benchmark", "metric", "A", "B", "B over A", "", box=box.SIMPLE_HEAD, pad_edge=False)
    for member in comparison.members:
        texts = [fmt.plain(fmt.quantity(side.value, member.unit or "1")) for side in (member.a, member.b)]
        name, metric = safe(member.benchmark), safe(metric_name(member.metric, member.benchmark))
        table.add_row(name, metric, *texts, ratio_text(member), WORDS[member.better])
    parts += [Text(), table]
    parts += [safe(f"{name}: {left} -> {right}") for name, (left, right) in comparison.conditions.items()]
    parts += [safe(f"only in A: {name}") for name in comparison.only_a]
    parts += [safe(f"only in B: {name}") for name in comparison.only_b]
    return Group(*parts)


def ratio_text(member: MemberComparison) -> str:
    """Return B over A of a suite's member, with its interval where there is one."""
    if member.ratio_low is None or member.ratio_high is None:
        return _ratio(member.ratio)
    return f"{_ratio(member.ratio)} ({_ratio(member.ratio_low)} to {_ratio(member.ratio_high)})"


def _ratio(value: float | None) -> str:
    return fmt.MISSING if value is None else f"{value:.3g}"
