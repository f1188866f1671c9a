"""The quick part of ``make truth``: fewer trials, the same bars, a fixed seed."""

import dataclasses
import importlib
import math
import pkgutil
import re
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

import steelyard

from .__main__ import DOCUMENT, SEED, try_situation
from .document import IN_RUST, anchor, document
from .situation import Claim, Found, Outcome, Situation, Statistic, is_met, seed_of
from .situations import statistics

EVERY = [(group, one) for group in statistics() for one in group.situations]
QUICK_RATIO = 0.4
"""Of the trials that a situation names for here: who changes a statistic runs `scripts/truth --only`."""
QUICK = [(group, one) for group, one in EVERY if one.quick]

NOT_STATISTICS = {
    # Ends of something that is no statement about a population.
    "steelyard.analyze.pressure.vmstat_histograms.Histogram": "smallest and largest reading, and percentiles",
    "steelyard.analyze.counters.smt.Bounds": "what arithmetic leaves open: no chance is in it",
    "steelyard.analyze.scaling.loss.LossTerm": "the smaller and the larger step",
    "steelyard.analyze.counters.topdown.Node": "what events that were not counted leave open",
    "steelyard.fleet.store.row_checks.Bound": "the range that a rule allows",
    "steelyard.fleet.capacity.smt.Used": "what samples without core time leave open (as analyze.smt)",
    "steelyard.fleet.cpi.distribution.Bins": "ends of bins",
    "steelyard.stats.gev.Histogram": "ends of bins",
    "steelyard.telemetry.rates.Gauge": "smallest and largest reading",
    "steelyard.telemetry.series.Band": "smallest and largest reading at each point",
    "steelyard.decide.baseline.BaselineResult": "verdicts of runs, and the ends of their values",
    "steelyard.experiment.request.fields.CurveRequest": "profiles of the smallest and the largest step",
    "steelyard.catalog.entries.Entry": "the verdict that a run's record has",
    "steelyard.catalog.filters.RunFilter": "the verdict that runs are listed by",
    "steelyard.agents.tools.runs.ListRequest": "the verdict that runs are listed by",
}
"""Dataclasses with a ``low`` and a ``high`` that state nothing of chance, with what they are."""


@pytest.mark.parametrize(("group", "one"), QUICK, ids=[f"{group.name}: {one.name}" for group, one in QUICK])
def test_a_situation_meets_its_bar(group: Statistic, one: Situation) -> None:
    trials = math.ceil(QUICK_RATIO * one.quick)
    outcomes, seconds = try_situation(one, seed_of(group.name, one.name, SEED), trials)
    found = Found.of(outcomes, seconds)
    assert is_met(one, found) is not False, found


def test_every_situation_stands_in_the_document() -> None:
    text = DOCUMENT.read_text()
    for group, one in EVERY:
        assert f"## {group.name}\n" in text
        assert f"| {one.name}" in text, f"{group.name}: {one.name}: run `make truth`"


def test_names_are_unique() -> None:
    names = [(group.name, one.name) for group, one in EVERY]
    assert len(set(names)) == len(names)


FOLLOWS = {
    "steelyard.decide.ranking.ranking.MemberScore": "steelyard.decide.choice.results.Order",
    "steelyard.decide.ranking.ranking.RankedMachine": "steelyard.decide.choice.results.Order",
    "steelyard.experiment.numa.production.Cost": "steelyard.fleet.effects.Effect",
    "steelyard.experiment.numa.verdict.Performance": "steelyard.stats.contrasts.Contrast",
    "steelyard.fleet.rue.result.Comparison": "steelyard.fleet.rue.result.Speedup",
}
"""Verdicts that say where the interval of another dataclass lies, with that one."""

SHOWN = {
    "steelyard.records.colocation.ColocationPrediction": "steelyard.analyze.pressure.contention.Prediction",
    "steelyard.records.health.Estimate": "steelyard.stats.intervals.MedianInterval",
    "steelyard.records.suite.SuiteMember": "steelyard.decide.score.Score",
    "steelyard.records.suite.SuiteOverall": "steelyard.decide.score.Overall",
    "steelyard.records.tuning.TuningEvidence": "steelyard.experiment.outcomes.ArmAnswer",
}
"""What records and documents show, with the dataclass that its interval or p value is of."""

CHARTS = {
    "steelyard.report.answer.timelines.Trace",
    "steelyard.report.answer.charts.Heat",
    "steelyard.report.answer.tables.Figure",
    "steelyard.report.answer.charts.Series",
    # What events that were not counted leave open: no chance is in it.
    "steelyard.report.counters.words.Line",
}
"""Shapes on a page that show what they are given."""

VERDICTS = {"verdict", "decision", "distinguishable", "changed", "is_steady", "cappable"}
"""Fields in which a statistic says yes or no."""


def _carriers(*, is_shown: bool) -> Iterator[str]:
    """Dataclasses and models with the ends of an interval, a p value or a verdict.

    Of the packages that show what others computed (``is_shown``; the verdict of a run is no statistic), or of
    all others.
    """
    for module in pkgutil.walk_packages(steelyard.__path__, "steelyard."):
        if bool(re.match(r"steelyard\.(report|cli|bench|records)\b", module.name)) != is_shown:
            continue
        loaded = importlib.import_module(module.name)
        for name, value in vars(loaded).items():
            if not isinstance(value, type) or getattr(value, "__module__", "") != module.name:
                continue
            fields = _fields(value)
            has_ends = any(one == "low" or one.endswith("_low") for one in fields)
            has_verdict = bool(fields & VERDICTS) and not is_shown
            if has_ends or has_verdict or any(one.endswith("p_value") for one in fields):
                yield f"{module.name}.{name}"


def _fields(value: type) -> set[str]:
    if issubclass(value, BaseModel):
        return set(value.model_fields)
    return {one.name for one in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()


def test_what_carries_an_interval_is_tried() -> None:
    covered = {name for group in statistics() for name in group.covers}
    assert set(_carriers(is_shown=False)) - covered - set(NOT_STATISTICS) - set(FOLLOWS) == set()
    assert set(FOLLOWS.values()) <= covered


def test_what_is_shown_with_an_interval_is_of_a_statistic_that_is_tried() -> None:
    covered = {name for group in statistics() for name in group.covers}
    assert set(_carriers(is_shown=True)) - covered - set(SHOWN) - CHARTS == set()
    assert set(SHOWN.values()) <= covered


def test_a_result_beyond_its_threshold_is_not_called_met() -> None:
    found = Found.of([Outcome(True)] * 23 + [Outcome(False)] * 377, 0.0)
    rows = (Situation("a row", Claim.FALSE), Situation("another", Claim.FALSE))
    results = {("Made up", row.name): found for row in rows}
    text = document([Statistic("Made up", (), rows)], results, 1)
    # 5.8 % where 5 % is allowed: 400 trials of what meets it often show as much.
    assert text.count("| by chance |") == 2
    assert "No threshold is missed. 2 results lie beyond theirs by no more than chance explains." in text


def test_a_bar_is_missed_only_where_the_trials_can_tell() -> None:
    holds = Situation("made up", Claim.HOLDS)
    assert is_met(holds, Found.of([Outcome(True)] * 380 + [Outcome(False)] * 20, 0.0)) is True
    assert is_met(holds, Found.of([Outcome(True)] * 340 + [Outcome(False)] * 60, 0.0)) is False
    assert is_met(holds, Found.of([Outcome(None)] * 50, 0.0)) is None
    false = Situation("made up", Claim.FALSE)
    assert is_met(false, Found.of([Outcome(False)] * 392 + [Outcome(True)] * 8, 0.0)) is True
    assert is_met(false, Found.of([Outcome(False)] * 340 + [Outcome(True)] * 60, 0.0)) is False


def test_the_tests_of_the_data_plane_exist() -> None:
    for _, path, test in IN_RUST:
        assert f"fn {test}()" in (DOCUMENT.parents[1] / path).read_text(), test


def test_the_index_shows_the_worst_row_of_each_statistic() -> None:
    rows = (
        Situation("easy", Claim.HOLDS, note="made up"),
        Situation("hard", Claim.HOLDS),
        Situation("no bar", Claim.FOUND),
    )
    statistic = Statistic("Made up", (), rows)
    held = {"easy": 96, "hard": 90, "no bar": 10}
    results = {
        ("Made up", name): Found.of([Outcome(True)] * count + [Outcome(False)] * (100 - count), 0.0)
        for name, count in held.items()
    }
    text = document([statistic], results, 1)
    assert "| [Made up](#made-up) | 3 | hard | 93% to 99% | 90.0% |" in text


def test_a_page_keeps_what_it_says_of_statistics_that_were_not_tried_again() -> None:
    made = [Statistic(name, (), (Situation("a row", Claim.HOLDS),)) for name in ("First", "Second")]

    def results(*held: int) -> dict[tuple[str, str], Found]:
        return {
            (one.name, "a row"): Found.of([Outcome(True)] * count + [Outcome(False)] * (400 - count), 0.0)
            for one, count in zip(made, held, strict=False)
        }

    whole = document(made, results(340, 384), 1)
    assert "Missed: 1." in whole
    again = document(made, results(380), 1, earlier=document(made, results(340, 384), 1))
    assert again == document(made, results(380, 384), 1)
    assert document(made, {}, 1, earlier=whole) == whole
    with pytest.raises(ValueError, match="Second was not tried"):
        document(made, results(340), 1, earlier="")


QUOTED = re.compile(r"(\d+(?:\.\d+)?) %[^.|]*?\[([^\]]*)\]\([./]*truth\.md#([a-z0-9-]+)\)")
"""A rate followed, within the sentence, by the link of its section, whose text is the situation."""


def test_rates_that_the_pages_quote_stand_in_the_document() -> None:
    sections = {anchor(part.partition("\n")[0]): part for part in DOCUMENT.read_text().split("\n## ")}
    for page in DOCUMENT.parent.rglob("*.md"):
        for rate, situation, section in QUOTED.findall(page.read_text()):
            assert section in sections, f"{page.name}: truth.md has no section {section}"
            rows = [line for line in sections[section].splitlines() if line.startswith(f"| {situation}")]
            assert rows, f"{page.name}: {section} has no situation {situation!r}"
            found = [float(one) for one in re.findall(r"\| (\d+(?:\.\d+)?)%", rows[0])]
            within = [abs(one - float(rate)) <= 1 for one in found]
            assert any(within), f"{page.name}: {rate} % of {situation!r}, the document says {found}"
