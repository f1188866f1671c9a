"""How many blocks an experiment needs, before it is made: from the noise of earlier ones like it.

In: the record of an experiment, with or without trials, and a folder of earlier ones. Out: `Forecast`. Reads
only; nothing is written or run.

Levels of the arms may differ from those of an earlier one, because what is taken from it is the noise of a
block and the time of a trial, no effect.

Not here: which earlier ones are like it (``alike``), the count for a given noise
(``stats.contrasts.blocks_needed``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import RecordError, SteelyardError
from steelyard.experiment.alike import is_alike
from steelyard.experiment.answers import POWER, blocks_of_answer, comparisons_of, values_by_arm, whole_blocks
from steelyard.experiment.engine import MACHINE, MANIFEST, load
from steelyard.machine.compare import other_machine
from steelyard.records import Machine, read
from steelyard.records.experiment import Experiment
from steelyard.stats.contrasts import FEWEST_BLOCKS, blocks_needed
from steelyard.stats.serial import serial

EFFECTS = (0.5, 1.0, 2.0, 5.0)
"""Times the smallest effect that matters, of which a forecast says how many blocks they need."""
_MOST_EARLIER = 20
"""So many of the latest are read."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Need:
    """What it takes to see an effect in 4 of 5 experiments."""

    effect_ratio: float
    """The effect, 0.01 for 1 %."""
    blocks: int
    """Blocks in all."""
    seconds: float | None
    """Time of their trials; None where that of one is not known."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What an experiment needs, as far as earlier ones tell."""

    earlier: Sequence[str]
    """Ids of the experiments that it rests on."""
    blocks: int
    """Their whole blocks."""
    deviation: float | None
    """Standard deviation of the log-ratio of one block; None where ``reason`` says why."""
    trial_s: float | None
    """Mean time of a trial, None where none was made."""
    needs: Sequence[Need]
    """By effect; empty without a deviation."""
    reason: str | None
    """Why nothing is known, None where something is."""


def earlier_like(experiment: Experiment, out: Path, here: Machine) -> list[Experiment]:
    """Return the experiments below ``out`` that resemble one and were made on the machine ``here``.

    Oldest first; unreadable ones are skipped.
    """
    found = []
    for manifest in sorted(out.glob(f"*/{MANIFEST}"), reverse=True):
        try:
            earlier = load(manifest.parent)
        except RecordError:
            continue
        if is_alike(earlier, experiment) and _was_here(manifest.parent, here):
            found.append(earlier)
        if len(found) == _MOST_EARLIER:
            break
    return found[::-1]


def _was_here(folder: Path, here: Machine) -> bool:
    try:
        return other_machine(read(Machine, folder / MACHINE), here) is None
    except SteelyardError:
        return False


def forecast(experiment: Experiment, earlier: Sequence[Experiment]) -> Forecast:
    """Return how many blocks ``experiment`` needs, by the noise of ``earlier`` ones."""
    squares, degrees, blocks = 0.0, 0.0, 0
    used, times = [], []
    for one in earlier:
        values = values_by_arm(one)
        base = values[one.arms[0].name]
        seen = 0
        for arm in one.arms[1:]:
            common = sorted(base.keys() & values[arm.name].keys())
            if len(common) < FEWEST_BLOCKS:
                continue
            logs = [math.log(values[arm.name][block] / base[block]) for block in common]
            # Blocks that resemble each other count as fewer: each is worth less.
            worth = len(logs) / serial(logs).effective_count
            mean = sum(logs) / len(logs)
            squares += worth * sum((log - mean) ** 2 for log in logs)
            degrees += len(logs) - 1
            seen = max(seen, len(common))
        if seen:
            used.append(one.experiment_id)
            blocks += seen
            times += [(trial.end_ns - trial.begin_ns) / 1e9 for trial in one.trials]
    trial_s = sum(times) / len(times) if times else None
    if not used:
        return Forecast(
            [],
            0,
            None,
            None,
            [],
            "no earlier experiment like this one, made on this machine, has 4 whole blocks",
        )
    deviation = math.sqrt(squares / degrees)
    if deviation <= _ROUNDING:
        reason = "earlier values do not vary: their noise is not known"
        return Forecast(used, blocks, None, trial_s, [], reason)
    return Forecast(
        used, blocks, deviation, trial_s, _needs(experiment, deviation, degrees, trial_s), reason=None
    )


def _needs(experiment: Experiment, deviation: float, degrees: float, trial_s: float | None) -> list[Need]:
    plan, arms = experiment.plan, len(experiment.arms)
    found = []
    for times in EFFECTS:
        effect = times * plan.least_effect_ratio
        count = blocks_of_answer(experiment) * blocks_needed(
            deviation,
            math.log1p(effect),
            confidence=1 - (1 - plan.confidence) / comparisons_of(experiment),
            power=POWER,
            has_looks=plan.stop_early,
            degrees=degrees,
        )
        found.append(Need(effect, count, None if trial_s is None else trial_s * count * arms))
    return found


def target_of(pilot: Experiment) -> Experiment:
    """Return the experiment without trials that a pilot is for."""
    assert pilot.pilot is not None
    return pilot.model_copy(
        update={"arms": pilot.pilot.arms, "plan": pilot.pilot.plan, "pilot": None, "trials": []}
    )


def forecast_of_pilot(pilot: Experiment) -> Forecast:
    """Return how many blocks the experiment needs that a pilot is for, whether or not the pilot is over."""
    found = forecast(target_of(pilot), [pilot])
    if found.earlier:
        return found
    made = len(whole_blocks(values_by_arm(pilot)))
    reason = f"the pilot has {made} whole blocks, {FEWEST_BLOCKS} are needed"
    return Forecast([], made, None, None, [], reason)
