"""Values that were measured elsewhere: a CSV file of arms, replicates and metrics.

In: a file with a header. Two shapes are read:

    heap_mb,replicate,throughput,p99_ms         one row a trial, one column a metric
    level,replicate,metric,value                one row a value

The arm is in the column ``arm`` or ``level``, else in the first one that is not named below; the replicate in
``block`` or ``replicate``; with a column ``value``, names of metrics are in ``metric``, and the factor's in
``factor``. Out: `Curves`, and trials as an experiment has them.

Replicates have an order in time only where they say so: numbers, times as ISO 8601 writes them, and whatever
stands in a column ``block``, in the order of the file. Names of replicates are in no order: a name says
nothing of the time, and another name must not give another answer.

Invariants: an empty value is a trial without one; what cannot be read is an error that names its line; two
values of one arm, replicate and metric are an error.

Not here: what the values say (``answers``).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from steelyard._base import RecordError, UsageError, text_of
from steelyard._base.files import read_regular
from steelyard.experiment.workload import positive, why_left_out
from steelyard.records.experiment import ExperimentTrial, is_figure

_ARMS = ("arm", "level")
_BLOCKS = ("block", "replicate")
_BYTES_AT_MOST = 64 << 20


@dataclass(frozen=True)
class Curves:
    """What a file holds."""

    factor: str
    arms: Sequence[str]
    """In the order of the file; the first is the base."""
    metrics: Sequence[str]
    values: Mapping[tuple[int, str], Mapping[str, float | None]]
    """Metrics by block and arm, in the order of the blocks."""
    in_order: bool = True
    """Whether the blocks are in the order of time; else they are in that of the file."""

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return len({block for block, _ in self.values})

    def trials(self, metric: str) -> list[ExperimentTrial]:
        """Return the trials with the values of a metric."""
        found = []
        for (block, arm), values in self.values.items():
            measured = positive(values.get(metric))
            others = {name: value for name, value in values.items() if name != metric}
            known = {name: value for name, value in others.items() if value is not None}
            empty = {name: "empty" for name, value in others.items() if value is None}
            # Nobody noted when it was.
            trial = ExperimentTrial(
                block=block,
                arm=arm,
                begin_ns=0,
                end_ns=0,
                value=measured.value,
                reason=measured.reason,
                readings={name: value for name, value in known.items() if is_figure(value)},
                missing={**empty, **why_left_out(known)},
            )
            found.append(trial)
        return found


@dataclass(frozen=True)
class _Columns:
    arm: str
    block: str
    metrics: tuple[str, ...]
    """Those of one metric each; empty where each row has one value."""
    factor: str | None = None
    """The column of the factor's name, where each row has one value."""


def read_curves(path: Path) -> Curves:
    """Return what ``path`` holds.

    Raises UsageError that names the line for a file that cannot be read.
    """
    try:
        text = text_of(read_regular(path, at_most_bytes=_BYTES_AT_MOST), str(path))
    except RecordError as error:
        raise UsageError(error.message, hint=error.hint) from error
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        columns = _columns(path, header)
        return _curves(path, header, columns, ((reader.line_num, cells) for cells in reader))
    except csv.Error as error:
        raise UsageError(f"{path} line {reader.line_num}: {error}") from error


def _columns(path: Path, header: Sequence[str]) -> _Columns:
    if len(set(header)) < len(header) or "" in header:
        raise UsageError(f"{path} line 1: columns need names that differ")
    block = next((name for name in header if name in _BLOCKS), None)
    is_long = "value" in header and "metric" in header
    rest = [name for name in header if name != block and not (is_long and name in ("metric", "value"))]
    arm = next((name for name in rest if name in _ARMS), None) or next(
        (name for name in rest if not (is_long and name == "factor")), None
    )
    metrics = () if is_long else tuple(name for name in rest if name != arm and name != "factor")
    if block is None or arm is None or (not is_long and not metrics):
        raise UsageError(
            f"{path} line 1: needs columns for the arm, the replicate and a metric",
            hint="such as: level,replicate,throughput",
        )
    return _Columns(arm, block, metrics, "factor" if "factor" in header else None)


def _curves(
    path: Path, header: Sequence[str], columns: _Columns, rows: Iterable[tuple[int, list[str]]]
) -> Curves:
    values: dict[tuple[str, str], dict[str, float | None]] = {}
    arms: dict[str, None] = {}
    blocks: dict[str, None] = {}
    metrics: dict[str, None] = dict.fromkeys(columns.metrics)
    factors: dict[str, None] = {}
    for line, cells in rows:
        if not any(cell.strip() for cell in cells):
            continue
        where = f"{path} line {line}"
        if len(cells) != len(header):
            raise UsageError(f"{where}: {len(cells)} values for {len(header)} columns")
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        arm, block = row[columns.arm], row[columns.block]
        if not arm or not block:
            raise UsageError(f"{where}: no {columns.arm if not arm else columns.block}")
        arms[arm] = blocks[block] = None
        if columns.factor is not None:
            factors[row[columns.factor]] = None
        one = values.setdefault((block, arm), {})
        here = {row["metric"]: row["value"]} if not columns.metrics else {m: row[m] for m in columns.metrics}
        for metric, text in here.items():
            if metric in one:
                raise UsageError(f"{where}: a second value of {metric!r} of {arm} in {columns.block} {block}")
            metrics[metric] = None
            one[metric] = _number(where, metric, text)
    if len(arms) < 2:
        raise UsageError(f"{path}: {len(arms)} arms in column {columns.arm!r}, two are needed")
    if len(factors) > 1:
        raise UsageError(f"{path}: factors {', '.join(factors)}: one file holds one factor")
    factor = next(iter(factors), "") or columns.arm
    times = {block: _time(block) for block in blocks}
    known = {block: time for block, time in times.items() if time is not None}
    are_times = len(known) == len(times) and len(set(map(type, known.values()))) == 1
    ordered = sorted(blocks, key=lambda block: known[block]) if are_times else list(blocks)
    order = {block: index for index, block in enumerate(ordered)}
    numbered = {(order[block], arm): one for (block, arm), one in values.items()}
    by_block = dict(sorted(numbered.items(), key=lambda one: one[0][0]))
    return Curves(factor, list(arms), list(metrics), by_block, are_times or columns.block == _BLOCKS[0])


def _number(where: str, metric: str, text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise UsageError(f"{where}: {text!r} of {metric} is no number") from error


def _time(block: str) -> float | datetime | None:
    """Return what orders a block: its number (replicate 10 is after 9) or its time; None for a name."""
    try:
        number = float(block)
        return number if math.isfinite(number) else None
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(block)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
