"""Incidents against the simulation's truth, agents' records, and what capping did."""

from typing import Any

import pytest

from steelyard.fleet.cpi import outliers as cpi_outliers
from steelyard.fleet.cpi import truth as cpi_truth
from steelyard.fleet.cpi.caps import CapEffect, find_effects
from steelyard.fleet.cpi.evidence import TESTED
from steelyard.fleet.cpi.incidents import find_incidents
from steelyard.fleet.cpi.rule import PAPER
from steelyard.fleet.cpi.specs import find_specs
from steelyard.fleet.cpi.timeline import find_timelines
from steelyard.fleet.store.store import open_store
from tests.fleet.cpi.cpi_tables import NOON, sample, table, thresholds
from tests.fleet.simulated import simulated_store


@pytest.fixture(scope="module")
def curve() -> list[cpi_truth.Point]:
    """Precision and recall over a fleet in which every machine has an antagonist on most days."""
    folder = simulated_store(machines=50, days=2, episodes_per_machine_day=1.0, profiled_ratio=0.001)
    with open_store(str(folder)) as store:
        truth = cpi_truth.read_truth(store)
        assert truth is not None
        samples = store.table("task_samples")
        outliers = cpi_outliers.expression(samples, cpi_outliers.spec_table(find_specs(samples)))
        return cpi_truth.find_curve(samples, outliers, truth)


def test_antagonists_are_named_rightly_at_the_papers_settings(curve: list[cpi_truth.Point]) -> None:
    (paper,) = [one for one in curve if one.floor == PAPER.correlation_floor]
    assert paper.episodes > 80
    assert paper.precision is not None
    assert paper.precision >= 0.9
    assert paper.recall is not None
    assert paper.recall >= 0.7


def test_the_tested_rule_names_as_rightly_and_more() -> None:
    folder = simulated_store(machines=50, days=2, episodes_per_machine_day=1.0, profiled_ratio=0.001)
    with open_store(str(folder)) as store:
        truth = cpi_truth.read_truth(store)
        assert truth is not None
        samples = store.table("task_samples")
        outliers = cpi_outliers.expression(samples, cpi_outliers.spec_table(find_specs(samples)))
        found = cpi_truth.measured_point(find_incidents(samples, outliers, bar=TESTED), truth)
    assert found.precision is not None
    assert found.precision >= 0.9
    assert found.recall is not None
    assert found.recall >= 0.75
    assert found.victim_recall is not None
    assert found.victim_recall >= 0.65


def test_a_higher_floor_trades_recall_for_precision(curve: list[cpi_truth.Point]) -> None:
    assert [one.floor for one in curve] == list(cpi_truth.FLOORS)
    assert [one.named for one in curve] == sorted((one.named for one in curve), reverse=True)
    # Below, an episode may be spent on naming somebody else first.
    recall = [one.recall or 0 for one in curve if one.floor >= 0.2]
    assert recall == sorted(recall, reverse=True)
    precision = {one.floor: one.precision or 0 for one in curve}
    assert precision[0.05] < 0.6 < 0.9 < min(precision[floor] for floor in (0.25, 0.3, 0.35, 0.4, 0.5))
    assert all(one.right <= one.named and one.victims_found <= one.victims for one in curve)
    # A victim found is an episode found.
    assert all((one.victim_recall or 0) <= (one.recall or 0) for one in curve)


def _scene() -> list[dict[str, Any]]:
    """Return an hour in which encode/0 works and is capped: from minute 20, capped from 25 to 30."""
    rows = []
    for n in range(60):
        working = 20 <= n < 40
        capped = 25 <= n < 30
        rows.append(sample(n, cpi=5.0 if working and not capped else 1.0))
        usage = 0.1 if capped else 4.0 if working else 0.05
        rows.append(sample(n, job="encode", task="encode/0", job_class="batch", usage=usage))
    return rows


def _record(**changed: Any) -> dict[str, Any]:
    return {
        "incident": "i1",
        "machine": "m1",
        "platform": "westmere",
        "victim_job": "web",
        "victim_task": "web/0",
        "start_unix_s": NOON + 22 * 60,
        "end_unix_s": NOON + 30 * 60,
        "threshold_cpi": 2.0,
        "victim_cpi": 5.0,
        "outliers": 3,
        "antagonist_job": "encode",
        "antagonist_task": "encode/0",
        "antagonist_class": "batch",
        "correlation": 0.5,
        "action": "cap",
        "reason": "it reached the floor",
        "cap_cpu_ratio": 0.1,
        "cap_start_unix_s": NOON + 25 * 60,
        "cap_end_unix_s": NOON + 30 * 60,
        "undone": True,
        "victim_cpi_after": 1.0,
        "date": "2026-01-01",
        "cluster": "a",
        **changed,
    }


def _find(records: list[dict[str, Any]]) -> list[Any]:
    samples = table(_scene())
    outliers = cpi_outliers.expression(samples, thresholds(2.0))
    return find_incidents(samples, outliers, table(records, "incidents"))


def test_a_record_and_what_the_samples_show_are_one_incident() -> None:
    both, alone = _find([_record(), _record(incident="i2", machine="m9", action="none", correlation=0.1)])
    assert (both.seen_by, both.recorded.incident, both.antagonist.task) == ("both", "i1", "encode/0")
    assert (both.start_unix_s, both.anomalous_samples) == (NOON + 22 * 60, 11)
    assert (both.cap.task, both.cap_cpu_ratio, both.reason) == ("encode/0", 0.1, None)
    assert (alone.seen_by, alone.machine, alone.victim_class, alone.effect) == ("agent", "m9", None, None)
    assert (alone.cap, alone.reason) == (None, "it reached the floor")


def test_two_records_of_one_incident_do_not_both_vanish_into_it() -> None:
    later = _record(incident="i0", start_unix_s=NOON + 35 * 60)
    found = _find([_record(), later])
    assert sorted(one.recorded.incident for one in found) == ["i0", "i1"]


def test_what_a_cap_did_is_measured_before_during_and_after() -> None:
    (effect,) = find_effects(table(_scene()), table([_record()], "incidents")).values()
    # Ten minutes before: five at rest, five suffering; ten after: all suffering again.
    assert effect.victim_cpi == {"before": 3.0, "during": 1.0, "after": 5.0}
    assert effect.victim_samples == {"before": 10, "during": 5, "after": 10}
    assert effect.antagonist_usage == pytest.approx({"before": 2.025, "during": 0.1, "after": 4.0})
    assert effect.cpi_ratio == pytest.approx(1 / 3)
    assert effect.recovered is True
    assert effect.confirmed is True


def test_only_a_victim_that_recovers_and_suffers_again_confirms() -> None:
    def confirmed(during: float, after: float | None, samples: int = 5) -> bool | None:
        cpi = {"before": 4.0, "during": during, "after": after}
        counts = {"before": 10, "during": samples, "after": 0 if after is None else 10}
        return CapEffect(cpi, counts, {}, threshold_cpi=2.0).confirmed

    assert confirmed(1.5, 4.0) is True
    assert confirmed(3.5, 4.0) is False
    assert confirmed(2.5, 4.0) is None, "between"
    assert confirmed(1.5, 1.5) is None, "it may have stopped by itself"
    assert confirmed(1.5, None) is None
    assert confirmed(1.5, 4.0, samples=2) is None


def test_a_cap_without_an_end_lasts_as_long_as_caps_do_and_a_missing_phase_is_none() -> None:
    record = _record(cap_start_unix_s=NOON + 58 * 60, cap_end_unix_s=None)
    (effect,) = find_effects(table(_scene()), table([record], "incidents")).values()
    assert (effect.victim_samples["during"], effect.victim_cpi["after"]) == (2, None)
    assert effect.antagonist_usage["after"] is None
    assert find_effects(table(_scene()), table([_record(action="dry-run")], "incidents")) == {}


def test_timelines_hold_the_victim_and_its_suspects() -> None:
    found = _find([_record()])
    (line,) = find_timelines(table(_scene()), found)
    assert [(one.task, one.is_victim) for one in line.lines] == [("web/0", True), ("encode/0", False)]
    assert line.lines[0].cpi[20] == 5.0
    assert line.lines[1].usage[0] == pytest.approx(0.05)
    assert find_timelines(table(_scene()), []) == []


def test_truth_counts_only_the_days_that_were_asked_for() -> None:
    episodes = [
        {
            "machine": "m",
            "task": "a",
            "start_unix_s": start,
            "end_unix_s": start + 60,
            "victims": [{"task": "v"}],
        }
        for start in (NOON, NOON + 86_400)
    ]
    assert [one.episode for one in cpi_truth.guilts(episodes, "2026-01-02")] == [1]
    assert [one.episode for one in cpi_truth.guilts(episodes, None, "2026-01-01")] == [0]
    row = {
        "cluster": "a",
        "machine": "m",
        "victim_task": "v",
        "episode_start_unix_s": NOON,
        "decided_unix_s": NOON,
        "task": "a",
        "correlation": 0.5,
    }
    truth = cpi_truth.guilts(episodes)
    assert cpi_truth.point([row], truth, 0.4).precision == 1.0
    assert cpi_truth.point([{**row, "task": "b"}], truth, 0.4).precision == 0.0
    assert cpi_truth.point([row], truth, 0.6).precision is None
