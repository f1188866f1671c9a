"""The simulated fleet: the same bytes for the same seed, the store's layout, and a truth that adds up."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from steelyard._base import UsageError
from steelyard.cli.main import invoke
from steelyard.fleet.simulate import Settings, simulate
from steelyard.fleet.store.store import open_store
from steelyard.telemetry.engine import fetch
from tests.fleet.simulated import simulated_store, truth_of

SMALL: dict[str, Any] = {"machines": 8, "days": 1, "clusters": 2}


def _hashes(store: Path) -> dict[str, str]:
    return {
        str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(store.rglob("*"))
        if path.is_file()
    }


def _sql(store: Path, query: str, table: str = "task_samples") -> list[tuple[Any, ...]]:
    """Run DuckDB's SQL over a table, which it names ``{t}``."""
    with open_store(str(store)) as opened:
        connection = opened.view(table) and opened.engine.connection
        rows: list[tuple[Any, ...]] = connection.execute(query.replace("{t}", table)).fetchall()
    return rows


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    first = simulated_store(**SMALL)
    simulate(Settings(**SMALL, compression="snappy"), str(tmp_path / "again"))
    assert _hashes(first) == _hashes(tmp_path / "again")
    simulate(Settings(**SMALL, compression="snappy", seed=2), str(tmp_path / "other"))
    assert _hashes(first) != _hashes(tmp_path / "other")


def test_every_file_counts_and_rows_are_those_of_the_truth() -> None:
    store = simulated_store()
    truth = truth_of(store)
    with open_store(str(store)) as opened:
        opened.look_at_all()
        assert opened.problems == []
        for name, rows in truth["rows"].items():
            listing = opened.listing(name)
            assert (listing.rows, len(listing.files)) == (rows, truth["files"][name])
    for name, size in truth["bytes"].items():
        assert sum(path.stat().st_size for path in (store / name).rglob("*.parquet")) == size


@pytest.mark.parametrize("table", ["task_samples", "machine_samples", "profiles"])
def test_a_file_a_machine_holds_the_same_rows(table: str) -> None:
    """Both layouts hold the same rows, and a machine's own file is in order of time."""
    compact, machine = simulated_store(**SMALL), simulated_store(**SMALL, files="machine")
    query = (
        "select count(*), sum(hash(machine, platform, window_start_unix_s, {0})::hugeint), "
        "count(distinct machine) from {t}"
    )
    columns = {
        "task_samples": "task, cpu_s, reference_cycles, instructions, cpu_s_per_node, pages_per_node, labels",
        "machine_samples": "cpu_s, instructions, power_w, labels",
        "profiles": "task, stack, samples",
    }[table]
    query = query.replace("{0}", columns)
    assert _sql(compact, query, table=table) == _sql(machine, query, table=table)
    assert truth_of(machine)["files"][table] >= 0.9 * SMALL["machines"]


def test_cpi_is_what_the_truth_says() -> None:
    store = simulated_store()
    query = (
        "select job, platform, count(*), avg(cpi), stddev_samp(cpi), sum(cpu_s),"
        " bool_and(cpi = reference_cycles / instructions) from {t} group by all"
    )
    found = {(job, platform): rest for job, platform, *rest in _sql(store, query)}
    truth = truth_of(store)["cpi"]
    assert {(one["job"], one["platform"]) for one in truth} == set(found)
    for one in truth:
        count, mean, sd, cpu_s, exact = found[(one["job"], one["platform"])]
        assert count == one["samples"]
        assert mean == pytest.approx(one["mean"], rel=1e-9)
        assert sd == pytest.approx(one["sd"], rel=1e-6)
        # The truth is of whole minutes, a sample of 10 s of them.
        assert 6 * cpu_s == pytest.approx(one["cpu_s"], rel=1e-9)
        assert exact


def test_the_search_leaf_has_the_published_distribution() -> None:
    """FACTS: GEV(1.73, 0.133, c = 0.0534), whose mean and sd are 1.80 and 0.16, but for episodes."""
    store = simulated_store(episodes_per_machine_day=0.0, self_inflicted_per_machine_day=0.0)
    query = "select cpi from {t} where job = 'search-leaf' and platform = 'intel-westmere' and cpu_s > 2.5"
    cpi = np.array(_sql(store, query))[:, 0]
    assert len(cpi) > 10_000
    # A few rounded counts and float32 draws lie within what 10,000 samples leave open.
    assert stats.kstest(cpi[::4], stats.genextreme(0.0534, 1.73, 0.133).cdf).pvalue > 1e-3
    assert cpi.mean() == pytest.approx(1.80, abs=0.01)
    assert cpi.std() == pytest.approx(0.163, abs=0.005)


def test_throughput_follows_cpi_but_for_one_job() -> None:
    jobs = {one["job"]: one for one in truth_of(simulated_store())["jobs"]}
    correlations = {
        (one["job"], one["platform"]): one["throughput_cpi_correlation"]
        for one in truth_of(simulated_store())["cpi"]
    }
    search = [value for (job, _), value in correlations.items() if job == "search-leaf"]
    assert all(0.94 < value < 0.995 for value in search)
    alone = [name for name, one in jobs.items() if one["follows_throughput"] is False]
    assert alone == ["ads-ranker"]
    assert all(value < 0.3 for (job, _), value in correlations.items() if job in alone)


def test_machines_add_up_to_their_tasks() -> None:
    store = simulated_store()
    query = (
        "select m.machine, m.window_start_unix_s, m.cpu_s / m.window_s, m.cpu_s / m.window_s / m.threads,"
        " m.instructions, m.core_busy_s, m.cores, m.window_s, m.frequency_hz from {t} m"
    )
    machines = {
        (machine, start): rest for machine, start, *rest in _sql(store, query, table="machine_samples")
    }
    query = (
        "select machine, window_start_unix_s, sum(cpu_s / window_s), max(machine_cpu_ratio),"
        " sum(instructions / window_s) from {t} group by all"
    )
    for machine, start, cpu, ratio, instructions in _sql(store, query)[::97]:
        busy, share, retired, core_busy_s, cores, window_s, frequency = machines[(machine, start)]
        assert cpu < busy < cpu * 1.25
        assert share == pytest.approx(ratio, rel=1e-5)
        assert 0 < share < 1
        assert retired / window_s > instructions
        assert 0 < core_busy_s <= cores * window_s * (1 + 1e-9)
        assert frequency > 1e9


def test_scores_follow_from_shares_and_distances() -> None:
    """Equation 1 of the NUMA paper over the columns that a reader has."""
    store = simulated_store()
    with open_store(str(store)) as opened:
        tasks = opened.table("task_samples").filter(lambda t: t.window_start_unix_s % 86400 == 36_000)
        columns = ("machine", "platform", "cpu_s_per_node", "pages_per_node", "numa_score")
        rows = fetch(tasks.select(*columns)).to_pandas()
        machines = fetch(opened.table("machines")).to_pandas().set_index("machine").node_distances
    spans: dict[str, list[float]] = {}
    for row in rows.itertuples():
        distances = np.array(machines[row.machine]).reshape(len(row.cpu_s_per_node), -1)
        cpu, pages = np.array(row.cpu_s_per_node), np.array(row.pages_per_node)
        score = (cpu / cpu.sum()) @ (np.diag(distances)[:, None] / distances) @ (pages / pages.sum())
        assert row.numa_score == pytest.approx(score, abs=1e-4)
        spans.setdefault(row.platform, []).append(row.numa_score)
    assert set(spans["amd-rome"]) == {1.0}
    assert min(spans["amd-barcelona"]) >= 1 / 3
    assert max(spans["amd-barcelona"]) - min(spans["amd-barcelona"]) > 0.3


def test_the_misleading_rollout_says_better_in_total_and_worse_in_every_group() -> None:
    """FACTS section 2: 1.09 in total, 0.87, 0.99 and 0.84 by group, 0.88 at the stock's mix."""
    store = simulated_store()
    rollout = next(one for one in truth_of(store)["rollouts"] if one["kind"] == "misleading")
    assert rollout["total_cpu_speedup"] == pytest.approx(885 / 815, abs=0.002)
    assert rollout["reweighted_cpu_speedup"] == pytest.approx(0.88, abs=0.005)
    speedups = {one["group"]: round(one["cpu_speedup"], 2) for one in rollout["groups"]}
    assert speedups == {"large": 0.87, "small": 0.99, "medium": 0.84}
    query = (
        f"select labels['config'], labels['tenant'], sum(cpu_s), sum(operations), count(*)"
        f" from {{t}} where job = '{rollout['job']}' group by all"
    )
    found = {(value, group): sums for value, group, *sums in _sql(store, query)}
    assert len(found) == len(rollout["cells"]) == 6
    for cell in rollout["cells"]:
        cpu_s, operations, rows = found[(cell["value"], cell["group"])]
        assert (cpu_s, operations) == pytest.approx((cell["cpu_s"], cell["operations"]), rel=1e-9)
        assert rows == cell["rows"]
    rue = {key: cpu_s / operations for key, (cpu_s, operations, _) in found.items()}
    assert all(rue["stock", group] / rue["candidate", group] < 1.0 for group in speedups)


def test_samples_do_not_arrive_as_planned_in_one_rollout() -> None:
    truth = {one["kind"]: one for one in truth_of(simulated_store())["rollouts"]}
    for kind, expected in (("honest", 0.5), ("sample-ratio-mismatch", 0.37)):
        work = {"stock": 0.0, "candidate": 0.0}
        for cell in truth[kind]["cells"]:
            work[cell["value"]] += cell["operations"]
        assert work["candidate"] / sum(work.values()) == pytest.approx(expected, abs=0.08)


def test_profiles_show_true_shares_within_their_error() -> None:
    store = simulated_store()
    truth = truth_of(store)["profiles"]
    assert sum(one["share_ratio"] for one in truth["functions"]) == pytest.approx(1.0)
    assert sum(one["share_ratio"] for one in truth["jobs"]) == pytest.approx(1.0)
    query = "select job, sum(weight), count(distinct (machine, window_start_unix_s)) from {t} group by all"
    found = {job: weight for job, weight, _ in _sql(store, query, table="profiles")}
    total = sum(found.values())
    for one in truth["jobs"]:
        # About 700 machine-minutes, of machines that differ much in size.
        assert found[one["job"]] / total == pytest.approx(one["share_ratio"], abs=0.03)
    expected = truth["cycles"] * truth["sampled_ratio"]
    assert total == pytest.approx(expected, rel=0.1)


def test_antagonists_slow_their_victims_in_proportion() -> None:
    store = simulated_store()
    episodes = truth_of(store)["antagonists"]
    assert len(episodes) >= 4
    strong = max(episodes, key=lambda one: one["victims"][0]["slowdown_ratio"])
    victim = strong["victims"][0]
    query = (
        f"select v.cpi, a.cpu_s / a.window_s from {{t}} v join {{t}} a using (machine, window_start_unix_s)"
        f" where v.task = '{victim['task']}' and a.task = '{strong['task']}'"
        f" and window_start_unix_s between {strong['start_unix_s']} and {strong['end_unix_s'] - 1}"
    )
    cpi, usage = np.array(_sql(store, query)).T
    assert len(cpi) == (strong["end_unix_s"] - strong["start_unix_s"]) / 60
    on = usage > 0.5 * strong["peak_cpu"]
    assert 0.2 < on.mean() < 0.9
    ratio = cpi[on].mean() / cpi[~on].mean()
    assert ratio == pytest.approx(victim["slowdown_ratio"], rel=0.2)


def test_specs_are_those_of_the_day_that_ended() -> None:
    """The first day's: mean and deviation of its usable samples, nothing being older."""
    store = simulated_store()
    query = (
        "select job, platform, count(*), avg(cpi), stddev_samp(cpi), avg(cpu_s / window_s) from {t}"
        " where date = '2026-03-02' and cpu_s >= 2.5 group by all"
    )
    samples = {(job, platform): rest for job, platform, *rest in _sql(store, query)}
    query = "select job, platform, samples, cpi_mean, cpi_sd, cpu_usage_mean, threshold_cpi, tasks from {t}"
    query += " where date = '2026-03-02'"
    specs = _sql(store, query, table="cpi_specs")
    assert len(specs) > 15
    for job, platform, count, mean, sd, usage, threshold, tasks in specs:
        expected = samples[(job, platform)]
        assert count == expected[0]
        assert (mean, sd, usage) == pytest.approx(tuple(expected[1:]), rel=1e-9)
        assert threshold == pytest.approx(mean + 2 * sd)
        assert tasks >= 5


def test_guards_cap_antagonists_and_victims_recover() -> None:
    store = simulated_store()
    incidents = _sql(
        store,
        "select date, action, correlation, victim_cpi, threshold_cpi, antagonist_task, cap_start_unix_s,"
        " cap_end_unix_s, cap_cpu_ratio, machine, undone, victim_cpi_after from {t}",
        table="incidents",
    )
    assert {one[0] for one in incidents} == {"2026-03-03"}, "nobody has a spec on the first day"
    assert {one[1] for one in incidents} == {"none", "dry-run", "cap"}
    for _, action, correlation, cpi, threshold, *_ in incidents:
        assert cpi > threshold * 0.95  # Other caps of the machine may have lowered it a little.
        assert (correlation is None) or (correlation >= 0.35)
        assert (action == "none") or correlation is not None
    caps = [one for one in incidents if one[1] == "cap"]
    recovered = [one[11] < one[4] for one in caps]
    assert sum(recovered) >= 0.8 * len(recovered)
    for *_, task, start, end, allowed, machine, undone, _ in caps:
        query = (
            f"select max(cpu_s / window_s) from {{t}} where machine = '{machine}' and task = '{task}'"
            f" and window_start_unix_s >= {start} and window_start_unix_s < {end}"
        )
        assert _sql(store, query)[0][0] <= allowed * (1 + 1e-6)
        assert undone
        assert end - start == 300 or end % 86_400 == 0


def test_faults_stand_beside_the_good_data(tmp_path: Path) -> None:
    simulate(
        Settings(**SMALL | {"days": 2, "platforms": 2}, faults=True, compression="snappy"),
        str(tmp_path / "bad"),
    )
    simulate(Settings(**SMALL | {"days": 2, "platforms": 2}, compression="snappy"), str(tmp_path / "good"))
    bad, good = truth_of(tmp_path / "bad"), truth_of(tmp_path / "good")
    assert bad["cpi"] == good["cpi"]
    kinds = [one["kind"] for one in bad["faults"]]
    assert set(kinds) == {
        "late",
        "clock-skew",
        "zero-instructions",
        "tiny-cpu-time",
        "flood",
        "duplicate",
        "half-written",
        "other-version",
        "renamed",
    }
    for one in bad["faults"]:
        if one.get("path"):
            assert (tmp_path / "bad" / one["path"]).is_file()
    names = {one["machine"] for one in bad["faults"] if one["kind"] not in ("renamed", "duplicate", "late")}
    query = (
        "select count(*), sum(cpu_s), sum(instructions)::double from {t}"
        f" where machine not in ({', '.join(repr(name) for name in sorted(names))})"
    )
    # Rows that came again count once.
    assert _sql(tmp_path / "bad", query)[0] == pytest.approx(_sql(tmp_path / "good", query)[0], rel=1e-12)
    invented = sorted(names - {"half-written.cell-00"})
    query = f"select count(*) from {{t}} where machine in ({', '.join(repr(name) for name in invented)})"
    assert _sql(tmp_path / "bad", query) == [(0,)]


@pytest.mark.parametrize(
    "bad",
    [{"machines": 0}, {"jobs": 2}, {"files": "one"}, {"step_s": 7}, {"start": "today"}, {"platforms": 5}],
)
def test_settings_that_no_fleet_has_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Settings(**bad)


def test_the_command_writes_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "store")
    command = ["fleet", "simulate", "--machines", "2", "--days", "1", "--step-s", "600", "--store", out]
    assert invoke([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tables"]["machines"]["rows"] == 2
    assert invoke(command) == 2
    assert "holds a simulated fleet already" in capsys.readouterr().err
