"""What a fleet spends its cycles on: functions, binaries, jobs, categories of the datacenter tax.

In: ``profiles`` and ``symbols``. Out: `Top`: shares of fleet cycles with intervals, apart by platform and by
time, the profile of the whole for a flame graph, and whether the sample is enough.

Whether a sample is enough is told as Google-Wide Profiling does (Ren et al., IEEE Micro 30(4), 2010), by
entropy and Manhattan distance: the entropy of the shares of functions says over how many functions the cycles
are spread, and the distance sum |p - q| of the shares in two halves of the machine-minutes, from 0 to 2, how
much of the profile is noise. Beside it stands the distance that the intervals let expect: much more than
that, and the halves differ by more than chance, because the fleet changed meanwhile.

Not here: intervals (``top_shares``), two selections (``top_diff``), drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steelyard._base import UsageError
from steelyard.analyze.profile import Profile, modules_of
from steelyard.analyze.tax_map import TaxMap, classify, place_all
from steelyard.analyze.tax_rules import Rules, shipped_rules
from steelyard.fleet.profiles import Selection, Stacks, event_rows, gather, select
from steelyard.fleet.top_rows import numbered
from steelyard.fleet.top_shares import (
    Share,
    binaries,
    halves,
    keyed_by_column,
    keyed_by_stack,
    moments,
    needed,
    share,
    sizes,
)
from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import fetch, fetch_rows, floats

BY = ("function", "binary", "job", "platform", "cluster", "category")
CONFIDENCE = 0.95
PRECISION = 0.10
"""The half of an interval, as part of the share, that is called enough."""
_APART = 6
"""Keys whose shares are shown by platform and over time."""
_BUCKETS = 24


@dataclass(frozen=True)
class TopRow:
    """One function, binary, job or category."""

    key: str
    module: str | None
    own: Share
    """Where the time was spent."""
    total: Share | None
    """With what it calls; None where nothing calls anything."""
    fleet: float
    """Own weight of the whole fleet, in the unit of `Top`."""
    samples: int
    clusters: int
    """Machine-minutes that saw it."""
    more_clusters: int | None
    """How many more machine-minutes bring the interval to ``PRECISION`` of the share."""

    def document(self) -> dict[str, Any]:
        """Return what ``--json`` shows."""
        return {
            "key": self.key,
            "module": self.module,
            "own_ratio": self.own.ratio,
            "own_low_ratio": self.own.low,
            "own_high_ratio": self.own.high,
            "total_ratio": None if self.total is None else self.total.ratio,
            "total_low_ratio": None if self.total is None else self.total.low,
            "total_high_ratio": None if self.total is None else self.total.high,
            "fleet_weight": self.fleet,
            "samples": self.samples,
            "machine_minutes": self.clusters,
            "more_machine_minutes": self.more_clusters,
        }


@dataclass(frozen=True)
class Sample:
    """How much was sampled, and whether it is enough."""

    machine_minutes: int
    machines: int
    samples: int
    entropy_bits: float
    """Of the shares of functions, own."""
    functions: int
    distance: float | None
    """Manhattan distance between the functions' shares in two halves, 0 to 2; None where a half is empty."""
    expected_distance: float | None
    """What chance alone would make of it."""
    more_machine_minutes: int | None
    """Until every row shown is known to ``PRECISION`` of its share; None where nothing is known of it."""

    @property
    def is_enough(self) -> bool:
        """Whether every row shown is known to ``PRECISION`` of its share."""
        return self.more_machine_minutes == 0

    def document(self) -> dict[str, Any]:
        """Return what ``--json`` shows."""
        return {
            "machine_minutes": self.machine_minutes,
            "machines": self.machines,
            "samples": self.samples,
            "entropy_bits": self.entropy_bits,
            "functions": self.functions,
            "manhattan_distance": self.distance,
            "expected_manhattan_distance": self.expected_distance,
            "more_machine_minutes": self.more_machine_minutes,
            "precision_ratio": PRECISION,
            "is_enough": self.is_enough,
        }


@dataclass(frozen=True)
class Apart:
    """Shares of the first keys in parts of the fleet: platforms, or stretches of time."""

    parts: tuple[str | int, ...]
    """Names of platforms, or the beginnings of stretches in Unix seconds."""
    keys: tuple[str, ...]
    shares: tuple[tuple[Share | None, ...], ...]
    """A row a key, a column a part; None where nothing was sampled of the part."""
    clusters: tuple[int, ...]
    """Machine-minutes of each part."""

    def document(self) -> list[dict[str, Any]]:
        """Return what ``--json`` shows."""
        return [
            {
                "part": part,
                "machine_minutes": self.clusters[at],
                "shares": {
                    key: None if one is None else {"ratio": one.ratio, "low": one.low, "high": one.high}
                    for key, one in zip(self.keys, (row[at] for row in self.shares), strict=True)
                },
            }
            for at, part in enumerate(self.parts)
        ]


@dataclass(frozen=True)
class Top:
    """The answer of ``fleet top``."""

    by: str
    event: str
    unit: str
    """What weights count: cycles, or ns."""
    fleet: float
    """Weight of all machine-minutes, sampled or not, that the sample stands for."""
    rows: tuple[TopRow, ...]
    keys: int
    """Keys in all, of which ``rows`` are the first."""
    sample: Sample
    platforms: Apart
    times: Apart
    bucket_s: int
    profile: Profile
    tax: TaxMap
    unknown: tuple[tuple[str, float], ...]
    """Modules (``name@build``) without symbols, with their share of the own weight."""
    rest_ratio: float
    """Share of stacks beyond the heaviest that are kept: shown by job and platform, not by function."""
    other_events: tuple[str, ...] = field(default=())

    def document(self) -> dict[str, Any]:
        """Return what ``--json`` shows."""
        return {
            "by": self.by,
            "event": self.event,
            "unit": self.unit,
            "fleet_weight": self.fleet,
            "rows": [row.document() for row in self.rows],
            "keys": self.keys,
            "sample": self.sample.document(),
            "by_platform": self.platforms.document(),
            "bucket_s": self.bucket_s,
            "by_time": self.times.document(),
            "tax": {
                "categories": {one.id: one.share_ratio for one in self.tax.categories},
                "tax_ratio": self.tax.tax_ratio,
                "unclassified_ratio": self.tax.unclassified_ratio,
            },
            "unknown_symbols": [{"module": name, "ratio": ratio} for name, ratio in self.unknown],
            "unknown_symbols_ratio": sum(ratio for _, ratio in self.unknown),
            "other_stacks_ratio": self.rest_ratio,
            "other_events": list(self.other_events),
        }


def top(
    profiles: Any,
    symbols: Any,
    *,
    by: str = "function",
    selection: Selection | None = None,
    task_samples: Any = None,
    event: str | None = None,
    rows: int = 30,
    rules: Rules | None = None,
    confidence: float = CONFIDENCE,
) -> Top:
    """Answer what the selected part of the fleet spends its cycles on.

    Raises UsageError for an unknown ``by`` or event, ResultSaysNoError when nothing was sampled.
    """
    if by not in BY:
        raise UsageError(f"profiles have no {by!r}", hint=f"one of {', '.join(BY)}")
    rules = rules or shipped_rules()
    chosen = select(profiles, selection or Selection(), task_samples)
    chosen, event, all_events = event_rows(chosen, event)
    small = numbered(chosen)
    chosen = small.rows
    stacks = gather(chosen, event, symbols, numbered_stacks=small.stacks)
    size = fetch_rows(sizes(chosen))[0]
    fleet = float(size["weight"])
    functions = own_keys(stacks, "function", rules)
    if by == "binary":
        keyed = keyed_by_stack(chosen, binaries(small.stacks))
    elif by in ("job", "platform", "cluster"):
        keyed = keyed_by_column(chosen, by)
    else:
        keyed = keyed_by_stack(chosen, memtable(own_keys(stacks, by, rules)))
    found = fetch_rows(moments(chosen, keyed))
    found.sort(key=lambda row: (-row["own"], row["key"]))
    totals = _totals(chosen, stacks, [row["key"] for row in found[:rows]]) if by == "function" else {}
    modules = modules_of(stacks.profile) if by == "function" else {}
    made = tuple(_row(one, totals.get(one["key"]), modules, size, confidence) for one in found[:rows])
    names = [row.key for row in made[:_APART]]
    bucket = bucket_of(chosen)
    timed = keyed.mutate(bucket=_bucket(keyed, bucket))
    unknown = tuple((name, weight / fleet) for name, weight in stacks.unknown)
    return Top(
        by=by,
        event=event,
        unit=stacks.unit,
        fleet=fleet,
        rows=made,
        keys=len(found),
        sample=_sample(chosen, functions, size, found if by == "function" else None, made),
        platforms=_apart(chosen, keyed, "platform", names, confidence),
        times=_apart(chosen.mutate(bucket=_bucket(chosen, bucket)), timed, "bucket", names, confidence),
        bucket_s=bucket,
        profile=stacks.profile,
        tax=classify(stacks.profile, rules),
        unknown=unknown,
        rest_ratio=max(0.0, 1 - float(stacks.fleet.sum()) / fleet),
        other_events=tuple(str(row["event"]) for row in all_events if row["event"] != event),
    )


Keys = tuple[Sequence[Any], Sequence[str], Sequence[float], Sequence[float]]
"""Stack (as rows have it: text or number), key, own, total: with which parts a stack counts for a key."""


def own_keys(stacks: Stacks, by: str, rules: Rules) -> Keys:
    """Return each stack's key by its leaf's function, or by its category of the tax map."""
    profile = stacks.profile
    if by == "category":
        titles = {one.id: one.title for one in rules.categories}
        names = [titles.get(one.category, one.category) for one in place_all(profile, rules)]
    else:
        names = [profile.frames[leaf].key for leaf in profile.leaves.tolist()]
    kept = [at for at, number in enumerate(stacks.index.tolist()) if number >= 0]
    keys = [names[stacks.index[at]] for at in kept]
    return [stacks.ids[at] for at in kept], keys, [1.0] * len(kept), [1.0] * len(kept)


def total_keys(stacks: Stacks, functions: Sequence[str]) -> Keys:
    """Return, for each of ``functions``, the stacks that it is anywhere in."""
    profile = stacks.profile
    wanted = {name: at for at, name in enumerate(functions)}
    of_frame = np.array([wanted.get(frame.key, -1) for frame in profile.frames], dtype=np.int64)
    lengths = np.diff(profile.starts)
    stack_of = np.repeat(np.arange(len(lengths)), lengths)
    key_of = of_frame[profile.entries]
    seen = key_of >= 0
    pairs = np.unique(stack_of[seen] * len(functions) + key_of[seen])
    by_stack: dict[int, list[int]] = {}
    for pair in pairs.tolist():
        by_stack.setdefault(pair // len(functions), []).append(pair % len(functions))
    texts, keys = [], []
    for text, number in zip(stacks.ids, stacks.index.tolist(), strict=True):
        for key in by_stack.get(number, ()):
            texts.append(text)
            keys.append(functions[key])
    return texts, keys, [0.0] * len(keys), [1.0] * len(keys)


def memtable(keys: Keys) -> Any:
    """Return ``keys`` as an Ibis table that joins with any engine's."""
    import pyarrow as pa

    is_number = bool(keys[0]) and isinstance(keys[0][0], int)
    kinds = (pa.int32() if is_number else pa.string(), pa.string(), pa.float64(), pa.float64())
    names = ("stack", "key", "own", "total")
    return ibis.memtable(
        pa.table({name: pa.array(part, kind) for name, part, kind in zip(names, keys, kinds, strict=True)})
    )


def _totals(rows: Any, stacks: Stacks, functions: Sequence[str]) -> dict[str, dict[str, Any]]:
    if not functions:
        return {}
    keyed = keyed_by_stack(rows, memtable(total_keys(stacks, functions)))
    return {row["key"]: row for row in fetch_rows(moments(rows, keyed))}


def _row(
    one: dict[str, Any],
    total: dict[str, Any] | None,
    modules: dict[str, str],
    size: dict[str, Any],
    confidence: float,
) -> TopRow:
    own = share((one["own"], one["own_square"], one["own_cluster"]), size, confidence)
    with_callees = None
    if total is not None:
        with_callees = share(
            (total["total"], total["total_square"], total["total_cluster"]), size, confidence
        )
    return TopRow(
        key=str(one["key"]),
        module=modules.get(one["key"]),
        own=own,
        total=with_callees,
        fleet=float(one["own"]),
        samples=round(one["samples"]),
        clusters=int(one["clusters"]),
        more_clusters=needed(own, int(size["clusters"]), PRECISION),
    )


def _sample(
    rows: Any,
    functions: Keys,
    size: dict[str, Any],
    known: list[dict[str, Any]] | None,
    shown: Sequence[TopRow],
) -> Sample:
    """Return how much was sampled; ``known`` are the moments of functions, if they were fetched already."""
    keyed = keyed_by_stack(rows, memtable(functions))
    found = known if known is not None else fetch_rows(moments(rows, keyed))
    weights = np.array([row["own"] for row in found], dtype=np.float64)
    shares = weights / weights.sum() if len(weights) else weights
    present = shares[shares > 0]
    split = fetch(halves(rows, keyed))
    first, second = (floats(split[name]) for name in ("first", "second"))
    distance = expected = None
    if first.sum() > 0 and second.sum() > 0:
        distance = float(np.abs(first / first.sum() - second / second.sum()).sum())
        expected = _expected(found, size)
    missing = [row.more_clusters for row in shown]
    return Sample(
        machine_minutes=int(size["clusters"]),
        machines=int(size["machines"]),
        samples=int(size["samples"]),
        entropy_bits=float(-(present * np.log2(present)).sum()) + 0.0,
        functions=len(present),
        distance=distance,
        expected_distance=expected,
        more_machine_minutes=None
        if not missing or None in missing
        else max(m for m in missing if m is not None),
    )


def _expected(found: list[dict[str, Any]], size: dict[str, Any]) -> float:
    """Return the distance of two halves that the variances of the shares let expect.

    A half has twice the variance of the whole, the difference of two independent ones four times; the mean of
    the absolute value of a normal variable is its standard deviation times sqrt(2 / pi).
    """
    errors = [
        share((row["own"], row["own_square"], row["own_cluster"]), size).standard_error or 0.0
        for row in found
    ]
    return float(2 * np.sqrt(2 / np.pi) * np.sum(errors))


def bucket_of(rows: Any) -> int:
    """Return the length in s of stretches that part the selected rows into at most `_BUCKETS`."""
    times = fetch_rows(rows.agg(first=rows.window_start_unix_s.min(), last=rows.window_start_unix_s.max()))[0]
    span = int(times["last"]) - int(times["first"]) + 1
    for length in (300, 600, 1800, 3600, 7200, 14_400, 28_800, 86_400, 604_800):
        if span <= length * _BUCKETS:
            return length
    return 28 * 86_400


def _bucket(rows: Any, length: int) -> Any:
    return rows.window_start_unix_s - rows.window_start_unix_s % length


def _apart(rows: Any, keyed: Any, by: str, keys: Sequence[str], confidence: float) -> Apart:
    """Return the shares of ``keys`` in each part of the fleet by ``by``, of the part's own weight."""
    parts = fetch_rows(sizes(rows, (by,)))
    some = keyed.filter(keyed.key.isin(list(keys)))
    found = {(row[by], row["key"]): row for row in fetch_rows(moments(rows, some, (by,)))}
    shares: list[tuple[Share | None, ...]] = []
    for key in keys:
        line: list[Share | None] = []
        for part in parts:
            row = found.get((part[by], key))
            sums = (row["own"], row["own_square"], row["own_cluster"]) if row else (0.0, 0.0, 0.0)
            line.append(share(sums, part, confidence) if part["weight"] else None)
        shares.append(tuple(line))
    return Apart(
        tuple(part[by] for part in parts),
        tuple(keys),
        tuple(shares),
        tuple(int(part["clusters"]) for part in parts),
    )
