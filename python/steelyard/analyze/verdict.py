"""Checks whether a result is valid.

In: what a run recorded (`Evidence`). Out: a `Verdict` that lists every check, passed ones included, each
with its value and its threshold.

Invariants: pure functions over records; a check whose value could not be measured says so and is never
silently passed; the verdict is the worst of the checks.

Not here: measuring, and deciding what a benchmark's numbers mean.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from steelyard.analyze import checks
from steelyard.analyze.checks import CONSTANTS, Bounds
from steelyard.analyze.interference import Interference
from steelyard.records import Check, Clock, Level, LoadResult, Machine, Verdict

if TYPE_CHECKING:
    from steelyard.stats.steady import Steadiness


@dataclass(frozen=True, slots=True)
class WarmUp:
    """How the warm-up ended."""

    settled: bool
    duration_s: float
    claim: str
    throughput: Sequence[float] = ()
    """Of intervals as long as those of the measure phase; nothing where something else tells of the end."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a run left. None means that it was not looked at or could not be.

    ``loads`` None stands for a benchmark that has no load generator: then nothing is asked about one, and the
    benchmark's ``own`` checks say whether what it measured itself may be believed.
    """

    loads: Sequence[LoadResult] | None
    clock_begin: Clock
    clock_end: Clock
    machine: Machine | None = None
    warmup: WarmUp | None = None
    measure: "Steadiness | None" = None
    interference: Interference | None = None
    memory_needed_bytes: int | None = None
    memory_limit_bytes: int | None = None
    shared_cpus: bool = False
    own: Sequence[Check] = field(default_factory=tuple)
    samples: tuple[int, int] | None = None
    """Requests below which a result is suspect, and invalid; None: those of the table."""
    achieved_ratio_min: float = CONSTANTS.achieved_ratio
    hook_problems: Sequence[str] = field(default_factory=tuple)
    remarks: Sequence[str] = field(default_factory=tuple)
    limited_on_purpose: bool = False
    describes: str | None = None
    """What the run describes where it claims no result: a `program` among others, or the whole `machine`."""


def judge(evidence: Evidence) -> Verdict:
    """Return the verdict that follows from ``evidence``."""
    parts = _PARTS if evidence.loads is None else (*_LOAD_PARTS, *_PARTS)
    return Verdict.of(check for part in parts for check in part(evidence))


def _loads(evidence: Evidence) -> Sequence[LoadResult]:
    return evidence.loads or ()


def _errors(evidence: Evidence) -> Iterator[Check]:
    completed = sum(load.requests.completed for load in _loads(evidence))
    errors = sum(load.requests.errors for load in _loads(evidence))
    unsent = sum(load.requests.unsent for load in _loads(evidence))
    due = sum(load.requests.intended for load in _loads(evidence))
    finished = completed + errors
    ratio = errors / finished if finished else 1.0
    kinds: dict[str, int] = {}
    for load in _loads(evidence):
        for kind, count in load.requests.errors_by_kind.items():
            kinds[kind] = kinds.get(kind, 0) + count
    detail = ", ".join(
        f"{kind} {count}" for kind, count in sorted(kinds.items(), key=lambda item: -item[1])[:3]
    )
    claim = f"{errors} of {finished} finished requests failed" + (f" ({detail})" if detail else "")
    yield checks.measured("errors", ratio, claim)
    yield checks.measured("unsent", unsent, f"{unsent} of {due} due requests were never sent")
    if any(load.interrupted for load in _loads(evidence)):
        yield checks.stated("interrupted", Level.INVALID, "the load generator was stopped early")


def _achieved(evidence: Evidence) -> Iterator[Check]:
    shares = [
        (
            load.achieved_ratio + _chance_ratio(load),
            load.achieved_ratio,
            load.completed_in_phase,
            load.requests.intended,
        )
        for load in _loads(evidence)
        if load.achieved_ratio is not None
    ]
    if shares:
        best_case, worst, completed, due = min(shares)
        bounds = Bounds(invalid=evidence.achieved_ratio_min)
        yield checks.stated(
            "achieved",
            checks.level("achieved", best_case, bounds),
            f"{worst:.1%} of the offered rate was achieved: {completed} completed for {due} due",
            worst,
            bounds=bounds,
        )


def _chance_ratio(load: LoadResult) -> float:
    """Return by how much answers in the phase may lack of the requests that were due in it, by chance.

    As ``steelyard-load`` judges it: three deviations of the difference between what is under way at the
    phase's begin and at its end.
    """
    due = load.requests.intended
    mean_ns = load.latency.response.mean_ns or 0.0
    under_way = (load.achieved_ratio or 0.0) * due * mean_ns / max(load.end_ns - load.begin_ns, 1)
    return 3.0 * math.sqrt(2.0 * under_way + 2.0) / max(due, 1)


def _generator(evidence: Evidence) -> Iterator[Check]:
    busy = [thread.busy_ratio for load in _loads(evidence) for thread in load.threads]
    if not busy:
        claim = "the CPU time of the load generator was not measured"
        yield checks.stated("generator-bound", Level.SUSPECT, claim)
        return
    worst = max(busy)
    level = max((_bound_level(load) for load in _loads(evidence)), key=lambda level: level.severity)
    closed = all(load.settings.loop == "closed" for load in _loads(evidence))
    yield checks.stated(
        "generator-bound",
        level,
        f"the busiest load generator thread used {worst:.0%} of its CPU"
        + ("" if level is Level.VALID else ": the result may be the generator's limit, not the server's"),
        worst,
        bounds=None if closed else Bounds(invalid=CONSTANTS.generator_busy_ratio),
    )


def _lag(evidence: Evidence) -> Iterator[Check]:
    """How much of the response time passed in the generator, and what that may have cost the headline."""
    shares = [share for load in _loads(evidence) if (share := lag_ratio(load)) is not None]
    if not shares:
        return
    worst = max(shares)
    closed = all(load.settings.loop == "closed" for load in _loads(evidence))
    claim = f"{worst:.1%} of the response time was delay in the load generator"
    wrong = worst
    busy = evidence.interference.server_busy_ratio if evidence.interference is not None else None
    if closed and busy is not None:
        # Requests that wait in the generator are missing at the server, but only an idle server misses them.
        idle = max(0.0, 1 - busy)
        wrong = min(worst, idle)
        claim = f"at most {wrong:.1%} of the throughput was lost to delay in the load generator ("
        claim += f"{worst:.1%} of the response time; the server's CPUs were idle {idle:.1%} of the time)"
        if worst > CONSTANTS.headline_suspect_ratio >= wrong:
            claim += ": latencies include that delay"
    # Only latencies of an open loop are worthless for it: a closed one claims a throughput.
    bounds = replace(checks.declared("generator-lag").bounds, invalid=None) if closed else None
    yield checks.measured("generator-lag", wrong, claim, bounds=bounds)


def lag_ratio(load: LoadResult) -> float | None:
    """Return the share of the response time that passed in the generator; None where nothing was answered.

    Means add up, percentiles do not: response = queued + lag + service for every request.
    """
    response, lag = load.latency.response.mean_ns, load.latency.lag.mean_ns
    return None if not response or lag is None else min(1.0, lag / response)


def _bound_level(load: LoadResult) -> Level:
    """Return what one generator says of itself; for one that does not say, what ours would."""
    levels = [check.level for check in load.verdict.checks if check.id == "generator-bound"]
    if levels:
        return max(levels, key=lambda level: level.severity)
    if all(thread.busy_ratio <= CONSTANTS.generator_busy_ratio for thread in load.threads):
        return Level.VALID
    return Level.INVALID if load.settings.loop == "open" else Level.SUSPECT


def _samples(evidence: Evidence) -> Iterator[Check]:
    completed = sum(load.requests.completed for load in _loads(evidence))
    bounds = None if evidence.samples is None else Bounds(*evidence.samples)
    claim = f"{completed} requests were completed"
    if checks.level("samples", completed, bounds) is not Level.VALID:
        claim += ": too few for tail percentiles"
    yield checks.measured("samples", completed, claim, bounds=bounds)


def _steadiness(evidence: Evidence) -> Iterator[Check]:
    warmup, measure = evidence.warmup, evidence.measure
    if warmup is not None:
        is_late = not warmup.settled and has_settled_later(warmup, measure)
        yield checks.stated(
            "warm-up",
            Level.VALID if warmup.settled or is_late else Level.SUSPECT,
            warmup.claim + ("; with the measure phase it is seen to have" if is_late else ""),
            warmup.duration_s,
        )
    yield steady_check(measure)


def steady_check(measure: "Steadiness | None") -> Check:
    """Return what the steadiness of the throughput says of the result."""
    if measure is None:
        return checks.stated("steady", Level.SUSPECT, "the steadiness of the throughput was not measured")
    moved = max(abs(measure.drift_ratio or 0.0), abs(measure.shift_ratio or 0.0))
    # A dip lasts for a part of the phase and a cycle comes back: neither moves the mean by as much as itself.
    swing = max(abs(measure.dip_ratio or 0.0), abs(measure.cycle_ratio or 0.0))
    value = None if measure.steady is None else max(moved, swing)
    if measure.steady:
        level = Level.VALID
        # A drift that may be chance is none: its size is in the claim only.
        value = value if moved <= CONSTANTS.headline_suspect_ratio else None
    elif measure.steady is False and not swing and moved > CONSTANTS.headline_invalid_ratio:
        level = Level.INVALID
    else:
        level = Level.SUSPECT
    return checks.stated("steady", level, f"throughput over the measure phase: {measure.reason}", value)


def has_settled_later(warmup: WarmUp, measure: "Steadiness | None") -> bool:
    """Return whether warm-up and measure phase together show that the measured mean is where it ends.

    Few requests a second tell too little in the time of a warm-up. A drift of twice the bound moves the mean
    by the bound at most. An approach as slow as the measure phase is long can be missed (docs/truth.md).
    """
    if measure is None or not measure.steady or not warmup.throughput:
        return False
    # Not at the top: hardly any verdict needs it.
    from steelyard.stats import steady

    whole = [*warmup.throughput, *measure.values]
    return (
        steady.settled(
            whole, tolerance_ratio=2 * CONSTANTS.headline_suspect_ratio, windows=len(measure.values)
        )
        is not None
    )


def _share(
    check_id: str,
    value: float | None,
    bounds: Bounds,
    claim: Callable[[float], str],
    missing: str | None,
) -> Check:
    text = f"not measured: {missing or 'no telemetry'}" if value is None else claim(value)
    return checks.measured(check_id, value, text, bounds=bounds)


def _interference(evidence: Evidence) -> Iterator[Check]:
    interference = evidence.interference
    if interference is None or interference.missing is not None:
        why = "no telemetry was recorded" if interference is None else interference.missing
        claim = f"steal time, throttling and foreign load were not measured: {why}"
        yield checks.stated("telemetry", Level.SUSPECT, claim)
        return
    yield checks.stated("telemetry", Level.VALID, "telemetry covers the measure phase")
    yield from _lost_cpu_time(evidence, interference)
    if interference.thermal_throttles is not None:
        count = interference.thermal_throttles
        yield checks.measured("throttled-thermal", count, f"CPUs were throttled by heat {count:g} times")


def _lost_cpu_time(evidence: Evidence, interference: Interference) -> list[Check]:
    """Return the checks of lost CPU time: the worst is raised where their sum is too large."""
    found = [
        _share(
            "steal",
            interference.steal_ratio,
            _disturbed(evidence),
            lambda value: f"the hypervisor took {value:.1%} of the CPU time of the run",
            interference.reasons.get("cpu"),
        )
    ]
    if evidence.describes != "machine":
        found.append(_foreign(evidence, interference))
    if interference.quota_throttled_ratio is not None:
        found.append(_throttling(evidence, interference.quota_throttled_ratio))
    judged = [check for check in found if not (check.id == "throttled-quota" and evidence.limited_on_purpose)]
    total = sum(check.value or 0.0 for check in judged)
    if all(check.level is Level.VALID for check in found) and total > CONSTANTS.headline_suspect_ratio:
        worst = max(judged, key=lambda check: check.value or 0.0)
        claim = f"{worst.claim}; all causes together took {total:.1%}"
        level = checks.level(worst.id, total, _disturbed(evidence))
        together = worst.model_copy(update={"level": level, "claim": claim})
        found = [together if check is worst else check for check in found]
    return found


def _disturbed(evidence: Evidence) -> Bounds:
    """Return the bounds of what others did.

    A characterized workload runs among its neighbours and under its hypervisor: what they do makes the
    result suspect, never invalid.
    """
    invalid = None if evidence.describes else CONSTANTS.headline_invalid_ratio
    return Bounds(CONSTANTS.headline_suspect_ratio, invalid)


def _foreign(evidence: Evidence, interference: Interference) -> Check:
    return _share(
        "foreign-load",
        interference.foreign_ratio,
        _disturbed(evidence),
        lambda value: interference.foreign_claim(names=value > CONSTANTS.headline_suspect_ratio),
        interference.reasons.get("foreign") or interference.reasons.get("cpu"),
    )


def _throttling(evidence: Evidence, quota: float) -> Check:
    level = checks.level("throttled-quota", quota)
    claim = f"a CPU quota throttled a cgroup for {quota:.1%} of the measure phase"
    if evidence.limited_on_purpose and quota > 0:
        level, claim = Level.VALID, f"{claim}, as requested with the cpu-limit hook"
    return checks.stated("throttled-quota", level, claim, quota)


def _memory(evidence: Evidence) -> Iterator[Check]:
    needed = evidence.memory_needed_bytes
    limits = [evidence.memory_limit_bytes]
    if evidence.machine is not None:
        limits += [evidence.machine.memory.limit_bytes, evidence.machine.memory.total_bytes]
    known = [limit for limit in limits if limit is not None]
    if needed is None or not known:
        return
    limit = min(known)
    claim = f"the servers may use {needed / 2**30:.2f} of {limit / 2**30:.2f} GiB"
    yield checks.measured("memory-limit", needed, claim, bounds=Bounds(invalid=limit))


def _clock(evidence: Evidence) -> Iterator[Check]:
    begin, end = evidence.clock_begin, evidence.clock_end
    monotonic_s = (end.monotonic_ns - begin.monotonic_ns) / 1e9
    step_s = (end.realtime_ns - begin.realtime_ns) / 1e9 - monotonic_s
    bound = CONSTANTS.clock_step_s + CONSTANTS.clock_slew_ratio * monotonic_s
    stepped = abs(step_s) > bound
    yield checks.stated(
        "clock",
        Level.SUSPECT if stepped else Level.VALID,
        f"the wall clock was set {step_s:+.3f} s during the run: dates are wrong, durations are right"
        if stepped
        else "the wall clock was not set during the run",
        step_s,
        bounds=Bounds(suspect=bound),
    )


def _sides(evidence: Evidence) -> Iterator[Check]:
    yield checks.stated(
        "separate-cpus",
        Level.SUSPECT if evidence.shared_cpus else Level.VALID,
        "servers and load generator share CPUs and slow each other down"
        if evidence.shared_cpus
        else "servers and load generator have separate CPUs",
    )


def _circumstances(evidence: Evidence) -> Iterator[Check]:
    for problem in evidence.hook_problems:
        yield checks.stated("hook", Level.SUSPECT, f"hook {problem}")
    for remark in evidence.remarks:
        yield checks.stated("remark", Level.SUSPECT, remark)


def _generators_own(evidence: Evidence) -> Iterator[Check]:
    """Add what the generator itself objects to, unless it is asked here as well."""
    for load in _loads(evidence):
        for check in load.verdict.checks:
            entry = checks.find(check.id)
            if check.level is not Level.VALID and (entry is None or "run" not in entry.scope):
                yield check


def _own(evidence: Evidence) -> Iterator[Check]:
    yield from evidence.own


_LOAD_PARTS: tuple[Callable[[Evidence], Iterator[Check]], ...] = (
    _errors,
    _achieved,
    _generator,
    _lag,
    _samples,
    _steadiness,
    _sides,
    _generators_own,
)
"""Checks of runs with a load generator."""
_PARTS: tuple[Callable[[Evidence], Iterator[Check]], ...] = (
    _own,
    _interference,
    _memory,
    _clock,
    _circumstances,
)
