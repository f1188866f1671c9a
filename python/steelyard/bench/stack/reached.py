"""Checks of who used the CPUs in the measure phase: servers enough, and the load little.

In: shares of CPU time. Out: checks for the verdict.
"""

from steelyard.records import Check, Level

LOAD_AT_MOST_RATIO = 0.05
"""Share of the CPU time of load and servers that the load may take."""


def cpu_reached(used_ratio: float | None, at_least_ratio: float) -> Check:
    """Return whether the servers used as much of their CPUs as a benchmark of throughput has to."""
    if used_ratio is None:
        claim = "the CPU time of the servers was not measured"
    else:
        claim = f"the servers used {used_ratio:.1%} of their CPUs"
        if used_ratio < at_least_ratio:
            claim += ": something else is the limit, or took the rest"
    return Check(
        id="cpu-reached",
        level=Level.VALID if used_ratio is not None and used_ratio >= at_least_ratio else Level.SUSPECT,
        claim=claim,
        value=used_ratio,
        bound=at_least_ratio,
        unit="1",
    )


def load_share(share_ratio: float | None, at_most_ratio: float = LOAD_AT_MOST_RATIO) -> Check:
    """Return whether the load took little of the CPU time of load and servers."""
    if share_ratio is None:
        claim = "the CPU time of the load was not measured beside the servers'"
    else:
        claim = f"the load took {share_ratio:.1%} of the CPU time of load and servers"
    return Check(
        id="load-cpu",
        level=Level.VALID if share_ratio is not None and share_ratio <= at_most_ratio else Level.SUSPECT,
        claim=claim,
        value=share_ratio,
        bound=at_most_ratio,
        unit="1",
    )
