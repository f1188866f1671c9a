"""Remote memory: the paper's shapes, the simulator's truth, and load that hides it."""

from itertools import pairwise

import numpy as np
import pytest

from steelyard._base import ResultSaysNoError
from steelyard.fleet.numa.locality import bins_of, normalised, numa, scored
from steelyard.fleet.store.store import open_store
from steelyard.telemetry.engine import fetch_rows
from tests.fleet.arrow_tables import Fleet
from tests.fleet.simulated import simulated_store, truth_of


def _samples(random, count=6000, effect=0.3, migrates=0.0, machines=40):
    """Return columns of one job: CPI rises by ``effect`` from score 1 to 0, and with load."""
    load = random.random(count)
    score = np.clip(0.33 + 0.67 * random.beta(1.2, 1.2, count) + migrates * (load - 0.5), 0.33, 1.0)
    machine = random.integers(0, machines, count)
    cpi = (
        1.8
        * (1 + effect * (1 - score))
        * (1 + 0.8 * (load - 0.5))
        * (1 + 0.08 * random.standard_normal(count))
    )
    return {
        "machine": np.array([f"m{at}" for at in machine]),
        "numa_score": score,
        "machine_cpu_ratio": load,
        "cpi": cpi,
        "cpi_source": np.full(count, "cycles/instructions"),
        "operations": np.full(count, 1000.0),
        "latency_mean_s": 0.01 * cpi * random.lognormal(0, 0.5, count),
    }


def _numa(columns, **options):
    return numa(Fleet().put("task_samples", **columns).table("task_samples"), **options)


def test_published_effect_is_found_with_its_shape():
    # Gmail backend: 1.15x at a score of 0.5, falling to 1.0x at 1 (NUMA paper, Figure 3).
    answer = _numa(_samples(np.random.default_rng(1)))
    cpi = next(one for one in answer.effects if one.metric == "cpi")
    ratio, low, high = cpi.effect.at(0.5)
    assert low <= 1.15 <= high
    assert high - low < 0.06
    assert ratio == pytest.approx(1.15, abs=0.03)
    figure = next(one for one in answer.figures if one.metric == "cpi")
    ratios = [ratio for ratio in figure.ratio if ratio is not None]
    assert ratios[-1] == pytest.approx(1.0)
    assert all(left > right - 0.02 for left, right in pairwise(ratios)), "falls with locality"
    assert all(0.05 < sd < 0.6 for sd in figure.sd if sd is not None)
    # Latency has the same trend under wide noise.
    latency = next(one for one in answer.figures if one.metric == "latency_mean")
    assert max(latency.sd[-2:]) > 2 * max(figure.sd[-2:])
    assert answer.missing == {"99th percentile of latency": "no job of the selection exports it"}


def test_load_that_moves_pages_home_hides_the_effect_from_raw_samples_only():
    answer = _numa(_samples(np.random.default_rng(2), migrates=0.9))
    cpi = next(one for one in answer.effects if one.metric == "cpi")
    assert cpi.effect.low <= 0.3 <= cpi.effect.high
    assert cpi.raw_effect.value < 0.1
    assert cpi.disagreement
    assert cpi.raw_correlation > -0.1


def test_scores_are_counted_by_day_and_bin():
    rows = [
        {"numa_score": score, "date": date}
        for date, scores in (("2026-01-01", (0.33, 0.35, 1.0)), ("2026-01-02", (0.95, 0.999)))
        for score in scores
    ]
    answer = numa(Fleet().put("task_samples", [*rows, {"numa_score": None}]).table("task_samples"))
    assert [day.date for day in answer.days] == ["2026-01-01", "2026-01-02"]
    assert answer.days[0].samples == (0, 0, 0, 2, 0, 0, 0, 0, 0, 1)
    assert answer.days[1].samples[9] == 2
    assert answer.samples == 5
    with pytest.raises(ResultSaysNoError, match="no sample has a NUMA score"):
        numa(Fleet().put("task_samples", [{"numa_score": None}]).table("task_samples"))


def test_samples_with_little_cpu_time_or_another_source_have_no_cpi():
    rows = [
        {"numa_score": 0.5, "cpi": 2.0, "cpu_s": 30.0, "cpi_source": "cycles/instructions"},
        {"numa_score": 0.5, "cpi": 9.0, "cpu_s": 14.9, "cpi_source": "cycles/instructions"},
        {"numa_score": 0.5, "cpi": 9.0, "cpu_s": 30.0, "cpi_source": "cpu time per operation"},
        {"numa_score": 0.5, "cpi": 4.0, "cpu_s": 30.0, "cpi_source": None},
    ]
    table = Fleet().put("task_samples", rows).table("task_samples")
    (row,) = fetch_rows(bins_of(scored(table)))
    assert (row["cpi_n"], row["cpi_mean"]) == (2, 3.0)
    assert row["cpu_use_n"] == 4
    assert (row["cpu_per_operation_n"], row["cpu_per_operation_mean"]) == (0, None)
    assert normalised([row], 10) == []


def test_the_simulators_truth_is_within_the_intervals():
    store = simulated_store()
    truth = {one["job"]: one["numa_effect"] for one in truth_of(store)["numa"]["effects"]}
    with open_store(str(store)) as source:
        answer = numa(source.table("task_samples"))
    found = {one.job: one.effect for one in answer.effects if one.metric == "cpi"}
    assert truth
    for job, effect in truth.items():
        assert found[job].low <= effect <= found[job].high, (job, effect, found[job])
        assert found[job].low > 0
    clean = [one for job, one in found.items() if job not in truth]
    assert len(clean) >= 5
    assert sum(one.low <= 0 <= one.high for one in clean) >= len(clean) - 2
