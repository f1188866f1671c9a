"""``fleet place``: the published program against closed forms and duality, moves against their cost."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._base import EnvironmentLacksError, ResultSaysNoError, UsageError
from steelyard._base.documents import as_document
from steelyard.fleet.placement.inputs import PlaceSettings
from steelyard.fleet.placement.plan import place
from steelyard.fleet.placement.program import Present, Program, plan_moves, solve
from tests.fleet.rue.rue_samples import NOON, row, table_of

NAN = float("nan")


def program(cpi, load, capacity):
    return Program(np.array(cpi, dtype=float), np.array(load, dtype=float), np.array(capacity, dtype=float))


def test_a_program_small_enough_to_solve_by_hand():
    # Job 0 gains more from platform 0 (2 cycles an instruction) than job 1 (1): it gets the room there.
    found = solve(program([[1, 1], [3, 2]], [10, 10], [10, 100]))
    assert found.load == pytest.approx(np.array([[10, 0], [0, 10]]))
    assert found.objective == pytest.approx(30)
    # One more cycle there takes an instruction of job 1, which then costs 1 instead of 2.
    assert found.capacity_price == pytest.approx([1, 0])
    # One more instruction of job 0 costs 1 there, and drives one of job 1 out.
    assert found.load_price == pytest.approx([2, 2])


def test_without_scarcity_each_job_goes_where_it_is_cheapest():
    rng = np.random.default_rng(1)
    cpi, load = rng.uniform(0.5, 3, (4, 9)), rng.uniform(1, 100, 9)
    found = solve(program(cpi, load, [1e9] * 4))
    assert found.objective == pytest.approx(float((cpi.min(axis=0) * load).sum()))
    assert found.capacity_price == pytest.approx(np.zeros(4))
    assert found.load_price == pytest.approx(cpi.min(axis=0))


def test_a_pair_never_seen_gets_no_load():
    found = solve(program([[1, NAN], [5, 2]], [10, 10], [100, 100]))
    assert found.load[0, 1] == 0
    with pytest.raises(ValueError, match="nowhere"):
        program([[1, NAN], [1, NAN]], [1, 1], [1, 1])


def test_what_does_not_fit_says_what_is_lacking():
    found = solve(program([[1, NAN], [2, 2]], [10, 10], [4, 12]))
    assert found.load is None
    # All of platform 0 for job 0 (4); its other 6 and job 1's 10 need 32 on platform 1, or 6 more on platform
    # 0.
    assert found.shortfall == pytest.approx([6, 8])


cases = st.integers(1, 4).flatmap(
    lambda platforms: st.integers(1, 5).flatmap(
        lambda jobs: st.tuples(
            st.lists(
                st.lists(st.floats(0.2, 5), min_size=jobs, max_size=jobs),
                min_size=platforms,
                max_size=platforms,
            ),
            st.lists(st.floats(0.5, 1e4), min_size=jobs, max_size=jobs),
            st.floats(0.3, 3),
            st.integers(0, 2**31),
        )
    )
)


@settings(max_examples=60)
@given(cases)
def test_duality_holds(case):
    cpi, load, slack, seed = case
    cpi, load = np.array(cpi), np.array(load)
    rng = np.random.default_rng(seed)
    holes = rng.random(cpi.shape) < 0.2
    holes[int(rng.integers(len(cpi)))] = False
    cpi = np.where(holes, NAN, cpi)
    capacity = rng.dirichlet(np.ones(len(cpi))) * float((np.nanmean(cpi, axis=0) * load).sum()) * slack
    data = program(cpi, load, capacity)
    found = solve(data)
    if found.load is None:
        assert found.shortfall.sum() > 0
        # With what is lacking, a little rounded up, it fits; with half of it, it does not.
        assert solve(program(cpi, load, (capacity + found.shortfall) * (1 + 1e-6))).load is not None
        return
    scale = found.objective
    used = np.nansum(cpi * found.load, axis=1)
    assert found.load.sum(axis=0) == pytest.approx(load, rel=1e-6)
    assert (used <= capacity * (1 + 1e-6) + 1e-6 * scale).all()
    # Strong duality: the objective is what the loads are worth, less what the capacities are.
    dual = load @ found.load_price - capacity @ found.capacity_price
    assert dual == pytest.approx(scale, rel=1e-6)
    # Complementary slackness: room left has no price, and load lies only where it costs what it is worth.
    assert (found.capacity_price * (capacity - used)) == pytest.approx(np.zeros(len(used)), abs=1e-5 * scale)
    reduced = np.where(np.isnan(cpi), np.inf, cpi * (1 + found.capacity_price[:, None]) - found.load_price)
    assert (reduced * load >= -1e-6 * scale).all()
    some = found.load > 1e-6 * load
    assert np.abs(np.where(some, reduced * load, 0.0)).max() <= 1e-5 * scale


def test_a_small_job_beside_a_large_one_is_placed():
    found = solve(program([[1.0, 2.0], [3.0, 1.0]], [1.0, 1e13], [2e13, 2e13]))
    # All of it, though where costs nothing in 13 digits.
    assert found.load[:, 0].sum() == pytest.approx(1)
    assert found.objective == pytest.approx(1e13)


def test_prices_are_what_more_capacity_saves():
    rng = np.random.default_rng(3)
    cpi, load = rng.uniform(0.5, 3, (3, 6)), rng.uniform(1, 10, 6)
    capacity = np.full(3, float((cpi.mean(axis=0) * load).sum()) / 3)
    found = solve(program(cpi, load, capacity))
    for at in range(3):
        more = capacity.copy()
        more[at] += 1e-4
        saved = found.objective - solve(program(cpi, load, more)).objective
        assert saved == pytest.approx(found.capacity_price[at] * 1e-4, rel=1e-3, abs=1e-9)


def present(cpi, load, tasks, cost=0.0):
    load, tasks = np.array(load, dtype=float), np.array(tasks, dtype=float)
    return Present(np.array(cpi, dtype=float), load, tasks, np.full(load.shape, float(cost)))


def test_whole_tasks_are_the_best_of_all_ways():
    rng = np.random.default_rng(4)
    for _ in range(10):
        cpi = rng.uniform(0.5, 3, (2, 3))
        tasks = rng.integers(0, 4, (2, 3)).astype(float)
        each = rng.uniform(1, 5, (2, 3))
        load = tasks * each
        capacity = (cpi * load).sum(axis=1)
        data = program(cpi, load.sum(axis=0), capacity)
        there = present(cpi, load, tasks, cost=0.05)
        moves = plan_moves(data, there)
        best = 0.0
        # Every way to move whole tasks over, one by one.
        for ways in itertools.product(*(range(int(count) + 1) for count in tasks.reshape(-1))):
            moved = np.array(ways, dtype=float).reshape(2, 3)
            leaves, comes = moved * each, (moved * each)[::-1]
            after = (cpi * (load - leaves + comes)).sum(axis=1)
            if (after <= capacity * (1 + 1e-9)).all():
                best = max(best, float(capacity.sum() - after.sum() - 0.05 * moved.sum()))
        got = float((moves.load * (cpi[moves.source, moves.job] - cpi[moves.target, moves.job])).sum())
        got -= 0.05 * float(moves.tasks.sum())
        after = (cpi * load).sum(axis=1)
        np.subtract.at(after, moves.source, moves.load * cpi[moves.source, moves.job])
        np.add.at(after, moves.target, moves.load * cpi[moves.target, moves.job])
        assert (after <= capacity * (1 + 1e-6)).all()
        # Whole tasks are sought among the moves that fractions would make, so a little may be missed.
        assert 0.85 * best - 1e-6 <= got <= best + 1e-3 * (1 + best)


def test_moves_that_do_not_pay_are_left_out():
    cpi = [[1.0, 1.0], [2.0, 1.1]]
    data = program(cpi, [10, 10], [30, 40])
    load, tasks = [[0, 0], [10, 10]], [[0, 0], [5, 5]]
    free = plan_moves(data, present(cpi, load, tasks))
    assert dict(zip(free.job.tolist(), free.tasks.tolist(), strict=True)) == {0: 5.0, 1: 5.0}
    # A task of job 1 saves 0.2 by its move, one of job 0 saves 2.
    paid = plan_moves(data, present(cpi, load, tasks, cost=0.5))
    assert dict(zip(paid.job.tolist(), paid.tasks.tolist(), strict=True)) == {0: 5.0}
    assert len(plan_moves(data, present(cpi, load, tasks, cost=3.0)).tasks) == 0


def samples(counts=True, hours=8):
    """Two platforms and jobs, both everywhere: job a is twice as fast on new, job b equally fast."""
    cpi = {("a", "old"): 2.0, ("a", "new"): 1.0, ("b", "old"): 1.5, ("b", "new"): 1.5}
    rows, machines = [], []
    for platform in ("old", "new"):
        for machine in range(3):
            for hour in range(hours):
                for step in range(6):
                    start = NOON + 3600 * hour + 600 * step
                    for job in ("a", "b"):
                        rows.append(
                            row(
                                machine=f"{platform}{machine}",
                                platform=platform,
                                job=job,
                                task=f"{job}/{platform}{machine}",
                                window_start_unix_s=start,
                                window_s=60.0,
                                cpu_s=30.0,
                                reference_cycles=int(30 * 2e9) if counts else None,
                                instructions=int(30 * 2e9 / cpi[job, platform]) if counts else None,
                                operations=30.0 / cpi[job, platform],
                            )
                        )
                    machines.append(
                        {
                            "machine": f"{platform}{machine}",
                            "platform": platform,
                            "window_start_unix_s": start,
                            "window_s": 60.0,
                            "threads": 2,
                            "cpu_s": 60.0,
                            "labels": [],
                            "date": "2026-01-01",
                            "cluster": "a",
                        }
                    )
    return table_of(rows), table_of(machines, "machine_samples")


def test_two_jobs_change_places():
    result = place(*samples(), PlaceSettings(move_cost_cpu_s=0.0))
    moved = {(row.job, row.source, row.target): row for row in result.moves}
    assert set(moved) == {("a", "old", "new"), ("b", "new", "old")}
    # Three tasks of a go; what they need on new, 1.5 tasks of b make room for: whole tasks of b are 2.
    assert moved["a", "old", "new"].tasks == 3
    assert moved["b", "new", "old"].tasks == 2
    busy = 30 * 2e9 * 48 * 3 * 10 / (3600 * 8 - 600 + 60)
    # Each task is counted 60 s of each 600 s: one window stands for ten.
    assert result.present == pytest.approx(4 * busy)
    assert result.best == pytest.approx(4 * busy - busy / 2)
    assert result.planned == pytest.approx(4 * busy - busy / 2)
    by_name = {row.platform: row for row in result.platforms}
    # All of a is on new, and b costs the same on both: more room would save nothing.
    assert (by_name["new"].price, by_name["old"].price) == (0, 0)
    assert by_name["new"].machines == 3
    assert result.saved_cpu_rate == pytest.approx(busy / 2 / 2e9)
    assert result.held_out.kept_ratio == pytest.approx(result.held_out.promised_ratio)


def test_a_cost_that_eats_the_saving_leaves_all_in_place():
    result = place(*samples(), PlaceSettings(move_cost_cpu_s=1e9))
    assert result.moves == ()
    assert result.planned == result.present


def test_stand_ins_for_machines_without_counters():
    tables = samples(counts=False)
    with pytest.raises(ResultSaysNoError, match="instructions"):
        place(*tables, PlaceSettings())
    result = place(*tables, PlaceSettings(work="operations", cost="cpu-s", move_cost_cpu_s=0.0))
    assert result.best / result.present == pytest.approx(0.875)


def test_a_closed_platform_is_emptied_or_does_not_fit():
    tight = place(*samples(), PlaceSettings(scale={"old": 0.0}))
    assert not tight.is_feasible
    assert sum(row.shortfall for row in tight.platforms) > 0
    roomy = place(*samples(), PlaceSettings(scale={"old": 0.0, "new": 2.0}))
    assert roomy.is_feasible
    assert sum(row.tasks for row in roomy.moves if row.source == "old") == 6
    assert next(row for row in roomy.platforms if row.platform == "old").after == pytest.approx(0, abs=1)


def test_capacity_of_machines_keeps_room_for_what_cannot_be_placed():
    tasks, machines = samples()
    result = place(tasks, machines, PlaceSettings(capacity="machines", utilisation_ratio=0.5))
    rows = {row.platform: row for row in result.platforms}
    assert rows["old"].capacity == pytest.approx(3 * 2 * 0.5 * 2e9)
    with pytest.raises(EnvironmentLacksError, match="machine samples"):
        place(tasks, table_of([], "machine_samples"), PlaceSettings(capacity="machines"))


def test_pairs_never_seen_and_seldom_seen():
    tasks, machines = samples()
    gone = tasks.filter(~((tasks.job == "b") & (tasks.platform == "old")))
    result = place(gone, machines, PlaceSettings(move_cost_cpu_s=0.0))
    assert result.never_seen == 1
    assert not any(row.job == "b" for row in result.moves)
    assumed = place(gone, machines, PlaceSettings(move_cost_cpu_s=0.0, assume_worst_ratio=1.0))
    assert any(row.job == "b" and row.target_cpi == pytest.approx(1.5) for row in assumed.moves)
    few = place(tasks, machines, PlaceSettings(move_cost_cpu_s=0.0, least_samples=10_000))
    assert few.moves == ()
    assert few.few_samples == 4


def test_wrong_settings_are_reported():
    for wrong in ({"cost": "gold"}, {"utilisation_ratio": 1.5}, {"horizon_days": 0}, {"scale": {"a": -1}}):
        with pytest.raises(UsageError):
            PlaceSettings(**wrong)
    with pytest.raises(UsageError, match="'nowhere'"):
        place(*samples(), PlaceSettings(scale={"nowhere": 1.0}))


def test_the_answer_is_plain_values():
    result = place(*samples(), PlaceSettings())
    assert json.loads(json.dumps(as_document(result), allow_nan=False))["is_feasible"]
