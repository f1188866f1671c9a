"""Outliers added up: how many each job and platform has, and which tasks were anomalous.

In: outliers (``outliers``) and how many samples count. Out: `Anomalies`.

Three outliers in five minutes are no rare event: with independent samples of which 2.3 % are outliers (2
standard deviations of a normal curve) a tenth of all healthy task-days has them, with 4.5 % half of them,
and where the samples of a task resemble each other for minutes, nearly all. The share of task-days with an
anomaly says how much one means; above `ORDINARY_RATIO` it is said to be ordinary.

Invariant: the engine adds up by task; what is added up here are its rows.

Not here: who is to blame (``suspects``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steelyard._base.documents import printed
from steelyard.fleet.cpi import outliers as cpi_outliers

MOST_TASKS = 1000
"""So many anomalous tasks are named; all are counted."""

ORDINARY_RATIO = 0.05
"""Where more task-days than this have an anomaly, it is ordinary."""


@dataclass(frozen=True)
class JobOutliers:
    """One job on one platform; without a threshold it has no spec, and nothing is known of outliers."""

    job: str
    """Which job."""
    platform: str
    """Which platform."""
    cpi_source: str
    """How CPI was counted."""
    threshold_cpi: float | None
    """CPI above which a sample is an outlier."""
    samples: int
    """Samples that count."""
    outliers: int
    """Samples above the threshold."""
    outlier_ratio: float | None
    """Their share."""
    tasks_with_outliers: int
    """Tasks that have one."""
    anomalous_tasks: int
    """Tasks that were anomalous at least once."""
    anomalous_samples: int
    """Samples at which a task was."""
    task_days: int
    """Days on which a task of it had samples that count, summed over its tasks."""
    anomalous_task_days: int
    """Those on which it was anomalous."""

    @property
    @printed
    def anomalous_task_day_ratio(self) -> float | None:
        """Share of task-days with an anomaly; None without a spec."""
        known = self.threshold_cpi is not None and self.task_days
        return self.anomalous_task_days / self.task_days if known else None

    @property
    @printed
    def is_ordinary(self) -> bool:
        """Whether an anomaly of this job says little by itself."""
        return (self.anomalous_task_day_ratio or 0.0) > ORDINARY_RATIO


@dataclass(frozen=True)
class AnomalousTask:
    """A task that was anomalous at least once. Times in Unix seconds."""

    cluster: str
    """Which cluster."""
    machine: str
    """Which machine."""
    platform: str
    """Which platform."""
    job: str
    """Its job."""
    task: str
    """The task."""
    job_class: str
    """Class of its job."""
    outliers: int
    """Samples above the threshold."""
    anomalous_samples: int
    """Samples at which it was anomalous."""
    first_anomalous_unix_s: int
    """The first of them."""
    last_anomalous_unix_s: int
    """The last of them."""
    highest_cpi: float
    """Its highest CPI."""
    threshold_cpi: float
    """CPI above which a sample is an outlier."""


@dataclass(frozen=True)
class Anomalies:
    """What lies above the thresholds. ``tasks`` are the most anomalous ones first, `MOST_TASKS` at most."""

    jobs: tuple[JobOutliers, ...]
    """By job and platform."""
    tasks: tuple[AnomalousTask, ...]
    """The most anomalous ones first."""
    anomalous_tasks: int
    """How many there are."""


def find_anomalies(outliers: Any, counts: Any) -> Anomalies:
    """Return outliers by job and by task; ``counts`` says of how many samples they are."""
    import pyarrow.compute as pc

    from steelyard.telemetry.engine import fetch, fetch_rows

    tasks = fetch(cpi_outliers.by_task(outliers))
    by_job: dict[tuple[Any, ...], dict[str, Any]] = {}
    keys = ["job", "platform", "cpi_source"]
    is_anomalous = pc.cast(pc.greater(tasks["anomalous"], 0), "int64")
    summed = tasks.append_column("is_anomalous", is_anomalous).group_by(keys)
    summed = summed.aggregate(
        [
            ("outliers", "sum"),
            ("anomalous", "sum"),
            ("is_anomalous", "sum"),
            ("task", "count"),
        ]
    )
    for row in summed.to_pylist():
        by_job[tuple(row[key] for key in keys)] = row
    days: dict[tuple[Any, ...], int] = {}
    for row in fetch_rows(cpi_outliers.anomalous_days(outliers)):
        days[tuple(row[key] for key in keys)] = row["task_days"]
    jobs = []
    for row in fetch_rows(counts):
        key = tuple(row[key] for key in keys)
        # A job without a source has no samples that count.
        if row["cpi_source"] is None or not row["samples"]:
            continue
        sums = by_job.get(key)
        has_spec = row["threshold_cpi"] is not None
        outlying = int(sums["outliers_sum"]) if sums else 0
        jobs.append(
            JobOutliers(
                job=row["job"],
                platform=row["platform"],
                cpi_source=row["cpi_source"],
                threshold_cpi=row["threshold_cpi"],
                samples=int(row["samples"]),
                outliers=outlying,
                outlier_ratio=outlying / row["samples"] if has_spec else None,
                tasks_with_outliers=int(sums["task_count"]) if sums else 0,
                anomalous_tasks=int(sums["is_anomalous_sum"]) if sums else 0,
                anomalous_samples=int(sums["anomalous_sum"]) if sums else 0,
                task_days=int(row["task_days"]),
                anomalous_task_days=days.get(key, 0),
            )
        )
    jobs.sort(key=lambda job: (-job.anomalous_tasks, -job.outliers, job.job, job.platform))
    chosen = tasks.filter(pc.greater(tasks["anomalous"], 0))
    order = [("anomalous", "descending"), ("highest_cpi", "descending")]
    order += [("machine", "ascending"), ("task", "ascending")]
    named = chosen.sort_by(order).slice(0, MOST_TASKS).to_pylist()
    return Anomalies(tuple(jobs), tuple(_task(row) for row in named), chosen.num_rows)


def _task(row: dict[str, Any]) -> AnomalousTask:
    renamed = {**row, "anomalous_samples": row["anomalous"]}
    return AnomalousTask(**{name: renamed[name] for name in AnomalousTask.__dataclass_fields__})
