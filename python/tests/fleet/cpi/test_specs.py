"""CPI specs against closed forms, their guards, and their way into a store and back."""

import math
from dataclasses import replace

import numpy as np
import pytest

from steelyard.fleet.cpi import spec_store as cpi_store
from steelyard.fleet.cpi.distribution import by_tail, find_distributions, with_tails
from steelyard.fleet.cpi.outliers import latest
from steelyard.fleet.cpi.samples import Guards
from steelyard.fleet.cpi.specs import SpecSettings, find_specs
from steelyard.fleet.store.schema import TABLES
from steelyard.fleet.store.store import create_store, open_store
from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import fetch_rows
from tests.fleet.cpi.cpi_tables import sample, table

FEW = SpecSettings(fewest_tasks=1, fewest_samples=1)


def test_mean_and_deviation_are_those_of_the_samples() -> None:
    rng = np.random.default_rng(3)
    cpi = rng.gamma(9, 0.2, 900)
    rows = [sample(n, task=f"web/{n % 6}", cpi=float(x), usage=0.5 + n % 3) for n, x in enumerate(cpi)]
    (spec,) = find_specs(table(rows))
    assert (spec.samples, spec.tasks, spec.full_tasks) == (900, 6, 6)
    assert spec.cpi_mean == pytest.approx(cpi.mean(), rel=1e-12)
    assert spec.cpi_sd == pytest.approx(cpi.std(ddof=1), rel=1e-10)
    assert spec.cpu_usage_mean == pytest.approx(1.5)
    assert spec.effective_samples == pytest.approx(900)
    assert spec.threshold_cpi == pytest.approx(cpi.mean() + 2 * cpi.std(ddof=1))
    three = find_specs(table(rows), SpecSettings(threshold_sigmas=3))[0]
    assert three.threshold_cpi == pytest.approx(cpi.mean() + 3 * cpi.std(ddof=1))


def test_a_day_weighs_nine_tenths_of_the_next() -> None:
    days = {"2026-01-01": [1.0, 1.4], "2026-01-02": [2.0], "2026-01-04": [3.0, 3.5, 2.5]}
    rows = [sample(n, date=day, cpi=x) for day, values in days.items() for n, x in enumerate(values)]
    weight = np.array([0.9**3] * 2 + [0.9**2] + [1.0] * 3)
    cpi = np.array([x for values in days.values() for x in values])
    mean = np.average(cpi, weights=weight)
    # Reliability weights: the unbiased variance of samples that differ in weight.
    total, squares = weight.sum(), (weight**2).sum()
    variance = (weight * (cpi - mean) ** 2).sum() / (total - squares / total)
    (spec,) = find_specs(table(rows), FEW)
    assert spec.cpi_mean == pytest.approx(mean, rel=1e-12)
    assert spec.cpi_sd == pytest.approx(math.sqrt(variance), rel=1e-10)
    assert spec.effective_samples == pytest.approx(total**2 / squares)
    assert (spec.samples, spec.first_day, spec.last_day) == (6, "2026-01-01", "2026-01-04")
    flat = find_specs(table(rows), replace(FEW, day_weight=1.0))[0]
    assert flat.cpi_mean == pytest.approx(cpi.mean())
    early = find_specs(table(rows), replace(FEW, as_of="2026-01-02"))[0]
    assert early.cpi_mean == pytest.approx((0.9 * 2.4 + 2.0) / (0.9 * 2 + 1))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"instructions": 0, "cpi": None}, "zero instructions"),
        ({"instructions": 0, "cpi": math.inf}, "zero instructions"),
        ({"cpi": None}, "no CPI"),
        ({"cpi_source": None}, "CPI of unknown source"),
        ({"cpi": 0.01}, "impossible CPI"),
        ({"cpi": -1.0}, "impossible CPI"),
        ({"cpi": 5000.0}, "impossible CPI"),
        ({"cpi": math.nan}, "impossible CPI"),
        ({"cpi": math.inf}, "impossible CPI"),
        ({"usage": 0.2499}, "usage below the minimum"),
        ({"usage": math.nan}, "usage below the minimum"),
        ({"usage": -5.0}, "usage below the minimum"),
        ({"window_s": 0.0}, "usage below the minimum"),
    ],
)
def test_what_does_not_count_is_counted_by_reason(changed: dict[str, object], reason: str) -> None:
    good = [sample(n, cpi=2.0 + n / 10) for n in range(3)]
    specs = find_specs(table([*good, sample(5, **changed)]), FEW)
    spec = next(one for one in specs if one.cpi_source is not None)
    assert (spec.samples, spec.cpi_mean) == (3, pytest.approx(2.1))
    assert [reason for one in specs for reason in one.excluded] == [reason]
    assert sum(n for one in specs for n in one.excluded.values()) == 1


def test_at_the_edge_of_the_guards_samples_count() -> None:
    edges = [
        {"usage": 0.25},
        {"cpi": 0.05},
        {"cpi": 1000.0},
        {"instructions": None, "reference_cycles": None},
    ]
    (spec,) = find_specs(table([sample(n, **one) for n, one in enumerate(edges)]), FEW)
    assert spec.samples == 4
    assert not spec.excluded


def test_stand_ins_have_no_physical_bounds_and_do_not_mix() -> None:
    per_operation = "cpu time per operation"
    rows = [sample(n, cpi=1e-6 * (n + 1), cpi_source=per_operation) for n in range(3)]
    rows += [sample(n, cpi=2.0 + n) for n in range(2)] + [sample(9, cpi=0.0, cpi_source=per_operation)]
    found = {one.cpi_source: one for one in find_specs(table(rows), FEW)}
    assert found[per_operation].cpi_mean == pytest.approx(2e-6)
    assert found[per_operation].excluded == {"impossible CPI": 1}
    assert found["cycles/instructions"].samples == 2


@pytest.mark.parametrize(("tasks", "each", "usable"), [(5, 100, True), (4, 100, False), (5, 99, False)])
def test_few_tasks_or_samples_make_no_spec(tasks: int, each: int, usable: bool) -> None:
    rows = [sample(n, task=f"web/{k}", cpi=2 + n % 7) for k in range(tasks) for n in range(each)]
    # One sample of a sixth task makes no task of 100.
    (spec,) = find_specs(table([*rows, sample(0, task="web/other")]))
    assert spec.is_usable is usable
    if not usable:
        assert spec.missing == f"tasks of 100 samples or more: {tasks if each >= 100 else 0}, a spec needs 5"
        assert spec.cpi_mean is not None


def test_a_constant_or_single_sample_has_no_false_spread() -> None:
    (constant,) = find_specs(table([sample(n, cpi=1.1) for n in range(50)]), FEW)
    assert constant.cpi_sd == pytest.approx(0, abs=1e-7)
    (single,) = find_specs(table([sample(0)]), FEW)
    assert (single.cpi_mean, single.cpi_sd, single.is_usable) == (2.0, None, False)
    (none,) = find_specs(table([sample(0, cpi=None)]), FEW)
    assert (none.samples, none.cpi_mean, none.missing) == (0, None, "no sample counts")
    assert find_specs(table([])) == []


def test_specs_come_back_from_the_store_as_agents_pull_them(tmp_path) -> None:
    rows = [sample(n, task=f"web/{k}", cpi=2 + (n % 7) / 10) for k in range(5) for n in range(100)]
    samples = table(rows)
    specs = find_specs(samples)
    tails = with_tails(specs, find_distributions(samples, specs), 0.96)
    url = str(tmp_path / "store")
    create_store(url)
    assert cpi_store.write_specs(url, [replace(tails[0], threshold_cpi=None)], built_unix_s=5) is None
    for built, threshold in ((1_767_000_000, 9.0), (1_767_268_800, tails[0].threshold_cpi)):
        assert cpi_store.write_specs(url, [replace(tails[0], threshold_cpi=threshold)], built_unix_s=built)
    with open_store(url) as store:
        kept = fetch_rows(store.table("cpi_specs").order_by(ibis.desc("built_unix_s")))
        (newest,) = fetch_rows(latest(store.table("cpi_specs")))
    assert newest["threshold_cpi"] == specs[0].threshold_cpi
    assert len(kept) == 2
    assert {name: kept[0][name] for name in ("job", "samples", "tasks", "cpi_mean", "cpi_sd")} == {
        "job": "web",
        "samples": 500,
        "tasks": 5,
        "cpi_mean": specs[0].cpi_mean,
        "cpi_sd": specs[0].cpi_sd,
    }
    assert (kept[0]["gev_shape"] is None) == (tails[0].gev is None)
    assert set(kept[0]) >= {column.name for column in TABLES["cpi_specs"].columns}


def test_the_tail_can_be_the_threshold() -> None:
    rng = np.random.default_rng(1)
    cpi = rng.gumbel(2.0, 0.1, 600)
    rows = [sample(n, task=f"web/{n % 5}", cpi=float(x)) for n, x in enumerate(cpi)]
    samples = table(rows)
    specs = find_specs(samples)
    (tail,) = with_tails(specs, find_distributions(samples, specs), 0.99)
    assert by_tail(tail).threshold_cpi == tail.gev_threshold_cpi
    assert tail.gev_threshold_cpi == pytest.approx(2.0 - 0.1 * math.log(-math.log(0.99)), abs=0.04)
    lost = by_tail(specs[0])
    assert (lost.threshold_cpi, lost.missing) == (
        None,
        "not requested; fewer than 5 samples above their own quantile",
    )


def test_cpi_of_few_values_has_the_samples_quantile_for_a_threshold() -> None:
    rng = np.random.default_rng(5)
    values, weights = [0.7, 0.987, 1.013, 1.173, 1.211, 1.295, 1.57], [465, 231, 227, 47, 16, 10, 3]
    cpi = rng.choice(values, 2_000, p=np.array(weights) / sum(weights))
    rows = [sample(n, task=f"web/{n % 5}", cpi=float(x)) for n, x in enumerate(cpi)]
    samples = table(rows)
    specs = find_specs(samples)
    (found,) = map(by_tail, with_tails(specs, find_distributions(samples, specs), 0.96))
    assert (found.gev, found.gev_threshold_cpi, found.threshold_from) == (None, None, "quantile")
    assert found.gev_missing is not None
    assert found.gev_missing.startswith("no GEV fits: the nearest is 0.3")
    assert found.threshold_cpi is not None
    # No more than the asked 4 % lie above it, and it is the least such value but for a bin's width.
    assert 1.173 < found.threshold_cpi < 1.211
    (rare,) = map(by_tail, with_tails(specs, find_distributions(samples, specs), 0.999))
    assert rare.threshold_cpi is None
    assert rare.missing is not None
    assert rare.missing.endswith("fewer than 5 samples above their own quantile")


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong in ({"day_weight": 0.0}, {"day_weight": 1.1}, {"fewest_tasks": 0}, {"threshold_sigmas": 0.0}):
        with pytest.raises(ValueError, match=r"weight|spec"):
            SpecSettings(**wrong)
    with pytest.raises(ValueError, match="lowest"):
        Guards(lowest_cpi=2.0, highest_cpi=1.0)
