"""How many tasks ran, waited and changed places (sources ``scheduler`` and ``schedstat``)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from steelyard.analyze.facts.reader import Reader, not_recorded
from steelyard.analyze.values import Quantity

if TYPE_CHECKING:
    from steelyard.telemetry import Rates


@dataclass(frozen=True)
class Scheduler:
    """Tasks of the whole machine, on average."""

    runnable: Quantity = field(default_factory=lambda: not_recorded("1"))
    """Tasks that ran or wanted to, without the one that reads their number."""
    blocked: Quantity = field(default_factory=lambda: not_recorded("1"))
    context_switches_per_s: Quantity = field(default_factory=lambda: not_recorded("1/s"))
    waiting_per_cpu: Quantity = field(default_factory=lambda: not_recorded("1"))
    """Tasks that were runnable but waited, per CPU."""


def observe_scheduler(reader: Reader) -> Scheduler:
    """Return what the scheduler did."""
    entity = reader.only("scheduler")
    return Scheduler(
        runnable=_without_reader(reader.gauge(entity, "scheduler", "runnable", "1")),
        blocked=reader.gauge(entity, "scheduler", "blocked", "1"),
        context_switches_per_s=reader.rate(entity, "scheduler", "context_switches", "1/s"),
        waiting_per_cpu=_waiting(reader.read("schedstat")),
    )


def _without_reader(runnable: Quantity) -> Quantity:
    """Return the runnable tasks without the one that reads their number, which then runs."""
    return runnable if runnable.value is None else replace(runnable, value=max(0.0, runnable.value - 1.0))


def _waiting(rates: Rates) -> Quantity:
    """Mean number of tasks that were runnable but waited, per CPU: wait time over wall time."""
    total = rates.total("wait_ns")
    if total is None:
        return Quantity.of(None, "1", rates.missing)
    return Quantity(total / 1e9 / len(rates.entities), "1")
