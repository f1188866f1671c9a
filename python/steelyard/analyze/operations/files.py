"""Reads what was recorded of operations beside a run: ``operations/*.jsonl``, raw readings, one a line.

In: a run's folder ``operations`` and its manifest. Out: `OperationSource`s in the order they were given.

The first line is a head: ``kind`` and ``schema_version``, the source as it was given (``given``), its
``type``, ``name`` and ``meaning``, the pair of clocks and ``begin_ns``, when watching began. Each other line
has a time and one of

- ``counts``: label -> operations since the reading before (a log's lines by their arrival);
- ``stamps``: [wall-clock ns, label, operations] by the source's own clock, with ``offset_ns``, wall clock
  minus monotonic at that reading, and ``resolution_ns`` of the stamps;
- ``values``: label -> a counter's value, a rate or a gauge;
- ``problem``: why a reading failed; ``event``: what happened to the source.

The last line has ``end_ns`` and totals; one is absent where the reader was killed. Times are CLOCK_MONOTONIC
unless named otherwise.

Invariants: a damaged line costs itself; a file that is none of these costs its source and says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from steelyard._base import RecordError, SteelyardError, open_regular
from steelyard.analyze.operations.operations import (
    Floats,
    OperationSeries,
    OperationSource,
    Times,
    load_series,
)
from steelyard.records import LoadResult, Run, read
from steelyard.records.text import load_object

KIND = "operations"
MAJOR = "1"
JUMP_NS = 50_000_000
"""A wall clock that moved this far against the monotonic one was set, not slewed (adjtimex(2): at most
500 ppm, 50 ms in 100 s)."""
_GAP = 3
"""A rate stands for the time since the reading before, unless that is this many times the usual one."""
_MEANINGS = ("count", "counter", "rate", "gauge")


@dataclass
class _File:
    head: dict[str, Any]
    readings: list[dict[str, Any]] = field(default_factory=list)
    tail: dict[str, Any] | None = None


def read_sources(folder: Path, run: Run | None) -> tuple[OperationSource, ...]:
    """Return every source in ``folder``, none where there is no such folder.

    Without ``run`` a load result has no times.
    """
    if not folder.is_dir():
        return ()
    return tuple(_source(path, run) for path in sorted(folder.glob("[0-9]*.jsonl")))


def _source(path: Path, run: Run | None) -> OperationSource:
    try:
        read_file = _read(path)
    except RecordError as error:
        return OperationSource(path.name, "unknown", path.name, "count", missing=error.message)
    except (OSError, ValueError) as error:
        return OperationSource(path.name, "unknown", path.name, "count", missing=f"{path.name}: {error}")
    head = read_file.head
    about = OperationSource(
        name=str(head.get("name") or path.stem),
        kind=str(head.get("type")),
        given=str(head.get("given")),
        meaning=str(head.get("meaning") or _declared(read_file)),
    )
    if head.get("missing"):
        return replace(about, missing=str(head["missing"]))
    if about.meaning not in _MEANINGS:
        return replace(about, missing=f"{path.name}: {about.meaning!r} is no meaning of values")
    if about.kind == "load":
        if run is None:
            return replace(about, missing="a load result is of a run, and there is none")
        return _load(path.parent, head, about, run)
    try:
        return _derive(read_file, about)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        # No reader of ours wrote it: its values are not what they should be.
        return replace(about, missing=f"{path.name} cannot be read: {type(error).__name__}")


def _read(path: Path) -> _File:
    """Return a file's lines. Raises ValueError for one that is of another kind, OSError when unreadable."""
    file: _File | None = None
    with open_regular(path) as lines:
        for line in lines:
            try:
                entry = load_object(line, where=path.name)
            except RecordError:
                # The last line of a reader that was killed.
                entry = None
            if file is None:
                if not isinstance(entry, dict) or entry.get("kind") != KIND:
                    raise ValueError("not a file of operations")
                if str(entry.get("schema_version", "")).partition(".")[0] != MAJOR:
                    raise ValueError(f"schema version {entry.get('schema_version')} is not known")
                file = _File(entry)
            elif isinstance(entry, dict) and "end_ns" in entry:
                file.tail = entry
            elif isinstance(entry, dict) and isinstance(entry.get("time_ns"), int):
                file.readings.append(entry)
    if file is None:
        raise ValueError("the file is empty")
    return file


def _declared(file: _File) -> str:
    """Return what an endpoint calls its metric, else what the metric's name says by convention."""
    for reading in file.readings:
        if "declared" in reading:
            return str(reading["declared"])
    metric = str(file.head.get("what", "")).partition("{")[0]
    return "counter" if metric.endswith(("_total", "_count", "_sum", "_bucket")) else "gauge"


def _derive(file: _File, about: OperationSource) -> OperationSource:
    notes = _notes(file)
    makers = {"counter": _counters, "rate": _samples, "gauge": _samples}
    if about.meaning == "count":
        stamped = any("stamps" in reading for reading in file.readings)
        series = _stamped(file) if stamped else _arrivals(file)
    else:
        series = makers[about.meaning](file, about.meaning)
    known = [part for part in series if np.isfinite(part.value).any()]
    tail = file.tail or {}
    if not known:
        return replace(about, notes=tuple(notes), missing=_why_none(file), cpu_s=_cpu_s(tail))
    resets = sum(part.resets for part in known)
    if resets:
        notes.append(f"counters fell {resets} times: those intervals are left out")
    total = _total(known, about.name) if about.meaning != "gauge" else None
    return replace(about, series=tuple(known), total=total, notes=tuple(notes), cpu_s=_cpu_s(tail))


def _cpu_s(tail: Mapping[str, Any]) -> float | None:
    value = tail.get("cpu_s")
    return float(value) if isinstance(value, int | float) else None


def _why_none(file: _File) -> str:
    tail = file.tail or {}
    problems = [str(reading["problem"]) for reading in file.readings if "problem" in reading]
    if problems:
        return problems[-1] if len(problems) == 1 else f"{problems[-1]} ({len(problems)} readings failed)"
    if tail.get("missing"):
        return str(tail["missing"])
    if tail.get("zoneless"):
        return "its times have no time zone: add zone=UTC or zone=local"
    if tail.get("unread_stamps"):
        return f"{tail['unread_stamps']:,} lines have a time that cannot be read: set format="
    if tail.get("lines"):
        return f"the pattern matched none of {tail['lines']:,} lines"
    if "lines" in tail:
        return "nothing was written to the log during the run"
    return "there are fewer than two readings"


def _notes(file: _File) -> list[str]:
    events: dict[str, int] = {}
    problems: dict[str, int] = {}
    for reading in file.readings:
        for name, counts in (("event", events), ("problem", problems)):
            if name in reading:
                counts[str(reading[name])] = counts.get(str(reading[name]), 0) + 1
    notes = [text if count == 1 else f"{text} ({count} times)" for text, count in events.items()]
    notes += [f"{count} reading{'s' if count > 1 else ''} failed: {text}" for text, count in problems.items()]
    jump = _jump_ns(file)
    if abs(jump) >= JUMP_NS:
        notes.append(
            f"the wall clock was set by {jump / 1e9:+.3f} s during the run: each stamp is read by"
            " the clock of its reading"
        )
    tail = file.tail
    if tail is None:
        notes.append("reading it was stopped before its end")
        return notes
    remarks = (
        ("too_long", "lines were longer than 64 KiB: left out"),
        ("slow", "lines took the pattern too long: left out"),
        ("zoneless", "lines have a time without a zone: left out"),
        ("unread_stamps", "lines have a time that cannot be read: left out"),
        ("other_labels", "operations have too many series"),
    )
    notes += [f"{tail[name]:,} {text}" for name, text in remarks if tail.get(name)]
    notes += [str(text) for text in tail.get("notes", [])]
    return notes


def _jump_ns(file: _File) -> int:
    offsets = [reading["offset_ns"] for reading in file.readings if "offset_ns" in reading]
    steps = [after - before for before, after in pairwise(offsets)]
    return sum(step for step in steps if abs(step) >= JUMP_NS)


def _arrivals(file: _File) -> list[OperationSeries]:
    """Return lines by their arrival: an interval is the time between two looks."""
    before_ns = int(file.head.get("begin_ns", 0))
    begin, end, rows = [], [], []
    for reading in file.readings:
        if "counts" not in reading:
            continue
        begin.append(before_ns)
        end.append(before_ns := reading["time_ns"])
        rows.append(reading["counts"])
    labels = _labels(rows)
    times = (np.array(begin, dtype=np.int64), np.array(end, dtype=np.int64))
    return [
        # A label that is not there had no line: that was watched, and is 0.
        OperationSeries(label, "count", *times, np.array([float(row.get(label, 0)) for row in rows]))
        for label in labels
    ]


def _labels(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({label for row in rows for label in row})


def _stamped(file: _File) -> list[OperationSeries]:
    """Return operations by the source's own clock, in steps of its resolution.

    Only whole steps count: those that begin after watching began and end before the last look.
    """
    readings = [reading for reading in file.readings if "stamps" in reading]
    step = max(1, int(file.head.get("resolution_ns") or 0), *(r.get("resolution_ns", 1) for r in readings))
    first = readings[0]
    # Steps are the source's: they begin where its clock says so.
    zero = -(first["offset_ns"] % step) % step
    begin_ns = int(file.head.get("begin_ns", first["time_ns"]))
    last_ns = int((file.tail or readings[-1]).get("end_ns", readings[-1]["time_ns"]))
    begin_step, end_step = -(-(begin_ns - zero) // step), (last_ns - zero) // step
    span = end_step - begin_step
    if span <= 0 or span > 50_000_000:
        return []
    values: dict[str, Any] = {}
    for reading in readings:
        for stamp_ns, label, count in reading["stamps"]:
            place = (stamp_ns - reading["offset_ns"] - zero + step // 2) // step - begin_step
            if 0 <= place < span:
                values.setdefault(label, np.zeros(span))[place] += count
    begin = (np.arange(span, dtype=np.int64) + begin_step) * step + zero
    return [OperationSeries(label, "count", begin, begin + step, values[label]) for label in sorted(values)]


def _columns(file: _File) -> dict[str, tuple[Times, Floats]]:
    """Return each label's known values with their times, in order of time."""
    by_label: dict[str, dict[int, float]] = {}
    for reading in file.readings:
        for label, value in reading.get("values", {}).items():
            if not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value):
                by_label.setdefault(label, {})[reading["time_ns"]] = float(value)
    return {
        label: (
            np.array(sorted(values), dtype=np.int64),
            np.array([values[time_ns] for time_ns in sorted(values)]),
        )
        for label, values in sorted(by_label.items())
    }


def _counters(file: _File, meaning: str) -> list[OperationSeries]:
    """Return a counter's gains between neighbouring readings; where it fell they are not known."""
    series = []
    for label, (times, values) in _columns(file).items():
        if len(times) < 2:
            continue
        gains = np.diff(values)
        fell = gains < 0
        gains = np.where(fell, np.nan, gains)
        series.append(OperationSeries(label, meaning, times[:-1], times[1:], gains, int(fell.sum())))
    return series


def _samples(file: _File, meaning: str) -> list[OperationSeries]:
    """Return a rate as operations since the reading before, a gauge's values as they are."""
    series = []
    for label, (times, values) in _columns(file).items():
        if meaning == "gauge":
            series.append(OperationSeries(label, meaning, times, times, values))
        elif len(times) > 1:
            gaps = np.diff(times)
            usable = gaps <= _GAP * float(np.median(gaps))
            gained = np.where(usable, values[1:] * gaps / 1e9, np.nan)
            series.append(OperationSeries(label, meaning, times[:-1], times[1:], gained))
    return series


def _total(series: Sequence[OperationSeries], name: str) -> OperationSeries:
    """Return the sum over series.

    A series adds nothing before its first and after its last reading; an interval with a reset is missing.
    Where the series were not read at the same times, each interval is shared out evenly over its parts.
    """
    first, resets = series[0], sum(part.resets for part in series)
    edges = np.unique(np.concatenate([edge for part in series for edge in (part.begin_ns, part.end_ns)]))
    begin, end = edges[:-1], edges[1:]
    total, known = np.zeros(len(begin)), np.zeros(len(begin), dtype=bool)
    lost = np.zeros(len(begin), dtype=bool)
    for part in series:
        place = np.searchsorted(part.begin_ns, begin, side="right") - 1
        inside = (place >= 0) & (end <= part.end_ns[np.maximum(place, 0)])
        share = part.rates[np.maximum(place, 0)] * (end - begin) / 1e9
        known |= inside
        lost |= inside & ~np.isfinite(share)
        total += np.where(inside & np.isfinite(share), share, 0.0)
    value = np.where(known & ~lost, total, np.nan)
    return OperationSeries(name, first.meaning, begin, end, value, resets)


def _load(folder: Path, head: Mapping[str, Any], about: OperationSource, run: Run) -> OperationSource:
    """Return a load result that was copied into the run, on this run's clock."""
    name = Path(str(head.get("file", ""))).name
    try:
        load = read(LoadResult, folder / name)
    except SteelyardError as error:
        return replace(about, missing=error.message.replace(f"{folder}/", ""))
    if not load.series:
        return replace(about, missing="the load result has no series over time")
    series = load_series([load])
    ours = run.clock.realtime_ns - run.clock.monotonic_ns
    theirs = load.clock.realtime_ns - load.clock.monotonic_ns
    notes: tuple[str, ...] = ()
    if abs(ours - theirs) > 1_000_000_000:
        shift = theirs - ours
        series = OperationSeries(
            series.name, series.meaning, series.begin_ns + shift, series.end_ns + shift, series.value
        )
        notes = ("it was made on another machine or boot: its times are matched by the wall clock",)
    return replace(about, series=(series,), total=series, notes=notes)
