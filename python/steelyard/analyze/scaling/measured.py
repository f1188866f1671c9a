"""Reads curves and profiles that were measured elsewhere.

In: the text of a CSV file with a line of names, and a line for each trial. Out: `Observation`s.

Columns: `COLUMNS`, in any order and case; others are ignored. Lines with the same number of CPUs are repeats,
in the order of their blocks, unless a column ``block`` numbers them. Threads (clients, load) are not CPUs:
``machine_cpus``, or a column ``cpus`` with one number, says how many the machine has. ``cores`` beside them
is that of the machine, as are ``threads_per_core`` and ``nodes``.

Invariants: an empty field is a figure that is not known; a line that cannot be a trial is an error with its
number, never skipped.

Not here: what the curve says (``scaling``).
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from steelyard._base import UsageError
from steelyard.analyze.scaling.curve import (
    BUSY,
    CPU_TIME,
    CYCLES,
    ELAPSED,
    ERRORS,
    IDLE,
    INSTRUCTIONS,
    LATENCY,
    LATENCY_P50,
    LATENCY_P99,
    OPERATIONS,
    READINGS,
    MachineCpus,
    Observation,
)

CPUS, THREADS, MACHINE, THROUGHPUT, BLOCK = "cpus", "threads", "machine_cpus", "ops_per_s", "block"
CORES, THREADS_PER_CORE, NODES = "cores", "threads_per_core", "nodes"
_LINES_AT_MOST = 1_000_000
_ABOVE, _BELOW = 1e-24, 1e24
"""No count, time or rate of a program comes near, but for 0: products and ratios of two are finite still."""


@dataclass(frozen=True, slots=True)
class Column:
    """A figure, the names that it may have, and what its values are multiplied by."""

    figure: str
    names: tuple[str, ...]
    factor: float = 1.0


COLUMNS = (
    Column(CPUS, ("cpus", "processors", "cores")),
    Column(THREADS, ("threads", "load", "clients")),
    Column(MACHINE, ("machine_cpus", "cpus_of_machine")),
    Column(THREADS_PER_CORE, ("threads_per_core",)),
    Column(NODES, ("nodes", "numa_nodes")),
    Column(THROUGHPUT, ("ops_per_s", "ops_sec", "throughput")),
    Column(BLOCK, ("block", "replicate")),
    Column(INSTRUCTIONS, ("instructions",)),
    Column(CYCLES, ("cycles",)),
    Column(OPERATIONS, ("operations", "transactions")),
    Column(ELAPSED, ("elapsed_s", "elapsed", "duration_s")),
    Column(CPU_TIME, ("cpu_s",)),
    Column(BUSY, ("busy_ratio",)),
    Column(BUSY, ("busy_percent",), 0.01),
    Column(IDLE, ("idle_ratio",)),
    Column(LATENCY, ("latency_mean_ns",)),
    Column(LATENCY, ("latency_mean_us",), 1e3),
    Column(LATENCY_P50, ("latency_p50_ns",)),
    Column(LATENCY_P50, ("latency_p50_us",), 1e3),
    Column(LATENCY_P99, ("latency_p99_ns",)),
    Column(LATENCY_P99, ("latency_p99_us",), 1e3),
    Column(ERRORS, ("error_ratio",)),
)
"""Every column that is read."""
_BY_NAME = {name: column for column in COLUMNS for name in column.names}
_CORES = Column(CORES, ("cores",))
"""What ``cores`` is beside another column that counts CPUs or threads."""
_OF_MACHINE = (MACHINE, CORES, THREADS_PER_CORE, NODES)
_SHARES = (BUSY, IDLE, ERRORS)


def parse_curve(text: str, *, name: str) -> list[Observation]:
    """Return the trials of a CSV file called ``name``. Raises UsageError for what is no curve.

    >>> [one.ops_per_s for one in parse_curve("cpus,ops_per_s\\n1,100\\n2,190\\n", name="curve.csv")]
    [100.0, 190.0]
    """
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")))
    try:
        rows = [(reader.line_num, row) for row in reader if any(field.strip() for field in row)]
    except csv.Error as error:
        raise UsageError(f"{name}: line {reader.line_num}: {error}") from error
    rows = [(line, row) for line, row in rows if not row[0].lstrip().startswith("#")]
    if not rows:
        raise UsageError(f"{name} is empty", hint="a line of names, then a line for each trial")
    columns = _columns(rows[0][1], name)
    if len(rows) < 2 or len(rows) > _LINES_AT_MOST:
        raise UsageError(f"{name} has {len(rows) - 1} trials: 1 to {_LINES_AT_MOST} are read")
    seen: Counter[int] = Counter()
    found = []
    _number_blocks(rows[1:], columns)
    read = [(line, _figures(row, columns, f"{name}: line {line}")) for line, row in rows[1:]]
    axis = _axis([figures for _, figures in read], columns)
    for line, figures in read:
        found.append(_observation(figures, f"{name}: line {line}", seen, axis))
    for figure in (CORES, THREADS_PER_CORE):
        numbers = {getattr(one.machine, figure) for one in found}
        if len(numbers) > 1:
            raise UsageError(f"{name}: {figure} is that of the machine, and has {len(numbers)} values")
    pairs = Counter((one.cpus, one.block) for one in found)
    if (twice := next((pair for pair, count in pairs.items() if count > 1), None)) is not None:
        raise UsageError(
            f"{name}: block {twice[1]} has {twice[0]} {axis if axis == THREADS else 'CPUs'} twice"
        )
    return found


def _number_blocks(rows: Sequence[tuple[int, list[str]]], columns: Sequence[Column | None]) -> None:
    """Number blocks that have names, in the order of the file: a name is only a name."""
    at = next((at for at, column in enumerate(columns) if column and column.figure == BLOCK), None)
    cells = [row for _, row in rows if at is not None and at < len(row) and row[at].strip()]
    try:
        _ = [float(row[at or 0]) for row in cells]
    except ValueError:
        numbers = {name: number for number, name in enumerate(dict.fromkeys(row[at or 0] for row in cells))}
        for row in cells:
            row[at or 0] = str(numbers[row[at or 0]])


def in_base_units(readings: Mapping[str, float], asked: Collection[str] = ()) -> dict[str, float]:
    """Return readings under the names of their figures: latency_p99_us as latency_p99_ns.

    Others are left out, but for those that were ``asked`` for, which keep their names.

    >>> in_base_units({"latency_p99_us": 2.5, "cycles": 7.0, "depth": 3.0, "cached": 1.0}, ["depth"])
    {'latency_p99_ns': 2500.0, 'cycles': 7.0, 'depth': 3.0}
    """
    found = {}
    for name, value in readings.items():
        column = _BY_NAME.get(name)
        if column is not None and column.figure in READINGS:
            found[column.figure] = value * column.factor
        elif name in asked:
            found[name] = value
    return found


def _columns(names: list[str], name: str) -> list[Column | None]:
    words = [word.strip().lower() for word in names]
    counted = {word for word in words if word in _BY_NAME and _BY_NAME[word].figure in (CPUS, THREADS)}
    columns = [_CORES if word == CORES and len(counted) > 1 else _BY_NAME.get(word) for word in words]
    known = [column.figure for column in columns if column is not None]
    for figure in known:
        if known.count(figure) > 1:
            raise UsageError(f"{name} has two columns for {figure}")
    if not {CPUS, THREADS} & set(known) or (
        THROUGHPUT not in known and not {OPERATIONS, ELAPSED} <= set(known)
    ):
        raise UsageError(
            f"{name} has no columns cpus and ops_per_s: its first line names {', '.join(names)[:200]}",
            hint="operations and elapsed_s are read, too",
        )
    return columns


def _figures(row: list[str], columns: list[Column | None], where: str) -> dict[str, float]:
    if len(row) != len(columns):
        raise UsageError(f"{where}: {len(row)} fields, the first line has {len(columns)}")
    found = {}
    for field, column in zip(row, columns, strict=True):
        text = field.strip()
        if column is None or not text:
            continue
        try:
            value = float(text) * column.factor
        except ValueError:
            raise UsageError(f"{where}: {column.figure} is {text[:40]!r}, no number") from None
        if column.figure == THROUGHPUT:
            found[THROUGHPUT] = value
            continue
        if value != 0 and not _ABOVE < value < _BELOW:
            raise UsageError(
                f"{where}: {column.figure} is {text[:40]}: it is 0, or from {_ABOVE:g} to {_BELOW:g}"
            )
        if column.figure in _SHARES and value > 1.001:
            raise UsageError(f"{where}: {column.figure} is {text[:40]}: a share is at most 1")
        found[column.figure] = value
    return found


def _axis(rows: Sequence[Mapping[str, float]], columns: Sequence[Column | None]) -> str:
    """Return what is counted: CPUs, or threads where a file has no CPUs or one number of them."""
    known = {column.figure for column in columns if column is not None}
    if CPUS not in known:
        return THREADS
    varies = {name: len({row.get(name) for row in rows}) > 1 for name in (CPUS, THREADS)}
    return THREADS if THREADS in known and varies[THREADS] and not varies[CPUS] else CPUS


def _observation(figures: dict[str, float], where: str, seen: Counter[int], axis: str) -> Observation:
    machine, cores, per_core, nodes = (
        None if (number := figures.pop(name, None)) is None else _whole(number, where, name)
        for name in _OF_MACHINE
    )
    threads, cpus = figures.pop(THREADS, None), figures.pop(CPUS, None)
    is_threads = axis == THREADS
    if is_threads and machine is None and cpus is not None:
        machine = _whole(cpus, where, "CPUs")
    number = threads if is_threads else cpus
    count = _whole(number or 0.0, where, "threads" if is_threads else "CPUs")
    available = machine if is_threads else None
    block = int(figures.pop(BLOCK, seen[count]))
    seen[count] += 1
    rate = figures.pop(THROUGHPUT, None)
    if rate is None and figures.get(OPERATIONS) and figures.get(ELAPSED):
        rate = figures[OPERATIONS] / figures[ELAPSED]
    reason = None
    if rate is None or not _ABOVE < rate < _BELOW:
        shown = "missing" if rate is None else f"{rate:g}"
        rate, reason = None, f"throughput is {shown}: a curve needs a number from {_ABOVE:g} to {_BELOW:g}"
    # A count of 0 is one that was not made.
    readings = {name: value for name, value in figures.items() if value > 0 or name in _SHARES}
    missing = {name: f"{name} is 0, which is no count" for name in figures if name not in readings}
    about = MachineCpus(machine, cores, per_core, nodes)
    return Observation(count, block, rate, reason, readings, missing, is_threads, available, about)


def _whole(number: float, where: str, what: str) -> int:
    if number != int(number) or not 1 <= number <= 1 << 20:
        raise UsageError(f"{where}: a number of {what} is a whole number from 1")
    return int(number)
