"""What hit ratio a cache of a given size has, and how many keys give a wanted one.

In: capacity in items, number of keys, Zipf exponent of their popularity (0 is uniform), eviction policy. Out:
hit ratio, number of keys, requests until the cache is full.

The model is the independent reference model: each request draws its key anew. Uniform popularity is exact
under any policy. For Zipf, least recently used follows Che, Tung and Wang (2002); first in, first out and
random eviction follow Gelenbe (1973) in the form of Fricker, Robert and Roberts (2012). All are good to about
0.01 in hit ratio from a hundred items on, which the tests show against simulated caches.

Not here: caches by bytes. Sizes are a function of the key, not of its popularity, so that a capacity in items
is the memory over the mean item; ``items_in`` does that division.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

EXACT_RANKS = 1 << 14
"""The most popular keys, which are summed one by one; the others are summed in bins."""

BIN_RATIO = 1.01
"""Last rank over first rank of a bin: a Zipf weight varies by less than 2 % within it."""

MOST_KEYS = 1 << 62
"""Nobody has more."""

_Floats = NDArray[np.float64]


class Policy(StrEnum):
    """Which item goes when there is no room."""

    LRU = "lru"
    """The least recently used one, and close relatives such as CLOCK with a reference bit."""
    FIFO = "fifo"
    """The oldest one; a random one gives the same hit ratio."""


@dataclass(frozen=True, slots=True)
class _Popularity:
    """Groups of keys of (nearly) equal probability."""

    probability: _Floats
    """Probability that a request asks for one given key of the group."""
    keys: _Floats
    """Keys in the group."""


def items_in(memory_bytes: float, *, mean_item_bytes: float) -> int:
    """How many items of ``mean_item_bytes`` (key, value and bookkeeping) fit into ``memory_bytes``.

    >>> items_in(1 << 20, mean_item_bytes=400)
    2621
    """
    if not mean_item_bytes > 0:
        raise ValueError(f"mean_item_bytes must be positive, not {mean_item_bytes}")
    return max(int(memory_bytes / mean_item_bytes), 0)


def hit_ratio(capacity: int, keys: int, *, exponent: float = 0.0, policy: Policy = Policy.LRU) -> float:
    """Share of requests that find their key in a full cache of ``capacity`` items.

    >>> hit_ratio(900, 1000)
    0.9
    >>> hit_ratio(1000, 1000, exponent=0.99)
    1.0
    """
    _check(capacity, keys, exponent)
    if capacity >= keys:
        return 1.0
    if capacity == 0:
        return 0.0
    if exponent == 0:
        return capacity / keys
    popularity = _zipf(keys, exponent)
    time = _characteristic_time(capacity, popularity, policy)
    present = _presence(policy)(popularity.probability * time)
    return float(min((popularity.keys * popularity.probability * present).sum(), 1.0))


def keys_for(
    capacity: int, *, hit_ratio_target: float, exponent: float = 0.0, policy: Policy = Policy.LRU
) -> int | None:
    """Most keys with which a cache of ``capacity`` items still reaches ``hit_ratio_target``.

    ``None`` where any number up to ``MOST_KEYS`` reaches it: with an exponent near or above 1, a few keys get
    most requests.

    >>> keys_for(900, hit_ratio_target=0.9)
    1000
    >>> keys_for(1_000_000, hit_ratio_target=0.9, exponent=1.4) is None
    True
    """
    if not 0 < hit_ratio_target <= 1:
        raise ValueError(f"hit_ratio_target must be above 0 and at most 1, not {hit_ratio_target}")
    if capacity < 1:
        raise ValueError(f"capacity must be at least 1, not {capacity}")
    _check(capacity, capacity, exponent)
    if exponent == 0:
        # A hair is added, since 900 / 0.9 must be 1000 and not 999 by rounding.
        return int(capacity / hit_ratio_target * (1 + 1e-12))
    low, high = capacity, capacity
    while hit_ratio(capacity, high, exponent=exponent, policy=policy) >= hit_ratio_target:
        if high == MOST_KEYS:
            return None
        low, high = high, min(high * 2, MOST_KEYS)
    while high - low > max(1, low // 10**6):
        middle = (low + high) // 2
        if hit_ratio(capacity, middle, exponent=exponent, policy=policy) >= hit_ratio_target:
            low = middle
        else:
            high = middle
    return low


def requests_to_fill(capacity: int, keys: int, *, exponent: float = 0.0) -> float:
    """Expected requests until an empty read-through cache holds ``capacity`` different items.

    Infinite when there are not more keys than room, since the last key may take for ever to be asked for;
    use a capacity somewhat below the number of keys then. The time solves sum(1 - exp(-p * t)) = capacity.

    >>> round(requests_to_fill(900, 1000))
    2303
    """
    _check(capacity, keys, exponent)
    if capacity >= keys:
        return math.inf
    if capacity == 0:
        return 0.0
    if exponent == 0:
        return -keys * math.log1p(-capacity / keys)
    return _characteristic_time(capacity, _zipf(keys, exponent), Policy.LRU)


def _check(capacity: int, keys: int, exponent: float) -> None:
    if capacity < 0 or keys < 1:
        raise ValueError(f"capacity must not be negative and keys at least 1, not {capacity} and {keys}")
    if not (math.isfinite(exponent) and exponent >= 0):
        raise ValueError(f"exponent must be finite and not negative, not {exponent}")


def _zipf(keys: int, exponent: float) -> _Popularity:
    exact = np.arange(1, min(keys, EXACT_RANKS) + 1, dtype=np.float64)
    weights, counts = exact**-exponent, np.ones_like(exact)
    if keys > EXACT_RANKS:
        steps = math.ceil(math.log(keys / EXACT_RANKS) / math.log(BIN_RATIO))
        edges = np.unique(np.round(np.geomspace(EXACT_RANKS, keys, steps + 1)))
        # Sum of x ** -s over the ranks a + 1 to b, by the midpoint rule: integral from a + 1/2 to b + 1/2.
        begin, end = edges[:-1] + 0.5, edges[1:] + 0.5
        if exponent == 1:
            sums = np.log(end / begin)
        else:
            sums = (end ** (1 - exponent) - begin ** (1 - exponent)) / (1 - exponent)
        counts = np.concatenate([counts, end - begin])
        weights = np.concatenate([weights, sums / (end - begin)])
    return _Popularity(weights / float((weights * counts).sum()), counts)


def _presence(policy: Policy) -> Callable[[_Floats], _Floats]:
    """Probability that a key is in the cache, by the requests expected for it in the characteristic time."""
    if policy is Policy.LRU:
        return lambda expected: -np.expm1(-expected)
    return lambda expected: expected / (1 + expected)


def _characteristic_time(capacity: int, popularity: _Popularity, policy: Policy) -> float:
    """Requests in which a key that is not asked for leaves the cache."""
    # Here and not above: it takes a second to load, and uniform keys do without.
    from scipy.optimize import brentq

    present = _presence(policy)

    def excess(log_time: float) -> float:
        return (
            float((popularity.keys * present(popularity.probability * math.exp(log_time))).sum()) - capacity
        )

    low, high = math.log(capacity), math.log(capacity) + 1
    while excess(high) < 0:
        high += 2
    while excess(low) > 0:
        low -= 1
    return math.exp(float(brentq(excess, low, high, xtol=1e-10)))
