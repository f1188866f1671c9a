"""Rules about an application's operations over time: stalls, and the telemetry that moves with them.

In: `Progress`: operations of a source (``--ops``) and what of the telemetry moves with them.

Not here: finding the stretches (``operations.stalls``) and the relations
(``operations.telemetry_correlation``).
"""

from steelyard.analyze.operations.progress import Progress
from steelyard.analyze.operations.stalls import Stalls
from steelyard.analyze.operations.telemetry_correlation import Moving
from steelyard.analyze.rules.findings import Evidence, Finding, percent, rule, time_text, without

LEAST_RATIO = 0.03
"""Share of the phase below which stretches explain little of the throughput."""
STRONG = 0.5
"""Amount of r above which a quarter of the variance goes with the other series."""
STAYS = 0.9
BUSY_CPUS = 0.5
"""CPUs in use below which an idle program's CPU time stays where it is, too."""
_DISK = ("disk writing", "rate of disk flushes", "disk queue", "memory under writeback", "io pressure")
_MEMORY = ("direct reclaim", "swapping out", "swapping in", "memory compaction", "memory pressure",
           "rate of page faults that read a disk")  # fmt: skip


def _stalls(progress: Progress) -> Stalls | None:
    """Return stretches that matter: they take their share of the phase and there is more than one."""
    stalls = progress.stalls
    return (
        stalls if stalls is not None and stalls.ratio >= LEAST_RATIO and len(stalls.stretches) > 1 else None
    )


def _opposed(progress: Progress, names: tuple[str, ...]) -> Moving | None:
    """Return the strongest of ``names`` that operations fall with or after."""
    correlates = progress.correlates.found if progress.correlates is not None else ()
    return next(
        (
            moving
            for moving in correlates
            if moving.name in names and moving.r <= -STRONG and moving.lag_ns >= 0
        ),
        None,
    )


def _how_often(stalls: Stalls) -> str:
    return (
        f"Operations fall below half of their usual {stalls.usual_per_s:,.0f} per second in"
        f" {len(stalls.stretches)} stalls, {percent(stalls.ratio)} of the time"
    )


def _lost(stalls: Stalls) -> float:
    """Return the share of operations that the stretches cost, if the rest is the usual."""
    return stalls.ratio * max(0.0, 1 - stalls.stalled_per_s / stalls.usual_per_s)


def _gain(stalls: Stalls) -> str:
    lost = _lost(stalls)
    return f"{without(lost)} the operations without the stalls, and their latency"


def _evidence(stalls: Stalls, *more: Evidence) -> tuple[Evidence, ...]:
    return (
        Evidence("time in stretches", stalls.ratio, "ratio", LEAST_RATIO),
        Evidence("operations in them", stalls.stalled_per_s, "1/s", stalls.usual_per_s / 2),
        *more,
    )


def _stall_with(
    rule_id: str, question: str, names: tuple[str, ...], next_step: str, *, part: str, threshold: str
) -> None:
    """Register a rule about stalls in which one of the series ``names`` rises."""

    @rule(rule_id, question, area="operations", threshold=threshold)
    def _answer(progress: Progress) -> Finding | None:
        stalls, cause = _stalls(progress), _opposed(progress, names)
        if stalls is None or cause is None:
            return None
        return Finding(
            f"{_how_often(stalls)}; {cause.text}.",
            _evidence(stalls, Evidence(f"r with {cause.name}", cause.r, "1", -STRONG)),
            next_step,
            0.4 + 0.5 * _lost(stalls),
            gain=_gain(stalls),
            part=part,
            sure=False,
        )


_stall_with(
    "operations-stall-disk",
    "Do operations stall while the disk writes?",
    _DISK,
    "Find the writer (`pidstat -d 1`): writeback, a compaction, a checkpoint or a log sync; then spread"
    " it out, give it its own device, or limit it (io.max, vm.dirty_background_bytes).",
    part="disk_bandwidth",
    threshold="convention: stretches below half of the median rate, 3 % of the phase, and r of -0.5 or beyond"
    " after correction for all series and lags tried",
)
_stall_with(
    "operations-stall-memory",
    "Do operations stall while the kernel frees memory?",
    _MEMORY,
    "Find what fills memory and which limit is reached (memory.max, `steelyard machine check`); for"
    " compaction check transparent huge pages.",
    part="dram_capacity",
    threshold="convention: as for operations-stall-disk, with reclaim, swapping or compaction of memory",
)


@rule(
    "operations-stall-busy",
    "Do operations stall while the CPUs stay busy?",
    area="operations",
    threshold="convention: CPU use in the stalls is at least 90 % of the use outside them",
)
def _stall_busy(progress: Progress) -> Finding | None:
    stalls, use = _stalls(progress), progress.stall_cpus
    if stalls is None or use is None:
        return None
    inside, outside = use
    if outside < BUSY_CPUS or inside < STAYS * outside:
        return None
    return Finding(
        f"{_how_often(stalls)}; the machine uses {inside:.1f} CPUs in them and {outside:.1f} otherwise:"
        " other work runs in the stalls.",
        _evidence(stalls, Evidence("CPUs used in the stalls", inside, "1", STAYS * outside)),
        "Compare profiles of the stalls with the rest: garbage collection, spinning on a lock, retries,"
        " another job.",
        0.4 + 0.5 * _lost(stalls),
        gain=_gain(stalls),
        part="cpu",
        sure=False,
    )


@rule(
    "operations-stall-periodic",
    "Do operations stall periodically?",
    area="operations",
    threshold="convention: four stalls or more whose distances vary by at most 25 %; distances of random"
    " events"
    " vary by their mean",
)
def _stall_periodic(progress: Progress) -> Finding | None:
    stalls = _stalls(progress)
    if stalls is None or stalls.period_ns is None:
        return None
    return Finding(
        f"{_how_often(stalls)}: every {time_text(stalls.period_ns)} for {time_text(stalls.mean_ns)}.",
        _evidence(stalls, Evidence("distance of stalls", float(stalls.period_ns), "ns")),
        "Look for work with that period: a flush or checkpoint timer, garbage collection, a scheduled job, a"
        " CPU quota; then record a profile over time.",
        0.35 + 0.5 * _lost(stalls),
        gain=_gain(stalls),
    )
