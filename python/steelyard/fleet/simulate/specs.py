"""CPI specs as a fleet would have built them at the end of each day: rows of ``cpi_specs``.

In: the tally up to a day. Out: `Spec`s by job and platform, and their rows. The method is CPI2's (EuroSys'13,
section 3): usable samples of all days, each day weighing 0.9 of the day after it; no spec from fewer than 5
tasks or 100 samples a task. Agents of the next day use them.

Not here: ``fleet cpi specs``, which builds specs from rows, and is held against the truth that these stand
on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from steelyard.fleet.simulate.plan import Plan
from steelyard.fleet.simulate.settings import DAY_S
from steelyard.fleet.simulate.tally import JobTally, Tally
from steelyard.fleet.simulate.tasks import CPI_SOURCE
from steelyard.fleet.store.schema import TABLES

DAY_WEIGHT = 0.9
SIGMAS = 2.0
FEWEST_TASKS, FEWEST_SAMPLES = 5, 100

SpecKey = tuple[int, int]


@dataclass(frozen=True)
class Spec:
    """What CPI a job has on a platform."""

    samples: int
    tasks: int
    cpu_usage_mean: float
    cpi_mean: float
    cpi_sd: float

    @property
    def threshold_cpi(self) -> float:
        """CPI above which a sample is an outlier."""
        return self.cpi_mean + SIGMAS * self.cpi_sd


def _spec(item: JobTally, day: int) -> Spec | None:
    weights = {d: DAY_WEIGHT ** (day - d) for d in item.days}
    total = sum(weights[d] * sums.count for d, sums in item.days.items())
    tasks = max(item.day_tasks.values(), default=0)
    samples = sum(sums.count for sums in item.days.values())
    if tasks < FEWEST_TASKS or samples < FEWEST_SAMPLES * tasks:
        return None
    mean = sum(weights[d] * sums.count * sums.mean for d, sums in item.days.items()) / total
    spread = sum(
        weights[d] * (sums.squares + sums.count * (sums.mean - mean) ** 2) for d, sums in item.days.items()
    )
    squared = sum(weights[d] ** 2 * sums.count for d, sums in item.days.items())
    variance = spread / total / (1 - squared / total**2)
    usage = sum(weights[d] * item.day_cpu[d] for d in item.days) / total
    return Spec(samples, tasks, usage, mean, variance**0.5)


def make_specs(tally: Tally, day: int) -> dict[SpecKey, Spec]:
    """Return the specs that are built when day number ``day`` is over."""
    specs = {key: _spec(item, day) for key, item in sorted(tally.jobs.items())}
    return {key: spec for key, spec in specs.items() if spec is not None}


def spec_table(plan: Plan, specs: dict[SpecKey, Spec], day: int) -> pa.Table:
    """Return the rows of ``cpi_specs`` that are written when day number ``day`` is over."""
    rows: list[dict[str, Any]] = [
        {
            "job": plan.jobs[job].name,
            "platform": plan.platforms[platform].name,
            "built_unix_s": plan.settings.day_start_s(day) + DAY_S - 1,
            "cpi_source": CPI_SOURCE,
            "samples": spec.samples,
            "tasks": spec.tasks,
            "cpu_usage_mean": spec.cpu_usage_mean,
            "cpi_mean": spec.cpi_mean,
            "cpi_sd": spec.cpi_sd,
            "gev_shape": None,
            "gev_location": None,
            "gev_scale": None,
            "threshold_sigmas": SIGMAS,
            "threshold_cpi": spec.threshold_cpi,
        }
        for (job, platform), spec in specs.items()
    ]
    rows.sort(key=lambda row: (row["job"], row["platform"]))
    return pa.Table.from_pylist(rows, schema=TABLES["cpi_specs"].arrow)
