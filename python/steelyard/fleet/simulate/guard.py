"""What the guards of a block's machines found and did on a day: rows of ``incidents``, and the caps they set.

In: a block's load and CPI as they would be without guards, and yesterday's specs. Out: `Incident`s, and for
each task and window the CPU use that a cap allows. The rules are the paper's (``cpi.rule``: what the queries
and the agent do with the rule ``paper``, so that stores stay as they are). A third of the machines enforce,
the others only tell (their label ``guard``).

On the first day nobody has a spec, so guards are silent. A cap holds for 5 minutes from the window after the
incident; while it does, the victim's CPI loses the part that followed the antagonist's use.

Invariants: one incident a victim at a time; only batch and best-effort tasks are capped; every cap is undone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from steelyard.fleet.cpi.rule import CAP_S, PAPER, Judgement, Suspect, judge
from steelyard.fleet.simulate.catalog import LATENCY_SENSITIVE
from steelyard.fleet.simulate.episodes import Episode
from steelyard.fleet.simulate.load import Load
from steelyard.fleet.simulate.plan import Block, Floats, Plan
from steelyard.fleet.simulate.specs import Spec, SpecKey
from steelyard.fleet.store.schema import TABLES

_NO_CAP = np.float32(np.inf)
_NEAR = 1e-3
"""Suspects this little below the floor are judged too: the first look rounds otherwise."""


@dataclass(frozen=True)
class Incident:
    """One incident; tasks are numbered within the block, times are windows of the day."""

    victim: int
    first: int
    end: int | None
    outliers: int
    threshold_cpi: float
    judgement: Judgement
    action: str
    antagonist: int | None


@dataclass
class Guarded:
    """What guards did in a block's day. ``caps`` is None where nobody was capped."""

    incidents: list[Incident] = field(default_factory=list)
    caps: Floats | None = None


@dataclass
class _Machine:
    """A machine's tasks (rows of the block) and their state as guards change it."""

    rows: NDArray[np.int64]
    cpu: Floats
    cpi: Floats
    threshold: Floats
    """By task; infinite where there is no spec or no guard for the task's class."""

    def outliers(self) -> NDArray[np.bool_]:
        return (self.cpi > self.threshold[:, None]) & (self.cpu >= np.float32(PAPER.minimum_usage))

    def anomalies(self, span: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return where a task becomes anomalous, and how many outliers the span up to each window has."""
        outlier = self.outliers()
        running = np.cumsum(outlier, axis=1, dtype=np.int64)
        counts = running.copy()
        counts[:, span:] -= running[:, :-span]
        return outlier & (counts >= PAPER.outliers), counts


class _Watch:
    """Follows one machine through the day."""

    def __init__(self, plan: Plan, block: Block, machine: _Machine, enforces: bool, episodes: list[Episode]):
        self.plan, self.block, self.machine = plan, block, machine
        self.enforces = enforces
        self.episodes = episodes
        step = plan.settings.step_s
        self.anomaly = max(1, PAPER.within_s // step)
        self.back = max(1, PAPER.correlation_s // step)
        self.cap = max(1, CAP_S // step)
        self.jobs = plan.task_job[block.first_task + machine.rows]

    def follow(self, guarded: Guarded, shape: tuple[int, int]) -> None:
        """Find incidents in order of time; caps change what comes after them."""
        free_from = np.zeros(len(self.machine.rows), np.int64)
        anomalous, counts = self.machine.anomalies(self.anomaly)
        while True:
            ahead = anomalous & (np.arange(shape[1])[None, :] >= free_from[:, None])
            rows, windows = np.nonzero(ahead)
            if not len(rows):
                return
            place = int(np.lexsort((rows, windows))[0])
            row, window = int(rows[place]), int(windows[place])
            incident = self._incident(row, window, int(counts[row, window]))
            guarded.incidents.append(incident)
            if incident.action == "cap" and incident.antagonist is not None:
                if guarded.caps is None:
                    guarded.caps = np.full(shape, _NO_CAP)
                self._apply(guarded.caps, incident, window)
                anomalous, counts = self.machine.anomalies(self.anomaly)
            free_from[row] = shape[1] if incident.end is None else incident.end

    def _incident(self, row: int, window: int, outliers: int) -> Incident:
        machine, plan = self.machine, self.plan
        span = slice(max(0, window + 1 - self.back), window + 1)
        threshold = float(machine.threshold[row])
        cpi = machine.cpi[row, span]
        counts = machine.cpu[row, span] >= PAPER.minimum_usage
        others = self._suspects(row, span, counts, threshold)
        counted = [value if use else None for value, use in zip(cpi.tolist(), counts.tolist(), strict=True)]
        tasks = [plan.task_name(self.block.first_task + int(machine.rows[other])) for other in others]
        kinds = [plan.jobs[self.jobs[other]] for other in others]
        suspects = [
            Suspect(kind.name, task, kind.job_class, machine.cpu[other, span].tolist())
            for other, task, kind in zip(others, tasks, kinds, strict=True)
        ]
        judgement = judge(plan.jobs[self.jobs[row]].job_class, counted, threshold, suspects)
        action, antagonist = "none", None
        if judgement.cap is not None:
            action = "cap" if self.enforces else "dry-run"
            antagonist = int(machine.rows[others[tasks.index(judgement.cap.suspect.task)]])
        end = window + 1 + self.cap if action == "cap" else self._calm(row, window)
        known_end = end if end is not None and end < machine.cpi.shape[1] else None
        return Incident(
            int(machine.rows[row]), window, known_end, outliers, threshold, judgement, action, antagonist
        )

    def _suspects(self, row: int, span: slice, counts: NDArray[np.bool_], threshold: float) -> list[int]:
        """Return the tasks to be judged: those near the floor, or else only the first among the others."""
        cpi = self.machine.cpi[row, span]
        strained = np.where(cpi > threshold, 1 - threshold / cpi, cpi / threshold - 1) * counts
        usage = self.machine.cpu[:, span]
        correlation = usage @ strained / (usage @ counts)
        correlation[row] = -np.inf
        near = np.flatnonzero(correlation >= PAPER.correlation_floor - _NEAR)
        return near.tolist() if len(near) else [int(np.argmax(correlation))]

    def _calm(self, row: int, window: int) -> int | None:
        """Return the first window after which 5 minutes passed without an outlier."""
        outlier = np.flatnonzero(self.machine.outliers()[row, window:]) + window
        gaps = np.flatnonzero(np.diff(outlier) > self.anomaly)
        last = int(outlier[gaps[0]] if len(gaps) else outlier[-1])
        return last + self.anomaly + 1

    def _apply(self, caps: Floats, incident: Incident, window: int) -> None:
        """Cap the antagonist, and give its victims back what followed its use."""
        held = slice(window + 1, window + 1 + self.cap)
        guilty = incident.antagonist
        allowed = np.float32(incident.judgement.cap_cpu_ratio or 0.0)
        caps[guilty, held] = np.minimum(caps[guilty, held], allowed)
        place = int(np.flatnonzero(self.machine.rows == guilty)[0])
        before = self.machine.cpu[place, held].copy()
        after = np.minimum(before, allowed)
        self.machine.cpu[place, held] = after
        for episode in self.episodes:
            if episode.antagonist is None or episode.antagonist - self.block.first_task != guilty:
                continue
            inside = np.zeros(self.machine.cpu.shape[1], bool)
            inside[episode.first : episode.end] = True
            peak = np.float32(episode.peak_cpu)
            for victim, slowdown in episode.victims:
                spot = np.flatnonzero(self.machine.rows == victim - self.block.first_task)
                gained = (1 + np.float32(slowdown) * after / peak) / (
                    1 + np.float32(slowdown) * before / peak
                )
                self.machine.cpi[spot, held] *= np.where(inside[held], gained, np.float32(1.0))


def guard_block(
    plan: Plan, block: Block, load: Load, cpi: Floats, episodes: list[Episode], specs: dict[SpecKey, Spec]
) -> Guarded:
    """Return what the guards of a block's machines find with these specs."""
    guarded = Guarded()
    threshold = np.full(len(plan.jobs), np.inf, np.float32)
    for (job, platform), spec in specs.items():
        if platform == block.platform and plan.jobs[job].job_class == LATENCY_SENSITIVE:
            threshold[job] = spec.threshold_cpi
    task_jobs = plan.task_job[block.first_task : block.end_task]
    for number, machine in enumerate(block.machines.tolist()):
        rows = np.flatnonzero(load.machine_tasks == number)
        watched = _Machine(rows, load.cpu[rows].copy(), cpi[rows].copy(), threshold[task_jobs[rows]])
        mine = [episode for episode in episodes if episode.machine == machine]
        _Watch(plan, block, watched, bool(plan.machine_guard[machine]), mine).follow(guarded, cpi.shape)
    return guarded


def incident_table(plan: Plan, block: Block, day: int, guarded: Guarded, cpi: Floats) -> pa.Table:
    """Return the rows of ``incidents`` of a block's day, with CPI as it came to be."""
    start, step = plan.settings.day_start_s(day), plan.settings.step_s
    rows = []
    for incident in guarded.incidents:
        task = block.first_task + incident.victim
        machine = plan.machine_name(int(plan.task_machine[task]))
        began = start + incident.first * step
        cap, capped = incident.judgement.cap, incident.action == "cap"
        named = cap or incident.judgement.antagonist
        held = cpi[incident.victim, incident.first + 1 : incident.end]
        held_end = start + (incident.end if incident.end is not None else cpi.shape[1]) * step
        rows.append(
            {
                "incident": f"{machine}-{began}-{plan.task_name(task)}",
                "machine": machine,
                "platform": plan.platforms[block.platform].name,
                "victim_job": plan.jobs[plan.task_job[task]].name,
                "victim_task": plan.task_name(task),
                "start_unix_s": began,
                "end_unix_s": None if incident.end is None else start + incident.end * step,
                "threshold_cpi": incident.threshold_cpi,
                "victim_cpi": float(cpi[incident.victim, incident.first]),
                "outliers": incident.outliers,
                "antagonist_job": named.suspect.job if named else None,
                "antagonist_task": named.suspect.task if named else None,
                "antagonist_class": named.suspect.job_class if named else None,
                "correlation": named.correlation.value if named else None,
                "action": incident.action,
                "reason": incident.judgement.reason
                or ("antagonist capped" if capped else "caps are not enforced"),
                "cap_cpu_ratio": incident.judgement.cap_cpu_ratio if capped else None,
                "cap_start_unix_s": began + step if capped else None,
                "cap_end_unix_s": held_end if capped else None,
                "undone": True if capped else None,
                "victim_cpi_after": float(held.mean()) if capped and len(held) else None,
            }
        )
    rows.sort(key=lambda row: (row["victim_job"], row["start_unix_s"], row["machine"], row["victim_task"]))
    return pa.Table.from_pylist(rows, schema=TABLES["incidents"].arrow)
