"""CPI2's queries over a store, by name, with the paper's settings: on which engines are held equal.

In: an open store. Out: Ibis expressions. Thresholds are made of the same samples, inside the expression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steelyard.fleet.cpi import caps as cpi_caps
from steelyard.fleet.cpi import distribution as cpi_distribution
from steelyard.fleet.cpi import outliers as cpi_outliers
from steelyard.fleet.cpi import specs as cpi_specs
from steelyard.fleet.cpi import suspects as cpi_suspects
from steelyard.fleet.cpi import throughput as cpi_throughput
from steelyard.fleet.cpi import windows as cpi_windows
from steelyard.fleet.store.store import Store
from steelyard.telemetry.deferred import ibis

_BIN_WIDTH = 1 / 64


def _specs(store: Store) -> Any:
    return cpi_specs.expression(store.table("task_samples"), cpi_specs.SpecSettings())


def _outliers(store: Store) -> Any:
    return cpi_outliers.expression(store.table("task_samples"), _specs(store))


def _windows(store: Store) -> Any:
    """The samples of the machines that had an anomalous task, in the hours of its anomalies."""
    samples, outliers = store.table("task_samples"), _outliers(store)
    outliers = outliers.filter(outliers.is_anomalous)
    start = outliers.window_start_unix_s
    rows = outliers.mutate(hour=start - start % cpi_windows.HOUR_S)
    hours = rows.group_by("cluster", "machine", "hour").agg(count=rows.count())
    place = ibis.dense_rank().over(ibis.window(order_by=["cluster", "machine"]))
    hours = hours.mutate(place=place).drop("count")
    tasks = cpi_windows.tasks(samples, hours.select("cluster", "machine", "place").distinct())
    return cpi_windows.expression(samples, hours, tasks, ["cycles/instructions"])


SPECS: dict[str, Callable[[Store], Any]] = {
    "cpi specs": _specs,
    "cpi stored specs": lambda store: cpi_outliers.latest(store.table("cpi_specs")),
}

OUTLIERS: dict[str, Callable[[Store], Any]] = {
    "cpi outliers": _outliers,
    "cpi outliers by task": lambda store: cpi_outliers.by_task(_outliers(store)),
    "cpi counts": lambda store: cpi_outliers.counts(store.table("task_samples"), _specs(store)),
    "cpi anomalous days": lambda store: cpi_outliers.anomalous_days(_outliers(store)),
}

INCIDENTS: dict[str, Callable[[Store], Any]] = {
    "cpi episodes": lambda store: cpi_windows.episodes(_outliers(store)),
    "cpi windows": _windows,
    "cpi suspects": lambda store: cpi_suspects.expression(store.table("task_samples"), _outliers(store)),
    "cpi caps": lambda store: cpi_caps.expression(store.table("task_samples"), store.table("incidents")),
}

DISTRIBUTION: dict[str, Callable[[Store], Any]] = {
    "cpi histogram": lambda store: cpi_distribution.expression(store.table("task_samples"), _BIN_WIDTH),
    "cpi throughput": lambda store: cpi_throughput.expression(store.table("task_samples")),
}
