"""Profiles of a fleet as Ibis expressions, and their distinct stacks as one profile with names.

In: the tables ``profiles``, ``symbols`` and ``task_samples``. Out: `Selection` (which rows), expressions over
them, and `Stacks`: the distinct stacks with their fleet-wide weight, symbolised, as an
`analyze.profiles.profile.Profile`.

How a sample counts: its weight (the cycles that it stands for) over ``sampled_ratio``, the share of
machine-minutes that were profiled, so that the sum estimates the cycles of all machine-minutes: fleet cycles.

Invariants: the engine adds up equal stacks first, and only distinct stacks and frames reach Python; a frame
that no symbol covers stays unknown, in its module, and its share is reported; events are never added to each
other.

Not here: shares and their intervals (``shares``), what is asked (``top``, ``diff``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard._base import RecordError, ResultSaysNoError, UsageError
from steelyard.analyze.profiles.folded import fold
from steelyard.analyze.profiles.profile import Profile
from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import fetch, fetch_rows, floats, integers

if TYPE_CHECKING:
    from steelyard.fleet.profiles.symbols import Named

Floats = NDArray[np.float64]
MOST_STACKS = 200_000
"""Distinct stacks that are kept, the heaviest; the weight of the others is reported."""
_COUNTS = 1 << 60
_KNOWN_AT_MOST = 20
_DAY_S = 86_400
_FIELDS = ("platform", "job", "task", "machine", "cluster", "event")


@dataclass(frozen=True)
class Selection:
    """Which rows of ``profiles``: each field holds the values that are let through, or none for all."""

    platform: tuple[str, ...] = ()
    job: tuple[str, ...] = ()
    task: tuple[str, ...] = ()
    machine: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    event: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    """Labels that the task had in that window, as ``task_samples`` tell: any of the values of each name."""
    first_s: int | None = None
    """Windows that begin from here on, Unix time."""
    end_s: int | None = None
    """Windows that begin before, Unix time."""
    text: str = "everything"
    """As it was written."""

    @staticmethod
    def parse(text: str) -> Selection:
        """Return what ``from=2026-01-01,to=2026-01-02,platform=x,job=y,label.k=v`` selects.

        ``to`` includes its day; with a time of day (2026-01-01T06:00) it is the end. A field may be repeated
        to let more values through. Raises UsageError for any other text.
        """
        values: dict[str, list[str]] = {}
        labels: list[tuple[str, str]] = []
        first = end = None
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, equals, value = part.partition("=")
            if not equals or not value:
                raise UsageError(f"{part!r} selects nothing", hint=_SELECT_HINT)
            if name == "from":
                first = moment(value)[0]
            elif name == "to":
                end = moment(value)[1]
            elif name.startswith("label.") and len(name) > 6:
                labels.append((name[6:], value))
            elif name in _FIELDS:
                values.setdefault(name, []).append(value)
            else:
                raise UsageError(f"profiles cannot be selected by {name!r}", hint=_SELECT_HINT)
        chosen = {name: tuple(texts) for name, texts in values.items()}
        return Selection(**chosen, labels=tuple(labels), first_s=first, end_s=end, text=text or "everything")


_SELECT_HINT = f"FIELD=VALUE joined by commas: {', '.join(_FIELDS)}, label.NAME, from, to"


def moment(text: str) -> tuple[int, int]:
    """Return where the day or the time ``text`` (UTC) begins and, for a day, ends.

    >>> moment("1970-01-02"), moment("1970-01-01T00:01")
    ((86400, 172800), (60, 60))
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no day or time", hint="as 2026-01-31 or 2026-01-31T06:00") from None
    begin = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    return begin, begin + 86_400 if re.fullmatch(r"\d{4}-?\d{2}-?\d{2}", text) else begin


def select(profiles: Any, selection: Selection, task_samples: Any = None) -> Any:
    """Return the rows of ``profiles`` that count, with ``fleet``: what each stands for in the whole fleet.

    Rows without a sampled share say nothing of the fleet and are left out.
    """
    rows = profiles.filter(profiles.sampled_ratio > 0, profiles.weight > 0)
    for name in _FIELDS:
        values = getattr(selection, name)
        if values:
            rows = rows.filter(rows[name].isin(values))
    if selection.first_s is not None:
        rows = rows.filter(rows.window_start_unix_s >= selection.first_s)
    if selection.end_s is not None:
        rows = rows.filter(rows.window_start_unix_s < selection.end_s)
    for name in dict.fromkeys(name for name, _ in selection.labels):
        values = tuple(value for other, value in selection.labels if other == name)
        rows = _labelled(rows, task_samples.filter(task_samples.labels.get(name).isin(values)))
    return rows.mutate(fleet=rows.weight / rows.sampled_ratio)


def _labelled(rows: Any, tagged: Any) -> Any:
    """Return the rows of ``profiles`` whose window begins within one of the task's windows in ``tagged``.

    A task's labels change from window to window, so its machine and day do not say which it had.
    """
    keys = ("machine", "job", "task")
    begin = tagged.window_start_unix_s
    end = (begin + tagged.window_s).ceil().cast("int64")
    windows = tagged.select(*keys, begin=begin, end=end, day=begin // _DAY_S)
    # Days make the join an equality, which engines answer by hashing; a window may reach into the next day.
    late = windows.filter((windows.end - 1) // _DAY_S > windows.day).mutate(day=windows.day + 1)
    windows = windows.union(late)
    dated = rows.mutate(day=rows.window_start_unix_s // _DAY_S)
    within = [
        *((dated[name] == windows[name]) for name in (*keys, "day")),
        dated.window_start_unix_s >= windows.begin,
        dated.window_start_unix_s < windows.end,
    ]
    return dated.semi_join(windows, within).drop("day")


def _nothing(profiles: Any, selection: Selection, task_samples: Any) -> ResultSaysNoError:
    """Return what to say of a selection without any profile, with what there is of the field at fault."""
    message = f"{selection.text} selects no profile of the store"
    for name in _FIELDS:
        if values := getattr(selection, name):
            known = _known(profiles[name], profiles)
            if not set(values) & set(known):
                return ResultSaysNoError(message, hint=_there_are(name, known))
    for name, _ in selection.labels:
        known = _known(task_samples.labels.get(name), task_samples)
        if not {value for other, value in selection.labels if other == name} & set(known):
            there = _there_are(f"label.{name}", known) if known else f"no task has a label {name!r}"
            return ResultSaysNoError(message, hint=there)
    return ResultSaysNoError(message)


def _known(column: Any, table: Any) -> list[str]:
    rows = fetch_rows(table.select(value=column).distinct().order_by("value").limit(_KNOWN_AT_MOST))
    return [str(row["value"]) for row in rows if row["value"] is not None]


def _there_are(name: str, known: Sequence[str]) -> str:
    if not known:
        return f"the store has no {name}"
    more = " and more" if len(known) == _KNOWN_AT_MOST else ""
    return f"values of {name}: {', '.join(known)}{more}"


def events(rows: Any) -> Any:
    """Return, of selected rows, each event's samples and fleet weight."""
    return rows.group_by("event").agg(samples=rows.samples.sum(), fleet=rows.fleet.sum()).order_by("event")


def stacks(rows: Any, most: int = MOST_STACKS) -> Any:
    """Return the distinct stacks of selected rows, the heaviest first, at most ``most``."""
    added = rows.group_by("stack").agg(samples=rows.samples.sum(), fleet=rows.fleet.sum())
    return added.order_by([ibis.desc("fleet"), "stack"]).limit(most)


def choose_event(rows: Sequence[dict[str, Any]]) -> str:
    """Return the event to show: cycles where they were counted, else the one with most samples.

    Raises ResultSaysNoError when nothing was sampled.
    """
    if not rows:
        raise ResultSaysNoError("the store holds no profile")
    if any(row["event"] == "cycles" for row in rows):
        return "cycles"
    return str(max(rows, key=lambda row: (row["samples"], row["event"]))["event"])


def unit_of(event: str) -> str:
    """Return what an event's weights count."""
    return "ns" if event in ("cpu-clock", "task-clock") else "cycles" if event == "cycles" else event


@dataclass(frozen=True)
class Stacks:
    """Distinct stacks of one event, the heaviest first, with names."""

    event: str
    unit: str
    """What ``fleet`` counts."""
    texts: tuple[str, ...]
    """As the store has them."""
    samples: NDArray[np.int64]
    fleet: Floats
    """What each stands for in the whole fleet."""
    profile: Profile
    """The same, symbolised; equal names fall together."""
    index: NDArray[np.int64]
    """Which of the profile's stacks each text is; -1 for one that cannot be read."""
    divisor: float
    """By which the profile's counts are smaller than ``fleet``."""
    named: dict[str, str]
    """The name of each text."""
    ids: tuple[Any, ...]
    """What rows have as each stack: its text, or its number (``rows``)."""
    unknown: tuple[tuple[str, float], ...] = field(default=())
    """Modules (``name@build``) with offsets that no symbol covers, and the fleet weight of stacks whose leaf
    they are.
    """


def gather(
    rows: Any, event: str, symbols: Any, most: int = MOST_STACKS, *, numbered_stacks: Any = None
) -> Stacks:
    """Fetch the distinct stacks of ``rows`` (of one event) and name their frames by the ``symbols`` table.

    ``numbered_stacks`` are the stacks of rows that have numbers instead (``rows``).
    """
    from steelyard.fleet.profiles.symbols import name_stacks

    if numbered_stacks is None:
        table = fetch(stacks(rows, most))
    else:
        table = fetch(numbered_stacks.order_by([ibis.desc("fleet"), "stack"]).limit(most))
    texts = tuple(table["stack"].to_pylist())
    fleet = floats(table["fleet"])
    named = name_stacks(texts, symbols)
    divisor, unit = 1.0, unit_of(event)
    # A fleet's cycles may be more than an integer holds: a day of a million machines has 1e22.
    for prefix in ("k", "M", "G", "T"):
        if fleet.sum() / divisor < _COUNTS:
            break
        divisor *= 1000
        unit = f"{prefix}{unit_of(event)}"
    counts = np.maximum(1, np.round(fleet / divisor)).astype(np.int64)
    try:
        samples = integers(table["samples"])
    except ValueError as error:
        raise RecordError(
            "the samples of a stack add up to more than 64 bits hold",
            hint="look at it: steelyard fleet check",
        ) from error
    profile, index = fold(zip(named.texts, counts.tolist(), strict=True), {"unit": unit, "event": event})
    return Stacks(
        event,
        unit_of(event),
        texts,
        samples,
        fleet,
        profile,
        index,
        divisor,
        dict(zip(texts, named.texts, strict=True)),
        texts if numbered_stacks is None else tuple(table["number"].to_pylist()),
        _unknown(named, fleet),
    )


def _unknown(named: Named, fleet: Floats) -> tuple[tuple[str, float], ...]:
    weights: dict[str, float] = {}
    for module, weight in zip(named.unknown_leaf, fleet.tolist(), strict=True):
        if module is not None:
            weights[module] = weights.get(module, 0.0) + weight
    return tuple(sorted(weights.items(), key=lambda item: (-item[1], item[0])))


def event_rows(
    profiles: Any, selection: Selection, task_samples: Any, name: str | None
) -> tuple[Any, str, list[dict[str, Any]]]:
    """Return the selected rows of one event, its name, and all events that there are.

    Raises ResultSaysNoError when nothing was selected, UsageError when the wanted event was not sampled.
    """
    rows = select(profiles, selection, task_samples)
    counts = fetch_rows(events(rows))
    if not counts and selection.text != "everything":
        raise _nothing(profiles, selection, task_samples)
    if name is not None and all(row["event"] != name for row in counts):
        names = ", ".join(str(row["event"]) for row in counts) or "none"
        raise UsageError(f"no samples of {name!r} are here", hint=f"there are: {names}")
    event = name or choose_event(counts)
    return rows.filter(rows.event == event), event, counts
