"""What to do about a check that objects.

In: a check of a verdict. Out: one sentence, or None for a check that is not ours. A table and not a field of
the record, so that old runs are given today's advice.

Not here: the checks (``verdict``, ``crates/load``, ``crates/tax``).
"""

from steelyard.records import Check, Level

_QUIET = "repeat when the machine is quiet"
_LONGER = "measure for longer: a higher --tier, or --set measure=..."
_SEARCH = "use a higher --tier: its probes are longer"

ADVICE: dict[str, str] = {
    # Of a load generator.
    "achieved": "offer a lower --set rate=..., or give the server more CPUs: --server-cpus",
    "connections": "look at the server's log and its limit of connections",
    "errors": "look at the server's log, then offer less load",
    "generator-bound": "give the load more CPUs: --load-cpus, --set load_threads=...",
    "generator-lag": "give the load more CPUs: --load-cpus, --set load_threads=...; or offer less load",
    "generator-late": f"give the load CPUs of its own: --load-cpus; or {_QUIET}",
    "interrupted": "run it again and let it end",
    "samples": _LONGER,
    "unanswered": "look at the server's log, then offer less load",
    "unsent": "offer a lower --set rate=..., or more --set connections=...",
    # Of a search for a capacity.
    "capacity": _SEARCH,
    "checksum": "do not compare this machine: report the processor and the build",
    "slo": f"{_QUIET}, or --repeat it: the rate does not hold",
    "search-confidence": _SEARCH,
    "search-edges": _SEARCH,
    "search-generator-bound": "give the load more CPUs: --load-cpus",
    "search-monotone": _QUIET,
    "search-samples": _SEARCH,
    "search-tried": _SEARCH,
    "search-whole": "run it again and let it end",
    "search-width": _SEARCH,
    # Of the microbenchmarks.
    "checksums": "test the memory and the processor: steelyard health",
    "disturbed-batches": f"{_QUIET}, or leave out busy CPUs: --server-cpus",
    "rounds": "measure for longer: --set time=...",
    "score-interval": f"measure for longer: --set time=...; or {_QUIET}",
    # Of any run.
    "clock": "compare runs by duration, not by date; see who sets the clock (chronyd, ntpd)",
    "foreign-load": "stop the processes that are named, or leave out their CPUs: --server-cpus, --load-cpus",
    "hook": "see the hook's output under Details, or run without it",
    "length": _LONGER,
    "memory-limit": "give the servers less: --set memory=...",
    "program": "see how the program ended in its log, under Details",
    "remark": "see what it names",
    "separate-cpus": "name CPUs for both sides: --server-cpus, --load-cpus; on one CPU, load from elsewhere",
    "steady": f"{_QUIET}; if it persists, {_LONGER}",
    "steal": "repeat when the host is quiet, or on CPUs of one's own; --repeat 7 shows the spread",
    "telemetry": "see `steelyard doctor` for what this machine lets us measure",
    "throttled-quota": "raise the CPU quota of the cgroup, or compare only with runs under the same quota",
    "throttled-thermal": "see to the cooling, then repeat",
    "warm-up": "give it longer: --set warmup_max=...",
}


def advice(check: Check) -> str | None:
    """Return what to do about ``check``; None where it passed, or is one that this version does not make.

    >>> advice(Check(id="rounds", level=Level.SUSPECT, claim="3 rounds were completed"))
    'measure for longer: --set time=...'
    >>> advice(Check(id="rounds", level=Level.VALID, claim="40 rounds were completed")) is None
    True
    """
    return None if check.level is Level.VALID else ADVICE.get(check.id)
