"""What arms leave to the trials after them, where there are more than two."""

import numpy as np
import pytest

from steelyard.experiment.answers import answers
from steelyard.experiment.carried import NOTHING, carried
from steelyard.report.experiment.words import notes
from steelyard.stats.carry_over import carry_over
from tests.truth.situations.experiments import three_arms


def test_a_carry_over_is_found_taken_out_and_said() -> None:
    experiment = three_arms(np.random.default_rng(1), after=-0.05, to_the_end=True)
    found = carried(experiment)
    # Of following c over following any: -0.05 less its share of a third.
    assert found.by_arm["c"][0] == pytest.approx(-0.05 * 2 / 3, abs=0.006)
    assert found.by_arm["a"][0] == pytest.approx(0.05 / 3, abs=0.006)
    # The first trial followed nothing.
    first = experiment.trials[0]
    assert (first.arm, first.block) not in found.by_trial
    assert len(found.by_trial) == len(experiment.trials) - 1
    every = answers(experiment, is_over=True)
    assert all(answer.ratio == pytest.approx(1.0, abs=0.015) for answer in every)
    (said,) = [line for line in notes(experiment, every) if "one of c" in line]
    assert "taken out of the answers" in said


def test_nothing_is_taken_out_where_nothing_is_seen_or_known() -> None:
    calm = three_arms(np.random.default_rng(2), after=0.0, to_the_end=True)
    assert carried(calm) == NOTHING
    strong = three_arms(np.random.default_rng(1), after=-0.05, to_the_end=True)
    assert carried(strong) != NOTHING
    unknown = [trial.model_copy(update={"end_ns": 0}) for trial in strong.trials]
    for changes in ({"trials": unknown}, {"arms": strong.arms[:2]}, {"trials": strong.trials[:9]}):
        kept = {arm.name for arm in changes.get("arms", strong.arms)}
        trials = [trial for trial in changes.get("trials", strong.trials) if trial.arm in kept]
        assert carried(strong.model_copy(update={**changes, "trials": trials})) == NOTHING


def test_trials_without_a_value_are_no_values_and_still_go_before_others() -> None:
    random = np.random.default_rng(3)
    arms = [int(arm) for _ in range(40) for arm in random.permutation(3)]
    pairs, places = [index // 6 for index in range(120)], [index % 3 for index in range(120)]
    logs = 0.01 * random.standard_normal(120)
    logs[1:] += np.where(np.asarray(arms[:-1]) == 2, -0.05, 0.0)
    logs[::17] = np.nan
    found = carry_over(logs.tolist(), arms, pairs, places, 3)
    assert found is not None
    assert found.by_arm[2] == pytest.approx(-0.05 * 2 / 3, abs=0.01)
    assert sum(found.by_arm) == pytest.approx(0.0, abs=1e-12)
    assert all(0 < error < 0.01 for error in found.errors)


def _two_arms(by_block: list[tuple[float, float]], *, with_order: bool = True) -> list[str]:
    """Return the notes on two arms in the order a b, b a, b a, a b ..., with both values of each block."""
    strong = three_arms(np.random.default_rng(1), after=0.0, to_the_end=True)
    first, second = (arm.name for arm in strong.arms[:2])
    trials, now = [], 0
    for block, pair in enumerate(by_block):
        both = list(zip((first, second), pair, strict=True))
        for name, value in reversed(both) if block % 4 in (1, 2) else both:
            now += 2
            times = {"begin_ns": now, "end_ns": now + 1 if with_order else 0}
            trials.append(
                strong.trials[0].model_copy(update={"arm": name, "block": block, "value": value, **times})
            )
    two = strong.model_copy(update={"arms": strong.arms[:2], "trials": trials})
    return notes(two, answers(two, is_over=True))


def test_the_answer_and_the_means_are_both_said_where_the_order_is_between_them() -> None:
    random = np.random.default_rng(5)
    # What follows b is 10 % more.
    by_block = []
    for block in range(12):
        after_b = {0: (1.1, 1.0), 1: (1.1, 1.1), 2: (1.1, 1.0), 3: (1.0, 1.0)}[block % 4]
        after_b = after_b if block else (1.0, 1.0)
        noise = np.exp(0.005 * random.standard_normal(2))
        by_block.append((100 * after_b[0] * noise[0], 100 * after_b[1] * noise[1]))
    said = [line for line in _two_arms(by_block) if "the means alone differ by" in line]
    assert len(said) == 1
    assert "is without the effect of the order" in said[0]
    # Without an effect, or an order, there is nothing between them.
    calm = [(100 * one, 105 * other) for one, other in np.exp(0.0005 * random.standard_normal((12, 2)))]
    assert not any("the means alone" in line for line in _two_arms(calm))
    assert not any("the means alone" in line for line in _two_arms(by_block, with_order=False))
