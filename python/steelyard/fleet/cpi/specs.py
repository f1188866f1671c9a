"""CPI specs: what CPI is normal for a job on a platform, and from which value on a sample is an outlier.

In: ``task_samples`` of some days. Out: `Spec`s, one for each job, platform and source of CPI, with how many
samples stand behind it, how many were left out and why, or the reason why there is no spec.

Method (Zhang et al., EuroSys 2013, section 3): mean and standard deviation over all samples that count
(``samples``). A sample of a day that lies a days back weighs w = 0.9^a; with W the sum of weights,

    mean = sum(w x) / W        variance = (sum(w x^2) / W - mean^2) / (1 - sum(w^2) / W^2)

which is the usual n - 1 where all weigh alike. The threshold is mean + k sd. There is no spec from fewer than
5 tasks that have 100 samples each.

Invariant: one pass over the samples, grouped by task and day; what follows is computed from these sums.

Not here: the tail's distribution (``distribution``), outliers (``outliers``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from steelyard._base.documents import INLINE
from steelyard.fleet.cpi.samples import KEYS, LARGEST, REASONS, Guards, judged
from steelyard.stats.gev import Gev
from steelyard.telemetry.deferred import ibis

LEAST_SPREAD_RATIO = 1e-6
"""A deviation below this share of the mean is what rounding leaves of samples that are all the same."""

_EXCLUDED = {code: f"excluded_{code}" for code in REASONS}


@dataclass(frozen=True)
class SpecSettings:
    """How specs are made."""

    guards: Guards = field(default_factory=Guards, metadata=INLINE)
    day_weight: float = 0.9
    """What a day counts relative to the day after it."""
    fewest_tasks: int = 5
    """Tasks that a spec needs."""
    fewest_samples: int = 100
    """Samples that each of these tasks has at least."""
    threshold_sigmas: float = 2.0
    """Standard deviations above the mean that make the threshold."""
    as_of: str | None = None
    """The day that weighs 1, as 2026-01-31, after which samples are left out; by default their last day."""

    def __post_init__(self) -> None:
        if not 0 < self.day_weight <= 1:
            raise ValueError(f"a day's weight of {self.day_weight} is not between 0 and 1")
        if self.fewest_tasks < 1 or self.fewest_samples < 1 or self.threshold_sigmas <= 0:
            raise ValueError(
                "a spec needs at least one task, one sample a task and a threshold above the mean"
            )


@dataclass(frozen=True)
class Spec:
    """What is normal for a job on a platform: CPI in the unit of its source, usage in CPU-seconds/s."""

    job: str
    """Which job."""
    platform: str
    """Which platform."""
    cpi_source: str | None
    """How CPI was counted."""
    samples: int
    """Samples that count, of all days."""
    tasks: int
    """Tasks with at least one of them."""
    full_tasks: int
    """Tasks with enough of them."""
    first_day: str | None
    """The first and the last day with a sample that counts."""
    last_day: str | None
    """The last day with a sample that counts."""
    effective_samples: float | None
    """How many samples of equal weight would say as much: W^2 / sum(w^2)."""
    cpu_usage_mean: float | None
    """Mean CPU usage."""
    cpi_mean: float | None
    """Mean CPI."""
    cpi_sd: float | None
    """Standard deviation of CPI."""
    threshold_sigmas: float
    """Standard deviations above the mean that make the threshold."""
    threshold_cpi: float | None
    """Above it a sample is an outlier; None where there is no spec."""
    excluded: Mapping[str, int]
    """Samples left out, by reason."""
    missing: str | None
    """Why there is no spec."""
    gev: Gev | None = None
    """The fitted curve, None with the reason beside it."""
    gev_missing: str | None = "not requested"
    """Why there is no curve."""
    gev_threshold_cpi: float | None = None
    """A quantile of the curve."""
    quantile_threshold_cpi: float | None = None
    """The same quantile of the samples themselves; None where too few lie above it."""
    threshold_from: Literal["sigma", "gev", "quantile"] = "sigma"
    """What ``threshold_cpi`` is: mean + k sd, or a quantile of the fitted curve or of the samples."""

    @property
    def key(self) -> tuple[str, str, str | None]:
        """Job, platform, source."""
        return (self.job, self.platform, self.cpi_source)

    @property
    def is_usable(self) -> bool:
        """Whether there is a threshold."""
        return self.threshold_cpi is not None


def expression(samples: Any, settings: SpecSettings) -> Any:
    """Return one row for each job, platform and source: sums, guards, mean, deviation and threshold."""
    tasks = _by_task(_by_task_and_day(samples, settings), settings)
    groups = tasks.group_by(*KEYS).aggregate(
        samples=tasks.n.sum(),
        tasks=(tasks.n > 0).sum(),
        full_tasks=(tasks.n >= settings.fewest_samples).sum(),
        first_day=tasks.first_day.min(),
        last_day=tasks.last_day.max(),
        w=tasks.w.sum(),
        w_squared=tasks.w_squared.sum(),
        cpi=tasks.cpi.sum(),
        cpi_squared=tasks.cpi_squared.sum(),
        usage=tasks.usage.sum(),
        **{name: tasks[name].sum() for name in _EXCLUDED.values()},
    )
    groups = groups.mutate(cpi_mean=groups.cpi / groups.w)
    spread = (groups.cpi_squared / groups.w - groups.cpi_mean * groups.cpi_mean) / (
        1 - groups.w_squared / (groups.w * groups.w)
    ).nullif(0.0)
    # Rounding may leave a little less than nothing where all samples are the same.
    groups = groups.mutate(cpi_sd=(spread < 0).ifelse(0.0, spread).sqrt())
    # Without any spread there is no sample beyond it; infinity and NaN are above every number.
    varies = (groups.cpi_sd > LEAST_SPREAD_RATIO * groups.cpi_mean) & (groups.cpi_sd <= LARGEST)
    usable = (groups.full_tasks >= settings.fewest_tasks) & varies.fill_null(False)
    return groups.select(
        *KEYS,
        "samples",
        "tasks",
        "full_tasks",
        "first_day",
        "last_day",
        "cpi_mean",
        "cpi_sd",
        *_EXCLUDED.values(),
        effective_samples=groups.w * groups.w / groups.w_squared,
        cpu_usage_mean=groups.usage / groups.w,
        threshold_cpi=usable.ifelse(groups.cpi_mean + settings.threshold_sigmas * groups.cpi_sd, None),
    )


def _by_task_and_day(samples: Any, settings: SpecSettings) -> Any:
    """Return the sums that all else follows from: the only pass over the samples."""
    rows = samples if settings.as_of is None else samples.filter(samples.date <= settings.as_of)
    rows = judged(rows, settings.guards)
    return rows.group_by(*KEYS, "date", "task", "state").aggregate(
        n=rows.count(),
        cpi=rows.cpi.sum(),
        cpi_squared=(rows.cpi * rows.cpi).sum(),
        usage=rows.usage.sum(),
    )


def _by_task(sums: Any, settings: SpecSettings) -> Any:
    """Return weighted sums by task; what does not count is counted apart."""
    day = sums.date.cast("date")
    last = ibis.literal(settings.as_of).cast("date") if settings.as_of else day.max().over(ibis.window())
    age = last.delta(day, unit="day").cast("float64")
    weighed = sums.mutate(w=ibis.literal(settings.day_weight).cast("float64") ** age)
    yes = weighed.state == 0
    w = weighed.w
    return weighed.group_by(*KEYS, "task").aggregate(
        n=weighed.n.sum(where=yes).fill_null(0),
        first_day=weighed.date.min(where=yes),
        last_day=weighed.date.max(where=yes),
        w=(w * weighed.n).sum(where=yes),
        w_squared=(w * w * weighed.n).sum(where=yes),
        cpi=(w * weighed.cpi).sum(where=yes),
        cpi_squared=(w * weighed.cpi_squared).sum(where=yes),
        usage=(w * weighed.usage).sum(where=yes),
        **{name: weighed.n.sum(where=weighed.state == code).fill_null(0) for code, name in _EXCLUDED.items()},
    )


def find_specs(samples: Any, settings: SpecSettings | None = None) -> list[Spec]:
    """Return the specs of all jobs and platforms, in the order of their names."""
    from steelyard.telemetry.engine import fetch_rows

    settings = settings or SpecSettings()
    rows = fetch_rows(expression(samples, settings))
    specs = [_of_row(row, settings) for row in rows]
    return sorted(specs, key=lambda spec: (spec.job, spec.platform, spec.cpi_source or ""))


def _of_row(row: dict[str, Any], settings: SpecSettings) -> Spec:
    excluded = {REASONS[code]: int(row[name]) for code, name in _EXCLUDED.items() if row[name]}
    return Spec(
        job=row["job"],
        platform=row["platform"],
        cpi_source=row["cpi_source"],
        samples=int(row["samples"]),
        tasks=int(row["tasks"]),
        full_tasks=int(row["full_tasks"]),
        first_day=row["first_day"],
        last_day=row["last_day"],
        effective_samples=_known(row["effective_samples"]),
        cpu_usage_mean=_known(row["cpu_usage_mean"]),
        cpi_mean=_known(row["cpi_mean"]),
        cpi_sd=_known(row["cpi_sd"]),
        threshold_sigmas=settings.threshold_sigmas,
        threshold_cpi=row["threshold_cpi"],
        excluded=excluded,
        missing=None if row["threshold_cpi"] is not None else _reason(row, settings),
    )


def _reason(row: dict[str, Any], settings: SpecSettings) -> str:
    if not row["samples"]:
        return "no sample counts"
    if row["full_tasks"] < settings.fewest_tasks:
        return (
            f"tasks of {settings.fewest_samples} samples or more: {row['full_tasks']},"
            f" a spec needs {settings.fewest_tasks}"
        )
    if row["samples"] == 1:
        return "one sample has no spread"
    if _known(row["cpi_sd"]) is None:
        return "its CPI is too large to be squared"
    return "CPI does not vary: every sample is the same"


def _known(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
