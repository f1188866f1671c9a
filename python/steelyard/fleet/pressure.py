"""On which resources a fleet's jobs press: CPU, DRAM capacity and bandwidth, disk, network.

In: ``task_samples``, ``machine_samples`` and the limits in ``machines``. Out: `JobPressure`: what share of a
machine's limits a job's tasks use, which limit a machine filled with the job reaches first (its pressure
points), and how often the machines it ran on were past a threshold.

The matrix is that of Awasthi et al., "System-Level Characterization of Datacenter Applications" (ICPE 2015).
There each workload had its machines alone; in a fleet many jobs share one. A job's pressure points are
therefore found by filling a machine with it in thought: every resource's threshold
(``analyze.pressure.intensities``) over the job's mean use is how many times the job fits, and the resource
that lets it fit least often, with those within `NEAR` of it, is where it presses.

Invariants: use without a limit, or a limit without use, is missing with the reason, never 0; DRAM bandwidth
is that of last-level cache misses, which prefetches and write-backs come on top of.

Not here: pairs of jobs (``placement.pair``), drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from steelyard._base import ResultSaysNoError
from steelyard._base.documents import NOT_PRINTED, printed
from steelyard.analyze.pressure.intensities import THRESHOLDS
from steelyard.fleet.store.row_checks import BEYOND
from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import fetch_rows, keep

CACHE_LINE_BYTES = 64
RESOURCES = {
    "cpu": "CPU",
    "dram_capacity": "DRAM capacity",
    "dram_bandwidth": "DRAM bandwidth",
    "disk_bandwidth": "disk",
    "network": "network",
}
"""Resources by the names of ``analyze.pressure.intensities``, and in words."""
NEAR = 1.25
"""A resource that fits the job at most so many times as often as the first one is a pressure point, too."""
_COLUMNS = {
    "cpu": ("cpu_s", "threads"),
    "dram_capacity": ("memory_bytes", "memory_bytes"),
    "dram_bandwidth": ("llc_misses", "memory_bandwidth_limit_bytes_per_s"),
    "disk_bandwidth": ("storage_bytes", "disk_limit_bytes_per_s"),
    "network": ("network_bytes", "network_limit_bytes_per_s"),
}
"""What tasks tell of a resource, and the limit of machines that it is held against."""


def limits(machines: Any) -> Any:
    """Return the newest limits of each machine."""
    newest = machines.group_by("machine").agg(seen=machines.seen_unix_s.max())
    joined = machines.join(newest, ["machine"])
    known = joined.filter(joined.seen_unix_s == joined.seen)
    # Two looks in the same second tell the same; the larger one is taken where they do not.
    return known.group_by("machine").agg(
        cpu_limit=known.threads.max().cast("float64"),
        dram_capacity_limit=known.memory_bytes.max().cast("float64"),
        dram_bandwidth_limit=known.memory_bandwidth_limit_bytes_per_s.max(),
        disk_bandwidth_limit=known.disk_limit_bytes_per_s.max(),
        network_limit=known.network_limit_bytes_per_s.max(),
    )


def placed(task_samples: Any, machines: Any) -> Any:
    """Return where each job was, with the machine's limits.

    ``who`` numbers jobs on machines, ``place`` machines: to group by numbers takes a third of the time that
    names do.
    """
    each = task_samples.group_by("job", "machine").agg(rows=task_samples.count())
    joined = each.join(limits(machines), ["machine"], how="left")
    known = {f"{name}_limit": joined[f"{name}_limit"] for name in RESOURCES}
    order = ibis.row_number().over(ibis.window(order_by=["machine", "job"]))
    rank = ibis.dense_rank().over(ibis.window(order_by=["machine"]))
    return joined.select(joined.job, joined.machine, **known).mutate(
        who=order.cast("int32"), place=rank.cast("int32")
    )


def used(task_samples: Any, places: Any) -> Any:
    """Return the share of its machine's limits that each job used, by machine (``place``) and minute."""
    minute = task_samples.window_start_unix_s - task_samples.window_start_unix_s % 60
    t = task_samples.mutate(minute=minute)
    t = t.join(places.select("job", "machine", "who"), ["job", "machine"])
    each = t.group_by("who", "minute").agg(
        tasks=t.count(),
        cpu=(t.cpu_s / t.window_s).sum(),
        dram_capacity=t.memory_bytes.sum(),
        dram_bandwidth=(t.llc_misses * CACHE_LINE_BYTES / t.window_s).sum(),
        disk_bandwidth=(t.storage_bytes / t.window_s).sum(),
        network=(t.network_bytes / t.window_s).sum(),
    )
    joined = each.join(places, ["who"])
    ratios = {name: joined[name] / joined[f"{name}_limit"].nullif(0.0) for name in RESOURCES}
    return joined.select(joined.job, joined.place, joined.minute, joined.tasks, **ratios)


def machine_use(machine_samples: Any, machines: Any) -> Any:
    """Return the share of its limits that each machine used, by minute."""
    m = machine_samples.filter(machine_samples.window_s > 0)
    m = m.mutate(minute=m.window_start_unix_s - m.window_start_unix_s % 60)
    joined = m.join(limits(machines), ["machine"], how="left")
    moved = joined.disk_read_bytes + joined.disk_write_bytes
    busier = ibis.greatest(joined.network_receive_bytes, joined.network_send_bytes)
    ratios = {
        "cpu": joined.cpu_s / (joined.window_s * joined.threads),
        "dram_capacity": joined.memory_used_bytes / joined.dram_capacity_limit.nullif(0.0),
        "dram_bandwidth": joined.memory_bandwidth_bytes_per_s / joined.dram_bandwidth_limit.nullif(0.0),
        "disk_bandwidth": moved / joined.window_s / joined.disk_bandwidth_limit.nullif(0.0),
        "network": busier / joined.window_s / joined.network_limit.nullif(0.0),
    }
    each = joined.select(joined.machine, joined.minute, **ratios)
    return each.group_by("machine", "minute").agg(**{name: each[name].max() for name in RESOURCES})


def job_pressure(task_samples: Any, machine_samples: Any, machines: Any, jobs: Sequence[str] = ()) -> Any:
    """Return for each job count, mean, deviation and largest share of each limit, over machine-minutes.

    ``<resource>_past`` is the share of those minutes with the machine past the threshold, whoever used it, of
    those with a machine sample. One pass over the samples gives both.
    """
    chosen = task_samples.filter(task_samples.window_s > 0)
    if jobs:
        chosen = chosen.filter(chosen.job.isin(list(jobs)))
    places = keep(placed(chosen, machines))
    own, whole = used(chosen, places), machine_use(machine_samples, machines)
    past = {
        f"{name}_past": ibis.cases(
            (whole[name].isnull(), ibis.null("float64")), (whole[name] >= THRESHOLDS[name], 1.0), else_=0.0
        )
        for name in RESOURCES
    }
    whole = whole.join(places.select("machine", "place").distinct(), ["machine"])
    whole = whole.select("place", "minute", **past)
    rows = own.join(whole, ["place", "minute"], how="left")
    figures: dict[str, Any] = {}
    for name in RESOURCES:
        figures |= {
            f"{name}_n": rows[name].count(),
            f"{name}_mean": rows[name].mean(),
            f"{name}_sd": rows[name].std(how="sample"),
            f"{name}_max": rows[name].max(),
            f"{name}_past": rows[f"{name}_past"].mean(),
        }
    found = rows.group_by("job").agg(minutes=rows.count(), tasks=rows.tasks.sum(), **figures)
    return found.join(places.group_by("job").agg(machines=places.count()), ["job"]).order_by("job")


@dataclass(frozen=True)
class Use:
    """One resource of one job."""

    resource: str = field(metadata=NOT_PRINTED)
    mean_ratio: float | None
    """Of the machine's limit, by all tasks of the job on a machine, over its machine-minutes."""
    sd_ratio: float | None
    """Standard deviation of it."""
    max_ratio: float | None
    """Largest of it."""
    fits: float | None
    """How many times the job's mean use fits below the threshold."""
    is_pressure: bool
    """Whether it is a pressure point of the job."""
    machine_past_threshold_ratio: float | None
    """Share of the job's machine-minutes with the machine past the threshold, whoever used it."""
    missing: str = ""
    """Why there is no figure, empty where there is one."""

    @property
    @printed
    def threshold_ratio(self) -> float:
        """Return the share of a limit from which the resource presses."""
        return THRESHOLDS[self.resource]


@dataclass(frozen=True)
class JobPressure:
    """One row of the matrix."""

    job: str
    """The job."""
    machines: int
    """Machines that it runs on."""
    machine_minutes: int
    """Machine-minutes with the job."""
    tasks_per_machine: float
    """Its tasks on a machine, on average."""
    resources: dict[str, Use]
    """By resource."""

    @property
    @printed
    def pressure_points(self) -> tuple[str, ...]:
        """The job's pressure points."""
        return tuple(use.resource for use in self.resources.values() if use.is_pressure)

    def mean(self, resource: str) -> float | None:
        """Return the mean share of a resource's limit."""
        return self.resources[resource].mean_ratio

    def means(self) -> dict[str, float | None]:
        """Return the mean share of each resource's limit."""
        return {name: self.mean(name) for name in RESOURCES}


@dataclass(frozen=True)
class FleetPressure:
    """Everything that ``steelyard fleet pressure`` answers."""

    KIND: ClassVar[str] = "fleet_pressure"

    jobs: Sequence[JobPressure]
    """By name."""


def pressure(
    task_samples: Any, machine_samples: Any, machines: Any, jobs: Sequence[str] = ()
) -> tuple[JobPressure, ...]:
    """Answer where jobs press. Raises ResultSaysNoError when there are no samples of them."""
    rows = fetch_rows(job_pressure(task_samples, machine_samples, machines, jobs))
    if not rows:
        raise ResultSaysNoError("no samples of tasks were selected")
    known = _known(task_samples, machines)
    return tuple(_job(row, known) for row in rows)


def _known(task_samples: Any, machines: Any) -> dict[str, bool]:
    """Return which limits any machine has."""
    known = limits(machines)
    counted = fetch_rows(known.agg(**{name: known[f"{name}_limit"].count() for name in RESOURCES}))[0]
    return {name: bool(count) for name, count in counted.items()}


def _job(row: dict[str, Any], known: dict[str, bool]) -> JobPressure:
    fits: dict[str, float] = {}
    for name in RESOURCES:
        mean = row[f"{name}_mean"]
        # A sum that has left the range of numbers fills no machine.
        if mean is not None and 1 / BEYOND < mean < BEYOND:
            fits[name] = THRESHOLDS[name] / mean
    least = min(fits.values(), default=None)
    uses = []
    for name, noun in RESOURCES.items():
        reason = ""
        if not row[f"{name}_n"]:
            use, limit = _COLUMNS[name]
            reason = f"no {limit} of its machines" if not known[name] else f"tasks have no {use}"
            reason = f"{noun}: {reason}"
        uses.append(
            Use(
                resource=name,
                mean_ratio=row[f"{name}_mean"],
                sd_ratio=row[f"{name}_sd"],
                max_ratio=row[f"{name}_max"],
                fits=fits.get(name),
                is_pressure=least is not None and fits.get(name, float("inf")) <= NEAR * least,
                machine_past_threshold_ratio=row[f"{name}_past"],
                missing=reason,
            )
        )
    return JobPressure(
        job=row["job"],
        machines=int(row["machines"]),
        machine_minutes=int(row["minutes"]),
        tasks_per_machine=row["tasks"] / row["minutes"],
        resources={use.resource: use for use in uses},
    )
