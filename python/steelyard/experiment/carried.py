"""What trials of an experiment of more than two arms owe to the ones before them.

In: its record. Out: the effect on each trial, and on what follows each arm. Of two arms it is fitted beside
their difference (``stats.contrasts``). Not here: the fit (``stats.carry_over``).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.experiment.design import is_curve
from steelyard.records.experiment import Experiment
from steelyard.stats.carry_over import carry_over


@dataclass(frozen=True, slots=True)
class Carried:
    """Effects that answers are without."""

    by_trial: Mapping[tuple[str, int], float]
    """Arm and block of a trial -> the effect on the logarithm of its value."""
    by_arm: Mapping[str, tuple[float, float]]
    """Arm -> the effect of following it over that of following any, and its standard error."""

    def taken_out(self, values: Mapping[str, Mapping[int, float]]) -> dict[str, dict[int, float]]:
        """Return the values of each arm by block as they were without the effects."""
        return {
            arm: {
                block: value * math.exp(-self.by_trial.get((arm, block), 0.0))
                for block, value in of_arm.items()
            }
            for arm, of_arm in values.items()
        }


NOTHING = Carried({}, {})


def carried(experiment: Experiment) -> Carried:
    """Return the effects; none where they may be alike, or where the order of the trials is not known."""
    names = [arm.name for arm in experiment.arms]
    timed = all(trial.end_ns for trial in experiment.trials)
    if len(names) < 3 or experiment.hosts or not timed or is_curve(experiment):
        return NOTHING
    made = sorted(experiment.trials, key=lambda trial: trial.begin_ns)
    places: dict[int, int] = {}
    place_of = []
    for trial in made:
        place_of.append(places.get(trial.block, 0))
        places[trial.block] = place_of[-1] + 1
    logs = [math.log(t.value) if t.value is not None and t.value > 0 else math.nan for t in made]
    arms = [names.index(trial.arm) for trial in made]
    found = (
        carry_over(logs, arms, [trial.block // 2 for trial in made], place_of, len(names)) if made else None
    )
    if found is None:
        return NOTHING
    by_trial = {
        (trial.arm, trial.block): found.by_arm[before] for before, trial in zip(arms, made[1:], strict=False)
    }
    return Carried(by_trial, dict(zip(names, zip(found.by_arm, found.errors, strict=True), strict=True)))
