"""Which machines a simulated fleet has, which tasks run on them, and in which blocks their days are computed.

In: `Settings`. Out: `Plan`: arrays over machines and tasks, and `Block`s: up to ``block_size`` machines
of one cluster and platform, so that a block's arrays have one topology and bounded size, whatever the
fleet's.

Invariants: tasks are sorted by machine; each block draws from a stream of its own (`stream`), so that the
order in which blocks are computed, and the threads that compute them, leave no trace in the data.

Not here: what tasks do (``load``, ``cpi``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from steelyard.fleet.simulate.catalog import PAIRS, PLATFORMS, Job, Platform, jobs
from steelyard.fleet.simulate.settings import Settings

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

RENAMED_SUFFIX = "-renamed"

PURPOSES = (
    "plan",
    "episodes",
    "load",
    "locality",
    "days",
    "cpi",
    "rollouts",
    "tasks",
    "machines",
    "profiles",
    "faults",
)


def stream(settings: Settings, purpose: str, *place: int) -> np.random.Generator:
    """Return the generator of one purpose at one place (such as a day and a block)."""
    seed = np.random.SeedSequence([settings.seed, PURPOSES.index(purpose), *place])
    return np.random.Generator(np.random.SFC64(seed))


@dataclass(frozen=True)
class Block:
    """Some machines of one cluster and platform, and the range of tasks that run on them."""

    number: int
    cluster: int
    platform: int
    machines: Ints
    first_task: int
    end_task: int


@dataclass(frozen=True)
class Plan:
    """The fleet as it stands still. Machines and tasks are numbered; ``task_machine`` is sorted."""

    settings: Settings
    platforms: list[Platform]
    jobs: list[Job]
    machine_cluster: Ints
    machine_platform: Ints
    machine_load: Floats
    machine_guard: NDArray[np.bool_]
    machine_capped: NDArray[np.bool_]
    task_machine: Ints
    task_job: Ints
    task_index: Ints
    task_cpu: Floats
    cpi_factor: NDArray[np.float64]
    blocks: list[Block]

    @cached_property
    def clusters(self) -> list[str]:
        """The clusters' names."""
        return [f"cell-{number:02d}" for number in range(self.settings.cluster_count)]

    @cached_property
    def pair_factor(self) -> Floats:
        """What the row's job's CPI is multiplied by beside the column's job."""
        names = {job.name: number for number, job in enumerate(self.jobs)}
        factor = np.ones((len(self.jobs), len(self.jobs)), np.float32)
        for (job, beside), value in PAIRS.items():
            if job in names and beside in names:
                factor[names[job], names[beside]] = value
        return factor

    @cached_property
    def renamed_job(self) -> int | None:
        """With faults, the job that is renamed on the middle day: one without a part in any story."""
        paired = {name for pair in PAIRS for name in pair}
        plain = [
            number
            for number, job in enumerate(self.jobs)
            if not (job.rollout or job.numa_effect or job.name in paired)
            and job.follows_throughput
            and number
        ]
        return plain[-1] if self.settings.faults and self.settings.days > 1 and plain else None

    def job_names(self, day: int) -> list[str]:
        """Return the jobs' names on a day."""
        names = [job.name for job in self.jobs]
        if self.renamed_job is not None and day >= self.settings.days // 2:
            names[self.renamed_job] += RENAMED_SUFFIX
        return names

    def machine_name(self, machine: int) -> str:
        """Return a machine's name."""
        return f"m{machine:06d}.{self.clusters[self.machine_cluster[machine]]}"

    def task_name(self, task: int) -> str:
        """Return a task's name: its job's and a number."""
        return f"{self.jobs[self.task_job[task]].name}/{self.task_index[task]}"


def _place_tasks(settings: Settings, plan_jobs: list[Job], random: np.random.Generator) -> tuple[Ints, Ints]:
    """Return machine and job of every task: different jobs on a machine while there are enough of them."""
    weights = np.array([job.popularity for job in plan_jobs])
    each = settings.tasks_each
    counts = np.clip(random.integers(each - 1, each + 2, settings.machines), 2, None)
    # The largest keys, each uniform ** (1 / weight), are a weighted draw without putting back.
    keys = np.log(random.random((settings.machines, len(plan_jobs)))) / weights
    ranked = np.argsort(-keys, axis=1)
    machines = np.repeat(np.arange(settings.machines), counts)
    positions = np.arange(len(machines)) - np.repeat(np.cumsum(counts) - counts, counts)
    return machines, ranked[machines, positions % len(plan_jobs)]


def _sizes(
    settings: Settings,
    plan_jobs: list[Job],
    placed: tuple[Ints, Ints],
    threads: Ints,
    loads: Floats,
    random: np.random.Generator,
) -> Floats:
    """Return each task's mean CPU use in CPU-s/s, so that a machine's come to its load."""
    machines, task_jobs = placed
    weight = np.array([job.cpu_weight for job in plan_jobs])[task_jobs]
    weight = weight * np.exp(0.35 * random.standard_normal(len(task_jobs)))
    total = np.bincount(machines, weight, settings.machines)
    return np.asarray(weight / total[machines] * loads[machines] * threads[machines], np.float32)


def _blocks(settings: Settings, cluster: Ints, platform: Ints, task_machine: Ints) -> list[Block]:
    """Return blocks of neighbouring machines: machines are numbered by cluster and platform."""
    key = cluster * len(PLATFORMS) + platform
    edges = [0, *(np.flatnonzero(np.diff(key)) + 1).tolist(), settings.machines]
    blocks: list[Block] = []
    for first, end in pairwise(edges):
        for begin in range(first, end, settings.block_size):
            machines = np.arange(begin, min(begin + settings.block_size, end))
            tasks = np.searchsorted(task_machine, [machines[0], machines[-1] + 1])
            number = len(blocks)
            blocks.append(
                Block(
                    number, int(cluster[begin]), int(platform[begin]), machines, int(tasks[0]), int(tasks[1])
                )
            )
    return blocks


def make_plan(settings: Settings) -> Plan:
    """Return the fleet of these settings."""
    random = stream(settings, "plan")
    platforms = list(PLATFORMS[: settings.platforms])
    plan_jobs = jobs(settings.jobs)
    numbers = np.arange(settings.machines)
    cluster = numbers * settings.cluster_count // settings.machines
    platform = np.zeros(settings.machines, np.int64)
    for number in range(settings.cluster_count):
        inside = np.flatnonzero(cluster == number)
        platform[inside] = np.arange(len(inside)) * len(platforms) // len(inside)
    threads = np.array([item.threads for item in platforms])[platform]
    loads = np.clip(random.normal(0.42, 0.10, settings.machines), 0.15, 0.65).astype(np.float32)
    placed = _place_tasks(settings, plan_jobs, random)
    task_machine, task_job = placed
    order = np.argsort(task_job, kind="stable")
    index = np.empty(len(task_job), np.int64)
    starts = np.searchsorted(task_job[order], np.arange(len(plan_jobs)))
    index[order] = np.arange(len(task_job)) - starts[task_job[order]]
    own = 1.0 + 0.06 * random.standard_normal((len(plan_jobs), len(platforms)))
    own[:, 0] = 1.0
    capped = (platform == (2 if len(platforms) > 2 else 0)) & (numbers % 2 == 0)
    return Plan(
        settings=settings,
        platforms=platforms,
        jobs=plan_jobs,
        machine_cluster=cluster,
        machine_platform=platform,
        machine_load=loads,
        machine_guard=numbers % 3 == 0,
        machine_capped=capped,
        task_machine=task_machine,
        task_job=task_job,
        task_index=index,
        task_cpu=_sizes(settings, plan_jobs, placed, threads, loads, random),
        cpi_factor=own * np.array([item.cpi_factor for item in platforms]),
        blocks=_blocks(settings, cluster, platform, task_machine),
    )
