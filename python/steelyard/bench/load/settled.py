"""Waiting until the servers under a load have settled.

In: load processes that warm up, and the quantity that tells. Out: how the warm-up ended, as the verdict
reads it.

Not here: the statistics (``stats.steady``), and what a benchmark's own quantity is.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from steelyard.analyze.verdict import WarmUp
from steelyard.bench.load import watch
from steelyard.bench.load.watch import LoadWatch

if TYPE_CHECKING:
    from steelyard.bench.session import Session

SETTLED_TOLERANCE_RATIO = 0.01
"""A quantity that may still move by less than this share of itself has settled."""


def wait_until_settled(
    session: "Session",
    loads: Sequence[LoadWatch],
    *,
    least_s: float,
    most_s: float,
    quantity: str = "throughput",
    values: Callable[[], Sequence[float]] | None = None,
    hit_ratio: Callable[[], float | None] = lambda: None,
    tolerance_ratio: float = SETTLED_TOLERANCE_RATIO,
) -> WarmUp:
    """Wait until ``quantity`` has settled: between ``least_s`` and ``most_s`` from now.

    ``values`` returns its values so far, one for each interval of equal length; by default those of
    all loads' throughput, one a second. ``hit_ratio`` returns what to show of servers that have one.
    """
    # Here and not above: it takes a second to load, which the warm-up has.
    from steelyard.stats import steady

    begin_ns = session.clock.monotonic_ns()
    judged = 0
    shown_s = 0.0
    while True:
        session.wait(0.05)
        for load in loads:
            load.read()
        series = values() if values is not None else throughput(loads)
        elapsed_s = (session.clock.monotonic_ns() - begin_ns) / 1e9
        if elapsed_s - shown_s >= 1.0:
            shown_s = elapsed_s
            watch.show_progress(session, loads, hit_ratio(), elapsed_s)
        if elapsed_s >= least_s and len(series) > judged:
            judged = len(series)
            plateau = steady.settled(series, tolerance_ratio=tolerance_ratio)
            if plateau is not None:
                claim = f"the {quantity} settled at {_figure(plateau.level)} after {elapsed_s:.1f} s"
                return WarmUp(True, elapsed_s, claim)
        if elapsed_s >= most_s:
            last = f", last {_figure(series[-1])}" if series else ""
            claim = f"the {quantity} had not settled after {elapsed_s:.1f} s{last}"
            return WarmUp(False, elapsed_s, claim, () if values is not None else tuple(series))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def throughput(loads: Sequence[LoadWatch]) -> list[float]:
    """Return requests/s over all loads, one value a second."""
    return [sum(values) for values in zip(*(load.completed_per_s for load in loads), strict=False)]
