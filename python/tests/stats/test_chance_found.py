"""The chance to find a knob that is shown before a tuning starts, beside trials drawn."""

import math

import numpy as np
import pytest
from scipy.stats import t

from steelyard.stats.contrasts import FEWEST_BLOCKS, chance_found


@pytest.mark.parametrize(("noise", "gain", "blocks"), [(0.02, 0.01, 40), (0.05, 0.02, 40), (0.01, 0.01, 8)])
def test_the_chance_is_that_of_drawn_blocks(noise: float, gain: float, blocks: int) -> None:
    random = np.random.default_rng(1)
    deviation = noise * math.sqrt(2)
    ratios = random.normal(math.log1p(gain), deviation, (20_000, blocks))
    statistic = ratios.mean(axis=1) / (ratios.std(axis=1, ddof=1) / math.sqrt(blocks))
    found = float((statistic > t.ppf(0.975, blocks - 1)).mean())
    # A little is allowed for what is fitted of the order of trials.
    assert found - 0.06 <= chance_found(deviation, math.log1p(gain), blocks) <= found + 0.02


def test_looks_before_the_end_cost_a_little() -> None:
    once = chance_found(0.03, 0.01, 40)
    assert once - 0.1 < chance_found(0.03, 0.01, 40, has_looks=True) < once
    with pytest.raises(ValueError, match="enough blocks"):
        chance_found(0.03, 0.01, FEWEST_BLOCKS - 1)
