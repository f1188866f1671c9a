"""Pages of what is declared in code and data: metrics and units, rules, checks of results, knobs.

In: the registries. Out: Markdown for `docs/reference`.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

from steelyard._base import data_dir
from steelyard.cli.manual.markdown import code, table

_METRICS = """# Metrics and units

From `data/units.json` and the declarations of benchmarks: `make docs` writes this page, a test compares it.
Names end in their unit: `latency_ns`, `rss_bytes`, `rate_per_s`; shares are from 0 to 1 and end in `_ratio`.

## Units

Records have the base unit; tables and pages choose k, M, G or Ki, Mi, Gi.
"""
_OF_BENCHMARKS = """## Benchmarks

The first metric is the headline: repeats, scores and comparisons are about it. A run has more metrics than
these: `steelyard report RUN --json`.
"""
_RULES = """# Rules

What `steelyard report` and `steelyard characterize` ask of a run: `make docs` writes this page from the
rules, a test compares it. A rule is asked where the facts that it needs were measured. Its answer is a
finding with evidence, or a note where it explains no share of the time.
"""
_CHECKS = """# Checks of a result

From `data/checks.json`: `make docs` writes this page, a test compares it. A result is `valid` where all
checks passed, else `suspect` or `invalid` by the worst one ([verdicts](../concepts/verdicts.md)). Bounds that
depend on the run are not listed.
"""
_KNOBS = """# Knobs

Settings of a machine that `steelyard tune` may try: `make docs` writes this page from the knobs, a test
compares it. `steelyard tune list` shows those of this machine with their values, levels and risks. Some are
there for each size, interface or queue, such as `huge_pages_2MiB`. A file may declare more
([find a soft SKU](../guides/softsku.md)).
"""
_CAPITALS = ("cpu", "numa")


def metrics_page() -> str:
    """Return names, units and directions of metrics, by benchmark and for comparisons of workloads."""
    from steelyard.bench import declaration
    from steelyard.decide.fidelity.catalogue import CATALOGUE

    units = json.loads((data_dir() / "units.json").read_text(encoding="utf-8"))["units"]
    parts = [
        _METRICS,
        table(
            ("unit", "shown as", "meaning"),
            ((code(name), one["shown"], one["means"]) for name, one in units.items()),
        ),
        _OF_BENCHMARKS,
    ]
    benchmarks = [declaration.find(name) for name in declaration.names() if declaration.is_built_in(name)]
    for one in (each for each in benchmarks if each.listed and each.headline):
        named = [(name, one.metric_names.get(name, "")) for name in one.headline]
        named += [(name, "scored beside the headline") for name in one.parts]
        listed = (f"- {code(name)}{': ' if said else ''}{said}\n" for name, said in named)
        parts += [f"### {one.name}\n", f"{one.doc[:1].upper()}{one.doc[1:].rstrip('.')}.\n", "".join(listed)]
    rows_of = [
        (code(metric.name), code(metric.unit), metric.group, metric.kind.value, metric.title, metric.moved_by)
        for metric in CATALOGUE.values()
    ]
    parts += [
        "## Comparison of workloads\n",
        "Metrics of [`steelyard fidelity`](../guides/fidelity.md), which files of metrics may name.\n",
        table(("metric", "unit", "group", "distance", "shown as", "moved by"), rows_of),
    ]
    return "\n".join(parts)


def rules_page() -> str:
    """Return the rules that explain runs, by area."""
    from steelyard.analyze.rules.explain import load_rules
    from steelyard.analyze.rules.findings import AREAS, RULES

    load_rules()
    says = {"time": "share of time", "cpu": "share of CPU time", "": "note"}
    rules = sorted(RULES.values(), key=lambda one: AREAS.index(one.area))
    parts = [_RULES]
    for area, members in groupby(rules, lambda one: one.area):
        rows = [
            (
                code(one.id),
                one.question,
                one.threshold,
                says[one.explains],
                ", ".join(code(need.name) for need in one.needs if not need.is_optional),
            )
            for one in members
        ]
        parts += [
            f"## {area.upper() if area in _CAPITALS else area.capitalize()}\n",
            table(("rule", "question", "bound", "explains", "needs"), rows),
        ]
    return "\n".join(parts)


def checks_page() -> str:
    """Return the checks that make a verdict."""
    from steelyard.analyze.checks import CHECKS, SCOPES

    parts = [_CHECKS]
    for name, one in CHECKS.items():
        lines = [f"- Asked of: {', '.join(SCOPES[scope].lower() for scope in one.scope)}."]
        bounds = [
            f"{level} {one.fails.value} {_figure(value, one.unit)}"
            for level, value in (("suspect", one.bounds.suspect), ("invalid", one.bounds.invalid))
            if one.fails is not None and value is not None
        ]
        if bounds:
            lines.append(f"- Bounds: {', '.join(bounds)}.")
        if one.advice:
            lines.append(f"- What to do: {one.advice.rstrip('.')}.")
        parts += [f"## `{name}`\n", f"{one.asks}\n", "\n".join(lines) + "\n"]
    return "\n".join(parts)


def _figure(value: float, unit: str | None) -> str:
    if unit == "ratio":
        return f"{value * 100:g} %"
    return f"{value:g}" + (f" {unit}" if unit not in (None, "1", "count") else "")


def knobs_page() -> str:
    """Return the knobs that may be there, with what a machine without them lacks."""
    from steelyard.tune.knobs import find

    # Of an empty machine every knob is lacking, with its meaning and the reason.
    knobs, lacking = find(Path("/nonexistent"))
    assert not knobs
    rows = ((code(one.name), one.about, one.reason) for one in lacking)
    return f"{_KNOBS}\n{table(('knob', 'sets', 'a machine without it'), rows)}"
