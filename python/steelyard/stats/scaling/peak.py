"""Where throughput is highest, and whether a curve has such a place.

In: the model of a curve (``choice``) and the law's own answer (``law``). Out: the number of CPUs with the
highest throughput and that throughput, or why there is none.

There is a peak where readings fall: where the last step is lower than the best one by more than noise
explains and materially. Its interval is the law's where the law holds, otherwise it reaches to the steps
beside those that are as good as the best. Where readings do not fall clearly, there is one if the law holds,
its interval ends near the last step, and no model without a peak describes them nearly as well.
"""

from __future__ import annotations

import math

import numpy as np

from steelyard.stats.scaling.choice import Chosen, Kind
from steelyard.stats.scaling.law import LawFit, Parameter

FALL_RATIO = 0.05
"""A last step that is lower than the best one by less is as high."""
FALL_RATIO_ALONE = 0.15
"""The same where the noise is not known."""
FALL_BY_CHANCE = 0.05
NEAR = 1.5
"""A peak up to this many times the most CPUs is near what was measured."""
_EVIDENCE = 4.0
"""How much smaller the law's criterion is than that of each model without a peak."""


def peak_of(chosen: Chosen, law: LawFit) -> tuple[Parameter, Parameter]:
    """Return the peak and the throughput there; not identified where there is none, with the reason."""
    means, cpus = chosen.means, chosen.cpus
    last = f"{cpus[-1]:g}"
    best = int(means.argmax())
    tolerance = _tolerance(chosen, best)
    bar = max(tolerance, -math.log1p(-FALL_RATIO))
    if _is_one_reading(chosen, means[best] - bar):
        bar = max(bar, -math.log1p(-FALL_RATIO_ALONE))
    if means[best] - means[-1] > bar:
        return _fallen(chosen, law, best, tolerance)
    if chosen.kind is Kind.LAW and _is_foreseen(chosen, law):
        return law.peak, law.peak_throughput
    reason = f"the steps up to {last} CPUs show no peak"
    if means[best] - means[-1] > -math.log1p(-FALL_RATIO):
        reason = f"throughput is highest at {cpus[best]:g}, by no more than noise explains"
    elif (
        chosen.kind is Kind.LAW and chosen.noise.is_assumed and law.peak.reason is not None and len(cpus) > 2
    ):
        reason = law.peak.reason
    low = law.peak.low
    if chosen.kind is Kind.LAW and low is not None and float(cpus[-1]) < low < math.inf:
        reason += f": if there is one, it is at {low:.3g} CPUs or more"
    has_value = chosen.kind is Kind.LAW
    return (
        Parameter(law.peak.value if has_value else None, low if has_value else None, None, False, reason)
        if not has_value
        else Parameter(law.peak.value, law.peak.low, math.inf, False, reason),
        Parameter(law.peak_throughput.value, law.peak_throughput.low, math.inf, False, reason)
        if has_value
        else Parameter(None, None, None, False, reason),
    )


def _is_one_reading(chosen: Chosen, bar: float) -> bool:
    """Return whether a single reading is below ``bar`` at the end, which no smooth law explains."""
    is_alone = chosen.logs.shape[1] == 1 and chosen.kind is not Kind.LAW
    return is_alone and bool(chosen.means[-1] < bar <= chosen.means[-2])


def _tolerance(chosen: Chosen, best: int) -> float:
    """Return by how much the best of the steps may exceed the last one by noise alone, in logarithms."""
    if chosen.noise.is_assumed:
        return -math.log1p(-FALL_RATIO_ALONE)
    from scipy.special import stdtrit

    noise = chosen.noise_of_readings
    quantile = float(stdtrit(noise.degrees, 1 - FALL_BY_CHANCE / len(chosen.cpus)))
    return quantile * math.sqrt(float(noise.squares[best] + noise.squares[-1]))


def _fallen(chosen: Chosen, law: LawFit, best: int, tolerance: float) -> tuple[Parameter, Parameter]:
    means, cpus = chosen.means, chosen.cpus
    highest = float(np.exp(means[best]))
    if chosen.kind is Kind.LAW and law.peak.value is not None and math.isfinite(law.peak.high or math.inf):
        low, high = law.peak.low or 1.0, law.peak.high or math.inf
        # Noise of the best step is no reason to leave it out.
        peak = Parameter(law.peak.value, min(low, cpus[best]), max(high, cpus[best]), True, None)
        return peak, law.peak_throughput
    as_good = np.flatnonzero(means >= means[best] - tolerance)
    low, high = cpus[max(0, as_good[0] - 1)], cpus[min(len(cpus) - 1, as_good[-1] + 1)]
    spread = math.exp(tolerance / math.sqrt(2))
    return (
        Parameter(float(cpus[best]), float(low), float(high), True, None),
        Parameter(highest, highest / spread, highest * spread, True, None),
    )


def _is_foreseen(chosen: Chosen, law: LawFit) -> bool:
    """Return whether the law alone tells of a peak that readings have not fallen from."""
    peak = law.peak
    last = float(chosen.cpus[-1])
    if not peak.is_identified or peak.high is None or peak.high > NEAR * last:
        return False
    # A peak before the last step, where readings rise up to it, is one that they do not have.
    if peak.high < last and int(chosen.means.argmax()) == len(chosen.means) - 1:
        return False
    without = [one.criterion for one in chosen.candidates if "coherency" not in one.fitted.form.terms]
    has = [one.criterion for one in chosen.law if "coherency" in one.fitted.form.terms]
    return min(without) - min(has) > _EVIDENCE
