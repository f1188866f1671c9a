"""Two to eight runs of one benchmark laid over one another.

In: folders of runs, and earlier sessions of the same measurement. Out: an `Answer`: each result by run with
its ratio to the first, what of the difference may be noise, and throughput, latency and CPU of all in one
chart each.

Not here: what differs between two machines or profiles (``answer``, for two).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from steelyard._base import UsageError
from steelyard.analyze.comparison import NOISE_UNKNOWN
from steelyard.analyze.sessions import NOT_COMPARED, Sessions, member_spreads
from steelyard.records import Run
from steelyard.report import format as fmt
from steelyard.report.answer import Answer, Cell, Column, Figure, Section, Table, Timeline, Trace, table
from steelyard.report.metrics import metric_name, metric_unit
from steelyard.report.model import gather
from steelyard.report.page import answer as page_answer
from steelyard.report.runs import level_of, word_of
from steelyard.stats.sessions import FEWEST_SESSIONS, SessionSpread

MOST = 8
CONFIDENCE = 0.95
NOISE = "by chance up to"
"""The column of results with what may be noise."""
_ROLES = tuple(f"line{at}" for at in range(MOST))
_IDLE = ("idle", "iowait")
_FIRST = ("throughput", "latency", "cpu-all", "cpu-server", "cpu-load")


@dataclass(frozen=True)
class Overlaid:
    """One of the runs: its record, how pages call it, and its charts over time."""

    run: Run
    letter: str
    charts: dict[str, Timeline]
    headline: tuple[str, ...]


def several_answer(folders: Sequence[Path], earlier: Sessions = (), *, command: str = "") -> Answer:
    """Return the answer; ``earlier`` are runs of other sessions, by which noise is known.

    Raises UsageError for fewer than two runs, more than eight, or runs of different benchmarks.
    """
    if not 2 <= len(folders) <= MOST:
        raise UsageError(f"two to {MOST} runs are compared, not {len(folders)}")
    sides = [_read(folder, chr(ord("A") + at)) for at, folder in enumerate(folders)]
    names = list(dict.fromkeys(side.run.benchmark for side in sides))
    if len(names) > 1:
        raise UsageError(
            f"these are runs of {', '.join(names)}: no figure of one is a figure of the other",
            hint="choose runs of one benchmark",
        )
    metric = next(iter(sides[0].headline), "")
    runs = [side.run for side in sides]
    spread = member_spreads(runs, earlier, {names[0]: metric}).get(names[0]) if metric else None
    charts = tuple(_overlay(sides))
    sections = [
        Section("runs", "Runs", (_runs(sides, metric, spread),), _noise(spread)),
        Section("results", "Results", (_results(sides, earlier),)),
        Section(
            "time",
            "Over time",
            charts,
            "Second by second from the start of the measure phase; letters are those of the runs above.",
            grid=True,
        ),
    ]
    return Answer(
        f"{len(sides)} runs of {names[0]}",
        _heading(sides, metric, spread),
        [section for section in sections if section.blocks],
        lines=_lines(sides),
        cautions=[*([] if spread is not None or len(sides) == 2 else [NOISE_UNKNOWN]), *_cautions(sides)],
        eyebrow="comparison",
        command=command,
        source=f"{len(sides)} runs",
    )


def _read(folder: Path, letter: str) -> Overlaid:
    data = gather(folder)
    try:
        said = page_answer(data)
        # Charts are made of a recording that is closed here.
        charts = {
            block.id: block
            for section in said.sections
            for block in section.blocks
            if isinstance(block, Timeline) and block.kind == "time" and block.is_drawable
        }
    finally:
        data.close()
    return Overlaid(data.run, letter, charts, data.headline)


def _heading(sides: Sequence[Overlaid], metric: str, spread: SessionSpread | None) -> str:
    """Return which run has the best main result, and whether that is more than noise."""
    found = [(side, _value(side, metric)) for side in sides if level_of(side.run) in ("valid", "suspect")]
    known = [(side, value) for side, value in found if value is not None and value > 0]
    if not known:
        return "None of them has a result that counts"
    if len(known) == 1:
        return f"Only {known[0][0].letter} has a result that counts"
    name = metric_name(metric, sides[0].run.benchmark)
    is_less = sides[0].run.metrics[metric].better == "lower"
    best, first = (min if is_less else max)(known, key=lambda pair: pair[1]), known[0]
    worst = (max if is_less else min)(known, key=lambda pair: pair[1])
    if best[0] is first[0]:
        least = f"{first[0].letter} has the {'lowest' if is_less else 'highest'} {name}"
        if worst[0] is first[0]:
            return least
        return f"{least}, {worst[0].letter} {fmt.significant(worst[1] / first[1])} x of it"
    ratio = best[1] / first[1]
    # The best of several is further away by chance than another one.
    interval = _interval(ratio, spread, pairs=len(known) - 1)
    more = f"{best[0].letter} has {fmt.significant(ratio)} x the {name} of {first[0].letter}"
    if worst[0] is not first[0]:
        more += f", {worst[0].letter} {fmt.significant(worst[1] / first[1])} x"
    if interval is None:
        return more
    return more if not interval[0] <= 1 <= interval[1] else f"{more}, which may be noise"


def _noise(spread: SessionSpread | None) -> str:
    if spread is None:
        return (
            "How much results differ from session to session (a suite, or the runs of one day) is not known:"
            f" it takes {FEWEST_SESSIONS} earlier ones like these on this machine."
        )
    deviation = math.sqrt(spread.variance)
    return (
        f"{spread.sessions} earlier sessions like these (a suite, or the runs of one day) differ by"
        f" {fmt.quantity(deviation, 'ratio')} (standard deviation),"
        f" which intervals of {fmt.quantity(CONFIDENCE, 'ratio')} allow for."
    )


def _interval(ratio: float, spread: SessionSpread | None, *, pairs: int = 1) -> tuple[float, float] | None:
    """Return the interval of a ratio, wider for the largest one among ``pairs`` of them (Bonferroni)."""
    if spread is None:
        return None
    half = math.exp(spread.half_width(1 - (1 - CONFIDENCE) / pairs))
    return ratio / half, ratio * half


def _runs(sides: Sequence[Overlaid], metric: str, spread: SessionSpread | None) -> Table:
    first = _value(sides[0], metric)
    rows = []
    for side in sides:
        value = _value(side, metric)
        ratio: Figure | None = None
        if value is not None and first is not None and first > 0 and value > 0:
            ends = None if side is sides[0] else _interval(value / first, spread)
            ratio = Figure(value / first, *(ends or (None, None)))
        unit = side.run.metrics[metric].unit if metric in side.run.metrics else None
        rows.append(
            (
                side.letter,
                Cell(word_of(side.run), level=level_of(side.run)),
                Figure(value, unit=unit),
                ratio,
                side.run.tier,
                side.run.orchestrator.hostname or "",
                fmt.moment(side.run.clock.realtime_ns),
                side.run.run_id,
            )
        )
    name = metric_name(metric, sides[0].run.benchmark) if metric else "result"
    columns = (
        Column("run", is_text=True),
        Column("verdict", is_text=True),
        Column(name),
        Column("over A", is_answer=True),
        Column("tier", is_text=True, rank=2),
        Column("host", is_text=True, rank=1),
        Column("time", is_text=True, rank=1),
        Column("name", is_text=True, rank=2),
    )
    return table(columns, rows)


def _results(sides: Sequence[Overlaid], earlier: Sessions) -> Table:
    """Return every result that two of the runs have, the main ones first, with what may be noise."""
    benchmark = sides[0].run.benchmark
    runs = [side.run for side in sides]
    pairs = len(sides) * (len(sides) - 1) // 2
    order = dict.fromkeys([*sides[0].headline, *(name for side in sides for name in side.run.metrics)])
    rows = []
    for name in order:
        values = [_value(side, name) for side in sides]
        if sum(value is not None for value in values) < 2:
            continue
        shown = next(side.run.metrics[name] for side in sides if name in side.run.metrics)
        unit = metric_unit(name, shown)
        known = [abs(value) for value in values if value]
        widest = max(known) / min(known) if known else None
        spread = member_spreads(runs, earlier, {benchmark: name}).get(benchmark)
        chance = _interval(1.0, spread, pairs=pairs)
        is_more = widest is not None and chance is not None and widest > chance[1]
        rows.append(
            (
                metric_name(name, benchmark),
                *(Figure(value, unit=unit) for value in values),
                widest,
                *((None, "") if chance is None else (chance[1], "yes" if is_more else "no")),
            )
        )
    noise: tuple[Column, ...] = (Column(NOISE), Column("more than noise", is_text=True))
    if all(row[-1] == "" for row in rows):
        noise, rows = (), [row[: -len(noise)] for row in rows]
    columns = (
        Column("result", is_text=True),
        *(Column(side.letter) for side in sides),
        Column("largest over smallest", is_answer=True),
        *noise,
    )
    return table(columns, rows)


def _overlay(sides: Sequence[Overlaid]) -> list[Timeline]:
    """Return a chart for each that all runs have, a line a run."""
    common = [name for name in sides[0].charts if all(name in side.charts for side in sides)]
    ordered = [name for name in _FIRST if name in common] + [name for name in common if name not in _FIRST]
    found = []
    for name in ordered:
        traces = []
        for at, side in enumerate(sides):
            trace = _trace(side.charts[name])
            if trace is None:
                break
            traces.append(replace(trace, name=side.letter, role=_ROLES[at]))
        else:
            chart = sides[0].charts[name]
            which = _trace(chart)
            title = f"{chart.title}: {which.name}" if which is not None and which.name else chart.title
            made = replace(chart, title=title, traces=tuple(traces), note="", wide=False, size="normal")
            with contextlib.suppress(ValueError):
                found.append(made)
    return found


def _trace(chart: Timeline) -> Trace | None:
    """Return the one line that stands for a chart: p99 of latencies, what is busy of CPUs, else the first."""
    stacked = [trace for trace in chart.traces if trace.stack]
    if stacked:
        busy = [trace for trace in stacked if not trace.role.startswith(_IDLE)]
        x = chart.x if busy[0].x is None else busy[0].x
        total = np.sum([np.nan_to_num(trace.y) for trace in busy], axis=0)
        unknown = np.isnan([trace.y for trace in busy]).all(axis=0)
        return Trace("busy", "total", np.where(unknown, np.nan, total), x=x)
    if not chart.traces:
        return None
    first = next((trace for trace in chart.traces if trace.role == "p99"), chart.traces[0])
    x = chart.x if first.x is None else first.x
    return replace(first, x=x, low=None, high=None)


def _lines(sides: Sequence[Overlaid]) -> list[str]:
    """Return how the runs were made differently, as far as their records say."""
    found = []
    for noun, texts in (
        ("tiers", [side.run.tier for side in sides]),
        ("hosts", [side.run.orchestrator.hostname or "unknown" for side in sides]),
        ("versions of Steelyard", [side.run.steelyard_version for side in sides]),
        ("CPUs of the servers", [side.run.cpus.server or "any" for side in sides]),
    ):
        if len(set(texts)) > 1:
            found.append(
                f"Different {noun}: "
                + ", ".join(f"{s.letter} {t}" for s, t in zip(sides, texts, strict=True))
            )
    names = {name for side in sides for name in side.run.parameters} - set(NOT_COMPARED)
    differing = sorted(
        name
        for name in names
        if len(
            {str(side.run.parameters[name].value) if name in side.run.parameters else "" for side in sides}
        )
        > 1
    )
    if differing:
        found.append(f"Different parameters: {', '.join(differing[:12])}")
    return found


def _cautions(sides: Sequence[Overlaid]) -> list[str]:
    by_word: dict[str, list[str]] = {}
    for side in sides:
        if level_of(side.run) in ("invalid", "suspect", "incomplete"):
            by_word.setdefault(word_of(side.run), []).append(side.letter)
    return [f"{', '.join(letters)}: {word}" for word, letters in by_word.items()]


def _value(side: Overlaid, name: str) -> float | None:
    metric = side.run.metrics.get(name)
    return None if metric is None else metric.value
