"""The entropy of shares that were sampled in clusters, without the bias that few clusters give it.

In: weight of each key in groups of clusters (whole machines), and how much of the weight is of keys that one
cluster alone has. Out: `Entropy`.

The entropy of a sample is too small: what was not seen adds nothing to it. Corrections for few samples
(Miller and Madow 1955; Chao and Shen, Environmental and Ecological Statistics 10, 2003) find hardly any
bias in samples that come in clusters, because it is the clusters that are few. The delete-a-group jackknife
(Zahl, Ecology 58, 1977; Kott, Journal of Official Statistics 17, 2001) takes out that of the first order,
and gives a standard error. What it took out says how much there may be left: the interval reaches upwards
by ``LEFT_RATIO`` of it besides, which simulated fleets need (``docs/truth.md``).

Invariants: no interval where more than ``MOST_UNSEEN_RATIO`` of the weight is of keys that one cluster alone
has: about as much of the population's is of keys that were not seen at all (Good, Biometrika 40, 1953).

Not here: which groups (``fleet.profiles.shares``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST_UNSEEN_RATIO = 0.2
LEAST_GROUPS = 5
LEFT_RATIO = 1.5


@dataclass(frozen=True)
class Entropy:
    """Entropy in bits."""

    sampled: float
    """Of the sample as it is."""
    value: float
    """Of the population: the bias of the first order taken out; the sample's where that is not known."""
    low: float | None
    """Lower end of the interval, None with the reason in ``missing``."""
    high: float | None
    """Upper end of it."""
    unseen_ratio: float
    """Share of the weight in keys that only one cluster has; estimates the share of unseen keys."""
    missing: str | None = None
    """Why there is no interval."""


def bits_of(weights: Floats) -> float:
    """Return the entropy of weights, which need not sum to 1.

    >>> bits_of(np.array([1.0, 1.0, 2.0]))
    1.5
    """
    total = weights.sum()
    shares = weights[weights > 0] / total if total > 0 else np.zeros(0)
    return float(-(shares * np.log2(shares)).sum()) + 0.0


def entropy_of(weights: Floats, unseen_ratio: float, confidence: float = 0.95) -> Entropy:
    """Return the entropy of keys (rows) over groups of clusters (columns)."""
    from scipy.special import stdtrit

    total = weights.sum(axis=1)
    sampled = bits_of(total)
    groups = weights[:, weights.sum(axis=0) > 0]
    count = groups.shape[1]
    if count < 2:
        return Entropy(sampled, sampled, None, None, unseen_ratio, "samples of one machine only")
    without = np.array([bits_of(np.maximum(0.0, total - groups[:, at])) for at in range(count)])
    value = max(sampled, count * sampled - (count - 1) * float(without.mean()))
    if count < LEAST_GROUPS:
        why = f"samples of {count} machines: an interval needs {LEAST_GROUPS}"
        return Entropy(sampled, value, None, None, unseen_ratio, why)
    if unseen_ratio > MOST_UNSEEN_RATIO:
        why = (
            f"{unseen_ratio:.0%} of the weight is of functions that one machine alone has: at most"
            f" {MOST_UNSEEN_RATIO:.0%} for an interval"
        )
        return Entropy(sampled, value, None, None, unseen_ratio, why)
    spread = (count - 1) * float(np.std(without, ddof=1)) / count**0.5
    reach = float(stdtrit(count - 1, (1 + confidence) / 2)) * spread
    high = value + reach + LEFT_RATIO * (value - sampled)
    return Entropy(sampled, value, max(0.0, value - reach), high, unseen_ratio, None)
