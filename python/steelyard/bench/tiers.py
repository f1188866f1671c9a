"""Tiers and suites by name.

In: names from the command line. Out: what they stand for, or one line that lists the valid ones.

Not here: what a tier means to a benchmark, which the benchmark says by its suggestions.
"""

from dataclasses import dataclass

from steelyard._base import UsageError
from steelyard.bench import declaration
from steelyard.bench.parameters import nearest
from steelyard.bench.request import DEFAULT_SUITE

TIERS = {
    "smoke": "seconds: shows that everything works",
    "quick": "about 3 minutes in all: a first figure",
    "standard": "about 30 minutes in all: a figure to compare",
    "full": "as long as published: hours on a large machine",
}
"""Name -> how long a suite takes in it."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A list of benchmarks with a tier."""

    name: str
    """As in ``steelyard run NAME``."""
    tier: str
    """How long its members run."""
    benchmarks: tuple[str, ...]
    """Its members, in the order in which they run."""


def suites() -> dict[str, Suite]:
    """Return every suite by name: those of the tiers, then those that other packages' benchmarks declare.

    A suite named after a tier holds only benchmarks of Steelyard itself, so that it is the same everywhere.
    """
    members: dict[str, list[str]] = {tier: [] for tier in TIERS}
    for declared in declaration.working():
        for name in declared.suites:
            if name not in TIERS or declaration.is_built_in(declared.name):
                members.setdefault(name, []).append(declared.name)
    return {
        name: Suite(name, name if name in TIERS else DEFAULT_SUITE, tuple(benchmarks))
        for name, benchmarks in members.items()
    }


def resolve(name: str, tier: str | None) -> tuple[Suite | None, list[str], str]:
    """Return the suite (None for a lone benchmark), its benchmarks and the tier that ``name`` stands for.

    Raises UsageError, in one line that lists the valid names, when it is none of them.
    """
    if tier is not None and tier not in TIERS:
        raise UsageError(f"unknown tier {tier!r}{nearest(tier, TIERS)}", hint=f"tiers: {', '.join(TIERS)}")
    benchmarks = declaration.names()
    if name in benchmarks and name not in TIERS:
        return None, [name], tier or DEFAULT_SUITE
    known = suites()
    if name in known:
        return known[name], list(known[name].benchmarks), tier or known[name].tier
    raise UsageError(
        f"unknown benchmark or suite {name!r}{nearest(name, [*benchmarks, *known])}",
        hint=f"benchmarks: {', '.join(benchmarks)}; suites: {', '.join(known)}",
    )
