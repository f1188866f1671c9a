"""Episodes in which a latency-sensitive task's CPI rises: because of an antagonist, or on its own account.

In: the plan, a block, a day. Out: a list of `Episode`s, each within the day and on one machine.

An antagonist comes and goes for some minutes at a time, as the cases of the CPI2 paper do (EuroSys'13,
section 6): its victims' CPI grows in proportion to its use. How much, is spread from hardly seen to several
times, so that no threshold finds all. A self-inflicted episode has the same look, but nobody else's use goes
with it: whoever names an antagonist there is wrong.

Some episodes have a bystander: an innocent task whose use goes with the pattern, a minute or two late, as
stages of a pipeline and callers of the victim do.

Invariants: one episode a machine and day at most; an antagonist is a batch or best-effort task, a victim a
latency-sensitive one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steelyard.fleet.simulate.catalog import LATENCY_SENSITIVE
from steelyard.fleet.simulate.plan import Block, Floats, Ints, Plan, stream

ON_MINUTES, OFF_MINUTES = (3, 6), (2, 6)
LENGTH_MINUTES = (30, 90)
SLOWDOWN = (0.5, 3.6)
"""Growth of the first victim's CPI at the antagonist's full use: CPI * (1 + slowdown)."""
_LEAST_VICTIM_CPU = 0.3
_OFF_LEVEL = 0.05
_BYSTANDER_RATIO = 0.4


@dataclass(frozen=True)
class Episode:
    """One episode. Tasks are numbered as in the plan; windows from ``first`` to before ``end`` of the day."""

    machine: int
    antagonist: int | None
    first: int
    end: int
    pattern: Floats
    peak_cpu: float
    victims: tuple[tuple[int, float], ...]
    bystander: int | None
    lag: int
    """Windows by which the bystander follows the pattern."""


def _pattern(random: np.random.Generator, length: int, minute_windows: float) -> Floats:
    """Return the use over the episode, 1 while on: minutes on, minutes off, with a little noise."""
    pattern = np.empty(length, np.float32)
    place, on = 0, True
    while place < length:
        low, high = ON_MINUTES if on else OFF_MINUTES
        run = max(1, round(int(random.integers(low, high + 1)) * minute_windows))
        pattern[place : place + run] = 1.0 if on else _OFF_LEVEL
        place, on = place + run, not on
    return pattern * np.asarray(np.clip(random.normal(1.0, 0.08, length), 0.7, 1.3), np.float32)


def _victims(plan: Plan, tasks: Ints, random: np.random.Generator) -> tuple[tuple[int, float], ...]:
    """Return the tasks that suffer and how much: one, and others less."""
    first = int(random.choice(tasks))
    slowdown = float(random.uniform(*SLOWDOWN))
    others = [(int(t), slowdown * float(random.uniform(0.3, 1.0))) for t in tasks if t != first]
    return ((first, slowdown), *(other for other in others if random.random() < 0.4))


def make_episodes(plan: Plan, block: Block, day: int) -> list[Episode]:
    """Return a block's episodes of a day, by machine."""
    settings = plan.settings
    random = stream(settings, "episodes", day, block.number)
    per_minute = 60.0 / settings.step_s
    threads = plan.platforms[block.platform].threads
    sensitive = np.array([job.job_class == LATENCY_SENSITIVE for job in plan.jobs])
    prone = np.array([job.antagonist for job in plan.jobs])
    weekend = 0.8
    episodes = []
    for machine in block.machines.tolist():
        draw, length_min = random.random(), random.integers(LENGTH_MINUTES[0], LENGTH_MINUTES[1] + 1)
        length = int(length_min * per_minute)
        caused = draw < settings.episodes_per_machine_day
        alone = (
            not caused and draw < settings.episodes_per_machine_day + settings.self_inflicted_per_machine_day
        )
        if length < 4 or not (caused or alone):
            continue
        low, high = np.searchsorted(plan.task_machine, [machine, machine + 1])
        tasks = np.arange(low, high)
        kind = plan.task_job[tasks]
        victims = tasks[sensitive[kind] & (plan.task_cpu[tasks] * weekend > _LEAST_VICTIM_CPU)]
        suspects = tasks[prone[kind] > 0]
        if not len(victims) or (caused and not len(suspects)):
            continue
        weights = prone[plan.task_job[suspects]]
        guilty = int(random.choice(suspects, p=weights / weights.sum())) if caused else None
        innocent = suspects[suspects != guilty]
        beside = len(innocent) > 0 and random.random() < _BYSTANDER_RATIO
        first = int(random.integers(int(20 * per_minute), settings.windows - length))
        episodes.append(
            Episode(
                machine=machine,
                antagonist=guilty,
                first=first,
                end=first + length,
                pattern=_pattern(random, length, per_minute),
                peak_cpu=float(random.uniform(0.15, 0.35)) * threads,
                victims=_victims(plan, victims, random),
                bystander=int(random.choice(innocent)) if beside else None,
                lag=int(random.integers(0, 3)),
            )
        )
    return episodes
