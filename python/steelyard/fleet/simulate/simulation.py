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
import pyarrow.compute as pc

from steelyard._base import UsageError
from steelyard.fleet.simulate.activity import make_activity
from steelyard.fleet.simulate.cpi import make_cpi
from steelyard.fleet.simulate.episodes import Episode, make_episodes
from steelyard.fleet.simulate.faults import Faults
from steelyard.fleet.simulate.functions import JobFunctions, make_functions, symbol_table
from steelyard.fleet.simulate.guard import Guarded, guard_block, incident_table
from steelyard.fleet.simulate.load import make_load
from steelyard.fleet.simulate.locality import make_locality
from steelyard.fleet.simulate.machine_rows import machine_table, sample_table
from steelyard.fleet.simulate.output import Output
from steelyard.fleet.simulate.plan import Block, Plan, make_plan, stream
from steelyard.fleet.simulate.profiles import profile_table
from steelyard.fleet.simulate.rollouts import assign
from steelyard.fleet.simulate.settings import COUNTING_WINDOW_S, Settings
from steelyard.fleet.simulate.specs import Spec, SpecKey, make_specs, spec_table
from steelyard.fleet.simulate.tally import Tally, add_block, job_rows
from steelyard.fleet.simulate.tasks import BlockDay, Counted, task_table
from steelyard.fleet.simulate.truth import NAME, make_truth
from steelyard.fleet.store.files import Place
from steelyard.fleet.store.write import create_store

Progress = Callable[[int, int], None]

Written = tuple[BlockDay, list[tuple[str, int, int]]]
"""A block's day, and the table, rows and bytes of each file written of it."""


def compute_block(
    plan: Plan, block: Block, day: int, episodes: list[Episode], specs: dict[SpecKey, Spec]
) -> tuple[BlockDay, Guarded]:
    """Return everything that a block did on a day, and what its guards did with these specs."""
    load = make_load(plan, block, day, episodes)
    locality = make_locality(plan, block, day, load)
    cpi = make_cpi(plan, block, day, load, locality, episodes)
    guarded = guard_block(plan, block, load, cpi, episodes, specs) if specs else Guarded()
    if guarded.caps is not None:
        # The same draws again, under the caps.
        load = make_load(plan, block, day, episodes, guarded.caps)
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
    counted = Counted(cpu_s, cycles, instructions)
    return BlockDay(plan, block, day, load, locality, assignment, cpi, counted, activity), guarded


class Simulation:
    """One simulation of a plan into a store."""

    def __init__(self, settings: Settings, url: str) -> None:
        self.plan = make_plan(settings)
        self.settings = settings
        self.functions: list[JobFunctions] = make_functions(self.plan)
        self.place: Place = create_store(url)
        self.output = Output(self.place, settings.compression)
        self.tally = Tally()
        self.episodes: list[tuple[int, Episode]] = []
        self.specs: dict[SpecKey, Spec] = {}
        self.faults: list[dict[str, Any]] = []

    def run(self, progress: Progress | None = None) -> dict[str, Any]:
        """Write the store; return its truth. Raises UsageError where a simulation has written or writes."""
        with self.place.claimed(".simulation"):
            if self.place.exists(NAME):
                raise UsageError(
                    f"{self.place.url} holds a simulated fleet already",
                    hint="name a new folder, or remove that one",
                )
            return self._run(progress)

    def _run(self, progress: Progress | None) -> dict[str, Any]:
        total = self.settings.days * len(self.plan.blocks)
        for day in range(self.settings.days):
            for number, (result, sizes) in enumerate(self._in_order(day), start=1):
                add_block(self.tally, result)
                for table, rows, size_bytes in sizes:
                    self.tally.written(table, rows, size_bytes)
                self.episodes += [(day, episode) for episode in make_episodes(self.plan, result.block, day)]
                if progress is not None:
                    progress(day * len(self.plan.blocks) + number, total)
            self._write_specs(day)
        self._write_symbols()
        if self.settings.faults:
            self._add_faults()
        truth = make_truth(self.plan, self.tally, self.functions, self.episodes, self.faults)
        self.place.write(NAME, (json.dumps(truth, indent=1) + "\n").encode())
        return truth

    def _in_order(self, day: int) -> Iterator[Written]:
        """Yield a day's blocks in order; threads, one a CPU, compute and write them."""
        threads = len(os.sched_getaffinity(0))
        waiting: deque[Future[Written]] = deque()
        with ThreadPoolExecutor(threads) as pool:
            for block in self.plan.blocks:
                waiting.append(pool.submit(self._block, block, day))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _block(self, block: Block, day: int) -> Written:
        episodes = make_episodes(self.plan, block, day)
        result, guarded = compute_block(self.plan, block, day, episodes, self.specs)
        incidents = incident_table(self.plan, block, day, guarded, result.cpi)
        write = self._write_machines if self.settings.files == "machine" else self._write_compact
        return result, write(result, incidents)

    def _where(self, day: BlockDay) -> dict[str, Any]:
        return {"date": self.settings.date(day.day), "cluster": self.plan.clusters[day.block.cluster]}

    def _write_compact(self, day: BlockDay, incidents: pa.Table) -> list[tuple[str, int, int]]:
        names = self.plan.job_names(day.day)
        by_name = sorted(job_rows(day), key=lambda pair: names[pair[0]])
        tables: dict[str, pa.Table] = {
            "task_samples": task_table(day, [tasks for _, tasks in by_name])[0],
            "machine_samples": sample_table(day),
            "profiles": profile_table(day, self.functions)[0],
            "incidents": incidents,
        }
        if day.day == 0:
            tables["machines"] = machine_table(self.plan, day.block)
        where = self._where(day)
        written = []
        if self.settings.faults and day.day == 0 and day.block.number == 0 and len(day.block.machines) > 1:
            tables["task_samples"], late = self._hold_back(day, tables["task_samples"])
            written.append(("task_samples", *late))
        written += [
            (name, *self.output.compact(name, rows, **where)) for name, rows in tables.items() if len(rows)
        ]
        return written

    def _hold_back(self, day: BlockDay, rows: pa.Table) -> tuple[pa.Table, tuple[int, int]]:
        """Write one machine's rows by themselves, as if they had come after compaction; return the others."""
        machine = self.plan.machine_name(int(day.block.machines[-1]))
        mine = pc.equal(rows["machine"], machine)
        late = rows.filter(mine).sort_by("window_start_unix_s")
        first = self.settings.day_start_s(day.day)
        sizes = self.output.raw("task_samples", late, **self._where(day), machine=machine, first_unix_s=first)
        self.faults.append({"kind": "late", "machine": machine, "path": None, "rows": len(late)})
        return rows.filter(pc.invert(mine)), sizes

    def _add_faults(self) -> None:
        """Put bad files beside the good ones of the first block and day."""
        block = self.plan.blocks[0]
        day, _ = compute_block(self.plan, block, 0, make_episodes(self.plan, block, 0), {})
        rows, _ = task_table(day, [np.flatnonzero(day.load.machine_tasks == 0)])
        date, cluster = self.settings.date(0).isoformat(), self.plan.clusters[block.cluster]
        self.faults += Faults(self.place, rows, date, cluster).add_all()
        renamed = self.plan.renamed_job
        if renamed is not None:
            middle = self.settings.days // 2
            names = [self.plan.job_names(day)[renamed] for day in (0, middle)]
            fault = {"kind": "renamed", "job": names[0], "to": names[1]}
            self.faults.append(fault | {"first_date": self.settings.date(middle).isoformat()})

    def _write_machines(self, day: BlockDay, incidents: pa.Table) -> list[tuple[str, int, int]]:
        count, windows = len(day.block.machines), self.settings.windows
        groups = [np.flatnonzero(day.load.machine_tasks == machine) for machine in range(count)]
        tasks, starts = task_table(day, groups)
        samples, machines = sample_table(day), machine_table(self.plan, day.block)
        profiles, owner = profile_table(day, self.functions)
        written = []
        for number, machine in enumerate(day.block.machines.tolist()):
            name = self.plan.machine_name(machine)
            mine = profiles.filter(pa.array(owner == number)).sort_by("window_start_unix_s")
            parts = {
                "task_samples": tasks.slice(starts[number], starts[number + 1] - starts[number]),
                "machine_samples": samples.slice(number * windows, windows),
                "profiles": mine,
                "incidents": incidents.filter(pc.equal(incidents["machine"], name)).sort_by("start_unix_s"),
            }
            if day.day == 0:
                parts["machines"] = machines.slice(number, 1)
            for table, rows in parts.items():
                if not len(rows):
                    continue
                sizes = self.output.raw(
                    table,
                    rows,
                    **self._where(day),
                    machine=name,
                    first_unix_s=self.settings.day_start_s(day.day),
                )
                written.append((table, *sizes))
        return written

    def _write_specs(self, day: int) -> None:
        """Build the specs that agents of the next day pull."""
        self.specs = make_specs(self.tally, day)
        if self.specs:
            rows = spec_table(self.plan, self.specs, day)
            sizes = self.output.compact("cpi_specs", rows, date=self.settings.date(day), cluster="all")
            self.tally.written("cpi_specs", *sizes)

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
