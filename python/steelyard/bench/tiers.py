"""Tiers, benchmarks and suites by name.

In: names from the command line. Out: what they stand for, or one line that lists the valid ones.

Not here: what a tier means to a benchmark, which the benchmark says by its suggestions.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from steelyard._base import UsageError
from steelyard.bench.parameters import nearest

if TYPE_CHECKING:
    from steelyard.bench.benchmark import Benchmark

TIERS = {
    "smoke": "seconds: shows that everything works",
    "quick": "about 3 minutes in all: a first figure",
    "standard": "about 30 minutes in all: a figure to compare",
    "full": "as long as published: hours on a large machine",
}
"""Name -> how long a suite takes in it."""

_BENCHMARKS = {
    "tao": "steelyard.bench.tao.benchmark:TaoBench",
    "feed": "steelyard.bench.feed.benchmark:FeedSim",
    "tax": "steelyard.bench.tax.benchmark:TaxBench",
}

_OTHERS = {"characterize": "steelyard.bench.characterize.benchmark:Characterization"}
"""What leaves runs and is no benchmark: in no suite, and not by the name of ``steelyard run``."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A list of benchmarks with a tier."""

    name: str
    tier: str
    benchmarks: tuple[str, ...]


SUITES = {tier: Suite(tier, tier, tuple(_BENCHMARKS)) for tier in TIERS}
DEFAULT_SUITE = "quick"


def benchmark_names() -> list[str]:
    """Return the names of all benchmarks."""
    return list(_BENCHMARKS)


def benchmark(name: str) -> "type[Benchmark]":
    """Return the benchmark called ``name``."""
    module, _, attribute = {**_BENCHMARKS, **_OTHERS}[name].partition(":")
    found: type[Benchmark] = getattr(import_module(module), attribute)
    return found


def resolve(name: str, tier: str | None) -> tuple[Suite | None, list[str], str]:
    """Return the suite (None for a lone benchmark), its benchmarks and the tier that ``name`` stands for.

    Raises UsageError, in one line that lists the valid names, when it is none of them.
    """
    if tier is not None and tier not in TIERS:
        raise UsageError(
            f"there is no tier {tier!r}{nearest(tier, TIERS)}", hint=f"tiers: {', '.join(TIERS)}"
        )
    if name in SUITES:
        return SUITES[name], list(SUITES[name].benchmarks), tier or SUITES[name].tier
    if name in _BENCHMARKS:
        return None, [name], tier or DEFAULT_SUITE
    known = [*_BENCHMARKS, *SUITES]
    raise UsageError(
        f"there is no benchmark or suite {name!r}{nearest(name, known)}",
        hint=f"benchmarks: {', '.join(_BENCHMARKS)}; suites: {', '.join(SUITES)}",
    )
