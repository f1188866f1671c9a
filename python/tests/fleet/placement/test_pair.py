"""Which jobs can share: known contention found, innocent pairs left alone, predictions marked and judged."""

import numpy as np
import pytest

from steelyard._base import ResultSaysNoError
from steelyard._base.documents import as_document
from steelyard.analyze.pressure.contention import fit, predict
from steelyard.fleet.effects import Effect
from steelyard.fleet.placement.company import beside, by_neighbour, numbered
from steelyard.fleet.placement.pair import MAY, MUST_NOT, UNCLEAR, pair
from steelyard.fleet.pressure import JobPressure, Use, pressure
from steelyard.fleet.store.store import open_store
from steelyard.telemetry.engine import fetch
from tests.fleet.arrow_tables import MIDNIGHT, Fleet
from tests.fleet.simulated import simulated_store, truth_of


def _press(job, cpu, disk=None):
    uses = {
        name: Use(name, value, 0.0, value, None, False, None)
        for name, value in (
            ("cpu", cpu), ("dram_capacity", None), ("dram_bandwidth", None),
            ("disk_bandwidth", disk), ("network", None),
        )
    }  # fmt: skip
    return JobPressure(job, 10, 100, 1.0, uses)


def _fleet(random, factor, machines=24, minutes=60):
    """Return samples of a victim everywhere, a bully that comes and goes, and a bystander on busy minutes."""
    rows = []
    for machine in range(machines):
        quirk = 1 + 0.05 * random.standard_normal()
        for minute in range(minutes):
            load = random.uniform(0.2, 0.9)
            bully, bystander = random.random() < 0.4, random.random() < load
            cpi = (
                1.5
                * quirk
                * (1 + 0.6 * load)
                * (factor if bully else 1)
                * (1 + 0.05 * random.standard_normal())
            )
            seen = [("victim", cpi), ("bully", 1.0), ("bystander", 1.0)]
            for (job, value), there in zip(seen, (True, bully, bystander), strict=True):
                if there:
                    rows.append((f"m{machine}", job, MIDNIGHT + 60 * minute, load, value))
    names, kinds = (
        ("machine", "job", "window_start_unix_s", "machine_cpu_ratio", "cpi"),
        zip(*rows, strict=True),
    )
    columns = {name: np.array(values) for name, values in zip(names, kinds, strict=True)}
    columns["cpi_source"] = np.full(len(rows), "cycles/instructions")
    return Fleet().put("task_samples", **columns)


def test_contention_is_found_and_load_is_not_taken_for_it():
    fleet = _fleet(np.random.default_rng(1), 1.2)
    press = [_press(job, 0.1) for job in ("bully", "bystander", "victim")]
    answer = pair(fleet.table("task_samples"), press)
    found = {(one.job, one.beside): one for one in answer.slowdowns}
    low, high = found["victim", "bully"].interval
    assert low <= 1.2 <= high
    assert found["victim", "bully"].verdict == MUST_NOT
    # The bystander is there when machines are busy; at equal load it does nothing.
    assert found["victim", "bystander"].verdict == MAY
    assert answer.pairs[0].first.job == "bully"
    assert answer.pairs[0].second.job == "victim"
    assert answer.pairs[0].verdict == MUST_NOT
    assert "victim has 1.2" in answer.pairs[0].reason
    rest = {(one.first.job, one.second.job): one for one in answer.pairs[1:]}
    assert rest["bully", "bystander"].verdict == MAY
    # The victim is everywhere: how the bystander would do without it was never seen.
    assert rest["bystander", "victim"].verdict == UNCLEAR
    assert answer.pairs[0].source == "observed"


def test_innocent_pairs_are_called_guilty_as_seldom_as_the_level_says():
    guilty = 0
    for seed in range(12):
        fleet = _fleet(np.random.default_rng(seed), 1.0, machines=10, minutes=20)
        answer = pair(
            fleet.table("task_samples"), [_press(job, 0.1) for job in ("bully", "bystander", "victim")]
        )
        guilty += any(one.p_adjusted is not None and one.p_adjusted <= 0.05 for one in answer.slowdowns)
    assert guilty <= 2, guilty


def _states(random, factor, jobs=12, alone=60, beside=9):
    """Return samples of jobs whose machines are in one of two states, some beside the job ``b``."""
    rows = []
    for job in range(jobs):
        for at in range(alone + beside):
            name, there = f"m{job}-{at}", at >= alone
            cpi = (2.39 if random.random() < 0.82 else 1.5) * (factor if there else 1)
            rows += [{"machine": name, "job": f"a{job}", "cpi": cpi}]
            rows += [{"machine": name, "job": "b", "cpi": 1.0 + at / 1000}] if there else []
    rows += [{"machine": f"b{at}", "job": "b", "cpi": 1.0 + at / 100} for at in range(20)]
    return Fleet().put("task_samples", [{**row, "cpi_source": None} for row in rows]).table("task_samples")


def test_machines_that_are_in_one_state_by_chance_condemn_nobody():
    names = [*(f"a{job}" for job in range(12)), "b"]
    press = [_press(name, 0.1) for name in names]
    for seed in range(3):
        answer = pair(_states(np.random.default_rng(seed), 1.0), press)
        assert all(one.verdict != MUST_NOT for one in answer.pairs)
    found = [
        one for one in pair(_states(np.random.default_rng(1), 1.5), press).slowdowns if one.beside == "b"
    ]
    assert sum(one.verdict == MUST_NOT for one in found) >= 10
    assert all(low <= 1.5 <= high for low, high in (one.interval for one in found))


def test_resources_that_do_not_fit_forbid_a_pair_whatever_its_cpi():
    fleet = _fleet(np.random.default_rng(2), 1.0)
    press = [
        _press("bully", 0.1, disk=0.5),
        _press("bystander", 0.1, disk=0.1),
        _press("victim", 0.1, disk=0.4),
    ]
    answer = pair(fleet.table("task_samples"), press)
    (bad,) = [one for one in answer.pairs if one.over]
    assert (bad.first.job, bad.second.job, bad.verdict) == ("bully", "victim", MUST_NOT)
    assert bad.resource_ratios["disk_bandwidth"] == pytest.approx(0.9)
    assert bad.reason.startswith("disk together 90% of the limit")


def test_pairs_that_were_hardly_seen_are_not_observed():
    rows = [{"machine": f"m{at}", "job": "a", "cpi": 1.0 + at / 100, "cpi_source": None} for at in range(6)]
    rows += [{"machine": f"m{at}", "job": "b", "cpi": 1.0, "cpi_source": None} for at in range(2)]
    answer = pair(
        Fleet().put("task_samples", rows).table("task_samples"), [_press("a", 0.1), _press("b", 0.1)]
    )
    one = next(s for s in answer.slowdowns if s.job == "a")
    assert (one.source, one.machines_with, one.machines_without) == ("unknown", 2, 4)
    assert answer.pairs[0].verdict == UNCLEAR
    assert "nothing is known of a beside b" in answer.pairs[0].reason
    assert answer.prediction.reason == "fewer than 10 pairs were observed"
    with pytest.raises(ResultSaysNoError, match="no task has a CPI"):
        pair(Fleet().put("task_samples", [{"cpi": None}]).table("task_samples"), [])


def test_of_many_jobs_only_pairs_that_were_seen_are_listed():
    count = 200
    names = [f"j{at:03}" for at in range(count)]
    rows = [
        {"machine": f"m{at}-{copy}", "job": names[at], "cpi": 1.0 + at / 100 + copy / 1000}
        for at in range(count)
        for copy in range(2)
    ]
    # Jobs 0 and 1 share machines, and have others of their own.
    rows += [{"machine": f"s{at}", "job": job, "cpi": 1.5} for at in range(4) for job in names[:2]]
    rows += [
        {"machine": f"o{job}{at}", "job": job, "cpi": 1.0 + at / 100} for at in range(4) for job in names[:2]
    ]
    table = Fleet().put("task_samples", [{**row, "cpi_source": None} for row in rows]).table("task_samples")
    answer = pair(table, [_press(name, 0.1) for name in names])
    assert [(one.first.job, one.second.job) for one in answer.pairs] == [(names[0], names[1])]
    assert {(one.job, one.beside) for one in answer.slowdowns} == {(names[0], names[1]), (names[1], names[0])}
    assert answer.pairs_not_seen == count * (count - 1) // 2 - 1
    assert as_document(answer)["pairs_not_seen"] == answer.pairs_not_seen
    # The same figures as where every pair is asked for.
    few = pair(table, [_press(name, 0.1) for name in names[:2]], names[:2])
    assert few.pairs_not_seen == 0
    assert few.pairs[0].first.cpi_ratio == pytest.approx(answer.pairs[0].first.cpi_ratio)


def test_too_little_use_is_not_called_a_missing_cpi():
    rows = [{"cpi": 1.0, "cpu_s": 0.2 * 60, "cpi_source": None, "machine": f"m{at}"} for at in range(5)]
    with pytest.raises(
        ResultSaysNoError, match=r"no task with a CPI uses 0.25 CPUs or more \(5 of 5 samples"
    ):
        pair(Fleet().put("task_samples", rows).table("task_samples"), [])
    rows = [{"cpi": 1.0, "cpi_source": "a guess"}]
    with pytest.raises(ResultSaysNoError, match="no task has a CPI from cycles"):
        pair(Fleet().put("task_samples", rows).table("task_samples"), [])


def _observed(value, error=0.01):
    return Effect(value, value - 2 * error, value + 2 * error, error, 0.0, 1000, 10, 20)


def _world(random, noise):
    """Return jobs' pressures and slow-downs that follow their use of the disk, with noise."""
    jobs = [f"job-{at}" for at in range(10)]
    disk, cpu = random.gamma(1.0, 0.1, 10), random.uniform(0.05, 0.2, 10)
    press = [_press(job, c, d) for job, c, d in zip(jobs, cpu, disk, strict=True)]
    relative = disk / disk.mean()
    truth = {
        (a, b): 0.1 * relative[i] * relative[j]
        for i, a in enumerate(jobs)
        for j, b in enumerate(jobs)
        if a != b
    }
    keys = list(truth)
    random.shuffle(keys)
    seen = {tuple(key): _observed(truth[tuple(key)] + noise * random.standard_normal()) for key in keys[:45]}
    return jobs, press, truth, seen


def test_predictions_come_from_where_jobs_press_and_hold_within_their_error():
    held, total = 0, 0
    for seed in range(10):
        jobs, press, truth, seen = _world(np.random.default_rng(seed), 0.02)
        skill, made = predict(seen, {each.job: each.means() for each in press}, jobs)
        assert skill.reason == ""
        assert skill.skill_ratio > 0.5
        assert skill.weights["disk_bandwidth"] == pytest.approx(0.1, rel=0.25)
        assert set(made) == {key for key in truth if key not in seen}
        held += sum(one.low <= truth[key] <= one.high for key, one in made.items())
        total += len(made)
    assert held / total >= 0.95


def test_where_pressure_tells_nothing_nothing_is_predicted():
    random = np.random.default_rng(3)
    jobs, press, _, seen = _world(random, 0.0)
    shuffled = {key: _observed(0.05 + 0.05 * random.standard_normal()) for key in seen}
    skill, made = predict(shuffled, {each.job: each.means() for each in press}, jobs)
    assert made == {}
    assert "better than the mean" in skill.reason


def test_weights_are_never_negative():
    theta = fit(np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]]), np.array([-1.0, 2.0, 1.0]), np.ones(3))
    assert (theta >= 0).all()


def test_the_simulators_truth_is_within_the_intervals():
    store = simulated_store(machines=96, days=1)
    truth = {(one["job"], one["beside"]): one["cpi_factor"] for one in truth_of(store)["pairs"]}
    with open_store(str(store)) as source:
        tables = [source.table(name) for name in ("task_samples", "machine_samples", "machines")]
        answer = pair(tables[0], pressure(*tables))
    found = {(one.job, one.beside): one for one in answer.slowdowns}
    for key, factor in truth.items():
        low, high = found[key].interval
        assert low <= factor <= high, (key, factor, low, high)
    strong = [key for key, factor in truth.items() if factor >= 1.15]
    assert [found[key].verdict for key in strong] == [MUST_NOT] * len(strong)
    clean = [one for key, one in found.items() if key not in truth and one.effect is not None]
    assert len(clean) > 100
    assert np.mean([one.interval[0] <= 1 <= one.interval[1] for one in clean]) >= 0.9
    assert all(one.verdict != MUST_NOT for one in clean)


def test_stretches_of_a_neighbour_are_counted():
    there = {"bully": (0, 1, 2, 5, 6, 30), "victim": range(31)}
    rows = [
        {"machine": "m0", "job": job, "cpi": 1.0, "window_start_unix_s": MIDNIGHT + 60 * minute}
        for job, minutes in there.items()
        for minute in minutes
    ]
    table = Fleet().put("task_samples", rows).table("task_samples")
    names = fetch(numbered(table).order_by("number"))["job"].to_pylist()
    found = by_neighbour(fetch(beside(table)), names).to_pylist()
    (one,) = [row for row in found if (row["job"], row["beside"]) == ("victim", "bully")]
    assert (one["n"], one["s"]) == (6, 3)
