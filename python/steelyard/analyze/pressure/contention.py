"""What to expect of two workloads that share a machine, from how hard each presses on its resources alone.

In: shares of a machine's limits by resource, of each workload; slow-downs that were observed. Out: which
resources the two would fill together, and predictions of how much each slows down.

Three steps, from the surest to the least sure:

- `together`: two shares of one limit add up; where the sum passes the resource's threshold
  (``intensities.THRESHOLDS``), the two must not share it.
- `predict`: where enough pairs were observed, the law that explains them tells those that were not:

      slow-down of j beside k  =  sum over resources r of  theta_r  u_jr  u_kr,    theta >= 0

  where u is a workload's use of a resource, over the mean of all workloads: who does not use a resource
  neither hurts on it nor is hurt. The theta are fitted by non-negative least squares, each observation
  weighted by its precision.
- `shared_slowdown`: without observations, a resource of which the two want more than there is gives each the
  same share of what it had alone. What a resource does below saturation (queues, caches) is not in it.

Invariants: the interval of `predict` is as wide as the errors made when each observed pair is predicted from
the others, and for a workload that was seen beside no other when each workload is left out with all of its
pairs; where those predictions are no better than the mean of all pairs, nothing is predicted, and a reason
is given.

Not here: observing (``fleet.placement.pair``, ``analyze.colocation``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.analyze.pressure.intensities import THRESHOLDS

Floats = NDArray[np.float64]

RATES = ("cpu", "dram_bandwidth", "disk_bandwidth", "network")
"""Resources that give so much a second: of two workloads that want more than that, each gets less."""


class Observation(Protocol):
    """A slow-down that was observed."""

    @property
    def value(self) -> float:
        """How much longer work takes beside the other, less 1."""

    @property
    def standard_error(self) -> float | None:
        """Of the value, None where it is not known."""


def together(first: Mapping[str, float | None], second: Mapping[str, float | None]) -> dict[str, float]:
    """Return the sum of two workloads' shares of each limit that both were held against."""
    sums: dict[str, float] = {}
    for name, share in first.items():
        other = second.get(name)
        if share is not None and other is not None:
            sums[name] = share + other
    return sums


def over(sums: Mapping[str, float]) -> tuple[str, ...]:
    """Return the resources that two workloads together press past their thresholds."""
    return tuple(name for name, total in sums.items() if total >= THRESHOLDS[name])


def shared_slowdown(sums: Mapping[str, float]) -> tuple[float, str | None]:
    """Return how many times as long work takes where the two want more than there is, and of which resource.

    ``sums`` are those of `together`. The scarcest resource decides.

    >>> shared_slowdown({"cpu": 1.5, "network": 1.25, "dram_capacity": 1.9})
    (1.5, 'cpu')
    >>> shared_slowdown({"cpu": 0.8})
    (1.0, None)
    """
    scarce = {name: total for name, total in sums.items() if name in RATES and total > 1}
    worst = max(scarce, key=lambda name: scarce[name], default=None)
    return (1.0, None) if worst is None else (scarce[worst], worst)


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

    observed_pairs: int
    """Observed ones that it was learnt from."""
    error: float | None
    """Root of the mean squared error when each observed pair is predicted from the others."""
    skill_ratio: float | None
    """Share of the spread of slow-downs that such predictions explain; 0 or less: none."""
    weights: dict[str, float]
    """Theta by resource."""
    reason: str = ""
    """Why nothing is predicted, empty where something is."""


def predict(
    observed: Mapping[tuple[str, str], Observation],
    uses: Mapping[str, Mapping[str, float | None]],
    jobs: Sequence[str],
    asked: Iterable[tuple[str, str]] | None = None,
) -> tuple[Skill, dict[tuple[str, str], Prediction]]:
    """Return predictions for the ordered pairs of ``jobs`` that were not observed, and how good they are.

    ``uses`` are shares of limits by workload and resource; ``asked`` are the pairs to predict, by default
    all of them.
    """
    if len(observed) < LEAST_PAIRS:
        return Skill(len(observed), None, None, {}, f"fewer than {LEAST_PAIRS} pairs were observed"), {}
    resources = dict.fromkeys(name for job in jobs for name in uses[job])
    shared = [name for name in resources if all(uses[job].get(name) is not None for job in jobs)]
    if not shared:
        return Skill(len(observed), None, None, {}, "no resource was measured for every job"), {}
    use = np.array([[uses[job][name] or 0.0 for name in shared] for job in jobs])
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

    seen = {job for key in keys for job in key}
    known = float(stdtrit(max(1, len(keys) - len(shared)), 0.975)) * error
    new = _reach_of_new(keys, features, values, errors)
    made = {}
    every = ((job, other) for job in jobs for other in jobs if job != other)
    for job, other in every if asked is None else asked:
        if (job, other) not in observed:
            feature = use[place[job]] * use[place[other]]
            value = float(feature @ weights)
            reach = known if job in seen and other in seen else max(known, new(feature))
            made[job, other] = Prediction(value, value - reach, value + reach)
    return Skill(len(keys), error, skill, named), made


def fit(features: Floats, values: Floats, errors: Floats) -> Floats:
    """Return theta by non-negative least squares, weighted by precision."""
    from scipy.optimize import nnls

    theta: Floats = nnls(features / errors[:, None], values / errors)[0]
    return theta


def _reach_of_new(
    keys: Sequence[tuple[str, str]], features: Floats, values: Floats, errors: Floats
) -> Callable[[Floats], float]:
    """Return what says how far a prediction may be off for a pair of which a job was seen beside no other.

    Each job in turn is left out with all of its pairs. Their errors grow with what the law says of a pair, as
    where it is another one, and with how far the pair is from those that were fitted (leverage): they are
    taken over the standard error that both give.
    """
    from scipy.special import stdtrit

    jobs = sorted({job for key in keys for job in key})

    def scale(feature: Floats, fitted: Floats, theta: Floats) -> float:
        # What the fit holds at 0 has no error.
        free = theta > 0
        inverse = np.linalg.pinv(fitted[:, free].T @ fitted[:, free])
        return float(np.sqrt(1 + feature[free] @ inverse @ feature[free]))

    squares, count = 0.0, 0
    for job in jobs:
        out = np.array([job in key for key in keys])
        if out.all() or not out.any():
            continue
        theta = fit(features[~out], values[~out], errors[~out])
        for at in np.flatnonzero(out):
            squares += ((values[at] - features[at] @ theta) / scale(features[at], features[~out], theta)) ** 2
            count += 1
    deviation = float(np.sqrt(squares / count)) if count else np.inf
    quantile = float(stdtrit(len(jobs), 0.975))
    whole = fit(features, values, errors)
    return lambda feature: quantile * deviation * scale(feature, features, whole)


def _left_out(features: Floats, values: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Return what each value is predicted as from all others: by the model, and by their mean."""
    count = len(values)
    by_model, by_mean = np.zeros(count), np.zeros(count)
    for at in range(count):
        rest = np.arange(count) != at
        by_model[at] = features[at] @ fit(features[rest], values[rest], errors[rest])
        by_mean[at] = np.average(values[rest], weights=1 / errors[rest] ** 2)
    return by_model, by_mean
