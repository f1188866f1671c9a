"""What to do about a failed check of a verdict.

In: a check. Out: one sentence, or None for an unknown check. A table and not a field of the record, so that
old runs get today's advice.

Not here: the checks (``verdict``, ``crates/load``, ``crates/tax``).
"""

from steelyard.records import Check, Level

_QUIET = "repeat on an idle machine"
_LONGER = "measure for longer (a higher --tier, or --set measure=...)"
_SEARCH = "use a higher --tier, which has longer probes"
_MEMORY = "test the memory and the processor: steelyard health"
_SERVER_LOG = "check the server's log under Details"

ADVICE: dict[str, str] = {
    # Of a load generator.
    "achieved": "offer a lower rate (--set rate=...), or give the server more CPUs (--server-cpus)",
    "connections": "check the server's log and its connection limit",
    "errors": "check the server's log, then offer less load",
    "generator-bound": "give the load generator more CPUs: --load-cpus, --set load_threads=...",
    "generator-lag": "give the load generator more CPUs (--load-cpus, --set load_threads=...), or offer"
    " less load",
    "generator-late": f"give the load generator dedicated CPUs (--load-cpus), or {_QUIET}",
    "interrupted": "run it again to the end",
    "link": "use a faster link between the hosts, or smaller values; where its rate is not known, measure it",
    "hosts-together": "check the network between the hosts and what else runs on them, then repeat",
    "load-cpu": "generate the load on another machine: --host HOST",
    "samples": _LONGER,
    "unanswered": "check the server's log, then offer less load",
    "unsent": "offer a lower rate (--set rate=...), or use more connections (--set connections=...)",
    # Of a search for a capacity.
    "capacity": _SEARCH,
    "checksum": "do not use results of this machine; report the processor and the build",
    "slo": f"{_QUIET}, or use --repeat: the rate does not hold",
    "search-collapse": _SEARCH,
    "search-confidence": _SEARCH,
    "search-generator-bound": "give the load generator more CPUs: --load-cpus",
    "search-monotone": _QUIET,
    "search-no-interval": _SEARCH,
    "search-no-limit": _SEARCH,
    "search-speed": _SEARCH,
    "search-tried": _SEARCH,
    "search-whole": "run it again to the end",
    "search-width": _SEARCH,
    # Of steelyard-load by itself.
    "collapse": "limit the server's queue, or offer less than the interval's lower end",
    "confidence": "allow more time (--time), or make probes longer (--duration)",
    "monotone": f"{_QUIET}, or make probes longer (--duration)",
    "no-interval": "allow more time (--time) or more probes (--probes)",
    "no-limit": "allow more time (--time) or more probes (--probes), or start at a higher rate (--start)",
    "speed": f"allow more time (--time), so that probes are longer; {_QUIET}",
    "tried": f"{_QUIET}, or make probes longer (--duration)",
    "whole": "run it again to the end; if the server stopped answering, check its log",
    "width": "make probes longer (--duration)",
    # Of the microbenchmarks.
    "checksums": _MEMORY,
    "disturbed-batches": f"{_QUIET}, or exclude busy CPUs: --server-cpus",
    "rounds": "measure for longer: --set time=...",
    "rounds-alike": f"{_QUIET}, or make more rounds: --set rounds=...",
    "score-interval": f"measure for longer: --set time=...; or {_QUIET}",
    # Of servers of web pages.
    "answers": f"{_SERVER_LOG}: a redirect or an error page is no work; the address may be wrong",
    "workers": f"{_SERVER_LOG}; workers that are killed often lack memory",
    # Of stores of keys and values.
    "empty-lists": "measure for a shorter time (--set measure=...), which needs fewer values in the lists",
    "keys-found": "check the log of the step that fills, and the free space of its disk (steelyard doctor)",
    # Of jobs over many documents or rows.
    "accuracy": f"do not use this result: the work was wrong; {_MEMORY}",
    "documents": "check the job's log under Details: input was lost or handled twice",
    "failed-tasks": "check the job's log under Details for lack of memory or disk space, then repeat",
    "learnt": f"do not use this result: the work was wrong; {_MEMORY}",
    "queries": "check the job's log under Details: the index is incomplete",
    "queries-alike": f"{_QUIET}, or run more queries: --set queries=...",
    "result": f"do not use this result: equal data gave another; {_MEMORY}",
    # Of encoders.
    "completed": "allow more time (--set time=...), or encode less: --set frames=..., --set rungs=...",
    # Of any run.
    "clock": "do not rely on the dates of this run; check the time service (chronyd, ntpd)",
    "cpu-reached": "see in the findings what the servers wait for, or give them more work at a time",
    "foreign-load": "stop these processes, or exclude their CPUs: --server-cpus, --load-cpus",
    "hook": "check the hook's output under Details, or run without the hook",
    "length": _LONGER,
    "memory-limit": "reduce the servers' memory: --set memory=...",
    "program": "check the program's log under Details",
    "remark": "check what the remark names",
    "separate-cpus": "set CPUs for both (--server-cpus, --load-cpus), or generate the load on another"
    " machine",
    "steady": f"{_QUIET}; if it persists, {_LONGER}",
    "steal": "repeat when the host is quiet, or on dedicated CPUs; --repeat 7 shows the spread",
    "telemetry": "run `steelyard doctor` to see what this machine can measure",
    "throttled-quota": "raise the cgroup's CPU quota, or compare only with runs under the same quota",
    "throttled-thermal": "check the cooling, then repeat",
    "warm-up": "allow a longer warm-up: --set warmup_max=...",
}


DESCRIBED: dict[str, str] = {
    "foreign-load": "stop these processes, or keep them off the program's CPUs (taskset, a cgroup)",
    "length": "give it more work, or --duration where it does not end by itself",
    "samples": "measure for longer: --duration",
    "steady": f"{_QUIET}; if it persists, measure for longer: --duration",
    "steal": "repeat when the host is quiet, or on dedicated CPUs",
}
"""The same of a program of the user's (`characterize`), which has other flags."""


def advice(check: Check, *, describes: bool = False) -> str | None:
    """Return what to do about ``check``; None where it passed, or is one that this version does not make.

    ``describes`` says that the run describes a program of the user's.

    >>> advice(Check(id="rounds", level=Level.SUSPECT, claim="3 rounds were completed"))
    'measure for longer: --set time=...'
    >>> advice(Check(id="rounds", level=Level.VALID, claim="40 rounds were completed")) is None
    True
    """
    if check.level is Level.VALID:
        return None
    advice_of = ADVICE | DESCRIBED if describes else ADVICE
    if check.value is None and check.id in ("foreign-load", "steal"):
        # Nobody is known who could be sent away.
        too_few = "fewer than two readings" in check.claim
        return advice_of["length"] if too_few else advice_of["telemetry"]
    return advice_of.get(check.id)
