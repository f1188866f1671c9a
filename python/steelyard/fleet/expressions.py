"""Every query of the fleet as one Ibis expression over a store, by name.

A list for the tests that hold engines equal and for the benchmarks: each query adds a line. Invariant: an
expression gives the same rows on every engine.
"""

from collections.abc import Callable
from typing import Any

from steelyard.fleet import queries as top_queries
from steelyard.fleet.capacity import frequency, smt
from steelyard.fleet.cpi import queries as cpi_queries
from steelyard.fleet.placement import inputs as place
from steelyard.fleet.rue import usage as rue
from steelyard.fleet.store.store import Store

ROLLOUT = rue.RueSettings(label="config", resources=rue.RESOURCES, labels=("tenant",))
"""The comparison that simulated fleets hold."""

EXPRESSIONS: dict[str, Callable[[Store], Any]] = {
    **cpi_queries.EXPRESSIONS,
    **top_queries.EXPRESSIONS,
    "rue": lambda store: rue.expression(store.table("task_samples"), ROLLOUT),
    "rue assignments": lambda store: rue.assignments(store.table("task_samples"), ROLLOUT),
    "rue labels": lambda store: rue.label_keys(store.table("task_samples")),
    "place loads": lambda store: place.loads(store.table("task_samples"), place.PlaceSettings()),
    "place capacities": lambda store: place.capacities(store.table("machine_samples")),
    "smt": lambda store: smt.expression(store.table("machine_samples")),
    "frequency": lambda store: frequency.expression(store.table("machine_samples"), store.table("machines")),
    "frequency by machine": lambda store: frequency.by_machine(
        store.table("machine_samples"), store.table("machines")
    ),
}
"""Queries by name: each takes an open store and returns an Ibis table expression."""
