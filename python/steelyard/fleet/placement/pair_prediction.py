"""What contention to expect of two jobs that were never seen together, from where each presses.

In: the slow-downs that were observed, and the jobs' shares of machines' limits. Out: a prediction for each
ordered pair, with an interval, and how good such predictions are on the pairs that were observed.

    slow-down of j beside k  =  sum over resources r of  theta_r  u_jr  u_kr,    theta >= 0

where u is a job's mean use of a resource, over the mean of all jobs: who does not use a resource neither
hurts on it nor is hurt. The theta are fitted by non-negative least squares, each observation weighted by its
precision.

Invariants: the interval is as wide as the errors made when each observed pair is predicted from the others;
where those predictions are no better than the mean of all pairs, nothing is predicted, with the reason.

Not here: observing (``pair``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.fleet.effects import Effect, Floats
from steelyard.fleet.pressure import RESOURCES, JobPressure

LEAST_PAIRS = 10
"""Observed pairs below which nothing is predicted."""
_FLOOR = 0.01
"""Standard error below which an observation weighs no more: pairs differ by more than their samples tell."""


@dataclass(frozen=True)
class Prediction:
    """A slow-down that was not observed: CPI beside the other job over CPI without it, less 1."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Skill:
    """How good predictions are."""

    pairs: int
    """Observed ones that it was learnt from."""
    error: float | None
    """Root of the mean squared error when each observed pair is predicted from the others."""
    skill_ratio: float | None
    """Share of the spread of slow-downs that such predictions explain; 0 or less: none."""
    weights: dict[str, float]
    """Theta by resource."""
    reason: str = ""
    """Why nothing is predicted."""

    def document(self) -> dict[str, Any]:
        """Return what ``--json`` shows."""
        return {
            "observed_pairs": self.pairs,
            "error": self.error,
            "skill_ratio": self.skill_ratio,
            "weights": self.weights,
            "reason": self.reason,
        }


def predict(
    observed: Mapping[tuple[str, str], Effect], pressures: Sequence[JobPressure], jobs: Sequence[str]
) -> tuple[Skill, dict[tuple[str, str], Prediction]]:
    """Return predictions for the ordered pairs of ``jobs`` that were not observed, and how good they are."""
    if len(observed) < LEAST_PAIRS:
        return Skill(len(observed), None, None, {}, f"fewer than {LEAST_PAIRS} pairs were observed"), {}
    press = {pressure.job: pressure for pressure in pressures}
    shared = [name for name in RESOURCES if all(press[job].mean(name) is not None for job in jobs)]
    if not shared:
        return Skill(len(observed), None, None, {}, "no resource was measured for every job"), {}
    use = np.array([[press[job].mean(name) or 0.0 for name in shared] for job in jobs])
    use = use / np.maximum(use.mean(axis=0), 1e-300)
    place = {job: at for at, job in enumerate(jobs)}
    keys = [key for key in observed if key[0] in place and key[1] in place]
    features = np.array([use[place[j]] * use[place[k]] for j, k in keys])
    values = np.array([observed[key].value for key in keys])
    errors = np.array([max(observed[key].standard_error or 0.0, _FLOOR) for key in keys])
    weights = fit(features, values, errors)
    left_out, of_mean = _left_out(features, values, errors)
    precision = 1 / errors**2
    error = float(np.sqrt((precision * (values - left_out) ** 2).sum() / precision.sum()))
    spread = float((precision * (values - of_mean) ** 2).sum())
    skill = 1 - float((precision * (values - left_out) ** 2).sum()) / spread if spread > 0 else 0.0
    named = dict(zip(shared, weights.tolist(), strict=True))
    if skill <= 0:
        reason = "resource pressure does not predict contention here better than the mean of all pairs"
        return Skill(len(keys), error, skill, named, reason), {}
    from scipy.special import stdtrit

    reach = float(stdtrit(max(1, len(keys) - len(shared)), 0.975)) * error
    made = {}
    for job in jobs:
        for other in jobs:
            if job != other and (job, other) not in observed:
                value = float((use[place[job]] * use[place[other]]) @ weights)
                made[job, other] = Prediction(value, value - reach, value + reach)
    return Skill(len(keys), error, skill, named), made


def fit(features: Floats, values: Floats, errors: Floats) -> Floats:
    """Return theta by non-negative least squares, weighted by precision."""
    from scipy.optimize import nnls

    theta: Floats = nnls(features / errors[:, None], values / errors)[0]
    return theta


def _left_out(features: Floats, values: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Return what each value is predicted as from all others: by the model, and by their mean."""
    count = len(values)
    by_model, by_mean = np.zeros(count), np.zeros(count)
    for at in range(count):
        rest = np.arange(count) != at
        by_model[at] = features[at] @ fit(features[rest], values[rest], errors[rest])
        by_mean[at] = np.average(values[rest], weights=1 / errors[rest] ** 2)
    return by_model, by_mean
