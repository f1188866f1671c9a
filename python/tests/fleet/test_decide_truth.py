"""``fleet rue``, ``place``, ``smt`` and ``frequency`` against a simulated fleet whose truth is known."""

import json
from dataclasses import replace

import numpy as np
import pytest

from steelyard.cli.main import invoke
from steelyard.fleet.capacity.frequency import frequency_of_fleet
from steelyard.fleet.capacity.smt import used_of_fleet
from steelyard.fleet.placement.inputs import PlaceSettings, observe
from steelyard.fleet.placement.program import Program, solve
from steelyard.fleet.rue.compare import compare
from steelyard.fleet.rue.result import Decision
from steelyard.fleet.rue.usage import RueSettings
from steelyard.fleet.store.store import open_store
from tests.fleet.simulated import simulated_store, truth_of


@pytest.fixture(scope="module")
def folder():
    return simulated_store(machines=40, days=1, step_s=300, profiled_ratio=0.001)


@pytest.fixture(scope="module")
def store(folder):
    with open_store(str(folder)) as opened:
        yield opened


ASKED = RueSettings(label="config", labels=("tenant",), baseline="stock")


def rollout(folder, kind):
    return next(one for one in truth_of(folder)["rollouts"] if one["kind"] == kind)


def test_the_misleading_rollout_is_refused_and_its_groups_are_right(folder, store):
    truth = rollout(folder, "misleading")
    tasks = store.table("task_samples")
    result = compare(tasks, replace(ASKED, jobs=(truth["job"],)))
    (one,) = result.comparisons
    assert one.total.paradox
    assert result.total_refused
    assert one.decision is Decision.DO_NOT
    assert one.choice.factors[0] == truth["group_label"]
    assert one.total.speedup.value == pytest.approx(truth["total_cpu_speedup"], rel=0.03)
    low, high = one.reweighted.speedup.any_time
    assert low <= truth["reweighted_cpu_speedup"] <= high
    found = {group.levels[0]: group.speedup for group in one.by_first or one.groups}
    for group in truth["groups"]:
        low, high = found[group["group"]].any_time
        assert low <= group["cpu_speedup"] <= high, group


def test_the_honest_rollout_is_adopted(folder, store):
    truth = rollout(folder, "honest")
    one = compare(store.table("task_samples"), replace(ASKED, jobs=(truth["job"],))).comparisons[0]
    assert one.decision is Decision.ADOPT
    assert not one.total.refused
    low, high = one.reweighted.speedup.any_time
    assert low <= truth["reweighted_cpu_speedup"] <= high


def test_lost_samples_are_reported(folder, store):
    truth = rollout(folder, "sample-ratio-mismatch")
    share = truth["intended_candidate_work_ratio"]
    split = {"stock": 1 - share, "candidate": share}
    lost = compare(store.table("task_samples"), replace(ASKED, jobs=(truth["job"],), split=split))
    assert lost.sample_ratios[0].mismatch
    assert lost.comparisons[0].decision is Decision.UNDECIDED
    honest = rollout(folder, "honest")["job"]
    kept = compare(store.table("task_samples"), replace(ASKED, jobs=(honest,), split=split))
    assert not kept.sample_ratios[0].mismatch


def test_coefficients_are_the_true_ones_and_the_plan_is_as_good(folder, store):
    fleet = observe(store.table("task_samples"), store.table("machine_samples"), PlaceSettings())
    true = np.full_like(fleet.cpi, np.nan)
    for row in truth_of(folder)["cpi"]:
        true[fleet.platforms.index(row["platform"]), fleet.jobs.index(row["job"])] = row["mean"]
    # The truth's mean is over samples, ours weighs them by instructions: busy windows count for more.
    seen = ~np.isnan(fleet.cpi)
    assert (np.abs(fleet.cpi[seen] / true[seen] - 1) < 0.08).all()
    load, capacity = fleet.work_per_s.sum(axis=0), fleet.cost_per_s.sum(axis=1)
    ours = solve(Program(fleet.cpi, load, capacity))
    best = solve(Program(np.where(seen, true, np.nan), load, capacity))
    assert np.nansum(true * ours.load) == pytest.approx(best.objective, rel=0.03)
    assert ours.objective < 0.97 * capacity.sum()


def test_capped_machines_are_found_and_no_others(folder, store):
    truth = truth_of(folder)["power_caps"]
    found = frequency_of_fleet(store.table("machine_samples"), store.table("machines"))
    assert sorted(row.machine for row in found.machines) == sorted(truth["machines"])
    hot = truth["hot_hours_of_the_cluster"]
    for row in found.machines:
        assert row.capped_ratio == pytest.approx((hot[1] - hot[0]) / 24)
    # Within the hot hours they ran at 0.8 of the nominal frequency: a fifth of those hours' cycles is lost.
    (platform,) = {row.platform for row in found.machines}
    hours = [row for row in found.hours if row.platform == platform and row.capped_ratio]
    assert all(row.capped_lost_ratio <= 1 - truth["frequency_ratio"] for row in hours)
    assert found.total.capped_cycles == pytest.approx(found.total.lost_cycles)


def test_used_capacity_lies_between_utilisation_and_all(folder, store):
    uplifts = {
        one["platform"]: one["smt_uplift_ratio"]
        for one in truth_of(folder)["platforms"]
        if one["smt_uplift_ratio"] is not None
    }
    found = used_of_fleet(store.table("machine_samples"), uplifts=uplifts)
    assert found.contradictions == 0
    for one in found.platforms:
        assert one.utilisation_ratio <= one.low <= one.high <= 1
        assert one.high - one.low < 1e-9
        assert (one.low > one.utilisation_ratio + 0.1) == (one.platform in uplifts)
    unknown = used_of_fleet(store.table("machine_samples"))
    for one, other in zip(found.platforms, unknown.platforms, strict=True):
        assert other.low <= one.low <= other.high


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["rue", "--label", "config", "--job", "kv-store", "--resource", "all"], 1),
        (["place"], 0),
        (["place", "--scale", "amd-rome=0"], 1),
        (["smt", "--uplift", "0.2"], 0),
        (["frequency"], 0),
    ],
)
def test_every_query_has_a_document_and_a_page(folder, tmp_path, capsys, command, code):
    page = tmp_path / "page.html"
    assert invoke(["fleet", *command, "--store", str(folder), "--json", "--report", str(page)]) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out)["report"] == str(page)
    assert "<table>" in page.read_text()
