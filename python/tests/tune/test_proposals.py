"""What Optuna proposes: new combinations, the same again after a kill, and better ones in time."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from steelyard._base import EnvironmentLacksError
from steelyard.cli.main import invoke
from steelyard.tune.proposals import Proposals
from tests.tune.surface import LEVELS, Surface, throughput, tune, tuning


def batches(seed: int, rounds: int) -> list[list[dict[str, str]]]:
    """Return what is proposed when it gets how good each was."""
    proposals, found = Proposals(LEVELS, seed), []
    for _ in range(rounds):
        batch = proposals.ask(8)
        for number, one in enumerate(batch):
            # One of each batch gave no values.
            gain = None if number == 0 else math.log(throughput(one) / throughput({}))
            proposals.tell(one, gain)
        found.append(batch)
    return found


def test_the_same_answers_lead_to_the_same_proposals_and_none_comes_twice() -> None:
    found = batches(7, 12)
    assert batches(7, 12) == found
    assert batches(8, 2) != found[:2]
    every = [tuple(one.items()) for batch in found for one in batch]
    assert len(set(every)) == len(every) == 96
    assert () not in every, "what was found needs no trial"
    for one in (dict(one) for one in every):
        assert all(level in LEVELS[name][1:] for name, level in one.items())


def test_later_proposals_are_better() -> None:
    found = batches(7, 12)
    first, last = (
        np.mean([throughput(one) for batch in some for one in batch]) for some in (found[:3], found[-3:])
    )
    assert last > 1.1 * first


def test_all_combinations_of_few_knobs_are_proposed_once() -> None:
    proposals = Proposals({"a": ("off", "on"), "b": ("off", "on")}, 1)
    batch = proposals.ask(8)
    assert sorted(map(sorted, batch)) == [["a"], ["a", "b"], ["b"]]
    for one in batch:
        proposals.tell(one, 0.0)
    assert proposals.ask(8) == []


def test_a_tuning_by_proposals_is_repeatable_and_never_worse() -> None:
    known = {name: LEVELS[name] for name in ("uncore_frequency", "code_data_ways")}
    one, other = (
        tune(Surface(np.random.default_rng(2)), tuning(2, "optuna", blocks=20, known=known)) for _ in range(2)
    )
    assert one.evidence == other.evidence
    assert one.outcome == "better"
    assert throughput(one.chosen) > throughput({})


def test_without_optuna_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(EnvironmentLacksError):
        Proposals(LEVELS, 1)
    assert invoke(["tune", "run", "--strategy", "optuna", "--advice", "--", "true"]) == 3
    stderr = capsys.readouterr().err
    assert "Optuna is not installed" in stderr
    assert "pip install 'steelyard[optuna]'" in stderr
