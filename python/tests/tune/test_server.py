"""A made-up server in files: a service finds there what knobs write, and its best setting is found."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from steelyard.bench import undo
from steelyard.tune.changes import applied
from tests.tune.machines import everything
from tests.tune.server import REBOOT_ONLY, Server, knobs_of, record_of, server, tune_server
from tests.tune.surface import LEVELS, optimum, throughput


@pytest.fixture
def made() -> Iterator[Server]:
    with server(np.random.default_rng(5)) as found:
        yield found


@pytest.mark.parametrize(
    ("name", "level"), [(name, level) for name, levels in LEVELS.items() for level in levels]
)
def test_a_service_finds_what_a_knob_writes(made: Server, name: str, level: str) -> None:
    """The service reads files and registers by itself."""
    found = {one: levels[0] for one, levels in LEVELS.items()}
    assert made.levels() == found
    knob = knobs_of(made.root)[name]
    assert knob.read() == LEVELS[name][0]
    before = everything(made.root)
    with applied(knob.writes(level), name="test"):
        assert made.levels() == {**found, name: level}
        assert knob.read() == level
    assert everything(made.root) == before


@pytest.mark.parametrize(
    ("first", "others"),
    [
        ("prefetchers", {"uncore_frequency": "2200000"}),
        ("core_frequency", {"uncore_frequency": "2200000"}),
        ("huge_pages_2MiB", {"thp_enabled": "always"}),
    ],
)
def test_the_best_level_of_a_knob_depends_on_another(first: str, others: dict[str, str]) -> None:
    def best(others: dict[str, str]) -> str:
        return max(LEVELS[first], key=lambda level: throughput({**others, first: level}))

    assert best({}) != best(others)
    # Gains do not add up: alone and together a level brings different ones.
    found = throughput({})
    apart = [
        throughput({first: level}) / found * throughput(others) / throughput({**others, first: level})
        for level in (best({}), best(others))
    ]
    assert max(abs(one - 1) for one in apart) > 0.02


def test_the_best_setting_is_found_through_files_and_everything_put_back(made: Server) -> None:
    before = everything(made.root)
    record = tune_server(made, 1)
    assert record.outcome == "better"
    assert throughput(record.chosen) >= 0.995 * optimum()
    assert everything(made.root) == before
    assert not list(undo.journal_dir().glob("*"))
    assert made.trials > 1000
    # A knob whose best level depends on another is raced again.
    raced = [one.experiment for one in record.evidence if one.knob == "prefetchers"]
    assert len(set(raced)) > 1


def test_what_needs_a_reboot_is_listed_and_never_tried(made: Server) -> None:
    record = record_of(knobs_of(made.root), 1, "one-at-a-time", 20)
    reasons = {one.name: one.reason for one in record.knobs}
    assert all(reasons[name].startswith("needs a reboot") for name in REBOOT_ONLY)
    assert all(reasons[name] is None for name in LEVELS)
    # They would help most, and are as they were.
    done = tune_server(made, 1, "one-at-a-time", blocks=20)
    assert set(done.chosen).isdisjoint(REBOOT_ONLY)
    assert not {one.knob for one in done.evidence} & set(REBOOT_ONLY)


def test_no_winner_where_nothing_helps() -> None:
    with server(np.random.default_rng(3), helps=False) as made:
        before = everything(made.root)
        record = tune_server(made, 3)
        # Whether the bound on all of them is small enough to say that none helps is a matter of the noise.
        assert record.outcome in ("none", "undecided")
        assert record.chosen == {}
        assert everything(made.root) == before
