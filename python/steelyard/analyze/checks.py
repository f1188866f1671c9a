"""The checks of verdicts, which stand once for both languages in ``data/checks.json``.

In: that file. Out: `CONSTANTS`, what the table says of a check (`declared`), a `Check` made from its id
(`measured`, `stated`), and what to do about one that failed (`advice`). ``data/bounds/README.md`` says why
each bound has its value; the data plane embeds the same file (``crates/record``).

Invariants: a check's unit is never typed where it is made, nor are its bounds unless they depend on the run.
Advice is looked up and not recorded, so that old runs get today's. A benchmark of another package makes a
`Check` by itself, and has no advice here.
Not here: what is compared with the bounds (``verdict``, benchmarks, ``crates/load``, ``crates/tax``).
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from steelyard._base import data_dir
from steelyard.records import Check, Level


@dataclass(frozen=True, slots=True)
class Constants:
    """Bounds that several checks share, or that code compares with by itself."""

    headline_suspect_ratio: float
    headline_invalid_ratio: float
    error_suspect_ratio: float
    error_invalid_ratio: float
    achieved_ratio: float
    generator_busy_ratio: float
    generator_lag_of_response_ratio: float
    samples_beyond_percentile: int
    tax_rounds: int
    top_down_tolerance_ratio: float
    clock_step_s: float
    clock_slew_ratio: float


@dataclass(frozen=True, slots=True)
class Bounds:
    """From where on a result is suspect, and invalid; None where the check never makes it so."""

    suspect: float | None = None
    invalid: float | None = None


class Fails(StrEnum):
    """The side of its bounds on which a value fails. A value at a bound passes."""

    ABOVE = "above"
    BELOW = "below"


@dataclass(frozen=True, slots=True)
class Entry:
    """What the table says of a check."""

    scope: tuple[str, ...]
    """Whose results are asked, each one of `SCOPES`."""
    asks: str
    unit: str | None = None
    """Of the value and the bounds; None for a check without figures."""
    fails: Fails | None = None
    """None where no value decides."""
    bounds: Bounds = Bounds()
    """Without values where they depend on the run."""
    is_of_figure: bool = False
    """Whether it judges how far a figure may be believed, and not whether the benchmark works at all."""
    advice: str | None = None
    """What to do where it fails; None for a check that always passes."""
    advice_of_program: str | None = None
    """The same of a program of the user's (`characterize`), which has other flags; None where it is equal."""


SCOPES = {
    "load": "A load",
    "run": "Any run, beside its load's",
    "sweep": "A sweep of rates",
    "search": "A search for a capacity",
    "tax": "Microbenchmarks",
    "benchmark": "Single benchmarks",
    "program": "A characterized program",
    "top-down": "A tree of counters",
}
"""Whose results checks are asked of, each with its heading."""


def _read() -> tuple[Constants, dict[str, Entry]]:
    document: dict[str, Any] = json.loads((data_dir() / "checks.json").read_text("utf-8"))
    numbers: dict[str, Any] = document["constants"]
    rows: dict[str, dict[str, Any]] = document["checks"]

    def bound(given: float | str | None) -> float | None:
        return numbers[given] if isinstance(given, str) else given

    def entry(row: dict[str, Any]) -> Entry:
        figures = rows[row["like"]] if "like" in row else row
        fails = figures.get("fails")
        return Entry(
            scope=tuple(row["scope"]),
            asks=row["asks"],
            unit=figures.get("unit"),
            fails=None if fails is None else Fails(fails),
            bounds=Bounds(bound(figures.get("suspect")), bound(figures.get("invalid"))),
            is_of_figure=row.get("is_of_figure", False),
            advice=row.get("advice"),
            advice_of_program=row.get("advice_of_program"),
        )

    return Constants(**numbers), {name: entry(row) for name, row in rows.items()}


CONSTANTS, CHECKS = _read()


def find(check_id: str) -> Entry | None:
    """Return the entry of a check, None for one that this version does not make.

    An entry whose name ends in ``*`` is that of all checks whose id begins so.

    >>> find("top-down-level-1").unit, find("of-another-version")
    ('ratio', None)
    """
    if check_id in CHECKS:
        return CHECKS[check_id]
    groups = (name for name in CHECKS if name.endswith("*") and check_id.startswith(name[:-1]))
    return CHECKS.get(next(groups, ""))


def declared(check_id: str) -> Entry:
    """Return the entry of a check that this version makes. Raises KeyError for another: a bug."""
    entry = find(check_id)
    if entry is None:
        raise KeyError(f"{check_id} is not in data/checks.json")
    return entry


def is_of_figure(check: Check) -> bool:
    """Return whether ``check`` judges how far a figure may be believed; what another fails does not work."""
    entry = find(check.id)
    return entry is not None and entry.is_of_figure


def level(check_id: str, value: float, bounds: Bounds | None = None) -> Level:
    """Return what ``value`` amounts to, held against ``bounds`` or those of the table.

    >>> [str(level("errors", ratio)) for ratio in (1e-5, 1e-3, 1.0)], str(level("rounds", 12))
    (['valid', 'suspect', 'invalid'], 'suspect')
    """
    entry = declared(check_id)
    limits = entry.bounds if bounds is None else bounds

    def fails(bound: float | None) -> bool:
        return bound is not None and (value < bound if entry.fails is Fails.BELOW else value > bound)

    return Level.INVALID if fails(limits.invalid) else Level.SUSPECT if fails(limits.suspect) else Level.VALID


def measured(check_id: str, value: float | None, claim: str, *, bounds: Bounds | None = None) -> Check:
    """Return a check whose level follows from its value; suspect where there is no value.

    ``bounds`` are given where they depend on the run; otherwise they are those of the table.
    """
    found = Level.SUSPECT if value is None else level(check_id, value, bounds)
    return stated(check_id, found, claim, value, bounds=bounds)


def stated(
    check_id: str, level: Level, claim: str, value: float | None = None, *, bounds: Bounds | None = None
) -> Check:
    """Return a check whose level the caller knows."""
    entry = declared(check_id)
    limits = entry.bounds if bounds is None else bounds
    return Check(
        id=check_id,
        level=level,
        claim=claim,
        value=value,
        suspect=limits.suspect,
        invalid=limits.invalid,
        unit=entry.unit,
    )


def advice(check: Check, *, describes: bool = False) -> str | None:
    """Return what to do about ``check``; None where it passed, or is one that this version does not make.

    ``describes`` says that the run describes a program of the user's.

    >>> advice(measured("rounds", 3, "3 rounds were completed"))
    'measure for longer: --set time=...'
    >>> advice(measured("rounds", 40, "40 rounds were completed")) is None
    True
    """
    if check.level is Level.VALID:
        return None
    name = check.id
    if check.value is None and name in ("foreign-load", "steal"):
        # Nobody is known who could be sent away.
        name = "length" if "fewer than two readings" in check.claim else "telemetry"
    entry = find(name)
    if entry is None:
        return None
    return entry.advice_of_program or entry.advice if describes else entry.advice
