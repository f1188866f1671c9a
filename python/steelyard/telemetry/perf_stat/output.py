"""Files of ``perf stat``: fields (-x), JSON (-j) or plain text, whole or by interval, CPU, thread or cgroup.

In: what perf printed, to a file (-o) or among what the program itself said. Out: `PerfStat`, whose series
have the shape of a recording's counters, beside what perf says of the whole: time elapsed, runs, metrics.

Invariants: text of any kind gives a `PerfStat` or a RecordError of one line; what a line says is taken or
counted in ``unread``, never guessed at; several outputs in one file are joined where they count the same
target (``joined``), else the last is taken, which ``left_out`` tells; interval rows are taken rather than
their summary.

Not here: what counts mean (``analyze``), and other outputs of perf (``analyze.profiles.perf_report``,
``steelyard-profile``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steelyard._base import RecordError, open_regular, text_of
from steelyard.telemetry.counters import CounterSeries
from steelyard.telemetry.perf_stat import csv as perf_stat_csv
from steelyard.telemetry.perf_stat import json as perf_stat_json
from steelyard.telemetry.perf_stat import plain as perf_stat_plain
from steelyard.telemetry.perf_stat.joined import Joined, join
from steelyard.telemetry.perf_stat.rows import NotPerfStatError, Output, PerfMetric, assemble

BYTES_AT_MOST = 256 << 20
"""As `analyze.run_files.PERF_STAT_BYTES_AT_MOST`, above which a run keeps none."""
_FORMS = {"json": perf_stat_json.read, "plain": perf_stat_plain.read, "csv": perf_stat_csv.read}
_HINT = "give what perf stat wrote with -o FILE, with or without -x or -j"


@dataclass(frozen=True)
class PerfStat:
    """One output of ``perf stat``."""

    form: str
    """``csv``, ``json`` or ``plain``."""
    series: tuple[CounterSeries, ...]
    """One for each entity; times count from perf's start."""
    metrics: tuple[PerfMetric, ...]
    """What perf worked out itself."""
    target: str | None
    """What it says that it counted, in plain output: a command, ``system wide``, ``process id '1'``."""
    duration_s: float | None
    """Time elapsed as perf prints it, or the end of the last interval."""
    cpu_s: float | None
    """User and system time of a command, in plain output."""
    runs: int = 1
    """How often it was run (-r): then counts are means over the runs."""
    variation_ratio: Mapping[str, float] = field(default_factory=dict)
    """Event -> standard deviation of that mean over the mean."""
    outputs: int = 1
    """How many outputs the file holds."""
    left_out: str | None = None
    """Why only the last of several outputs was read."""
    repeated: tuple[str, ...] = ()
    """Events that more than one output counted: their counts are means."""
    unread: int = 0
    """Lines that begin as rows do and cannot be understood."""
    remarks: tuple[str, ...] = ()


def read_perf_stat(path: Path, *, scope: str = "process") -> PerfStat:
    """Return what ``perf stat`` wrote to ``path``; ``scope``: see `parse_perf_stat`.

    Raises RecordError when it cannot be read or is something else.
    """
    try:
        with open_regular(path) as file:
            data = file.read(BYTES_AT_MOST + 1)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) > BYTES_AT_MOST:
        raise RecordError(
            f"{path}: larger than {BYTES_AT_MOST >> 20} MiB", hint="count with a longer interval (-I)"
        )
    return parse_perf_stat(text_of(data, str(path), errors="replace"), str(path), scope=scope)


def parse_perf_stat(text: str, where: str = "perf stat", *, scope: str = "process") -> PerfStat:
    """Return what ``text`` says. ``scope`` is that of rows which name none, unless a header says better.

    Raises RecordError when it is no output of ``perf stat``, or one without a single event or metric.
    """
    lines = text.splitlines()
    for form, reader in _FORMS.items():
        try:
            output = reader(lines)
        except NotPerfStatError:
            continue
        return _result(form, output, where, scope)
    raise RecordError(f"{where}: this is no output of perf stat", hint=_HINT)


def _result(form: str, output: Output, where: str, scope: str) -> PerfStat:
    found: Joined = join(output)
    rows, metrics, section = found.rows, found.metrics, found.section
    if not rows and not metrics:
        unread = f" ({output.unread} lines cannot be understood)" if output.unread else ""
        raise RecordError(f"{where}: perf stat wrote no event{unread}", hint=_HINT)
    target = output.targets.get(section)
    if target is not None:
        scope = "system" if target == "system wide" or target.startswith("CPU(s)") else "process"
    duration_s = max((row.time_s for row in rows if row.time_s is not None), default=None)
    if duration_s is None:
        duration_s = found.elapsed_s
    series = assemble(rows, whole=scope, elapsed_s=duration_s, remarks=output.remarks)
    return PerfStat(
        form=form,
        series=tuple(series),
        metrics=tuple(metrics),
        target=target,
        duration_s=duration_s,
        cpu_s=found.cpu_s,
        runs=output.runs.get(section, 1),
        variation_ratio={
            row.event: row.variation_ratio for row in rows if row.variation_ratio and row.time_s is None
        },
        outputs=found.outputs,
        left_out=found.left_out,
        repeated=found.repeated,
        unread=output.unread,
        remarks=tuple(output.remarks),
    )
