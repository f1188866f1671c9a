"""Samples above their spec's threshold, and the tasks that these make anomalous.

In: ``task_samples`` and specs (those that were just built, or the store's ``cpi_specs``). Out: outliers, each
with whether its task is anomalous at it; per task and per job how many.

Method (Zhang et al., EuroSys 2013, section 4.1, and ``rule``, which the tests hold this to): a sample
that counts and lies above its threshold is an outlier; a task is anomalous at the last of 3 outliers in 5
minutes.

Invariants: the window function runs over outliers only, never over all samples; a task is known by cluster,
machine, job and name.

Not here: who is to blame (``suspects``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from steelyard.fleet.cpi.rule import PAPER, Rule
from steelyard.fleet.cpi.samples import KEYS, LARGEST, Guards, counted, judged
from steelyard.fleet.cpi.specs import Spec
from steelyard.telemetry.arrays import floats, texts
from steelyard.telemetry.deferred import ibis

DAY_S = 86_400
TASK = ("cluster", "machine", "platform", "job", "task")


def spec_table(specs: Iterable[Spec]) -> Any:
    """Return usable specs as an Ibis table of keys and thresholds."""
    import pyarrow as pa

    rows = [spec for spec in specs if spec.is_usable and spec.cpi_source is not None]
    columns = {
        "job": texts([spec.job for spec in rows]),
        "platform": texts([spec.platform for spec in rows]),
        "cpi_source": texts([spec.cpi_source for spec in rows]),
        "threshold_cpi": floats([spec.threshold_cpi for spec in rows]),
    }
    return ibis.memtable(pa.table(columns))


def latest(cpi_specs: Any) -> Any:
    """Return of the store's ``cpi_specs`` the thresholds built last, one for each job, platform and source.

    Of two that were built in the same second the higher threshold holds, so that every engine takes the same.
    A threshold that is no CPI (0, below it, infinite, NaN) is none.
    """
    threshold = cpi_specs.threshold_cpi
    cpi_specs = cpi_specs.filter((threshold > 0) & (threshold <= LARGEST))
    newest = cpi_specs.group_by(*KEYS).aggregate(newest_unix_s=cpi_specs.built_unix_s.max())
    both = cpi_specs.join(newest, [*KEYS, cpi_specs.built_unix_s == newest.newest_unix_s])
    return both.group_by(*KEYS).aggregate(threshold_cpi=both.threshold_cpi.max())


def expression(samples: Any, specs: Any, rule: Rule = PAPER, guards: Guards | None = None) -> Any:
    """Return every outlier with ``is_anomalous``: whether it makes its task so.

    ``specs`` has a row with ``threshold_cpi`` for each job, platform and source.
    """
    rows = counted(samples, _guards(rule, guards))
    thresholds = specs.select(*KEYS, "threshold_cpi")
    both = rows.join(thresholds, list(KEYS))
    above = both.filter(both.cpi > both.threshold_cpi)
    outliers = above.select(
        *TASK,
        "job_class",
        "cpi_source",
        "window_start_unix_s",
        "window_s",
        "cpi",
        "threshold_cpi",
        "usage",
    )
    if rule.outliers == 1:
        return outliers.mutate(is_anomalous=ibis.literal(True))
    order = ibis.window(group_by=TASK, order_by=["window_start_unix_s", "cpi"])
    start = outliers.window_start_unix_s
    first = start.lag(rule.outliers - 1).over(order)
    return outliers.mutate(is_anomalous=(start - first < rule.within_s).fill_null(False))


def by_task(outliers: Any) -> Any:
    """Return for each task with outliers how many it has, and when it was anomalous."""
    anomalous = outliers.is_anomalous
    return outliers.group_by(*TASK, "job_class", "cpi_source").aggregate(
        outliers=outliers.count(),
        anomalous=anomalous.cast("int64").sum(),
        first_anomalous_unix_s=outliers.window_start_unix_s.min(where=anomalous),
        last_anomalous_unix_s=outliers.window_start_unix_s.max(where=anomalous),
        highest_cpi=outliers.cpi.max(),
        threshold_cpi=outliers.threshold_cpi.max(),
    )


def anomalous_days(outliers: Any) -> Any:
    """Return for each job, platform and source on how many days its tasks were anomalous, added up."""
    anomalous = outliers.filter(outliers.is_anomalous)
    day = anomalous.window_start_unix_s - anomalous.window_start_unix_s % DAY_S
    anomalous = anomalous.mutate(day=day)
    days = anomalous.group_by(*TASK, "cpi_source", "day").aggregate(samples=anomalous.count())
    return days.group_by(*KEYS).aggregate(task_days=days.count())


def counts(samples: Any, specs: Any, rule: Rule = PAPER, guards: Guards | None = None) -> Any:
    """Return how many samples and task-days of each job, platform and source count: what outliers and
    anomalies are shares of.

    ``threshold_cpi`` is null where there is no spec.
    """
    rows = judged(samples, _guards(rule, guards))
    rows = rows.mutate(day=rows.window_start_unix_s - rows.window_start_unix_s % DAY_S)
    days = rows.group_by("cluster", "machine", "task", "day", *KEYS).aggregate(
        counted=(rows.state == 0).cast("int64").sum()
    )
    totals = days.group_by(*KEYS).aggregate(
        samples=days.counted.sum(), task_days=(days.counted > 0).cast("int64").sum()
    )
    thresholds = specs.select(*KEYS, "threshold_cpi")
    return totals.left_join(thresholds, list(KEYS)).select(*KEYS, "samples", "task_days", "threshold_cpi")


def _guards(rule: Rule, guards: Guards | None) -> Guards:
    """The rule's minimum of usage is a guard of samples."""
    from dataclasses import replace

    return replace(guards or Guards(), minimum_usage=rule.minimum_usage)
