"""Two parts of a fleet: differences against closed forms, and no change where there is none."""

import numpy as np
import pyarrow as pa
import pytest

from steelyard._base import ResultSaysNoError
from steelyard.fleet.profiles.diff import ALPHA, diff, judge
from steelyard.fleet.profiles.stacks import Selection
from steelyard.report.fleet import profiles_diff
from tests.fleet.arrow_tables import MIDNIGHT, Fleet


def _diff(fleet, a, b, **options):
    return diff(
        fleet.table("profiles"),
        fleet.table("symbols"),
        Selection.parse(a),
        Selection.parse(b),
        task_samples=fleet.table("task_samples"),
        **options,
    )


def _columns(weights, jobs, machines, keys, start=0):
    """Return the columns of one row a (machine-minute, key)."""
    minutes, count = weights.shape
    return {
        "machine": np.repeat(machines, count),
        "job": np.repeat(jobs, count),
        "window_start_unix_s": np.full(minutes * count, MIDNIGHT + start),
        "stack": np.tile([f"c;main [c];{key} [c]" for key in keys], minutes),
        "weight": weights.ravel(),
        "sampled_ratio": np.ones(minutes * count),
    }


def test_a_real_change_is_found_and_what_did_not_change_is_noise():
    random = np.random.default_rng(1)
    minutes, keys = 60, ["f", "g", "h", "k"]
    a = random.dirichlet([30, 50, 15, 5], minutes) * 1e9
    b = random.dirichlet([40, 40, 15, 5], minutes) * 1e9
    machines = np.array([f"m{at}" for at in range(minutes)])
    both = [_columns(x, np.full(minutes, "web"), machines, keys, start) for x, start in ((a, 0), (b, 86_400))]
    columns = {name: np.concatenate([both[0][name], both[1][name]]) for name in both[0]}
    fleet = Fleet().put("profiles", **columns)
    answer = _diff(fleet, "to=2026-01-01", "from=2026-01-02")
    rows = {row.key: row for row in answer.rows}
    assert {row.key for row in answer.changed} == {"f", "g"}
    assert rows["f"].difference_ratio == pytest.approx(0.10, abs=0.03)
    assert rows["f"].low_ratio < 0.1 < rows["f"].high_ratio
    assert rows["h"].is_change is False
    assert answer.machine_minutes == (60, 60)
    assert rows["f"].a_ratio == pytest.approx(a[:, 0].sum() / a.sum())
    assert answer.machines == (60, 60)
    assert answer.both_machines == 60
    # By hand: each machine is compared with itself.
    p, q = a[:, 0].sum() / a.sum(), b[:, 0].sum() / b.sum()
    moved = (b[:, 0] - q * b.sum(axis=1)) / b.sum() - (a[:, 0] - p * a.sum(axis=1)) / a.sum()
    half = (rows["f"].high_ratio - rows["f"].low_ratio) / 2
    assert half == pytest.approx(2.0010 * (60 / 59 * (moved**2).sum()) ** 0.5, rel=1e-3)
    assert len(answer.profiles[0].counts) == 4


def test_jobs_of_the_same_machines_are_not_taken_for_independent():
    random = np.random.default_rng(2)
    minutes, keys = 200, ["f", "g"]
    # What a machine-minute does to one job it does to the other: the difference hardly varies.
    shared = random.beta(2, 2, minutes)
    a = np.stack([shared, 1 - shared], axis=1) * 1e9
    b = np.stack([shared * 0.99, 1 - shared * 0.99], axis=1) * 1e9
    machines = np.array([f"m{at}" for at in range(minutes)])
    parts = [_columns(x, np.full(minutes, job), machines, keys) for x, job in ((a, "one"), (b, "two"))]
    columns = {name: np.concatenate([parts[0][name], parts[1][name]]) for name in parts[0]}
    row = next(
        r for r in _diff(Fleet().put("profiles", **columns), "job=one", "job=two").rows if r.key == "f"
    )
    gap = (b[:, 0].sum() - a[:, 0].sum()) / 200e9
    of_each = (a[:, 0] - b[:, 0]) / 1e9
    error = np.std(of_each, ddof=1) / np.sqrt(minutes)
    assert row.difference_ratio == pytest.approx(gap)
    assert (row.high_ratio - row.low_ratio) / 2 == pytest.approx(1.972 * error, rel=0.01)
    assert row.is_change is True


def _sums(a, b):
    """Return the Arrow table and sizes of two independent sides, as the engine adds them up."""
    count = a.shape[1]
    of_a, of_b = a.sum(axis=1), b.sum(axis=1)
    zero = np.zeros(count)
    table = pa.table(
        {
            "key": [f"f{at}" for at in range(count)],
            "a": a.sum(axis=0),
            "b": b.sum(axis=0),
            "aa": (a**2).sum(axis=0),
            "bb": (b**2).sum(axis=0),
            "ab": zero,
            "a_of_a": (a * of_a[:, None]).sum(axis=0),
            "b_of_b": (b * of_b[:, None]).sum(axis=0),
            "a_of_b": zero,
            "b_of_a": zero,
            "a_samples": zero,
            "b_samples": zero,
            "machines": ((a > 0).sum(axis=0) + (b > 0).sum(axis=0)).astype(np.int64),
        }
    )
    size = {
        "a": of_a.sum(), "b": of_b.sum(), "aa": (of_a**2).sum(), "bb": (of_b**2).sum(), "ab": 0.0,
        "aaa": (of_a**3).sum(), "bbb": (of_b**3).sum(),
        "a_machines": len(a), "b_machines": len(b), "both_machines": 0,
    }  # fmt: skip
    return table, size


def test_two_samples_of_the_same_fleet_show_a_change_in_few_pairs():
    random = np.random.default_rng(3)
    shares = random.dirichlet(np.full(40, 0.3))
    seen = 0
    pairs = 300
    for _ in range(pairs):
        sides = []
        for _ in "ab":
            # Samples of a machine-minute: 200 of a task whose own mix strays far from the fleet's.
            mixes = random.dirichlet(shares * 20 + 1e-6, 80)
            sides.append(np.stack([random.multinomial(200, mix) for mix in mixes]) * 1e7)
        seen += any(row.is_change for row in judge(*_sums(*sides), {}, 0.95))
    assert seen / pairs <= 2 * ALPHA, seen / pairs


def test_what_few_machine_minutes_saw_is_not_judged():
    a, b = np.full((30, 2), 1e9), np.full((30, 2), 1e9)
    a[:, 1], b[:, 1] = 0.0, 0.0
    b[0, 1] = 5e10
    rows = {row.key: row for row in judge(*_sums(a, b), {}, 0.95)}
    assert rows["f1"].b_ratio > 0.5
    assert rows["f1"].is_change is None
    assert rows["f1"].low_ratio is None


@pytest.mark.parametrize("machines", [3, 30])
def test_two_selections_of_the_same_rows_do_not_differ(machines):
    random = np.random.default_rng(4)
    weights = random.dirichlet([30, 50, 15, 5], machines) * 1e9
    names = np.array([f"m{at}" for at in range(machines)])
    columns = _columns(weights, np.full(machines, "web"), names, ["f", "g", "h", "k"])
    answer = _diff(Fleet().put("profiles", **columns), "job=web", "from=2026-01-01")
    assert answer.is_same
    assert not answer.changed
    # A test needs four machines; with enough, each row is tested, whatever rounding does to its variance.
    assert {row.is_change for row in answer.rows} == {None if machines < 4 else False}
    shown = profiles_diff.diff(answer)
    assert shown.heading == "A and B are the same samples"
    assert not any("not tested" in caution for caution in shown.cautions)


def test_equal_sums_without_variance_are_tested():
    weights = np.full((30, 2), 1e9)
    assert [row.is_change for row in judge(*_sums(weights, weights), {}, 0.95)] == [False, False]


def test_nothing_to_compare_is_an_answer():
    fleet = Fleet().put("profiles", [{"stack": "c;f [c]", "machine": f"m{at}"} for at in range(3)])
    with pytest.raises(ResultSaysNoError, match="job=absent selects no profile"):
        _diff(fleet, "job=search", "job=absent")
    with pytest.raises(ResultSaysNoError, match="1 machine-minutes"):
        _diff(fleet, "job=search", "machine=m0")


def _mixed(shares):
    """Return a fleet of two days: ``shares`` are of job f's function on each, job g has the rest."""
    rows = [
        {"machine": f"m{at}", "job": job, "task": f"{job}/{at}", "stack": f"c;main [c];{job} [c]",
         "weight": 1e9 * weight, "window_start_unix_s": MIDNIGHT + 86_400 * day}
        for day, share in enumerate(shares)
        for at in range(8)
        for job, weight in (("f", share + at / 1000), ("g", 1 - share))
    ]  # fmt: skip
    return Fleet().put("profiles", rows)


def test_another_mix_of_jobs_is_no_change_of_a_function():
    answer = _diff(_mixed((0.5, 0.8)), "to=2026-01-01", "from=2026-01-02")
    assert answer.mix_distance == pytest.approx(0.3, abs=0.01)
    [caution] = [one for one in profiles_diff.diff(answer).cautions if "another mix of jobs" in one]
    assert "job=f" in caution
    alike = _diff(_mixed((0.5, 0.52)), "to=2026-01-01", "from=2026-01-02")
    assert not [one for one in profiles_diff.diff(alike).cautions if "another mix of jobs" in one]
    by_job = _diff(_mixed((0.5, 0.8)), "to=2026-01-01", "from=2026-01-02", by="job")
    assert not [one for one in profiles_diff.diff(by_job).cautions if "another mix of jobs" in one]


def test_a_selection_against_itself_is_said_to_be_one():
    fleet = _mixed((0.5, 0.8))
    same = profiles_diff.diff(_diff(fleet, "job=f", "job=f"))
    assert same.heading == "A and B are the same samples"
    other = profiles_diff.diff(_diff(fleet, "to=2026-01-01", "from=2026-01-02"))
    assert other.heading != same.heading
