"""What of the machine a workload cannot use.

In: the steps of a curve. Out: `Limit`s: throughput that stays flat or falls, while CPUs are idle or busy, and
errors that grow.

Not here: why (``loss``, ``profiles.hot_functions``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.analyze.checks import CONSTANTS
from steelyard.analyze.scaling.curve import ERRORS, Step
from steelyard.analyze.scaling.loss import is_main

LEAST_GAIN_RATIO = 0.1
"""A step is flat where each added CPU gains less than this share of what the first one does, and all of them
together less than this share of the throughput."""
IDLE_ABOVE = 0.25
"""CPUs in which nothing runs for more of the time are idle."""
OTHERS_ABOVE = 0.1
"""Where others have more of the CPUs' time, and that is most of the loss, a flat curve says nothing of the
workload."""
ERRORS_GROW = 2.0


@dataclass(frozen=True)
class Limit:
    """One limit."""

    id: str
    """``idle``, ``busy``, ``others``, ``flat`` or ``errors``."""
    from_cpus: int
    """The step from which throughput hardly grows, or errors do."""
    claim: str
    """In words."""


def limits_of(steps: Sequence[Step]) -> tuple[Limit, ...]:
    """Return what the workload cannot use."""
    known = [step for step in steps if step.ops_per_s is not None]
    return (*_flat(known), *_errors(steps))


def first_flat(cpus: Sequence[int], throughput: Sequence[float]) -> int | None:
    """Return the first step that no later one improves on, None where that is the last one.

    A small rise after a fall is no gain: each later step is held against this one.

    >>> first_flat([1, 2, 4, 8], [10, 19, 20, 20.5]), first_flat([1, 2, 4, 8], [10, 20, 12, 14])
    (2, 2)
    """
    one = throughput[0] / cpus[0] if cpus else 0.0
    for at in range(len(cpus) - 1):
        few, low = cpus[at], throughput[at]
        if all(
            high < (1 + LEAST_GAIN_RATIO) * low and (high - low) / (many - few) / one < LEAST_GAIN_RATIO
            for many, high in zip(cpus[at + 1 :], throughput[at + 1 :], strict=True)
        ):
            return few
    return None


def _flat(steps: Sequence[Step]) -> list[Limit]:
    rates = [step.ops_per_s or 0.0 for step in steps]
    flat = first_flat([step.cpus for step in steps], rates)
    if flat is None:
        return []
    last = steps[-1]
    tail = [step for step in steps if step.cpus >= flat]
    change = f"throughput {_moves(tail)}"
    idle, others = last.idle_ratio, last.others_ratio or 0.0
    if idle is None and last.is_threads and last.machine_cpus is None:
        why = "how busy its CPUs are is not known: name their number in a column machine_cpus"
        return [Limit("flat", flat, f"{change}; {why}")]
    if idle is None:
        return [Limit("flat", flat, f"{change}; how busy CPUs are is not known")]
    if idle <= IDLE_ABOVE and others > OTHERS_ABOVE and is_main(last.others_factor, _lost(tail[0], last)):
        return [Limit("others", flat, f"{change}, and other processes have {others:.0%} of the CPUs' time")]
    # Of the time that others leave, where they have enough to be named.
    left = 1 - others if others > OTHERS_ABOVE else 1.0
    if idle > IDLE_ABOVE * left:
        return [Limit("idle", flat, f"{change} while CPUs are idle for {idle:.0%} of the time")]
    return [Limit("busy", flat, f"{change}, and CPUs are busy for {1 - idle:.0%} of the time")]


def _lost(first: Step, last: Step) -> float:
    """Return how many times less each CPU that a step can use does at the last of flat steps."""
    growth = (last.usable_cpus or last.cpus) / (first.usable_cpus or first.cpus)
    return growth * (first.ops_per_s or 0.0) / (last.ops_per_s or 1.0)


def _moves(steps: Sequence[Step]) -> str:
    """Return how throughput changes over flat steps, by way of the highest one."""
    first, last = steps[0], steps[-1]
    peak = max(steps, key=lambda step: step.ops_per_s or 0.0)
    if peak not in (first, last) and _falls(peak, last):
        rise = f"{_change(first, peak)} from {first.cpus} to {peak.cpus} {last.noun}s"
        return f"{rise}, and falls from {peak.cpus} to {last.cpus}"
    return f"{_change(first, last)} from {first.cpus} to {last.cpus} {last.noun}s"


def _change(first: Step, last: Step) -> str:
    if _falls(first, last):
        return "falls"
    growth = _growth(first, last)
    if growth >= 0.005:
        return f"grows by {growth:.1%} only"
    return "is flat" if abs(growth) < 0.005 else "does not grow"


def _falls(first: Step, last: Step) -> bool:
    """Return whether throughput falls, which it does where it is less in every block."""
    both = first.by_block.keys() & last.by_block.keys()
    return _growth(first, last) < -0.05 and all(last.by_block[at] < first.by_block[at] for at in both)


def _growth(first: Step, last: Step) -> float:
    return (last.ops_per_s or 0.0) / (first.ops_per_s or 1.0) - 1


def _errors(steps: Sequence[Step]) -> list[Limit]:
    known = [(step.cpus, step.readings[ERRORS]) for step in steps if ERRORS in step.readings]
    noun = steps[0].noun if steps else "CPU"
    if len(known) < 2:
        return []
    (few, first), (many, last) = known[0], known[-1]
    if last <= CONSTANTS.error_suspect_ratio or last < ERRORS_GROW * first:
        return []
    start = next(cpus for cpus, ratio in known if ratio > max(first, CONSTANTS.error_suspect_ratio))
    return [Limit("errors", start, f"errors grow from {first:.3%} at {few} {noun}s to {last:.3%} at {many}")]
