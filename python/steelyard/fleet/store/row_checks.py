"""Which rows of a store cannot be true, and from a file's statistics, whether it can hold any.

In: a table's name. Out: `Rules`: bounds of single columns and conditions across columns, each with its
reason, as predicates of SQL; and `Rules.left`, which asks only a footer's smallest and greatest values.

Invariants: a bound is what no machine can do, never what is merely rare: rare rows are for the statistics to
judge. A file with no rule left has no row that breaks one. Footers do not show figures that are no numbers
(NaN): a required one is therefore asked of every row; one that may be missing is missing where it is not
finite (``engines``). A compacted file says which rules its rows were held against (`voucher`): they are not
asked again.

Not here: moving rows away (``quarantine``); duplicates (``reading``).
"""

import functools
import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

from steelyard.fleet.store.layout import start_of
from steelyard.fleet.store.schema import TABLES

Extremes = Mapping[str, tuple[float, float] | None]
"""The smallest and greatest value of columns in a file; None where the footer does not say. The name of a
required column with `NULLS` behind it is there when the column may hold nulls."""

NULLS = " is null"

LARGEST = 1.7976931348623157e308
"""The largest finite figure."""

DAY_S = 86_400
SLACK_S = DAY_S
"""How far a window may begin from the day of its partition: uploads may span midnight."""

AHEAD_S = 3_600
"""How far a window may begin after its upload: clocks differ by seconds, and a skewed one by much more."""

CPI_BOUNDS = (0.02, 200.0)
"""Cycles per instruction of a window: below, a core would retire 50 instructions a cycle; above, so few
instructions ran that the ratio says nothing."""

MAX_HZ = 1e10
"""Cycles in a second of CPU time that no processor does."""

BEYOND = 1e24
"""No figure of a machine in base units is larger; squares and sums of smaller ones are finite."""

_BEYOND = f"a figure is beyond {BEYOND:g}"

MAX_THREADS = 16_384
"""Logical CPUs that no machine has; `fleet check` knows a machine's own where the store does."""


@dataclass(frozen=True)
class Bound:
    """A column's value must lie between ``low`` and ``high``, both included unless ``above`` is set."""

    column: str
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    reason: str = ""
    table: str = ""

    @property
    def description(self) -> str:
        """The reason for a row that breaks it."""
        if self.reason:
            return self.reason
        if self.low == 0.0 and self.high == math.inf:
            return f"{self.column} is not positive" if self.above else f"{self.column} is negative"
        return f"{self.column} is not between {self.low:g} and {self.high:g}"

    def holds_for(self, extremes: Extremes) -> bool:
        """Return whether a file of these extremes can hold no row that breaks it."""
        if self.column not in extremes:
            return True
        pair = extremes[self.column]
        if pair is None or self.hides_nan:
            return False
        low_fine = pair[0] > self.low if self.above else pair[0] >= self.low
        return low_fine and pair[1] <= self.high

    @property
    def hides_nan(self) -> bool:
        """Whether its column has floating point and may not be missing."""
        return self._is_float and not _COLUMNS[self.table, self.column].nullable

    @property
    def _is_float(self) -> bool:
        known = _COLUMNS.get((self.table, self.column))
        return known is not None and known.type == "double"

    def broken(self) -> str:
        """Return the predicate of rows that break it; null where the value is missing."""
        is_float = self._is_float
        parts = []
        if self.low != -math.inf:
            parts.append(f"{self.column} {'<=' if self.above else '<'} {_number(self.low, is_float)}")
        if self.high != math.inf:
            parts.append(f"{self.column} > {_number(self.high, is_float)}")
        if self.hides_nan:
            parts.append(not_finite(self.column))
        return " OR ".join(parts)


@dataclass(frozen=True)
class Present:
    """A required column must have a value: files of others may lack one."""

    column: str

    @property
    def reason(self) -> str:
        """The reason for a row that breaks it."""
        return f"{self.column} is missing"

    def holds_for(self, extremes: Extremes) -> bool:
        """Return whether a file of these extremes can hold no row that breaks it."""
        return self.column + NULLS not in extremes

    def broken(self) -> str:
        """Return the predicate of rows that break it."""
        return f"{self.column} IS NULL"


_COLUMNS = {(table.name, column.name): column for table in TABLES.values() for column in table.columns}


NOT_A_NUMBER = "not_a_number"
"""The function by which SQL asks for NaN: a macro in DuckDB (`MACRO`), ``isnan`` in Spark."""

MACRO = f"CREATE OR REPLACE TEMP MACRO {NOT_A_NUMBER}(x) AS hash(x) = hash('nan'::DOUBLE)"
"""DuckDB 2 takes a footer's smallest and greatest value for a promise that there is no NaN, and does not ask
``isnan(x)`` of the rows."""


def not_finite(column: str) -> str:
    """Return the predicate of values that are infinite or no number."""
    return f"{NOT_A_NUMBER}({column}) OR abs({column}) > {LARGEST!r}"


def _number(value: float, is_float: bool) -> str:
    """Return ``value`` as both engines read it in the type of its column.

    >>> _number(0.5, True), _number(86400.0, False), _number(1e300, True)
    ('0.5e0', '86400', '1e+300')
    """
    if not is_float:
        return str(int(value))
    return repr(value) if "e" in repr(value) else f"{value!r}e0"


def _at_least_0(*columns: str) -> list[Bound]:
    return [Bound(column, low=0.0) for column in columns]


_WINDOW = Bound("window_s", low=0.0, high=2.0 * DAY_S, above=True)
_BOUNDS: dict[str, list[Bound]] = {
    "machines": [Bound("threads", low=1.0, high=MAX_THREADS)],
    "machine_samples": [
        _WINDOW,
        Bound("threads", low=1.0, high=MAX_THREADS),
        *_at_least_0(
            "cpu_s", "core_busy_s", "core_cycles", "reference_cycles", "instructions", "frequency_hz"
        ),
        *_at_least_0("power_w", "throttled_s", "steal_s", "memory_bandwidth_bytes_per_s", "io_wait_s"),
        *_at_least_0("disk_busy_s", "disk_read_bytes", "disk_write_bytes"),
        *_at_least_0("network_receive_bytes", "network_send_bytes"),
    ],
    "task_samples": [
        _WINDOW,
        *_at_least_0("cpu_s", "reference_cycles", "instructions"),
        Bound("cpi", low=0.0, above=True),
        *_at_least_0("llc_misses", "context_switches", "page_faults", "memory_bytes"),
        *_at_least_0("storage_bytes", "network_bytes", "operations", "latency_mean_s", "latency_p99_s"),
        Bound("numa_score", low=0.0, high=1.0 + 1e-9, above=True),
        Bound("machine_cpu_ratio", low=0.0, high=1.1),
    ],
    "profiles": [
        _WINDOW,
        Bound("samples", low=1.0),
        *_at_least_0("weight", "hz"),
        Bound("sampled_ratio", low=1e-12, high=1.0 + 1e-9),
    ],
    "symbols": _at_least_0("start", "size"),
    "cpi_specs": [
        Bound("cpi_mean", low=0.0, above=True),
        *_at_least_0("cpi_sd", "threshold_cpi", "threshold_sigmas", "cpu_usage_mean"),
    ],
    "incidents": _at_least_0("threshold_cpi", "victim_cpi"),
}


@dataclass(frozen=True)
class Condition(ABC):
    """What must hold across columns: ``broken`` is a predicate, ``possible`` asks a file's extremes."""

    reason: str
    columns: tuple[str, ...]

    @abstractmethod
    def broken(self) -> str:
        """Return the predicate of rows that break it."""

    def holds_for(self, extremes: Extremes) -> bool:
        """Return whether a file of these extremes can hold no row that breaks it."""
        if any(column not in extremes for column in self.columns):
            return True
        pairs = [extremes[column] for column in self.columns]
        return all(pair is not None for pair in pairs) and self._holds(*(pair for pair in pairs if pair))

    @abstractmethod
    def _holds(self, *pairs: tuple[float, float]) -> bool:
        """Return whether columns of these extremes cannot break it."""


class _AtMostTimes(Condition):
    """The first column is at most ``factor`` times the second."""

    factor: float = 1.0

    def broken(self) -> str:
        return f"{self.columns[0]} > {self.columns[1]} * {_number(self.factor, True)}"

    def _holds(self, *pairs: tuple[float, float]) -> bool:
        return pairs[0][1] <= pairs[1][0] * self.factor


class _CpuTimeInWindow(_AtMostTimes):
    factor = MAX_THREADS


class _Frequency(_AtMostTimes):
    # A tenth of a second more, because counters and CPU time are not read at the same moment.
    def broken(self) -> str:
        return f"reference_cycles > (cpu_s + 0.1e0) * {_number(MAX_HZ, True)}"

    def _holds(self, *pairs: tuple[float, float]) -> bool:
        return pairs[0][1] <= (pairs[1][0] + 0.1) * MAX_HZ


class _BusyInWindow(Condition):
    def broken(self) -> str:
        return "cpu_s > window_s * threads * 1.1e0 + 1e0"

    def _holds(self, *pairs: tuple[float, float]) -> bool:
        cpu_s, window_s, threads = pairs
        return cpu_s[1] <= window_s[0] * threads[0] * 1.1 + 1.0


class _Instructions(Condition):
    def broken(self) -> str:
        return f"instructions = 0 AND {self.columns[1]} > 0"

    def _holds(self, *pairs: tuple[float, float]) -> bool:
        return pairs[0][0] > 0 or pairs[1][1] <= 0


class _Cpi(Condition):
    def broken(self) -> str:
        low, high = (_number(bound, True) for bound in CPI_BOUNDS)
        return f"cpi_source = 'cycles/instructions' AND (cpi < {low} OR cpi > {high})"

    def _holds(self, *pairs: tuple[float, float]) -> bool:
        return pairs[0][0] >= CPI_BOUNDS[0] and pairs[0][1] <= CPI_BOUNDS[1]


_CONDITIONS: dict[str, list[Condition]] = {
    "machine_samples": [
        _BusyInWindow("more CPU time than its threads have", ("cpu_s", "window_s", "threads")),
        _Instructions("cycles, but no instructions", ("instructions", "core_cycles")),
    ],
    "task_samples": [
        _CpuTimeInWindow("more CPU time than any machine has", ("cpu_s", "window_s")),
        _Instructions("cycles, but no instructions", ("instructions", "reference_cycles")),
        _Frequency("more cycles than its CPU time allows", ("reference_cycles", "cpu_s")),
        _Cpi("no CPI that counters can give, as at tiny CPU time", ("cpi",)),
    ],
}


@dataclass(frozen=True)
class Rules:
    """The rules of one table, for files of one day that were written at one time."""

    checks: tuple["Bound | Condition | Present", ...]

    def left(self, extremes: Extremes) -> "Rules | None":
        """Return those that a file of these extremes may break; None without any."""
        checks = tuple(check for check in self.checks if not check.holds_for(extremes))
        return Rules(checks) if checks else None

    def reason_of(self) -> str:
        """Return the SQL of the first rule that a row breaks; null for a row that breaks none."""
        if not self.checks:
            return "NULL"
        cases = (f"WHEN {check.broken()} THEN {_text(_description(check))}" for check in self.checks)
        return f"CASE {' '.join(cases)} END"


def _text(words: str) -> str:
    return "'" + words.replace("'", "''") + "'"


def _description(check: Bound | Condition | Present) -> str:
    return check.description if isinstance(check, Bound) else check.reason


def rules_of(table: str, date: str, written_unix_s: float | None, vouched: str | None = None) -> Rules:
    """Return the rules for rows of ``table`` in a file of day ``date``, put there at ``written_unix_s``.

    With ``vouched``, what the file says its rows were held against, only those of its place and time.
    """
    schema = TABLES[table]
    checks: list[Bound | Condition | Present] = []
    if schema.time is not None:
        if schema.windowed:
            day = start_of(date)
            checks.append(
                Bound(
                    schema.time,
                    low=day - SLACK_S,
                    high=day + DAY_S + SLACK_S,
                    reason="its time is far from its file's day",
                )
            )
        if written_unix_s is not None:
            latest = math.floor(written_unix_s) + AHEAD_S
            checks.append(Bound(schema.time, high=latest, reason="its time is after its upload"))
    if vouched is not None and vouched == voucher(table):
        return Rules(tuple(checks))
    return Rules((*checks, *_own(table)))


def _own(table: str) -> tuple[Bound | Condition | Present, ...]:
    """Return the rules of ``table`` that hang on the row alone."""
    present = [Present(column.name) for column in TABLES[table].columns if not column.nullable]
    bounds = [replace(bound, table=table) for bound in _BOUNDS[table]]
    doubles = [column.name for column in TABLES[table].columns if column.type == "double"]
    beyond = [Bound(name, -BEYOND, BEYOND, reason=_BEYOND, table=table) for name in doubles]
    return (*present, *bounds, *_CONDITIONS.get(table, ()), *beyond)


@functools.cache
def voucher(table: str) -> str:
    """Return what a file says whose rows were all held against the rules of ``table``: another for other
    rules.
    """
    rules = Rules(_own(table)).reason_of()
    return hashlib.sha256(rules.encode()).hexdigest()[:16]


def row_rules(table: str) -> Rules:
    """Return the rules of ``table`` that hang on the row alone."""
    return Rules(_own(table))


def columns_of(table: str) -> tuple[str, ...]:
    """Return the columns whose extremes `Rules.suspects` asks for."""
    names: dict[str, None] = {}
    time = TABLES[table].time
    if time is not None:
        names[time] = None
    for bound in _BOUNDS[table]:
        names[bound.column] = None
    for condition in _CONDITIONS.get(table, ()):
        names.update(dict.fromkeys(condition.columns))
    names.update(dict.fromkeys(column.name for column in TABLES[table].columns if column.type == "double"))
    return tuple(names)


def descriptions(table: str) -> list[str]:
    """Return the reasons for which rows of ``table`` do not count, in the order in which they are asked."""
    checks = rules_of(table, "2026-01-01", 0.0).checks
    reasons = [_description(check) for check in checks if not isinstance(check, Present)]
    return [*dict.fromkeys(reasons), "a column that every row must have is missing"]
