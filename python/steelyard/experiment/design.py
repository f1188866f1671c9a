"""Who is tried when: blocks with one trial of every arm, in an order that is drawn.

Two blocks make a pair: the order of the first is drawn, the second has it backwards. What changes steadily
over a pair (a disk that fills, a machine that warms up) then weighs on every arm alike, whichever order was
drawn; what comes and goes meets the arms at random.
"""

import random
from collections.abc import Sequence

from steelyard.records.experiment import Experiment

_ALTERNATING = 6
"""Of two arms, so many blocks whose pairs take turns: abba, baab. What comes and goes every 4 or 5 trials
then cancels out where there are few blocks, which orders that are drawn leave to chance."""


def orders(arms: Sequence[str], blocks: int, seed: int) -> list[list[str]]:
    """Return the order of the arms in each block; the same seed gives the same orders.

    >>> orders(["a", "b"], 4, seed=1)
    [['a', 'b'], ['b', 'a'], ['b', 'a'], ['a', 'b']]
    """
    generator = random.Random(seed)  # noqa: S311 - an order is no secret
    found: list[list[str]] = []
    while len(found) < blocks:
        order = generator.sample(list(arms), len(arms))
        if len(arms) == 2 and 0 < len(found) < _ALTERNATING:
            # Backwards from the pair before.
            order = found[-1]
        found += [order, order[::-1]]
    return found[:blocks]


def is_curve(experiment: Experiment) -> bool:
    """Return whether the arms of an experiment are the steps of a scaling curve."""
    return all(arm.cpus is not None for arm in experiment.arms)
