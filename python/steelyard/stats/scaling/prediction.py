"""Throughput at numbers of CPUs that were not measured.

In: the model of a curve (``choice``), and what siblings are worth where another machine's curve says it. Out:
`Prediction`: what a trial there would give, with an interval, or why that is not known.

Between the steps it is the model's, as far as the model is from the readings beside it. Beyond them it is the
model's on the same kind of CPUs: the law without terms, with contention and with both, each by its weight
(Akaike weights; Burnham and Anderson, Model Selection and Multimodel Inference, 2002, 2.9). No reading tells
what the next doubling loses to clocks, caches and memory: the interval is wider by `LOSS_BEYOND` below for
each, and by `GAIN_BEYOND` above, from no more than linear.

Siblings, and CPUs of another node, are of another kind: across such a boundary, which the steps have not
crossed, there is no prediction; with the worth of siblings there is one up to two threads a core.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steelyard.stats.scaling.choice import Candidate, Chosen, Kind, Topology
from steelyard.stats.scaling.noise import Floats

LOSS_BEYOND = 0.1
"""What each doubling beyond the steps may lose that they do not show."""
GAIN_BEYOND = 0.03
"""What it may gain."""
WORTH_DIFFERS = 0.05
"""By how much of the throughput siblings may differ between machines of a processor."""
WIDEST = 10.0
"""Ends that are further apart, as a ratio, tell nothing."""
_TAIL = 0.025
_FARTHEST = 600.0
"""Logarithms are kept so near: noise that few blocks tell strays to where figures are infinite."""
_SEED = 22


@dataclass(frozen=True, slots=True)
class Prediction:
    """Throughput of a trial on a number of CPUs."""

    cpus: int
    """How many, or how many threads."""
    ops_per_s: float | None
    """Throughput, None where ``reason`` says why it is not known."""
    low: float | None
    """Lower end of the interval; where the value is not known, what throughput is at least, or None."""
    high: float | None
    """Upper end of it; where the value is not known, what throughput is at most, or None."""
    reason: str | None = None
    """Why it is not known."""
    basis: str | None = None
    """What it rests on."""


@dataclass(frozen=True, slots=True)
class SiblingWorth:
    """What the second threads of all cores add, of what the cores do alone; not measured on this machine."""

    value: float
    low: float
    high: float
    source: str
    """Where it comes from, in words."""


def predict(chosen: Chosen, cpus: int, worth: SiblingWorth | None = None) -> Prediction:
    """Return throughput on ``cpus``; ``worth`` is what siblings are worth on another machine."""
    first, last = float(chosen.cpus[0]), float(chosen.cpus[-1])
    if first <= cpus <= last:
        return _inside(chosen, cpus)
    if chosen.kind is Kind.NONE:
        nearest = f"no model fits: readings are up to {chosen.misfit_ratio:.0%} from the nearest"
        return _refused(cpus, f"{nearest}, and nothing is predicted beyond the steps")
    if cpus < first:
        return _along(chosen, cpus, math.log2(first / cpus), "fewer CPUs than were measured")
    limit = _limit(chosen.topology, last, cpus)
    if limit is not None:
        return _refused(cpus, limit)
    core = chosen.topology.last_core
    if core is None and chosen.kind is Kind.CEILING:
        return _along(chosen, cpus, math.log2(cpus / last), "at the ceiling")
    if core is None:
        return _unknown(chosen, cpus)
    if cpus <= core or last > core:
        kind = "CPUs like those of the steps" if last <= core else "siblings, as at the last steps"
        return _along(chosen, cpus, math.log2(cpus / last), kind)
    if worth is None:
        return _refused(
            cpus,
            f"CPUs beyond {core:g} are siblings, and the steps up to {last:g} have none: name what siblings"
            " are worth, or the curve of another machine with this processor",
        )
    return _with_siblings(chosen, cpus, float(core), worth)


def _refused(cpus: int, reason: str) -> Prediction:
    return Prediction(cpus, None, None, None, reason)


def _limit(topology: Topology, last: float, cpus: int) -> str | None:
    """Return what the steps would have to cross other than from cores to siblings."""
    if topology.cpus is not None and cpus > topology.cpus:
        return f"the machine has {topology.cpus} CPUs"
    for end in topology.node_ends:
        if last <= end < cpus:
            return f"CPUs beyond {end} are of another NUMA node, and the steps up to {last:g} do not reach it"
    return None


def _inside(chosen: Chosen, cpus: int) -> Prediction:
    before = int(np.searchsorted(chosen.cpus, cpus, side="right")) - 1
    after = min(before + (chosen.cpus[before] < cpus), len(chosen.cpus) - 1)
    beside = [before, int(after)]
    low, high = _interval(chosen, [chosen.best], [1.0], cpus)
    # Where the model is from the readings beside it, it may be as far from what is between them.
    distance = (chosen.means - chosen.best.fitted.logs(chosen.cpus)[0])[beside]
    if chosen.kind is Kind.NONE:
        ends = chosen.means[beside]
        share = 0.0 if before == after else math.log(cpus / chosen.cpus[before])
        share = share and share / math.log(chosen.cpus[after] / chosen.cpus[before])
        middle = float((1 - share) * ends[0] + share * ends[1])
        half = (high - low) / 2
        low, high = min(ends.min(), middle - half), max(ends.max(), middle + half)
        return _made(cpus, middle, float(low), float(high), "between the readings: no model fits")
    middle = float(chosen.best.fitted.logs([cpus])[0, 0])
    low, high = low + min(0.0, *distance), high + max(0.0, *distance)
    return _made(cpus, middle, low, high, "between the steps")


def _made(cpus: int, middle: float, low: float, high: float, basis: str) -> Prediction:
    if high - low > math.log(WIDEST):
        return _refused(cpus, f"noise leaves it open by more than {WIDEST:g} times: repeat the steps")
    value, least, most = (math.exp(min(max(one, -_FARTHEST), _FARTHEST)) for one in (middle, low, high))
    return Prediction(cpus, value, least, most, None, basis)


def _weighed(chosen: Chosen) -> tuple[list[Candidate], list[float]]:
    """Return the models that are continued, with their weights: the law's three, or those of one kind."""
    if math.isinf(chosen.best.criterion):
        return [chosen.best], [1.0]
    models = [
        one
        for one in chosen.candidates
        if one.kind is chosen.best.kind and math.isfinite(one.criterion) and _alike(one, chosen.best)
    ]
    least = min(one.criterion for one in models)
    raw = [math.exp((least - one.criterion) / 2) for one in models]
    kept = [(one, weight / sum(raw)) for one, weight in zip(models, raw, strict=True)]
    kept = [(one, weight) for one, weight in kept if weight > _TAIL / 2]
    return [one for one, _ in kept], [weight / sum(w for _, w in kept) for _, weight in kept]


def _alike(one: Candidate, other: Candidate) -> bool:
    """Return whether models have the same bend."""
    first, second = one.fitted.form, other.fitted.form
    return (first.inner, first.is_level, first.at, first.span, first.worth) == (
        second.inner,
        second.is_level,
        second.at,
        second.span,
        second.worth,
    )


def _interval(
    chosen: Chosen, models: list[Candidate], weights: list[float], cpus: float
) -> tuple[float, float]:
    """Return between which logarithms of throughput a trial lies, by noise alone."""
    random = np.random.default_rng(_SEED)
    parts: list[Floats] = []
    for one, weight in zip(models, weights, strict=True):
        fits, shift = chosen.resampled(one)
        logs = fits.logs([cpus])[:, 0] + shift
        parts.append(logs[: max(1, round(weight * len(logs)))])
    logs = np.concatenate(parts)
    noise = math.sqrt(chosen.noise.of_trial) * random.standard_t(chosen.noise.degrees, len(logs))
    low, high = np.quantile(logs + noise, (_TAIL, 1 - _TAIL))
    return float(low), float(high)


def _along(chosen: Chosen, cpus: int, doublings: float, basis: str) -> Prediction:
    """Return throughput further along the curve on CPUs of the same kind."""
    models, weights = _weighed(chosen)
    middle = sum(
        weight * float(one.fitted.logs([cpus])[0, 0]) for one, weight in zip(models, weights, strict=True)
    )
    low, high = _interval(chosen, models, weights, cpus)
    edge = chosen.cpus[-1] if cpus > chosen.cpus[0] else chosen.cpus[0]
    # Each CPU does no more than it did where the steps end.
    linear = chosen.means[-1] + math.log(cpus / edge) if cpus > edge else math.inf
    half = (high - low) / 2
    low = min(low, middle) - LOSS_BEYOND * doublings
    high = max(min(max(high, middle), linear + half), middle) + GAIN_BEYOND * doublings
    if chosen.noise.is_assumed:
        basis += ", noise of 5 % assumed: the readings do not show it"
    return _made(cpus, middle, low, high, basis)


def _unknown(chosen: Chosen, cpus: int) -> Prediction:
    """Return the ends between which throughput lies where the kind of CPUs beyond the steps is not known."""
    last = int(chosen.cpus[-1])
    like = _along(chosen, cpus, math.log2(cpus / last), "")
    if like.low is None:
        return like
    flat = _along(chosen, last, math.log2(cpus / last), "")
    ends = [end for end in (flat.low, like.low) if end is not None]
    reason = (
        f"whether CPUs beyond {last} are cores, siblings or of another node is not known: name cores,"
        " or threads_per_core"
    )
    return Prediction(cpus, None, min(ends), like.high, reason)


def _with_siblings(chosen: Chosen, cpus: int, core: float, worth: SiblingWorth) -> Prediction:
    if cpus > 2 * core:
        return _refused(cpus, f"the worth is that of second threads, of which there are {core:g}")
    last = float(chosen.cpus[-1])
    cores = _along(chosen, int(core), math.log2(core / last) if core > last else 0.0, "")
    if cores.ops_per_s is None or cores.low is None or cores.high is None:
        return cores
    share = (cpus - core) / core
    differs = WORTH_DIFFERS * share
    return Prediction(
        cpus,
        cores.ops_per_s * (1 + worth.value * share),
        cores.low * (1 + worth.low * share) * (1 - differs),
        cores.high * (1 + worth.high * share) * (1 + differs),
        None,
        f"siblings worth {worth.value:.3g} of a core: {worth.source}",
    )
