"""How much of their CPUs the servers of a benchmark have to use: expected, reached, and the check of both.

In: metrics of a run, the bounds of ``data/bounds/utilisation.json``, whose origin ``data/bounds/README.md``
states. Out: checks for the verdict, and the figures for a suite's table.

A benchmark of throughput whose servers idle has measured something else than its servers. More than the usual
share is no objection: a smaller machine has fewer cores that wait for each other.
Not here: measuring CPU time (``bench.stack.processor``).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from steelyard._base import data_dir
from steelyard.analyze import checks
from steelyard.analyze.checks import Bounds
from steelyard.records import Check, Metric, Run

CPU_REACHED = "cpu-reached"


@dataclass(frozen=True, slots=True)
class Expected:
    """Share of their CPUs that the servers of a benchmark use when the CPUs are the limit."""

    at_least_ratio: float
    """Below it a result is suspect."""
    usual_ratio: tuple[float, float]
    source: str

    @property
    def text(self) -> str:
        """Return the usual share for people."""
        low, high = self.usual_ratio
        return f"{100 * low:.0f} to {100 * high:.0f} %"


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((data_dir() / "bounds" / "utilisation.json").read_text("utf-8"))
    return document


def expected(benchmark: str) -> Expected | None:
    """Return what is expected of a benchmark's servers, None where nothing is."""
    entry = _document()["servers"].get(benchmark)
    if entry is None:
        return None
    low, high = entry["usual_ratio"]
    return Expected(entry["at_least_ratio"], (low, high), entry["source"])


def reached_ratio(metrics: Mapping[str, Metric]) -> float | None:
    """Return the share of their CPUs that the servers used, None where it was not measured."""
    whole = metrics.get("server_cpu_ratio")
    if whole is not None:
        return whole.value
    parts = [metrics.get(f"server_cpu_{part}_ratio") for part in ("user", "system")]
    values = [part.value for part in parts if part is not None and part.value is not None]
    return sum(values) if len(values) == len(parts) else None


def at_capacity(metrics: Mapping[str, Metric]) -> tuple[float, float, float] | None:
    """Return the CPU share at the capacity that a search found, that rate, and the rate it was measured at.

    CPU time grows with the rate, so that the share is in proportion. None where the measure phase did not run
    below a capacity that was found.
    """
    found, measured = metrics.get("requests_per_s_at_slo"), metrics.get("requests_per_s")
    used = reached_ratio(metrics)
    if found is None or measured is None or used is None or not found.value or not measured.value:
        return None
    if found.value <= measured.value:
        return None
    return min(1.0, used * found.value / measured.value), found.value, measured.value


def cpu_reached(benchmark: str, metrics: Mapping[str, Metric]) -> Check | None:
    """Return whether the servers used as much of their CPUs as expected; None where nothing is expected."""
    bound = expected(benchmark)
    if bound is None:
        return None
    used_ratio, scaled = reached_ratio(metrics), at_capacity(metrics)
    if scaled is not None:
        used_ratio = scaled[0]
    is_enough = used_ratio is not None and used_ratio >= bound.at_least_ratio
    usual = f"{bound.text} are usual ({bound.source})"
    if used_ratio is None:
        claim = f"the CPU time of the servers was not measured; {usual}"
    else:
        where = ""
        if scaled is not None:
            where = (
                f" at the capacity of {scaled[1]:,.1f} requests/s, in proportion to what they used at"
                f" {scaled[2]:,.1f}"
            )
        claim = f"the servers used {100 * used_ratio:.1f} % of their CPUs{where}; {usual}"
        if not is_enough:
            claim += ": something else is the limit, or took the rest"
    return checks.measured(CPU_REACHED, used_ratio, claim, bounds=Bounds(suspect=bound.at_least_ratio))


def at_limit(run: Run, metrics: Mapping[str, Metric], saturates: bool) -> list[Check]:
    """Return whether the CPUs were the limit of ``run``, nothing where they are not to be.

    That is so where the benchmark says it (``saturates`` is false), and with an offered rate, which may be
    far below what the servers can do.
    """
    rate = run.parameters.get("rate")
    is_offered = rate is not None and isinstance(rate.value, int | float) and rate.value > 0
    check = cpu_reached(run.benchmark, metrics)
    return [] if is_offered or not saturates or check is None else [check]


def load_share(share_ratio: float | None) -> Check:
    """Return whether the load took little of the CPU time of load and servers."""
    if share_ratio is None:
        claim = "the CPU time of the load was not measured beside the servers'"
    else:
        claim = f"the load took {share_ratio:.1%} of the CPU time of load and servers"
    return checks.measured("load-cpu", share_ratio, claim)
