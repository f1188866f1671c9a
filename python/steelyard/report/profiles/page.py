"""The page of a profile, or of two: tax map, flame graph, tables of functions.

In: profiles and what was counted in them. Out: the page's path. Names from outside are escaped by the
template, and by the flame graph's own script.

Not here: counting (``analyze``), the terminal (``table``).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from steelyard.analyze.profiles.diff import OWN, RUNS, Change, ProfileDiff, Table
from steelyard.analyze.profiles.names import short_function
from steelyard.analyze.profiles.profile import SAMPLES, Profile, Weights, modules_of, weigh
from steelyard.analyze.profiles.tax_map import TaxMap
from steelyard.analyze.profiles.tax_rules import Rules
from steelyard.report import format as fmt
from steelyard.report.profiles.flame import diff_flame_html, flame_html
from steelyard.report.profiles.tax_chart import command_chart, tax_chart
from steelyard.report.profiles.time_chart import time_chart
from steelyard.report.template import page_path, publish, template

_FUNCTIONS = 40


@dataclass(frozen=True)
class FunctionRow:
    """One function with its counts."""

    function: str
    module: str
    own: int
    total: int


def top_functions(profile: Profile, count: int, *, weights: Weights | None = None) -> list[FunctionRow]:
    """Return the ``count`` functions with most samples of their own, of the busy ones."""
    weights = weights or weigh(profile)
    modules = modules_of(profile)
    rows = zip(weights.keys, weights.own.tolist(), weights.total.tolist(), strict=True)
    ranked = sorted(rows, key=lambda row: (-row[1], -row[2], row[0]))[:count]
    return [FunctionRow(key, modules.get(key, ""), own, total) for key, own, total in ranked]


def facts_of(profile: Profile, tax: TaxMap) -> list[tuple[str, str]]:
    """Return what is known of how a profile was taken."""
    facts = profile.facts
    idle = f", {profile.in_unit(tax.idle_samples):,} of them idle" if tax.idle_samples else ""
    # Bytes, ns or faults are no samples; their number may be known beside.
    name, unit = (SAMPLES, "") if profile.unit == SAMPLES else ("total", f" {profile.unit}")
    rows = [(name, f"{profile.in_unit(profile.total):,}{unit}{idle}")]
    if profile.unit != SAMPLES and facts.get(SAMPLES):
        rows.append((SAMPLES, facts[SAMPLES]))
    names = {"event": "event", "hz": "rate", "duration_s": "duration", "scope": "scope", "lost": "lost"}
    units = {"hz": " Hz", "duration_s": " s", "lost": " samples"}
    rows += [(noun, facts[key] + units.get(key, "")) for key, noun in names.items() if facts.get(key)]
    rows.append(("distinct stacks", f"{len(profile.counts):,}"))
    if profile.whole_ratio is not None:
        rows.append(("complete stacks of programs", f"{profile.whole_ratio:.1%}"))
    return rows


def cautions_of(profile: Profile) -> list[str]:
    """Return what is wrong with a profile, a sentence each."""
    cautions = [f"Reduced: {profile.facts['reason']}"] if profile.facts.get("reason") else []
    lost = profile.lost
    if lost:
        share = lost / (lost + profile.total)
        cautions.append(f"The kernel dropped {lost:,} samples, {share:.1%} of what it took.")
    return cautions + [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in profile.reading.sentences()]


def write(
    path: Path,
    profile: Profile,
    tax: TaxMap,
    *,
    title: str,
    command: str,
    rules: Rules | None = None,
    times_ns: NDArray[np.int64] | None = None,
) -> Path:
    """Write the page of one profile to ``path``, with when its samples were taken where ``times_ns`` are
    known (ns since the first). Raises WorkloadFailedError when it cannot be written.
    """
    nonce = secrets.token_urlsafe(16)
    charts = [tax_chart([(title, tax)], rules, measured=profile.measured), command_chart(tax, rules)]
    busy = profile.busy()
    content = {
        "title": title,
        "eyebrow": "profile",
        "heading": _heading(tax),
        "subline": _subline(tax),
        "cautions": cautions_of(profile),
        "facts": facts_of(profile, tax),
        "charts": [chart for chart in charts if chart.is_drawable],
        "absent": [chart for chart in charts if not chart.is_drawable],
        "unit": profile.unit,
        "categories": _categories(tax, profile),
        "flame": Markup(flame_html(profile, "Flame graph", nonce=nonce, rules=rules)),  # noqa: S704
        "functions": [_function(row, busy) for row in top_functions(busy, _FUNCTIONS)],
        "diff": None,
        "times": None if times_ns is None else time_chart(times_ns),
        "command": command,
    }
    return _write(path, content, nonce)


def write_diff(
    path: Path,
    profiles: tuple[Profile, Profile],
    names: tuple[str, str],
    maps: tuple[TaxMap, TaxMap],
    result: ProfileDiff,
    *,
    command: str,
    rules: Rules | None = None,
) -> Path:
    """Write the page of two profiles to ``path``. Raises WorkloadFailedError when it cannot be
    written.
    """
    nonce = secrets.token_urlsafe(16)
    measured = profiles[0].measured
    charts = [tax_chart(list(zip(names, maps, strict=True)), rules, measured=measured)]
    flame = diff_flame_html(
        *profiles,
        "Differential flame graph",
        names=names,
        nonce=nonce,
        rules=rules,
        functions={
            row.name for table in result.tables if table.by == "function" for row in table.standing_out
        },
        is_judged=result.reason is None,
    )
    content = {
        "title": f"{names[0]} and {names[1]}",
        "eyebrow": "two profiles",
        "heading": heading_of(result),
        "subline": f"{sides_of(result, names)}. Differences are of shares.",
        "cautions": [f"{caution[:1].upper()}{caution[1:]}." for caution in result.cautions],
        "facts": [],
        "charts": [chart for chart in charts if chart.is_drawable],
        "absent": [chart for chart in charts if not chart.is_drawable],
        "unit": "",
        "categories": [],
        "flame": Markup(flame),  # noqa: S704
        "functions": [],
        "diff": {
            "names": names,
            "alpha": f"{result.alpha:.0%}",
            "confidence": f"{result.confidence:.0%}",
            "has_runs": result.basis == RUNS,
            "tables": [_diff_table(table, result) for table in result.tables],
        },
        "times": None,
        "command": command,
    }
    return _write(path, content, nonce)


def heading_of(result: ProfileDiff) -> str:
    """Return the comparison in one line."""
    if result.reason:
        return "Not judged: " + result.reason
    out = result.table("function", OWN).standing_out
    if out:
        row = out[0]
        open_question = "" if result.basis == RUNS else "; one run per side cannot show a change"
        return f"{row.name}: {row.a_ratio:.1%} → {row.b_ratio:.1%}{open_question}"
    if result.basis == RUNS:
        return "Only callers, modules or categories changed" if result.changed else "No change beyond noise"
    return (
        "Only callers, modules or categories stand out"
        if result.stands_out
        else "No difference beyond the noise of sampling"
    )


def sides_of(result: ProfileDiff, names: tuple[str, str]) -> str:
    """Return how much was counted in A and in B; of samples those of busy processors."""
    counts = [result.counted(0, result.a_samples), result.counted(1, result.b_samples)]
    busy = [count.replace(f" {SAMPLES}", f" busy {SAMPLES}") for count in counts]
    return f"{names[0]}: {busy[0]}, {names[1]}: {busy[1]}"


def word_of(row: Change) -> str:
    """Return what is known of a row in a word."""
    if row.changed is not None:
        return "change" if row.changed else "may be noise"
    return "" if row.stands_out is None else "stands out" if row.stands_out else "may be noise"


def count_of(table: Table, result: ProfileDiff) -> str:
    """Return how many rows of a table are changes, or stand out."""
    count = len(table.standing_out)
    if result.basis == RUNS:
        return f"{count} change{'' if count == 1 else 's'}"
    return f"{count} stand{'s' if count == 1 else ''} out"


def _write(path: Path, content: dict[str, Any], nonce: str) -> Path:
    chart_data = {
        "charts": [chart.spec() for chart in (*content["charts"], content["times"]) if chart],
        "phases": [],
    }
    path = page_path(path)
    return publish(path, template("profile.html.j2", content, chart_data, folder=path.parent, nonce=nonce))


def _heading(tax: TaxMap) -> str:
    if not tax.samples:
        return "No busy sample"
    return f"{tax.share('application'):.0%} application logic"


def _subline(tax: TaxMap) -> str:
    if tax.tax_ratio is None:
        return "All samples are from idle processors."
    return (
        f"{tax.tax_ratio:.1%} datacenter tax, kernel and runtimes, {tax.unclassified_ratio or 0:.1%}"
        f" unclassified. {_by_default(tax.application_by_default_ratio or 0.0)}"
    )


def _by_default(ratio: float) -> str:
    """Say how much of the application's share no rule names."""
    if ratio < 0.0005:
        return "Every sample of application code is named by a rule."
    return f"{ratio:.1%} match no rule and count as application logic."


def _categories(tax: TaxMap, profile: Profile) -> list[dict[str, Any]]:
    return [
        {
            "id": category.id,
            "title": category.title,
            "share": fmt.quantity(category.share_ratio, "ratio"),
            "samples": f"{profile.in_unit(category.samples):,}",
            "functions": ", ".join(
                f"{short_function(f.function)[:80]} {fmt.plain(fmt.quantity(f.share_ratio, 'ratio'))}"
                for f in category.functions[:4]
            ),
        }
        for category in tax.categories
    ]


def _function(row: FunctionRow, profile: Profile) -> dict[str, str]:
    total = profile.total
    return {
        "name": row.function[:300],
        "module": row.module[:80],
        "own": fmt.quantity(row.own / total, "ratio"),
        "own_raw": f"{profile.in_unit(row.own):,} {profile.unit}",
        "total": fmt.quantity(row.total / total, "ratio"),
        "total_raw": f"{profile.in_unit(row.total):,} {profile.unit}",
    }


def points(value: float) -> str:
    """Return a difference of shares in points of a percent.

    >>> points(0.8273), points(-0.001)
    ('+82.73', '−0.10')
    """
    return f"{'−' if value < 0 else '+'}{abs(100 * value):.2f}"


def _diff_table(table: Table, result: ProfileDiff) -> dict[str, Any]:
    return {
        "by": table.by,
        "measure": table.measure,
        "changes": count_of(table, result),
        "count": len(table.rows),
        "rows": [
            {
                "name": row.name[:300],
                "module": (row.module or "")[:80],
                "a": fmt.quantity(row.a_ratio, "ratio"),
                "a_raw": result.counted(0, row.a_samples),
                "b": fmt.quantity(row.b_ratio, "ratio"),
                "b_raw": result.counted(1, row.b_samples),
                "difference": points(row.difference_ratio),
                "interval": ""
                if row.low_ratio is None or row.high_ratio is None
                else f"{points(row.low_ratio)} to {points(row.high_ratio)}",
                "answer": word_of(row),
            }
            for row in table.rows[: max(20, min(60, len(table.standing_out)))]
        ],
    }
