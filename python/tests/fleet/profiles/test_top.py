"""What a fleet spends its cycles on: shares against closed forms, intervals that hold, names, what is left
out.
"""

import math
from typing import Any

import numpy as np
import pytest

from steelyard._base import ResultSaysNoError, UsageError
from steelyard.fleet.profiles import shares as top_shares
from steelyard.fleet.profiles.shares import Share, machines_to_state, needed
from steelyard.fleet.profiles.stacks import Selection, gather, select
from steelyard.fleet.profiles.top import top
from steelyard.fleet.store.store import open_store
from steelyard.telemetry.engine import fetch_rows
from tests.fleet.arrow_tables import MIDNIGHT, Fleet
from tests.fleet.simulated import simulated_store, truth_of

STACKS = (
    "web;main [web];parse [web]",
    "web;main [web];send [web];tcp_sendmsg [kernel]",
    "db;main [db];scan [db]",
)


def _fleet():
    """Return three machine-minutes whose sums can be done by hand: weights 8, 6 and 10 of fleet cycles."""
    rows = [
        {"stack": STACKS[0], "weight": 4.0, "samples": 4},
        {"stack": STACKS[1], "weight": 4.0, "samples": 4},
        {"stack": STACKS[0], "weight": 1.0, "samples": 1, "machine": "m1"},
        {"stack": STACKS[2], "weight": 5.0, "samples": 5, "machine": "m1", "job": "store", "task": "s"},
        {"stack": STACKS[2], "weight": 10.0, "samples": 10, "machine": "m1", "job": "store", "task": "s",
         "window_start_unix_s": MIDNIGHT + 600},
    ]  # fmt: skip
    return Fleet().put("profiles", [{**row, "sampled_ratio": 0.5} for row in rows])


def _top(fleet, **options):
    return top(
        fleet.table("profiles"), fleet.table("symbols"), task_samples=fleet.table("task_samples"), **options
    )


def test_shares_are_of_fleet_cycles_and_their_variance_is_that_of_machines():
    answer = _top(_fleet())
    assert answer.fleet_weight == 48.0
    assert answer.unit == "cycles"
    own = {row.key: row for row in answer.rows}
    assert [row.key for row in answer.rows] == ["scan", "parse", "tcp_sendmsg"]
    assert own["scan"].own.ratio == pytest.approx(30 / 48)
    assert own["scan"].fleet_weight == 30.0
    assert own["scan"].module == "db"
    # By hand: the two machines have (scan, all) = (0, 16), (30, 32).
    p, parts, sizes = 30 / 48, np.array([0, 30]), np.array([16, 32])
    of_all = sizes / 48
    bias = (of_all**2).sum() - 2 * (of_all**3).sum() + (of_all**2).sum() ** 2
    variance = ((parts - p * sizes) ** 2).sum() / 48**2 * (of_all**2).sum() / bias
    assert own["scan"].own.standard_error == pytest.approx(math.sqrt(variance))
    assert own["scan"].own.low is None
    assert own["scan"].more_machines is None
    assert own["scan"].least_machines == 8, "one machine has it, and four must"
    assert own["scan"].machines == 1
    assert own["tcp_sendmsg"].samples == 4
    assert answer.sample.machine_minutes == 3
    assert answer.sample.machines == 2
    assert answer.sample.samples == 24


def test_total_counts_whatever_is_called():
    answer = _top(_fleet(), rows=50)
    total = {row.key: row.total.ratio for row in answer.rows}
    assert total["parse"] == pytest.approx(10 / 48)
    # `main` is no leaf; it is in the flame graph, and its callees are each in their own total.
    assert total["tcp_sendmsg"] == pytest.approx(8 / 48)
    assert "main" not in total


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("binary", {"db": 30 / 48, "web": 18 / 48}),
        ("job", {"store": 30 / 48, "search": 18 / 48}),
        ("platform", {"skylake": 1.0}),
    ],
)
def test_other_keys(by, expected):
    answer = _top(_fleet(), by=by)
    assert {row.key: row.own.ratio for row in answer.rows} == pytest.approx(expected)
    assert all(row.total is None for row in answer.rows)


def test_categories_are_those_of_the_tax_map():
    answer = _top(_fleet(), by="category")
    shares = {row.key: row.own.ratio for row in answer.rows}
    assert sum(shares.values()) == pytest.approx(1)
    kernel = next(one for one in answer.tax.categories if one.id == "kernel_network")
    assert shares[kernel.title] == pytest.approx(8 / 48)
    assert kernel.share_ratio == pytest.approx(8 / 48)


def test_entropy_and_distance_of_halves():
    answer = _top(_fleet())
    shares = np.array([30, 10, 8]) / 48
    entropy = answer.sample.entropy
    assert entropy.sampled == pytest.approx(-(shares * np.log2(shares)).sum())
    assert entropy.low is None
    assert "2 machines" in entropy.missing
    assert entropy.unseen_ratio == pytest.approx(38 / 48)
    parts = np.array([[0, 8, 8], [30, 2, 0]], dtype=float)
    first, second = parts
    distance = np.abs(first / first.sum() - second / second.sum()).sum()
    assert answer.sample.manhattan_distance == pytest.approx(distance)
    assert answer.sample.expected_manhattan_distance > 0
    assert answer.sample.more_machines is None
    assert not answer.sample.is_enough


def test_parts_of_the_fleet_have_shares_of_their_own():
    fleet = _fleet()
    answer = _top(fleet, by="job")
    assert answer.platforms.parts == ("skylake",)
    assert answer.bucket_s == 300
    assert answer.times.parts == (MIDNIGHT, MIDNIGHT + 600)
    assert [row[1].ratio for row in answer.times.shares] == pytest.approx([1.0, 0.0])
    assert answer.times.machines == (2, 1)
    assert answer.times.shares[0][1].low is None, "two machines have no interval"


def test_weights_are_scaled_by_the_share_that_was_profiled():
    fleet = Fleet().put(
        "profiles",
        [
            {"stack": STACKS[0], "weight": 10.0, "sampled_ratio": 0.5},
            {"stack": STACKS[2], "weight": 10.0, "sampled_ratio": 0.1, "machine": "m1", "job": "store"},
            {"stack": STACKS[1], "weight": 10.0, "sampled_ratio": 0.0, "machine": "m2"},
        ],
    )
    answer = _top(fleet, by="job")
    assert {row.key: row.fleet_weight for row in answer.rows} == {
        "store": pytest.approx(100),
        "search": pytest.approx(20),
    }


def test_events_are_never_added():
    rows = [
        {"stack": STACKS[0]},
        *({"stack": STACKS[2], "event": "cpu-clock", "machine": f"m{at}"} for at in range(9)),
    ]
    answer = _top(Fleet().put("profiles", rows), by="binary")
    assert answer.event == "cycles"
    assert answer.other_events == ("cpu-clock",)
    assert [row.key for row in answer.rows] == ["web"]
    assert _top(Fleet().put("profiles", rows), by="binary", event="cpu-clock").unit == "ns"
    with pytest.raises(UsageError, match="no samples of 'branches'"):
        _top(Fleet().put("profiles", rows), event="branches")


def test_nothing_sampled_is_an_answer():
    with pytest.raises(ResultSaysNoError, match="the store holds no profile"):
        _top(Fleet())
    with pytest.raises(ResultSaysNoError, match="job=absent selects no profile") as raised:
        _top(_fleet(), selection=Selection.parse("job=absent"))
    assert (raised.value.hint or "").startswith("values of job: ")
    with pytest.raises(UsageError, match="no 'colour'"):
        _top(_fleet(), by="colour")


def test_offsets_are_named_by_the_symbols_of_their_build():
    stacks = [
        "web;0x100 [web@abcd];0x12f [web@abcd]",
        "web;0x100 [web@abcd];0x130 [web@abcd]",
        "web;0x100 [web@abcd];0x40 [libc.so.6@99]",
        "web;0x12f [web@ffff]",
    ]
    rows = [{"stack": stack, "machine": f"m{at}", "weight": 10.0} for at, stack in enumerate(stacks)]
    symbols = [
        {"build_id": "abcd", "module": "web", "start": 0x100, "size": 0x30, "name": "serve(int; char)"},
        {"build_id": "abcd", "module": "web", "start": 0x100, "size": 0x30, "name": "serve(int; char)"},
        {"build_id": "abcd", "module": "web", "start": 0x200, "size": 0x10, "name": "later"},
        {"build_id": "99", "module": "libc.so.6", "start": 0x40, "size": 0, "name": "memcpy"},
        {"build_id": "99", "module": "libc.so.6", "start": 0x50, "size": 8, "name": "memset"},
    ]
    answer = _top(Fleet().put("profiles", rows).put("symbols", symbols))
    shares = {row.key: row.own.ratio for row in answer.rows}
    assert shares == pytest.approx(
        {"serve(int: char)": 0.25, "memcpy": 0.25, "[unknown] [web@abcd]": 0.25, "[unknown] [web@ffff]": 0.25}
    )
    assert {each.module: each.ratio for each in answer.unknown_symbols} == pytest.approx(
        {"web@abcd": 0.25, "web@ffff": 0.25}
    )
    total = {row.key: row.total.ratio for row in answer.rows}
    assert total["serve(int: char)"] == pytest.approx(0.75)


def test_equal_names_of_different_builds_fall_together():
    rows = [{"stack": f"web;0x10 [web@a{at}]", "machine": f"m{at}"} for at in range(3)]
    symbols = [
        {"build_id": f"a{at}", "module": "web", "start": 0, "size": 64, "name": "f"} for at in range(3)
    ]
    answer = _top(Fleet().put("profiles", rows).put("symbols", symbols))
    assert [(row.key, row.own.ratio) for row in answer.rows] == [("f", 1.0)]
    assert len(answer.profile.counts) == 1
    assert answer.unknown_symbols == ()


def test_hostile_stacks_change_nothing_else():
    rows = [
        {"stack": STACKS[0], "weight": 10.0},
        {"stack": "x\x1b[31m;0xzz [a@b];f\n[g]", "weight": 10.0, "machine": "m1"},
        {"stack": ";;;", "weight": 10.0, "machine": "m2"},
        {"stack": "", "weight": 10.0, "machine": "m3"},
        {"stack": "0xffffffffffffffff [web@abcd]", "weight": 10.0, "machine": "m4"},
        {"stack": f"deep;{';'.join(['f'] * 5000)}", "weight": 10.0, "machine": "m5"},
    ]
    answer = _top(Fleet().put("profiles", rows), rows=50)
    shares = {row.key: row.own.ratio for row in answer.rows}
    assert shares["parse"] == pytest.approx(1 / 6)
    assert answer.fleet_weight == pytest.approx(600)


def test_only_the_heaviest_stacks_are_kept_and_the_rest_is_counted():
    rows = [{"stack": f"c;f{at} [c]", "weight": float(100 - at), "machine": f"m{at}"} for at in range(20)]
    fleet = Fleet().put("profiles", rows)
    stacks = gather(select(fleet.table("profiles"), Selection()), "cycles", fleet.table("symbols"), most=5)
    assert list(stacks.texts) == [f"c;f{at} [c]" for at in range(5)]
    assert stacks.fleet.sum() == pytest.approx(10 * sum(range(96, 101)))


def test_a_fleet_may_have_more_cycles_than_an_integer_holds():
    rows = [{"stack": STACKS[0], "weight": 3e21}, {"stack": STACKS[2], "weight": 1e21, "machine": "m1"}]
    answer = _top(Fleet().put("profiles", rows))
    assert answer.fleet_weight == pytest.approx(4e22)
    assert answer.rows[0].own.ratio == pytest.approx(0.75)
    assert answer.profile.unit == "Mcycles"
    assert answer.profile.counts.sum() == pytest.approx(4e16, rel=1e-9)


def test_selections():
    fleet = _fleet().put(
        "task_samples", [{"job": "store", "task": "s", "machine": "m1", "labels": {"arm": "b"}}]
    )
    chosen = _top(fleet, selection=Selection.parse("label.arm=b"), by="job")
    assert [(row.key, row.own.ratio) for row in chosen.rows] == [("store", 1.0)]
    late = _top(fleet, selection=Selection.parse("from=2026-01-01T00:05,to=2026-01-01"), by="job")
    assert late.sample.machine_minutes == 1
    assert _top(fleet, selection=Selection.parse("machine=m0,machine=m1"), by="job").fleet_weight == 48.0
    for wrong in ("colour=red", "job", "job=", "label.=x", "from=yesterday"):
        with pytest.raises(UsageError):
            Selection.parse(wrong)


def _window(start: int, config: str, **others: Any) -> dict[str, Any]:
    return {"window_start_unix_s": start, "window_s": 60.0, "labels": {"config": config}, **others}


def test_a_label_selects_the_windows_that_had_it():
    # One task of one machine, whose configuration changes each minute; a profile's window begins within it.
    starts = [MIDNIGHT + 86_400 - 60 + 60 * at for at in range(4)]
    samples = [_window(start, ("stock", "candidate")[at % 2]) for at, start in enumerate(starts)]
    stacks = [
        {"window_start_unix_s": start + 10, "stack": STACKS[at % 2], "weight": 10.0 + at}
        for at, start in enumerate(starts)
    ]
    fleet = Fleet().put("task_samples", samples).put("profiles", stacks)
    for config, weights in (("stock", 10.0 + 12.0), ("candidate", 11.0 + 13.0)):
        chosen = _top(fleet, selection=Selection.parse(f"label.config={config}"), by="job")
        assert chosen.fleet_weight == pytest.approx(10 * weights)
    both = _top(fleet, selection=Selection.parse("label.config=stock,label.config=candidate"), by="job")
    assert both.fleet_weight == pytest.approx(10 * sum(10.0 + at for at in range(4)))


def test_a_window_may_reach_into_the_next_day():
    late = MIDNIGHT + 86_400 - 30
    fleet = Fleet().put("task_samples", [_window(late, "stock")])
    fleet.put("profiles", [{"window_start_unix_s": late + 45, "stack": STACKS[0], "weight": 5.0}])
    assert _top(
        fleet, selection=Selection.parse("label.config=stock"), by="job"
    ).fleet_weight == pytest.approx(50.0)


def test_sums_of_the_engine_are_those_of_machines():
    random = np.random.default_rng(7)
    machines, minutes = 12, 5
    part = random.gamma(2.0, 10.0, (machines, minutes)).round() + 1
    rest = random.gamma(4.0, 25.0, (machines, minutes)).round() + 1
    columns = {
        "machine": np.repeat([f"m{at}" for at in range(machines)], minutes * 2),
        "window_start_unix_s": np.tile(np.repeat(MIDNIGHT + 300 * np.arange(minutes), 2), machines),
        "stack": np.tile(["c;f [c]", "c;g [c]"], machines * minutes),
        "weight": np.stack([part, rest], axis=-1).ravel(),
        "sampled_ratio": np.ones(machines * minutes * 2),
    }
    rows = select(Fleet().put("profiles", **columns).table("profiles"), Selection())
    keyed = top_shares.keyed_by_column(rows, "stack")
    size = fetch_rows(top_shares.sizes(rows))[0]
    y, x = part.sum(axis=1), (part + rest).sum(axis=1)
    assert size["machines"] == 12
    assert size["machine_minutes"] == 60
    assert size["weight_cube"] == pytest.approx((x**3).sum())
    row = fetch_rows(top_shares.moments(rows, keyed))[0]
    products = {"y": y, "yy": y * y, "yx": y * x, "yyy": y**3, "yyx": y * y * x, "yxx": y * x * x}
    assert {name: row[f"own_{name}"] for name in products} == {
        name: pytest.approx(product.sum()) for name, product in products.items()
    }
    groups = fetch_rows(top_shares.grouped(rows, keyed))
    assert {row["part"] for row in groups} == set(range(12)), "each machine is a group of its own"
    assert sum(row["own"] for row in groups) == pytest.approx(x.sum())


def test_more_machines_go_with_the_square_of_the_interval():
    one = Share(0.2, 0.18, 0.22, 0.01)
    assert needed(one, 100, 0.10) == 0
    assert needed(one, 100, 0.05) == 300
    assert needed(Share(0.2, None, None, None), 1, 0.1) is None
    assert machines_to_state(one, 100) is None
    assert machines_to_state(Share(0.2, None, None, 0.1, 2.0), 10) == 20


def test_the_simulators_truth_is_within_the_intervals():
    store = simulated_store(profiled_ratio=0.02)
    truth = truth_of(store)["profiles"]
    with open_store(str(store)) as source:
        answer = top(source.table("profiles"), source.table("symbols"), rows=100)
        by_job = top(source.table("profiles"), source.table("symbols"), by="job", rows=100)
    assert answer.fleet_weight == pytest.approx(truth["cycles"], rel=0.1)
    shares: dict[str, float] = {}
    for one in truth["functions"]:
        shares[one["function"]] = shares.get(one["function"], 0.0) + one["share_ratio"]
    shown = [row for row in answer.rows if row.key in shares]
    assert len(shown) >= 90
    held = np.mean([row.own.low <= shares[row.key] <= row.own.high for row in shown])
    assert held >= 0.90, held
    jobs = {one["job"]: one["share_ratio"] for one in truth["jobs"]}
    held = np.mean([row.own.low <= jobs[row.key] <= row.own.high for row in by_job.rows])
    assert held >= 0.8, held
    # What chance makes of two halves is what the intervals let expect.
    assert answer.sample.manhattan_distance == pytest.approx(
        answer.sample.expected_manhattan_distance, rel=0.25
    )
    assert answer.unknown_symbols_ratio < 0.01, "the simulator stores the symbols of stripped builds"
