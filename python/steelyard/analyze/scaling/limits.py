"""What of the machine a workload cannot use.

In: the steps of a curve. Out: `Limit`s: throughput that stays flat or falls, while CPUs are idle or busy, and
errors that grow.

Not here: why (``loss``, ``profiles.hot_functions``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.analyze.bounds import BOUNDS
from steelyard.analyze.scaling.curve import ERRORS, Step

LEAST_GAIN_RATIO = 0.1
"""A step is flat where each added CPU gains less than this share of what the first one does, and all of them
together less than this share of the throughput."""
IDLE_ABOVE = 0.25
"""CPUs in which nothing runs for more of the time are idle."""
OTHERS_ABOVE = 0.1
"""Where others have more of the CPUs' time, a flat curve says nothing of the workload."""
ERRORS_GROW = 2.0


@dataclass(frozen=True)
class Limit:
    """One limit."""

    id: str
    """``idle``, ``busy``, ``others``, ``flat`` or ``errors``."""
    from_cpus: int
    """The step from which it holds."""
    claim: str


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
    at_flat = next(step.ops_per_s or 0.0 for step in steps if step.cpus == flat)
    step = next(step for step in steps if step.cpus == flat)
    change = (
        f"throughput {_moves(step, last, rates[-1] / at_flat - 1)} from {flat} to {last.cpus} {last.noun}s"
    )
    idle, others = last.idle_ratio, last.others_ratio
    if idle is None and last.is_threads and last.machine_cpus is None:
        why = "how busy its CPUs are is not known: name their number in a column machine_cpus"
        return [Limit("flat", flat, f"{change}; {why}")]
    if idle is None:
        return [Limit("flat", flat, f"{change}; how busy CPUs are is not known")]
    if idle > IDLE_ABOVE:
        return [Limit("idle", flat, f"{change} while CPUs are idle for {idle:.0%} of the time")]
    if others is not None and others > OTHERS_ABOVE:
        return [Limit("others", flat, f"{change}, and other processes have {others:.0%} of the CPUs' time")]
    return [Limit("busy", flat, f"{change}, and CPUs are busy for {1 - idle:.0%} of the time")]


def _moves(first: Step, last: Step, growth: float) -> str:
    """Return how throughput changes over flat steps, which it falls over if it does so in every block."""
    both = first.by_block.keys() & last.by_block.keys()
    if growth < -0.05 and all(last.by_block[block] < first.by_block[block] for block in both):
        return "falls"
    if growth >= 0.005:
        return f"grows by {growth:.1%} only"
    return "is flat" if abs(growth) < 0.005 else "does not grow"


def _errors(steps: Sequence[Step]) -> list[Limit]:
    known = [(step.cpus, step.readings[ERRORS]) for step in steps if ERRORS in step.readings]
    noun = steps[0].noun if steps else "CPU"
    if len(known) < 2:
        return []
    (few, first), (many, last) = known[0], known[-1]
    if last <= BOUNDS.error_ratio[0] or last < ERRORS_GROW * first:
        return []
    start = next(cpus for cpus, ratio in known if ratio > max(first, BOUNDS.error_ratio[0]))
    return [Limit("errors", start, f"errors grow from {first:.3%} at {few} {noun}s to {last:.3%} at {many}")]
