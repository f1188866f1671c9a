"""The cache model against simulated caches, closed forms, and its own inverse."""

from __future__ import annotations

import math
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.analyze import cache_model
from steelyard.analyze.cache_model import Policy, hit_ratio, items_in, keys_for, requests_to_fill

exponents = st.sampled_from([0.0, 0.6, 0.99, 1.0, 1.4])
policies = st.sampled_from(list(Policy))


def simulate(capacity: int, keys: int, exponent: float, policy: Policy) -> tuple[float, int]:
    """Hit ratio of a read-through cache after it has filled, and the requests that filling took."""
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    random = np.random.default_rng(7)
    cache: OrderedDict[int, None] = OrderedDict()
    filled, hits, counted = 0, 0, 0
    asked = random.choice(keys, size=150_000, p=weights / weights.sum()).tolist()
    for number, key in enumerate(asked):
        present = key in cache
        if number >= 50_000:
            hits += present
            counted += 1
        if present:
            if policy is Policy.LRU:
                cache.move_to_end(key)
            continue
        if len(cache) == capacity:
            cache.popitem(last=False)
        cache[key] = None
        if len(cache) == capacity and not filled:
            filled = number + 1
    return hits / counted, filled


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("exponent", [0.0, 0.6, 0.99, 1.4])
def test_hit_ratio_is_that_of_a_simulated_cache(exponent: float, policy: Policy) -> None:
    simulated, filled = simulate(300, 1000, exponent, policy)
    assert hit_ratio(300, 1000, exponent=exponent, policy=policy) == pytest.approx(simulated, abs=0.01)
    assert requests_to_fill(300, 1000, exponent=exponent) == pytest.approx(filled, rel=0.15)


def test_filling_under_uniform_keys_is_the_coupon_collector() -> None:
    capacity, keys = 900, 1000
    collector = sum(keys / (keys - held) for held in range(capacity))
    assert requests_to_fill(capacity, keys) == pytest.approx(collector, rel=0.002)
    assert requests_to_fill(1000, 1000) == math.inf
    assert requests_to_fill(0, 1000) == 0


@pytest.mark.parametrize("exponent", [0.6, 1.0, 1.4])
def test_bins_of_unpopular_keys_change_nothing(exponent: float, monkeypatch: pytest.MonkeyPatch) -> None:
    binned = hit_ratio(40_000, 400_000, exponent=exponent)
    monkeypatch.setattr(cache_model, "EXACT_RANKS", 1 << 20)
    assert binned == pytest.approx(hit_ratio(40_000, 400_000, exponent=exponent), abs=1e-5)


@settings(max_examples=80)
@given(st.integers(1, 50_000), st.integers(1, 200_000), exponents, policies)
def test_hit_ratio_is_a_share_that_grows_with_room(
    capacity: int, keys: int, exponent: float, policy: Policy
) -> None:
    less = hit_ratio(capacity, keys, exponent=exponent, policy=policy)
    more = hit_ratio(capacity * 2, keys, exponent=exponent, policy=policy)
    assert 0 < less <= more <= 1
    # Skew only helps: the model says so for both policies.
    assert less >= min(capacity / keys, 1) - 1e-9


@settings(max_examples=40)
@given(st.integers(10, 10**8), st.floats(min_value=0.05, max_value=0.99), exponents, policies)
def test_keys_for_a_target_reach_it_and_a_few_more_do_not(
    capacity: int, target: float, exponent: float, policy: Policy
) -> None:
    keys = keys_for(capacity, hit_ratio_target=target, exponent=exponent, policy=policy)
    if keys is None:
        most = cache_model.MOST_KEYS
        assert hit_ratio(capacity, most, exponent=exponent, policy=policy) >= target
        return
    assert hit_ratio(capacity, keys, exponent=exponent, policy=policy) >= target - 1e-9
    assert hit_ratio(capacity, int(keys * 1.001) + 2, exponent=exponent, policy=policy) < target


def test_the_edges() -> None:
    assert hit_ratio(0, 10) == 0
    assert hit_ratio(10, 10, exponent=0.99) == 1
    assert keys_for(1000, hit_ratio_target=1.0) == 1000
    assert keys_for(1000, hit_ratio_target=1.0, exponent=0.6) == 1000
    assert items_in(1 << 30, mean_item_bytes=400) == (1 << 30) // 400
    for wrong in (
        lambda: hit_ratio(-1, 10),
        lambda: hit_ratio(1, 0),
        lambda: hit_ratio(1, 10, exponent=-1),
        lambda: keys_for(0, hit_ratio_target=0.9),
        lambda: keys_for(10, hit_ratio_target=0),
        lambda: items_in(10, mean_item_bytes=0),
    ):
        with pytest.raises(ValueError, match="must"):
            wrong()
