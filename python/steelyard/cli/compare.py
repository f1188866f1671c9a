"""``steelyard compare``: what differs between two runs, most telling first."""

import sys
from dataclasses import asdict, replace
from pathlib import Path

from steelyard._base import ExitCode, UsageError
from steelyard.analyze.comparison import RunComparison, Side, compare_runs
from steelyard.bench import runs
from steelyard.bench import suite as suite_files
from steelyard.cli.output import print_json

_ROWS_AT_MOST = 20


def show_comparison(a: str, b: str, out: Path, *, as_json: bool) -> int:
    """Compare two runs and show it; return the exit code."""
    sides = [_side(runs.find(name, out)) for name in (a, b)]
    found = compare_runs(*sides)
    if as_json:
        from steelyard.report.compare_counters import comparison_document

        document = asdict(replace(found, counters=None)) | {"counters": comparison_document(found.counters)}
        print_json({"a": sides[0].run.run_id, "b": sides[1].run.run_id, **document})
        return int(ExitCode.OK)
    from rich.console import Console

    Console(file=sys.stdout).print(_table(sides, found), markup=False)
    return int(ExitCode.OK)


def _side(directory: Path) -> Side:
    if suite_files.is_suite(directory):
        raise UsageError(
            f"{directory} is a suite", hint="compare its runs one by one: they lie in its folder"
        )
    from steelyard.report.counter_document import power
    from steelyard.report.model import gather

    data = gather(directory)
    data.close()
    points = [point.part for point in data.pressure]
    return Side(
        data.run,
        data.machine,
        data.findings,
        points,
        data.profile.profile,
        data.conditions.counters,
        power(data.conditions),
    )


def _table(sides: list[Side], found: RunComparison) -> object:
    from rich import box
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text

    from steelyard.report import format as fmt
    from steelyard.report.compare_counters import counter_lines
    from steelyard.report.metrics import metric_name, metric_text
    from steelyard.report.table import safe

    parts: list[RenderableType] = [
        safe(f"{letter}  {side.run.run_id}") for letter, side in zip("AB", sides, strict=True)
    ]
    parts += [safe(f"!  {caution}") for caution in found.cautions]
    table = Table("result", "A", "B", "B over A", "", box=box.SIMPLE_HEAD, pad_edge=False)
    for one in found.differences[:_ROWS_AT_MOST]:
        texts = [fmt.plain(metric_text(one.name, side.run.metrics[one.name])) for side in sides]
        ratio = fmt.MISSING if one.ratio is None else f"{one.ratio:.3g}"
        word = "" if one.better is None else "better" if one.better else "worse"
        table.add_row(safe(metric_name(one.name)), *texts, ratio, word)
    parts += [Text(), table]
    if found.same:
        parts.append(Text(f"{len(found.same)} results within 1 %", style="dim"))
    if found.counters is not None:
        parts += counter_lines(found.counters)
    parts += [
        safe(f"parameter {name}: {left} -> {right}") for name, (left, right) in found.parameters.items()
    ]
    parts += [
        safe(f"machine ({one['effect']}): {one['what']}: {one['a']} -> {one['b']}")
        for one in found.machine[:_ROWS_AT_MOST]
    ]
    if found.pressure[0] != found.pressure[1]:
        words = [", ".join(points) or "none" for points in found.pressure]
        parts.append(safe(f"pressure points: {words[0]} -> {words[1]}"))
    parts += [safe(f"only in A: {name}") for name in found.findings_gone]
    parts += [safe(f"only in B: {name}") for name in found.findings_new]
    parts += [
        safe(f"profile: {row['name']} {row['a_ratio']:.1%} -> {row['b_ratio']:.1%}")
        for row in found.profile[:_ROWS_AT_MOST]
    ]
    return Group(*parts)
