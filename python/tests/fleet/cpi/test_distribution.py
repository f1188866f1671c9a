"""Distributions of CPI: the published figure again, and whether CPI follows throughput."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from steelyard.fleet.cpi.distribution import find_distributions, with_tails
from steelyard.fleet.cpi.specs import SpecSettings, find_specs
from steelyard.fleet.cpi.throughput import find_following, warnings
from steelyard.fleet.store.store import open_store, write_compacted
from tests.fleet.cpi.cpi_tables import NOON, sample, table
from tests.fleet.simulated import simulated_store, truth_of


def test_the_web_search_figure_of_cpi2_is_reproduced(tmp_path) -> None:
    """FACTS section 4, EuroSys 2013 figure 7: 450,000 samples, GEV(1.73, 0.133, -0.0534), 1.8, 0.16."""
    n = 450_000
    cpi = stats.genextreme(0.0534, 1.73, 0.133).rvs(n, random_state=np.random.default_rng(11))
    same = {name: value for name, value in sample().items() if name not in ("date", "cluster", "operations")}
    columns = {name: pa.repeat(value, n) for name, value in same.items()}
    columns |= {"cpi": pa.array(cpi), "task": pa.array([f"web/{k % 160}" for k in range(n)])}
    columns["labels"] = pa.array([[]] * n, pa.map_(pa.string(), pa.string()))
    rows = pa.table(columns)
    write_compacted(str(tmp_path / "store"), "task_samples", rows, cluster="a", date="2026-01-01")
    with open_store(str(tmp_path / "store")) as store:
        samples = store.table("task_samples")
        specs = find_specs(samples)
        (found,) = find_distributions(samples, specs)
    spec, fit = found.spec, found.gev
    assert spec.samples == n
    assert (round(spec.cpi_mean or 0, 1), round(spec.cpi_sd or 0, 2)) == (1.8, 0.16)
    assert fit is not None
    gev = fit.gev
    assert (round(gev.location, 2), round(gev.scale, 3)) == (1.73, 0.133)
    assert fit.shape_error is not None
    assert -gev.shape == pytest.approx(-0.0534, abs=3 * fit.shape_error)
    assert fit.shape_error < 0.0015
    assert (round(gev.mean or 0, 1), round(gev.sd or 0, 2)) == (1.8, 0.16)
    # The fit is as near as samples of the curve itself are, and nearer than the curves that the paper tried.
    assert fit.distance < found.chance_distance
    assert all(one.distance > 5 * fit.distance for one in found.others)
    # At two standard deviations 4 % of this distribution lie above.
    seen, expected = found.above(spec.threshold_cpi or 0)
    assert seen == pytest.approx(0.0404, abs=0.001)
    assert expected == pytest.approx(seen, abs=0.001)
    (tail,) = with_tails(specs, [found], 0.96)
    assert tail.gev_threshold_cpi == pytest.approx(1.8 + 2 * 0.16, abs=0.005)


def test_samples_weigh_by_age_in_the_histogram_too() -> None:
    rng = np.random.default_rng(2)
    rows = [
        sample(n, task=f"web/{n % 5}", date=day, cpi=float(x))
        for day, mean in (("2026-01-01", 1.0), ("2026-01-03", 2.0))
        for n, x in enumerate(rng.normal(mean, 0.1, 600))
    ]
    settings = SpecSettings(day_weight=0.5)
    specs = find_specs(table(rows), settings)
    (found,) = find_distributions(table(rows), specs, settings)
    old = found.histogram.count[found.histogram.high < 1.5].sum()
    assert old == pytest.approx(600 * 0.25)
    assert found.histogram.total == pytest.approx(600 * 1.25)


def _spans(*, spinning: bool, hours: int = 40) -> list[dict[str, object]]:
    """Return a job whose load and CPI wander; a spinning one does what is asked, whatever its CPI."""
    rng = np.random.default_rng(8)
    rows = []
    for n in range(6 * hours):
        load, cpi = 1 + 0.5 * rng.random(), 1.0 + 0.5 * rng.random()
        cycles = 1e12 * load
        operations = cycles / cpi / 1e5 if not spinning else cycles / 1.2e5
        operations *= 1 + 0.01 * rng.standard_normal()
        counts = {"reference_cycles": int(cycles), "instructions": int(cycles / cpi), "cpi": cpi}
        rows.append(sample(window_start_unix_s=NOON + 600 * n, operations=operations, **counts))
    return rows


def test_cpi_follows_where_each_operation_costs_so_many_instructions() -> None:
    (found,) = find_following(table(_spans(spinning=False)))
    assert found.verdict == "follows"
    assert found.elasticity is not None
    assert found.elasticity.value == pytest.approx(1, abs=0.02)
    assert found.cpi_share == pytest.approx(1, abs=0.02)
    assert found.rates.r is not None
    assert found.rates.r > 0.97
    assert warnings([found]) == []


def test_cpi_of_a_job_that_spins_is_warned_of() -> None:
    (found,) = find_following(table(_spans(spinning=True)))
    assert found.verdict == "does not follow"
    assert found.elasticity is not None
    assert found.elasticity.value == pytest.approx(0, abs=0.02)
    (sentence,) = warnings([found])
    assert sentence.startswith("web on westmere: CPI does not follow throughput")


def test_too_few_spans_or_no_operations_say_nothing() -> None:
    (few,) = find_following(table(_spans(spinning=False, hours=1)))
    assert (few.verdict, few.elasticity) == ("cannot tell", None)
    assert few.missing == "6 pairs of values, fewer than 8"
    assert find_following(table([sample(0)])) == []


def test_simulated_jobs_are_distinguished_as_they_were_made() -> None:
    folder = simulated_store()
    made = {job["job"]: job["follows_throughput"] for job in truth_of(folder)["jobs"]}
    with open_store(str(folder)) as store:
        found = find_following(store.table("task_samples"))
    assert {one.job for one in found} == {job for job, follows in made.items() if follows is not None}
    verdicts = {(one.job, one.verdict) for one in found}
    wrong = {(job, "does not follow" if follows else "follows") for job, follows in made.items()}
    assert not verdicts & wrong
    spinning = {job for job, follows in made.items() if follows is False}
    assert {job for job, verdict in verdicts if verdict == "does not follow"} == spinning
    assert sum(one.verdict == "follows" for one in found) > len(found) / 3
