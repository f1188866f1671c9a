"""Runs a simulation: block days on all CPUs, files as they are ready, the truth at the end.

In: `Settings` and where to write. Out: a store with ``truth.json`` beside its tables.

Threads compute block days at the same time (numpy and Parquet leave the interpreter's lock); their results
are taken in the order of days and blocks. At most a few block days are in memory, whatever the fleet's size.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from steelyard._base import UsageError
from steelyard.fleet.files import Place
from steelyard.fleet.simulate.activity import make_activity
from steelyard.fleet.simulate.cpi import make_cpi
from steelyard.fleet.simulate.episodes import Episode, make_episodes
from steelyard.fleet.simulate.functions import JobFunctions, make_functions, symbol_table
from steelyard.fleet.simulate.load import make_load
from steelyard.fleet.simulate.locality import make_locality
from steelyard.fleet.simulate.machine_rows import machine_table, sample_table
from steelyard.fleet.simulate.output import Output
from steelyard.fleet.simulate.plan import Block, Plan, make_plan, stream
from steelyard.fleet.simulate.profiles import profile_table
from steelyard.fleet.simulate.rollouts import assign
from steelyard.fleet.simulate.settings import COUNTING_WINDOW_S, Settings
from steelyard.fleet.simulate.tally import Tally, add_block, job_rows
from steelyard.fleet.simulate.tasks import BlockDay, Counted, task_table
from steelyard.fleet.simulate.truth import NAME, make_truth
from steelyard.fleet.write import create_store

Progress = Callable[[int, int], None]


def compute_block(plan: Plan, block: Block, day: int, episodes: list[Episode]) -> BlockDay:
    """Return everything that a block did on a day."""
    load = make_load(plan, block, day, episodes)
    locality = make_locality(plan, block, day, load)
    cpi = make_cpi(plan, block, day, load, locality, episodes)
    cpu_s = np.round(load.cpu.astype(np.float64) * COUNTING_WINDOW_S, 9)
    cycles = (cpu_s * plan.platforms[block.platform].nominal_hz).astype(np.int64)
    instructions = np.maximum((cycles / cpi).astype(np.int64), 1)
    assignment = assign(plan, block, day, load.demand)
    activity = make_activity(
        plan,
        block,
        load,
        locality,
        assignment,
        cpi,
        instructions.astype(np.float32),
        stream(plan.settings, "tasks", day, block.number),
    )
    return BlockDay(
        plan, block, day, load, locality, assignment, cpi, Counted(cpu_s, cycles, instructions), activity
    )


class Simulation:
    """One simulation of a plan into a store."""

    def __init__(self, settings: Settings, url: str) -> None:
        self.plan = make_plan(settings)
        self.settings = settings
        self.functions: list[JobFunctions] = make_functions(self.plan)
        self.place: Place = create_store(url)
        if self.place.exists(NAME):
            raise UsageError(
                f"{url} holds a simulated fleet already", hint="name a new folder, or remove that one"
            )
        self.output = Output(self.place, settings.compression)
        self.tally = Tally()
        self.episodes: list[tuple[int, Episode]] = []

    def run(self, progress: Progress | None = None) -> dict[str, Any]:
        """Write the store; return its truth."""
        work = [(day, block) for day in range(self.settings.days) for block in self.plan.blocks]
        for done, (day, result, sizes) in enumerate(self._in_order(work), start=1):
            add_block(self.tally, result)
            for table, rows, size_bytes in sizes:
                self.tally.written(table, rows, size_bytes)
            self.episodes += [(day, episode) for episode in make_episodes(self.plan, result.block, day)]
            if progress is not None:
                progress(done, len(work))
        self._write_symbols()
        truth = make_truth(self.plan, self.tally, self.functions, self.episodes, [])
        self.place.write(NAME, (json.dumps(truth, indent=1) + "\n").encode())
        return truth

    def _in_order(
        self, work: list[tuple[int, Block]]
    ) -> Iterator[tuple[int, BlockDay, list[tuple[str, int, int]]]]:
        """Yield block days in order; threads, one a CPU, compute and write them."""
        threads = len(os.sched_getaffinity(0))
        waiting: deque[tuple[int, Future[tuple[BlockDay, list[tuple[str, int, int]]]]]] = deque()
        with ThreadPoolExecutor(threads) as pool:
            for day, block in work:
                waiting.append((day, pool.submit(self._block, block, day)))
                if len(waiting) > threads:
                    first, future = waiting.popleft()
                    yield first, *future.result()
            for first, future in waiting:
                yield first, *future.result()

    def _block(self, block: Block, day: int) -> tuple[BlockDay, list[tuple[str, int, int]]]:
        result = compute_block(self.plan, block, day, make_episodes(self.plan, block, day))
        if self.settings.files == "machine":
            return result, self._write_machines(result)
        return result, self._write_compact(result)

    def _where(self, day: BlockDay) -> dict[str, Any]:
        return {"date": self.settings.date(day.day), "cluster": self.plan.clusters[day.block.cluster]}

    def _write_compact(self, day: BlockDay) -> list[tuple[str, int, int]]:
        by_name = sorted(job_rows(day), key=lambda pair: self.plan.jobs[pair[0]].name)
        tables = {
            "task_samples": task_table(day, [tasks for _, tasks in by_name])[0],
            "machine_samples": sample_table(day),
            "profiles": profile_table(day, self.functions)[0],
        }
        if day.day == 0:
            tables["machines"] = machine_table(self.plan, day.block)
        where = self._where(day)
        return [
            (name, *self.output.compact(name, rows, **where)) for name, rows in tables.items() if len(rows)
        ]

    def _write_machines(self, day: BlockDay) -> list[tuple[str, int, int]]:
        count, windows = len(day.block.machines), self.settings.windows
        groups = [np.flatnonzero(day.load.machine_tasks == machine) for machine in range(count)]
        tasks, starts = task_table(day, groups)
        samples, machines = sample_table(day), machine_table(self.plan, day.block)
        profiles, owner = profile_table(day, self.functions)
        written = []
        for number, machine in enumerate(day.block.machines.tolist()):
            mine = profiles.filter(pa.array(owner == number)).sort_by("window_start_unix_s")
            parts = {
                "task_samples": tasks.slice(starts[number], starts[number + 1] - starts[number]),
                "machine_samples": samples.slice(number * windows, windows),
                "profiles": mine,
            }
            if day.day == 0:
                parts["machines"] = machines.slice(number, 1)
            for name, rows in parts.items():
                if not len(rows):
                    continue
                sizes = self.output.raw(
                    name,
                    rows,
                    **self._where(day),
                    machine=self.plan.machine_name(machine),
                    first_unix_s=self.settings.day_start_s(day.day),
                )
                written.append((name, *sizes))
        return written

    def _write_symbols(self) -> None:
        rows = symbol_table(self.functions, [job.name for job in self.plan.jobs])
        if len(rows):
            sizes = self.output.compact("symbols", rows, date=self.settings.date(0), cluster="all")
            self.tally.written("symbols", *sizes)


def simulate(settings: Settings, url: str, progress: Progress | None = None) -> dict[str, Any]:
    """Simulate a fleet into the store at ``url``, which must hold none yet; return its truth.

    Raises UsageError where a simulated fleet is there already, EnvironmentLacksError where nothing can be
    written.
    """
    return Simulation(settings, url).run(progress)
