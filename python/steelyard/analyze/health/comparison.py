"""Whether a machine is as healthy as it was: a health check beside earlier ones or a baseline.

In: figures of now, figures of earlier good checks. Out: a `Comparison`: every figure with what was
expected, how far it may stray, and alerts in plain words for those that strayed to the worse side.

How far a figure may stray is the largest of three, as a log-ratio: a floor for its family (below it no
difference matters to anybody), the prediction interval of another check from the earlier ones (Student's t),
and both intervals together (root of the sum of squares). A check asks of some fifty figures at once: each has
its share of `FALSE_RATIO` (Bonferroni). The earlier checks' standard deviation is that of the figure or of
its family, whichever is larger: of two or three checks one alone may seem quiet by chance. One earlier check
alone says nothing of how checks differ but by how far the figures of other families changed since: the floor
then counts twice, and their median change is taken for the noise.

Not here: measuring, storing, drawing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from steelyard._base.documents import printed
from steelyard.analyze.health.figures import Figure, figures, pairs_by_class
from steelyard.records import HealthResult

FLOORS = {
    "latency-core": 0.05,
    "latency-shared": 0.15,
    "latency-memory": 0.10,
    "bandwidth": 0.08,
    "core-to-core": 0.15,
    "disk": 0.25,
    "loopback": 0.15,
}
"""Smallest difference that is reported, by family, as a ratio: our choice, above what idle machines show from
check to check (docs/journal/0070), below what anybody would act on."""

FALSE_RATIO = 0.01
"""How often a check of a healthy machine may alert by chance, where noise between checks is normal; with
heavier tails it is about 6 % (docs/truth.md)."""

FAMILY_WORTH = 3
"""Figures that a family is worth at most: what disturbs one disturbs them all in part."""

NOISY_RATIO = 0.5
"""A figure that may stray by more than this is reported as too noisy to watch."""

BUSY_RATIO = 0.10
"""Share of CPU time used by others above which a check is not taken as good."""

HISTORY_AT_MOST = 10
"""Earlier good checks that count, the last ones: an old machine is compared with its recent self."""

MEANINGS = {
    "latency-core": "the core runs slower (governor, power or thermal limit), or its CPU was shared",
    "latency-shared": "others use the shared cache, its clock is lower, or part of it is set aside (resctrl)",
    "latency-memory": "slower or fewer memory channels, memory in use by others, or a changed BIOS setting",
    "bandwidth": "slower or fewer DIMMs, memory throttled by heat, or memory in use by others",
    "core-to-core": "a slower interconnect (clock, power states, snoop mode), or threads that had to wait",
    "disk": "other I/O, a device that is full, worn or throttled, or a changed write cache or scheduler",
    "loopback": "a changed kernel, mitigation or firewall rule, a lower clock, or other load",
}
"""What a worse figure may mean, by family."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure beside what was expected of it."""

    figure: Figure
    """What was measured."""
    expected: float | None
    """Median of the earlier values, ``None`` without any."""
    earlier: int
    """Earlier values."""
    tolerance_ratio: float | None
    """How far it may stray, as a ratio: 0.1 is from 1/1.1 to 1.1 times what is expected."""
    change_ratio: float | None
    """Value over expected, less 1."""
    state: str
    """``ok``, ``worse``, ``better``, ``noisy``, ``new`` (nothing to compare with), ``gone`` (measured before,
    not now) or ``missing`` (neither)."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something to look at."""

    id: str
    """Stable name."""
    claim: str
    """What, value, expected, by how much."""
    meaning: str
    """What it may mean."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A health check beside what was expected."""

    against: str
    """What it was compared with, in words."""
    figures: list[Compared]
    """Every value with its expected value."""
    alerts: list[Alert]
    """What to look at."""
    notes: list[str]
    """What a reader should know besides: a busy machine, figures that got better."""
    is_quiet: bool
    """Whether the machine was otherwise idle, as far as is known."""

    @property
    @printed
    def is_ok(self) -> bool:
        """Whether there is no alert."""
        return not self.alerts


@dataclass(frozen=True, slots=True)
class Family:
    """What the earlier values of one family's figures tell of their noise."""

    variance: float = 0.0
    """Mean over the figures of the variance of their logarithms."""
    figures: int = 1
    """How many have one."""
    check_figures: int = 1
    """Figures of the whole check, all families together."""
    change: float = 0.0
    """Standard deviation, by the median, of how far the logarithms of other families' figures changed since
    the only earlier check."""

    @classmethod
    def of(cls, members: Sequence[Sequence[Figure]], count: int) -> Family:
        """Return that of a family, from the earlier values of each of its figures."""
        known = [_variance(logs) for logs in map(_logarithms, members) if len(logs) > 1]
        return cls(statistics.fmean(known) if known else 0.0, max(1, len(known)), count)


def tolerance(figure: Figure, earlier: Sequence[Figure], family: Family | None = None) -> float:
    """Return how far ``figure`` may stray from the median of ``earlier``, as a ratio.

    >>> figure = Figure("x", "x", "bandwidth", "bytes/s", "higher", 100.0, 99.0, 101.0)
    >>> round(tolerance(figure, [figure]), 4), round(tolerance(figure, [figure, figure]), 4)
    (0.1664, 0.08)
    """
    floor = math.log1p(FLOORS[figure.family])
    logs = _logarithms(earlier)
    if len(logs) == 1:
        floor *= 2
        known = family or Family()
        spread = _quantile(math.inf, known.check_figures) * known.change
    else:
        spread = _foreseen(logs, family or Family())
    # The middle of several checks is known better than one of them.
    widths = [_half_width(old) for old in earlier]
    behind = statistics.median(widths) / math.sqrt(len(widths)) if widths else 0.0
    return math.expm1(max(floor, spread, math.hypot(_half_width(figure), behind)))


def _foreseen(logs: Sequence[float], family: Family) -> float:
    """Return how far the logarithm of another check may lie from the middle of ``logs``."""
    freedom = (len(logs) - 1) * min(FAMILY_WORTH, family.figures)
    # A median of n values varies by pi / 2 as much as their mean.
    error = math.sqrt(max(_variance(logs), family.variance) * (1 + math.pi / 2 / len(logs)))
    return _quantile(freedom, family.check_figures) * error


def _quantile(freedom: float, figures: int) -> float:
    """Return how many standard deviations one of so many figures strays by chance."""
    # Loading it takes longer than a whole check's comparison; a machine's first check has no use for it.
    from steelyard.stats.sequential import student_quantile

    return student_quantile(1 - FALSE_RATIO / figures, freedom)


def _logarithms(figures: Sequence[Figure]) -> list[float]:
    return [math.log(figure.value) for figure in figures if figure.value]


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _half_width(figure: Figure) -> float:
    if not (figure.value and figure.low and figure.high):
        return 0.0
    return max(math.log(figure.high / figure.value), math.log(figure.value / figure.low), 0.0)


def compare_figure(figure: Figure, earlier: Sequence[Figure], family: Family | None = None) -> Compared:
    """Return ``figure`` beside the same figure of earlier checks."""
    known = [old for old in earlier if old.value]
    if not known or not figure.value:
        state = "gone" if known else "new" if figure.value else "missing"
        expected = statistics.median(old.value for old in known if old.value) if known else None
        return Compared(figure, expected, len(known), None, None, state)
    expected = statistics.median(old.value for old in known if old.value)
    allowed = tolerance(figure, known, family)
    change = figure.value / expected - 1
    strays = abs(math.log(figure.value / expected)) > math.log1p(allowed)
    if strays:
        state = "worse" if (change > 0) == (figure.better == "lower") else "better"
    else:
        state = "noisy" if allowed > NOISY_RATIO else "ok"
    return Compared(figure, expected, len(known), allowed, change, state)


def compare(
    result: HealthResult,
    earlier: Sequence[HealthResult],
    *,
    against: str,
    changes: Sequence[Alert] = (),
    notes: Sequence[str] = (),
) -> Comparison:
    """Return ``result`` beside ``earlier`` checks, newest last; ``changes`` are alerts found elsewhere."""
    past: dict[str, list[Figure]] = {}
    for check in list(earlier)[-HISTORY_AT_MOST:]:
        for figure in figures(check):
            past.setdefault(figure.id, []).append(figure)
    now = figures(result)
    rows = compare_figures(now, past)
    current = {figure.id for figure in now}
    rows += [
        _absent(key, past[key], result) for key in past if key not in current and _was_requested(key, result)
    ]
    busy = busy_parts(result)
    all_notes = [*notes]
    if busy:
        all_notes.insert(0, _busy_note(busy))
    better = [row for row in rows if row.state == "better"]
    if better:
        all_notes.append(
            f"{_several(len(better), 'figure')} better than expected, most {_words(_farthest(better))}:"
            " the earlier checks may have been disturbed"
        )
    noisy = sum(row.state == "noisy" for row in rows)
    if noisy:
        all_notes.append(
            f"{_several(noisy, 'figure')} too noisy to watch here: only a change of more than"
            f" {NOISY_RATIO:.0%} would show"
        )
    return Comparison(
        against=against,
        figures=rows,
        alerts=[*changes, *_alerts(rows), *peer_alerts(result)],
        notes=all_notes,
        is_quiet=not busy,
    )


def compare_figures(now: Sequence[Figure], past: Mapping[str, Sequence[Figure]]) -> list[Compared]:
    """Return all figures of a check beside those of earlier checks, which ``past`` has by their ids."""
    families: dict[str, list[Sequence[Figure]]] = {}
    for figure in now:
        families.setdefault(figure.family, []).append(past.get(figure.id, ()))
    noise = {
        name: replace(Family.of(members, len(now)), change=_change_of_others(name, now, past))
        for name, members in families.items()
    }
    return [compare_figure(figure, past.get(figure.id, []), noise[figure.family]) for figure in now]


_NORMAL = 1.4826
"""Standard deviation of a normal distribution over the median of its distances from the middle."""


def _change_of_others(family: str, now: Sequence[Figure], past: Mapping[str, Sequence[Figure]]) -> float:
    """Return how far figures of other families changed since the only earlier check; 0 where there are none.

    What ails one family leaves the others alone.
    """
    pairs = ((figure, past.get(figure.id, ())) for figure in now if figure.family != family)
    changes = [
        abs(math.log(figure.value / earlier[0].value))
        for figure, earlier in pairs
        if len(earlier) == 1 and figure.value and earlier[0].value
    ]
    return _NORMAL * statistics.median(changes) if changes else 0.0


def _was_requested(key: str, result: HealthResult) -> bool:
    part = {"latency": "memory_latency", "bandwidth": "memory_bandwidth", "core-to-core": "core_to_core"}
    name = key.partition(".")[0]
    if name == "disk" and result.disk is not None:
        # The other engine's figures are not expected of this one.
        return key.split(".")[1] == result.disk.engine.partition("-")[0]
    return part.get(name, name) in result.settings.parts


def _absent(key: str, earlier: Sequence[Figure], result: HealthResult) -> Compared:
    last = earlier[-1]
    parts = {"latency": "memory_latency", "bandwidth": "memory_bandwidth", "core-to-core": "core_to_core"}
    name = key.partition(".")[0]
    part = parts.get(name, name)
    narrower = f"{part}.{key.split('.')[1]}" if "." in key else part
    reason = result.missing.get(narrower) or result.missing.get(part) or "this check did not measure it"
    now = Figure(key, last.name, last.family, last.unit, last.better, None, None, None, reason)
    return compare_figure(now, earlier)


def busy_parts(result: HealthResult) -> dict[str, float]:
    """Return the parts during which others used more of the CPUs than `BUSY_RATIO`, with what they used."""
    busy = {}
    for name, conditions in result.conditions.items():
        shares = (conditions.foreign_busy_ratio, conditions.steal_ratio)
        used = sum(share for share in shares if share is not None)
        if used > BUSY_RATIO:
            busy[name] = used
    return busy


def _busy_note(busy: Mapping[str, float]) -> str:
    worst = max(busy, key=lambda name: busy[name])
    return (
        f"the machine was busy: others used up to {busy[worst]:.0%} of its CPU time (during"
        f" {worst.replace('_', ' ')}); the figures are not taken as good ones"
    )


def _several(count: int, noun: str) -> str:
    return f"1 {noun} is" if count == 1 else f"{count} {noun}s are"


def _farthest(rows: Sequence[Compared]) -> Compared:
    return max(rows, key=lambda row: abs(math.log1p(row.change_ratio or 0.0)))


def quantity(value: float | None, unit: str) -> str:
    """Return a figure for a sentence.

    >>> quantity(12_345_678_900, "bytes/s"), quantity(98.7654, "ns"), quantity(1234, "1/s")
    ('12.3 GB/s', '98.8 ns', '1.23 k/s')
    """
    if value is None:
        return "nothing"
    steps = {
        "bytes/s": ((1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1.0, " B/s")),
        "ns": ((1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")),
    }.get(unit, ((1e6, " M/s"), (1e3, " k/s"), (1.0, "/s")))
    scale, suffix = next((step for step in steps if value >= step[0]), steps[-1])
    return f"{value / scale:.3g}{suffix}"


def _words(row: Compared) -> str:
    figure = row.figure
    change = f" ({row.change_ratio:+.0%})" if row.change_ratio is not None else ""
    return (
        f"{figure.name}: {quantity(figure.value, figure.unit)} instead of"
        f" {quantity(row.expected, figure.unit)}{change}"
    )


def tolerated(row: Compared) -> str:
    """Return how far a figure may stray to its worse side, as a change: 0.25 above is 0.2 below.

    >>> figure = Figure("x", "x", "bandwidth", "bytes/s", "higher", 100.0, 99.0, 101.0)
    >>> tolerated(Compared(figure, 100.0, 1, 0.25, 0.0, "ok"))
    '-20%'
    """
    ratio = row.tolerance_ratio
    if ratio is None:
        return ""
    return f"{ratio:+.0%}" if row.figure.better == "lower" else f"{1 / (1 + ratio) - 1:+.0%}"


def _alerts(rows: Sequence[Compared]) -> list[Alert]:
    """One alert a family that got worse, and one a family that is gone: one cause is reported once."""
    alerts = []
    for family, meaning in MEANINGS.items():
        members = [row for row in rows if row.figure.family == family]
        worse = [row for row in members if row.state == "worse"]
        if worse:
            worst = _farthest(worse)
            others = f"; {_several(len(worse), 'figure')} worse, of {len(members)}" if len(worse) > 1 else ""
            claim = f"{_words(worst)}, where {tolerated(worst)} is tolerated{others}"
            alerts.append(Alert(f"{family}-worse", claim, meaning))
        gone = [row for row in members if row.state == "gone"]
        if gone:
            first = gone[0]
            more = f" (and {len(gone) - 1} more)" if len(gone) > 1 else ""
            claim = (
                f"{first.figure.name}{more} could be measured earlier and cannot now: {first.figure.reason}"
            )
            alerts.append(
                Alert(f"{family}-gone", claim, "the machine, its kernel or its permissions have changed")
            )
    return alerts


PEER_RATIO = 0.15
"""How far a node's own bandwidth may be below the best of its like."""

CORE_PEER_RATIO = 1.5
"""How many times longer a CPU may take to its neighbours than its like."""


def peer_alerts(result: HealthResult) -> list[Alert]:
    """Return what is wrong within one check: a node or a CPU that is unlike its peers."""
    return [*_node_peers(result), *_cpu_peers(result)]


def _node_peers(result: HealthResult) -> list[Alert]:
    part = result.memory_bandwidth
    if part is None:
        return []
    local = {
        row.cpu_node: (row.rate_bytes_per_s.median, row.threads)
        for row in part.rows
        if row.kernel == "read" and row.cpu_node == row.memory_node and row.rate_bytes_per_s is not None
    }
    alerts = []
    for node, (rate, threads) in local.items():
        # Nodes with another number of CPUs are no peers.
        like = [other for other, count in local.values() if count == threads]
        best = max(like)
        if len(like) > 1 and rate < best * (1 - PEER_RATIO):
            claim = (
                f"node {node} reads its own memory at {quantity(rate, 'bytes/s')}, the best node of its kind"
                f" at {quantity(best, 'bytes/s')} ({rate / best - 1:+.0%})"
            )
            alerts.append(Alert(f"node-{node}-unlike-peers", claim, MEANINGS["bandwidth"]))
    return alerts


def _cpu_peers(result: HealthResult) -> list[Alert]:
    part = result.core_to_core
    if part is None:
        return []
    alerts = []
    for name, pairs in pairs_by_class(part, result.machine.cpus).items():
        by_row: dict[int, list[float]] = {}
        for row, column in pairs:
            value = part.median_ns[row][column]
            if value is not None:
                by_row.setdefault(row, []).append(value)
                by_row.setdefault(column, []).append(value)
        # With few neighbours a slow pair makes both its CPUs look slow.
        middles = {row: statistics.median(values) for row, values in by_row.items() if len(values) >= 3}
        if not middles:
            continue
        usual = statistics.median(middles.values())
        slow = {part.cpus[row]: value for row, value in middles.items() if value > CORE_PEER_RATIO * usual}
        if slow:
            worst = max(slow, key=lambda cpu: slow[cpu])
            claim = (
                f"CPU {worst} takes {slow[worst]:.0f} ns to CPUs of the {name}, where its like take"
                f" {usual:.0f} ns" + (f"; {len(slow)} CPUs are so" if len(slow) > 1 else "")
            )
            alerts.append(
                Alert(f"cpu-unlike-peers-{name.replace(' ', '-')}", claim, MEANINGS["core-to-core"])
            )
    return alerts
