"""Search, ablation, confirmation on small surfaces: knobs that help only together, or replace each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from steelyard._base import UsageError
from steelyard.bench.clock import SystemClock
from steelyard.experiment.workload import Measured
from steelyard.records.experiment import ExperimentArm
from steelyard.records.tuning import Tuning
from steelyard.report.tune.words import heading
from steelyard.stats.sequential import early_confidence, early_looks, last_confidence
from steelyard.tune.tuning import UNDECIDED, open_knobs
from tests.tune.surface import LEVELS, Surface, tune, tuning

PAIR = {"first": ("off", "on"), "second": ("off", "on")}


def on(levels: Mapping[str, str], name: str) -> bool:
    return levels.get(name) == "on"


def together(levels: Mapping[str, str]) -> float:
    """The second helps only where the first is on, and harms where it is not."""
    return 100.0 * (
        1 + 0.04 * on(levels, "first") + (0.05 if on(levels, "first") else -0.03) * on(levels, "second")
    )


def either(levels: Mapping[str, str]) -> float:
    """Either helps as much as both."""
    return 100.0 * (1.05 if on(levels, "first") or on(levels, "second") else 1.0)


def spoiled(levels: Mapping[str, str]) -> float:
    """Each helps alone; together they harm."""
    return 100.0 * {0: 1.0, 1: 1.05, 2: 0.97}[on(levels, "first") + on(levels, "second")]


@pytest.mark.parametrize("strategy", ["hill-climb", "exhaustive", "optuna"])
def test_knobs_that_help_only_together_are_found_from_each_other(strategy: str) -> None:
    surface = Surface(np.random.default_rng(1), 0.005, function=together)
    record = tune(surface, tuning(1, strategy, known=PAIR))
    assert record.chosen == {"first": "on", "second": "on"}
    assert record.outcome == "better"


def test_one_at_a_time_keeps_what_helps_alone() -> None:
    record = tune(Surface(np.random.default_rng(1), 0.005, function=together), tuning(1, known=PAIR))
    assert record.chosen == {"first": "on"}


@pytest.mark.parametrize("function", [either, spoiled])
def test_of_two_winners_that_replace_or_spoil_each_other_one_is_left(function) -> None:
    record = tune(Surface(np.random.default_rng(2), 0.005, function=function), tuning(2, known=PAIR))
    assert len(record.chosen) == 1
    assert record.outcome == "better"
    assert {one.purpose for one in record.evidence} == {"search", "ablate", "confirm"}


TRIAL_S = 15.0
MANY = {f"knob-{number}": ("off", "on") for number in range(6)}


@dataclass
class Slow(SystemClock):
    """A clock that a workload of trials of 15 s moves."""

    inner: Surface
    now_s: float = 0.0

    def monotonic_ns(self) -> int:
        return round(self.now_s * 1e9)

    def measure(self, arm: ExperimentArm, block: int) -> Measured:
        self.now_s += TRIAL_S
        return self.inner.measure(arm, block)


def within(budget_s: float, noise: float, helping: int) -> tuple[Tuning, Slow]:
    """Tune six knobs, the last of which help by 20 %, within a time."""
    names = list(MANY)[len(MANY) - helping :]
    surface = Surface(
        np.random.default_rng(3),
        noise,
        function=lambda levels: 100.0 * 1.2 ** sum(on(levels, n) for n in names),
    )
    record = tuning(1, known=MANY)
    record = record.model_copy(
        update={"plan": record.plan.model_copy(update={"budget_s": budget_s, "confirm_blocks": 20})}
    )
    slow = Slow(surface)
    return tune(slow, record, clock=slow), slow


def test_time_that_nothing_needs_for_ablation_goes_to_the_search() -> None:
    """600 s are 40 trials; so noisy, no race of them decides, and each has five blocks of two."""
    record, slow = within(600.0, 0.2, helping=0)
    raced = [one.knob for one in record.evidence if one.outcome != "not-tried"]
    # 360 s for the search are two races, and 450 s are three.
    assert raced == list(MANY)[:3]
    assert slow.now_s == 3 * 10 * TRIAL_S
    late = [one for one in record.evidence if one.outcome == "not-tried"]
    assert [one.knob for one in late] == list(MANY)[3:]
    assert record.outcome == UNDECIDED


def test_a_winner_has_time_left_for_its_confirmation() -> None:
    record, slow = within(3000.0, 0.005, helping=1)
    assert record.outcome == "better"
    assert record.chosen == {"knob-5": "on"}
    assert slow.now_s <= 3000.0 + 2 * TRIAL_S


def test_what_is_not_known_is_not_called_no_help() -> None:
    """Values that spread far, in few blocks: nothing is known, and nothing is said to be."""
    record = tune(Surface(np.random.default_rng(1), 0.2), tuning(1, blocks=5))
    assert {one.outcome for one in record.evidence} == {"undecided"}
    assert (record.outcome, record.chosen) == ("undecided", {})
    assert heading(record).startswith("Undecided: ")
    assert "more trials are needed for all 9 knobs" in heading(record)


def test_no_knob_helps_is_said_where_every_level_was_decided() -> None:
    record = tune(Surface(np.random.default_rng(1), 0.002, function=lambda _: 100.0), tuning(1, known=PAIR))
    assert {one.outcome for one in record.evidence} == {"equivalent"}
    assert record.outcome == "none"
    assert heading(record).startswith("No knob helps by more than 0.")
    skipped = record.evidence[0].model_copy(update={"outcome": "not-tried", "experiment": ""})
    assert open_knobs(record.model_copy(update={"evidence": [*record.evidence, skipped]})) == ["first"]


def test_a_knob_that_was_decided_in_a_later_race_is_not_open() -> None:
    record = tune(Surface(np.random.default_rng(1), 0.002, function=lambda _: 100.0), tuning(1, known=PAIR))
    early = record.evidence[0].model_copy(update={"outcome": "undecided", "experiment": "000"})
    assert open_knobs(record.model_copy(update={"evidence": [early, *record.evidence]})) == []


@pytest.mark.parametrize("strategy", ["one-at-a-time", "exhaustive"])
def test_every_pair_that_a_race_may_compare_shares_the_confidence(strategy: str) -> None:
    known = {"huge_pages_2MiB": LEVELS["huge_pages_2MiB"]}
    surface = Surface(np.random.default_rng(1), 0.002, function=lambda _: 100.0)
    record = tune(surface, tuning(1, strategy, known=known))
    # An early look at the race is of this confidence, or of one that is spread over its looks.
    confidence = min(
        one.confidence for one in record.evidence if one.purpose == "search" and one.confidence is not None
    )
    levels = len(known["huge_pages_2MiB"]) - 1
    # Each of four levels with what was found, and with each other: whichever leads is chosen by the values.
    each = 0.05 / (levels * (levels + 1) / 2)
    looked = [early_confidence(look, 1 - each) for look in early_looks(150, 150)]
    looked += [last_confidence(150, made, 1 - each) for made in (*early_looks(150, 150), 150)]
    assert any(confidence == pytest.approx(one) for one in looked)


def test_too_many_combinations_are_refused() -> None:
    with pytest.raises(UsageError, match="64800 combinations, at most 512"):
        tune(Surface(np.random.default_rng(1)), tuning(1, "exhaustive"))


def test_levels_that_are_far_behind_cost_few_trials() -> None:
    levels = {"huge_pages_2MiB": LEVELS["huge_pages_2MiB"]}
    losses = {"0": 0.6, "100": 0.7, "300": 1.05, "400": 0.8}
    surface = Surface(
        np.random.default_rng(3), function=lambda arm: 100 * losses.get(arm.get("huge_pages_2MiB", ""), 1.0)
    )
    record = tune(surface, tuning(3, known=levels))
    assert record.chosen == {"huge_pages_2MiB": "300"}
    searched = {one.level: one.blocks for one in record.evidence if one.purpose == "search"}
    # Of 150 that they might have had.
    assert all(searched[level] <= 12 for level in ("0", "100", "400"))
