"""What a fleet spends its cycles on: functions, binaries, jobs, categories of the datacenter tax.

In: ``profiles`` and ``symbols``. Out: `Top`: shares of fleet cycles with intervals, apart by platform and by
time, the profile of the whole for a flame graph, and whether the sample is enough.

Not here: intervals (``shares``), whether the sample is enough (``sample_size``), two selections
(``diff``), drawing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from steelyard._base import UsageError
from steelyard._base.documents import NOT_PRINTED, printed
from steelyard.analyze.profiles.profile import Profile, modules_of
from steelyard.analyze.profiles.tax_map import TaxMap, classify, place_all
from steelyard.analyze.profiles.tax_rules import Rules, shipped_rules
from steelyard.fleet.profiles.rows import numbered
from steelyard.fleet.profiles.sample_size import PRECISION, Sample, sample_of
from steelyard.fleet.profiles.shares import (
    Share,
    binaries,
    keyed_by_column,
    keyed_by_stack,
    machines_to_state,
    moments,
    needed,
    shares,
    sizes,
)
from steelyard.fleet.profiles.stacks import Selection, Stacks, event_rows, gather
from steelyard.telemetry.arrays import floats, integers, texts
from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import fetch_rows

BY = ("function", "binary", "job", "platform", "cluster", "category")
CONFIDENCE = 0.95
_APART = 6
"""Keys whose shares are shown by platform and over time."""
_BUCKETS = 24


@dataclass(frozen=True)
class TopRow:
    """One function, binary, job or category."""

    key: str
    """Which one."""
    module: str | None
    """Its binary, None where it has none."""
    own: Share
    """Where the time was spent."""
    total: Share | None
    """With what it calls; None where nothing calls anything."""
    fleet_weight: float
    """Own weight of the whole fleet, in the unit of `Top`."""
    samples: int
    """Samples that have it."""
    machines: int
    """Machines that have it."""
    more_machines: int | None
    """How many more machines bring the interval to ``PRECISION`` of the share; None without an interval."""
    least_machines: int | None = None
    """Where there is no interval: about how many machines in all give one."""


@dataclass(frozen=True)
class Part:
    """A part of the fleet: a platform, or a stretch of time."""

    part: str | int
    """Its name, or its beginning in Unix seconds."""
    machines: int
    """Machines of it."""
    shares: dict[str, Share | None]
    """Of the first keys; None where nothing was sampled of the part."""


@dataclass(frozen=True)
class Apart:
    """Shares of the first keys in parts of the fleet: platforms, or stretches of time."""

    parts: tuple[str | int, ...]
    """Names of platforms, or the beginnings of stretches in Unix seconds."""
    keys: tuple[str, ...]
    shares: tuple[tuple[Share | None, ...], ...]
    """A row a key, a column a part; None where nothing was sampled of the part."""
    machines: tuple[int, ...]
    """Machines of each part."""

    def __iter__(self) -> Iterator[Part]:
        """Yield the parts."""
        for at, part in enumerate(self.parts):
            yield Part(
                part,
                self.machines[at],
                {key: row[at] for key, row in zip(self.keys, self.shares, strict=True)},
            )


@dataclass(frozen=True)
class UnknownSymbols:
    """A module without symbols."""

    module: str
    """``name@build``."""
    ratio: float
    """Its share of the own weight."""


@dataclass(frozen=True)
class Top:
    """The answer of ``fleet top``."""

    KIND: ClassVar[str] = "fleet_top"

    by: str
    """What rows are: functions, binaries, jobs ..."""
    event: str
    """What was sampled."""
    unit: str
    """What weights count: cycles, or ns."""
    fleet_weight: float
    """Weight of all machine-minutes, sampled or not, that the sample stands for."""
    rows: tuple[TopRow, ...]
    """The largest first."""
    keys: int
    """Keys in all, of which ``rows`` are the first."""
    sample: Sample
    """How much was sampled, and whether it is enough."""
    platforms: Apart = field(metadata=NOT_PRINTED)
    times: Apart = field(metadata=NOT_PRINTED)
    bucket_s: int
    """Length of a stretch of time."""
    profile: Profile = field(metadata=NOT_PRINTED)
    tax: TaxMap
    """The samples by category of the datacenter tax."""
    unknown_symbols: tuple[UnknownSymbols, ...]
    """Modules without symbols."""
    other_stacks_ratio: float
    """Share of stacks beyond the heaviest that are kept: shown by job and platform, not by function."""
    other_events: tuple[str, ...] = field(default=())
    """Events of which there are samples, too."""

    @property
    @printed
    def by_platform(self) -> tuple[Part, ...]:
        """Return the shares of the first keys by platform."""
        return tuple(self.platforms)

    @property
    @printed
    def by_time(self) -> tuple[Part, ...]:
        """Return the shares of the first keys over time."""
        return tuple(self.times)

    @property
    @printed
    def unknown_symbols_ratio(self) -> float:
        """Return the share of the own weight in modules without symbols."""
        return sum(each.ratio for each in self.unknown_symbols)


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
    chosen, event, all_events = event_rows(profiles, selection or Selection(), task_samples, event)
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
    ranked = fetch_rows(moments(chosen, keyed))
    ranked.sort(key=lambda row: (-row["own_y"], row["key"]))
    totals = _totals(chosen, stacks, [row["key"] for row in ranked[:rows]]) if by == "function" else {}
    modules = modules_of(stacks.profile, says_others=True) if by == "function" else {}
    made = _rows(ranked[:rows], totals, modules, size, confidence)
    names = [row.key for row in made[:_APART]]
    bucket = bucket_of(chosen)
    timed = keyed.mutate(bucket=_bucket(keyed, bucket))
    unknown = tuple(UnknownSymbols(name, weight / fleet) for name, weight in stacks.unknown)
    return Top(
        by=by,
        event=event,
        unit=stacks.unit,
        fleet_weight=fleet,
        rows=made,
        keys=len(ranked),
        sample=_sample(chosen, functions, size, ranked if by == "function" else None, made),
        platforms=_apart(chosen, keyed, "platform", names, confidence),
        times=_apart(chosen.mutate(bucket=_bucket(chosen, bucket)), timed, "bucket", names, confidence),
        bucket_s=bucket,
        profile=stacks.profile,
        tax=classify(stacks.profile, rules),
        unknown_symbols=unknown,
        other_stacks_ratio=max(0.0, 1 - float(stacks.fleet.sum()) / fleet),
        other_events=tuple(str(row["event"]) for row in all_events if row["event"] != event),
    )


Keys = tuple[Sequence[Any], Sequence[str], Sequence[float], Sequence[float]]
"""Stack (as rows have it: text or number), key, own, total: with which parts a stack counts for a key."""


def own_keys(stacks: Stacks, by: str, rules: Rules) -> Keys:
    """Return each stack's key by its leaf's function, or by its category of the tax map."""
    profile = stacks.profile
    if by == "category":
        titles = {category.id: category.title for category in rules.categories}
        names = [titles.get(place.category, place.category) for place in place_all(profile, rules)]
    else:
        names = [profile.frames[leaf].key for leaf in profile.leaves.tolist()]
    kept = [at for at, number in enumerate(stacks.index.tolist()) if number >= 0]
    keys = [names[stacks.index[at]] for at in kept]
    return [stacks.ids[at] for at in kept], keys, [1.0] * len(kept), [1.0] * len(kept)


def total_keys(stacks: Stacks, functions: Sequence[str]) -> Keys:
    """Return, for each of ``functions``, the stacks that it is anywhere in."""
    profile = stacks.profile
    indices = {name: at for at, name in enumerate(functions)}
    of_frame = np.array([indices.get(frame.key, -1) for frame in profile.frames], dtype=np.int64)
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

    stacks, functions, own, total = keys
    is_number = bool(stacks) and isinstance(stacks[0], int)
    stack = integers(stacks).cast(pa.int32()) if is_number else texts(stacks)
    columns = {"stack": stack, "key": texts(functions), "own": floats(own), "total": floats(total)}
    return ibis.memtable(pa.table(columns))


def _totals(rows: Any, stacks: Stacks, functions: Sequence[str]) -> dict[str, dict[str, Any]]:
    if not functions:
        return {}
    keyed = keyed_by_stack(rows, memtable(total_keys(stacks, functions)))
    return {row["key"]: row for row in fetch_rows(moments(rows, keyed))}


def _rows(
    ranked: Sequence[dict[str, Any]],
    totals: dict[str, dict[str, Any]],
    modules: dict[str, str],
    size: dict[str, Any],
    confidence: float,
) -> tuple[TopRow, ...]:
    called = [row["key"] for row in ranked if row["key"] in totals]
    with_callees = shares([totals[key] for key in called], size, confidence, "total")
    total = dict(zip(called, with_callees, strict=True))
    machines = int(size["machines"])
    return tuple(
        TopRow(
            key=str(row["key"]),
            module=modules.get(row["key"]),
            own=own,
            total=total.get(row["key"]),
            fleet_weight=float(row["own_y"]),
            samples=round(row["samples"]),
            machines=int(row["machines"]),
            more_machines=needed(own, machines, PRECISION),
            least_machines=machines_to_state(own, machines),
        )
        for row, own in zip(ranked, shares(ranked, size, confidence), strict=True)
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
    ranked = known if known is not None else fetch_rows(moments(rows, keyed))
    return sample_of(rows, keyed, ranked, size, [row.more_machines for row in shown])


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
    by_part = {(row[by], row["key"]): row for row in fetch_rows(moments(rows, some, (by,)))}
    columns = []
    for part in parts:
        present = [row for key in keys if (row := by_part.get((part[by], key))) is not None]
        known = {
            row["key"]: share for row, share in zip(present, shares(present, part, confidence), strict=True)
        }
        # What no machine of the part has is not known to be nothing: no interval.
        column = [known.get(key, Share(0.0, None, None, None)) for key in keys]
        columns.append(column if part["weight"] else [None for _ in keys])
    return Apart(
        tuple(part[by] for part in parts),
        tuple(keys),
        tuple(tuple(column[at] for column in columns) for at in range(len(keys))),
        tuple(int(part["machines"]) for part in parts),
    )
