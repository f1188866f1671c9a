"""What earlier co-locations on a machine say of one that is made now.

In: their records. Out: how the slow-down of a pair differs between sessions; predictions by the law of
`pressure.contention.predict`, fitted to the pairs that were observed, None where they are too few or explain
nothing.

Only complete, usable co-locations under the same limits and of the same host count; a pair that is measured
now is predicted from the others. Not here: finding the records (``bench.colocation.manifest``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.analyze.pressure.contention import predict
from steelyard.records import Colocation, ColocationPrediction, ColocationWorkload, Level, RunStatus
from steelyard.stats.sessions import SessionSpread, session_spread

METHOD = "observed pairs"
_INTERVAL_SD = 2 * 1.96
"""Width of a 95 % interval in standard errors."""


@dataclass(frozen=True, slots=True)
class Observed:
    """How much longer work took beside another workload, less 1."""

    value: float
    standard_error: float | None


def key_of(workload: ColocationWorkload) -> str:
    """Return what makes two workloads the same: the benchmark and its parameters."""
    chosen = sorted(f"{name}={text}" for name, text in workload.parameters.items())
    return " ".join([workload.benchmark, *chosen])


def is_comparable(record: Colocation, earlier: Colocation) -> bool:
    """Return whether an earlier co-location says anything of this one."""
    return (
        earlier.status is RunStatus.COMPLETE
        and earlier.level is not Level.INVALID
        and earlier.colocation_id != record.colocation_id
        and earlier.orchestrator.hostname == record.orchestrator.hostname
        and sorted(earlier.limits) == sorted(record.limits)
    )


def spreads(record: Colocation, history: Sequence[Colocation]) -> list[SessionSpread | None]:
    """Return for each workload how its slow-down differs between earlier sessions of the same pair."""
    keys = [key_of(workload) for workload in record.workloads]
    found: list[list[float]] = [[], []]
    for earlier in history:
        theirs = [key_of(workload) for workload in earlier.workloads]
        if not is_comparable(record, earlier) or sorted(theirs) != sorted(keys):
            continue
        for at, key in enumerate(keys):
            # Two of one kind stand in the order in which they were named.
            slowdown = earlier.workloads[at if theirs == keys else theirs.index(key)].slowdown
            if slowdown is not None and slowdown > 0:
                found[at].append(slowdown)
    return [session_spread([[value] for value in values]) for values in found]


def learned(record: Colocation, history: Sequence[Colocation]) -> list[ColocationPrediction | None]:
    """Return a prediction for each workload of a record, whose ``use`` is known, or None."""
    first, second = (key_of(workload) for workload in record.workloads)
    observed: dict[tuple[str, str], Observed] = {}
    uses: dict[str, dict[str, float | None]] = {}
    for earlier in sorted(history, key=lambda each: each.clock.realtime_ns):
        if not is_comparable(record, earlier):
            continue
        keys = [key_of(workload) for workload in earlier.workloads]
        for at, workload in enumerate(earlier.workloads):
            uses[keys[at]] = workload.use
            pair = keys[at], keys[1 - at]
            low, high = workload.slowdown_low, workload.slowdown_high
            if workload.slowdown is None or pair in ((first, second), (second, first)):
                continue
            error = (high - low) / _INTERVAL_SD if low is not None and high is not None else None
            observed[pair] = Observed(workload.slowdown - 1, error)
    for key, workload in zip((first, second), record.workloads, strict=True):
        uses[key] = workload.use
    if first == second:
        return [None, None]
    _, made = predict(observed, uses, sorted(uses))
    found = [made.get(pair) for pair in ((first, second), (second, first))]
    return [
        None
        if each is None
        else ColocationPrediction(
            slowdown=1 + each.value,
            slowdown_low=1 + each.low,
            slowdown_high=1 + each.high,
            method=METHOD,
        )
        for each in found
    ]
