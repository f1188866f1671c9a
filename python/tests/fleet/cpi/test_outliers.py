"""The queries for outliers and suspects, held to the rules for one victim and to their vectors."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from steelyard._base import schemas_dir
from steelyard.fleet.cpi import outliers as cpi_outliers
from steelyard.fleet.cpi import suspects as cpi_suspects
from steelyard.fleet.cpi.anomalies import find_anomalies
from steelyard.fleet.cpi.incidents import of_rows
from steelyard.fleet.cpi.rule import PAPER, Rule, Suspect, anomalies, is_outlier, judge
from steelyard.fleet.cpi.samples import COUNTED, Guards
from steelyard.telemetry.deferred import memtable
from steelyard.telemetry.engine import fetch_rows
from tests.fleet.cpi.cpi_tables import NOON, sample, table, thresholds

VECTORS = json.loads((schemas_dir() / "golden" / "cpi2_vectors.json").read_text())
WIDE = Guards(lowest_cpi=1e-9, highest_cpi=1e9)


@pytest.mark.parametrize("case", VECTORS["anomaly"], ids=lambda case: case["name"])
def test_outliers_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    rule = Rule(case["minimum_usage"], case["outliers"], case["window_s"])
    rows = [
        sample(window_start_unix_s=one["start_unix_s"], cpi=one["cpi"], usage=one["usage"])
        for one in case["samples"]
    ]
    found = fetch_rows(cpi_outliers.expression(table(rows), thresholds(case["threshold_cpi"]), rule))
    starts = [one["start_unix_s"] for one in case["samples"]]
    outlying = {row["window_start_unix_s"]: row["is_anomalous"] for row in found}
    assert [start in outlying for start in starts] == case["expected_outlier"]
    assert [outlying.get(start, False) for start in starts] == case["expected_anomalous"]


def _moment(start: int, threshold: float, job_class: str = "latency-sensitive") -> Any:
    """Return outliers of one anomalous sample of web/0."""
    columns: dict[str, Any] = {
        "cluster": "a",
        "machine": "m1",
        "platform": "westmere",
        "job": "web",
        "task": "web/0",
        "job_class": job_class,
        "cpi_source": COUNTED,
        "window_start_unix_s": start,
        "window_s": 60.0,
        "cpi": 9.0,
        "threshold_cpi": float(threshold),
        "usage": 1.0,
        "is_anomalous": True,
    }
    return memtable(pa.table({name: [value] for name, value in columns.items()}))


def _victim(cpi: list[float | None]) -> list[dict[str, Any]]:
    return [sample(n, cpi=value) for n, value in enumerate(cpi) if value is not None]


def _suspect(one: dict[str, Any]) -> list[dict[str, Any]]:
    words = {"job": one["job"], "task": one["task"], "job_class": one["job_class"]}
    return [sample(n, usage=use, **words) for n, use in enumerate(one["usage"]) if use is not None]


@pytest.mark.parametrize("case", VECTORS["correlation"], ids=lambda case: case["name"])
def test_correlations_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    suspect = {"job": "encode", "task": "encode/0", "job_class": "batch", "usage": case["suspect_usage"]}
    samples = table([*_victim(case["victim_cpi"]), *_suspect(suspect)])
    last = NOON + 60 * max(0, len(case["victim_cpi"]) - 1)
    (row,) = fetch_rows(cpi_suspects.expression(samples, _moment(last, case["threshold_cpi"]), PAPER, WIDE))
    expected = case["correlation"]
    assert row["correlation"] == (None if expected is None else pytest.approx(expected, abs=1e-12))
    assert (row["pairs"] or 0) == case["pairs"]


@pytest.mark.parametrize("case", VECTORS["ranking"], ids=lambda case: case["name"])
def test_incidents_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    rule = Rule(correlation_floor=case["correlation_floor"])
    samples = table(
        [*_victim(case["victim_cpi"]), *(row for one in case["suspects"] for row in _suspect(one))]
    )
    last = NOON + 60 * (len(case["victim_cpi"]) - 1)
    moment = _moment(last, case["threshold_cpi"], case["victim_class"])
    (found,) = of_rows(fetch_rows(cpi_suspects.expression(samples, moment, rule)), rule)
    assert [one.task for one in found.suspects] == [one["task"] for one in case["expected_order"]]
    for one, expected in zip(found.suspects, case["expected_order"], strict=True):
        value = expected["correlation"]
        assert one.correlation == (None if value is None else pytest.approx(value, abs=1e-12))
        assert one.may_be_capped == expected["may_be_capped"]
    assert (found.antagonist and found.antagonist.task) == case["expected_antagonist"]
    assert (found.cap and found.cap.task) == case["expected_cap"]
    assert found.cap_cpu_ratio == case["expected_cap_cpu_ratio"]
    assert found.reason == case["expected_reason"]


def _fleet(seed: int) -> list[dict[str, Any]]:
    """Return two hours of six machines with a web task, whose CPI is high now and then, and neighbours."""
    rng = np.random.default_rng(seed)
    rows = []
    for machine in range(6):
        names = {"machine": f"m{machine}"}
        for minute in np.flatnonzero(rng.random(120) < 0.93).tolist():
            high = rng.random() < 0.25
            cpi = float(rng.uniform(2.1, 6.0) if high else rng.uniform(0.8, 2.0))
            usage = float(rng.choice([0.1, 0.25, 1.0, 2.0]))
            rows.append(sample(minute, **names, task=f"web/{machine}", cpi=cpi, usage=usage))
        for job, job_class in (("encode", "batch"), ("scan", "best-effort"), ("ads", "latency-sensitive")):
            words = {**names, "job": job, "task": f"{job}/{machine}", "job_class": job_class}
            for minute in np.flatnonzero(rng.random(120) < 0.9).tolist():
                usage = float(rng.choice([0.0, 0.05, 1.0, 4.0]))
                rows.append(sample(minute, **words, cpi=1.0, usage=usage))
    return rows


@pytest.mark.parametrize("seed", [1, 2])
def test_a_fleet_is_judged_as_each_victim_by_itself(seed: int) -> None:
    rows = _fleet(seed)
    rule = Rule(correlation_floor=0.3)
    outliers = cpi_outliers.expression(table(rows), thresholds(2.0), rule)
    outlying = fetch_rows(outliers)
    incidents = of_rows(fetch_rows(cpi_suspects.expression(table(rows), outliers, rule)), rule)
    tops = fetch_rows(cpi_suspects.tops(table(rows), outliers, rule))
    assert len(incidents) > 5
    assert any(one.antagonist for one in incidents)
    for machine in {row["machine"] for row in rows}:
        mine = sorted(
            (row for row in rows if row["machine"] == machine and row["job"] == "web"),
            key=lambda row: row["window_start_unix_s"],
        )
        flags = [is_outlier(row["cpi"], row["cpu_s"] / 60, 2.0, rule) for row in mine]
        starts = [row["window_start_unix_s"] for row in mine]
        found = [row for row in outlying if row["machine"] == machine]
        assert {row["window_start_unix_s"] for row in found} == {
            start for start, flag in zip(starts, flags, strict=True) if flag
        }
        expected = {s for s, flag in zip(starts, anomalies(starts, flags, rule), strict=True) if flag}
        assert {row["window_start_unix_s"] for row in found if row["is_anomalous"]} == expected
        judged = {start: _judge(rows, machine, start, rule) for start in expected}
        for row in (row for row in tops if row["machine"] == machine):
            best = judged[row["decided_unix_s"]].order[0]
            assert row["task"] == best.suspect.task
            assert row["correlation"] == pytest.approx(best.correlation.value, abs=1e-12)
        for one in (one for one in incidents if one.machine == machine):
            inside = sorted(s for s in expected if one.start_unix_s <= s <= (one.end_unix_s or 0))
            assert one.anomalous_samples == len(inside)
            decided = next((s for s in inside if judged[s].antagonist is not None), inside[0])
            answer = judged[decided]
            assert one.decided_unix_s == decided
            assert [s.task for s in one.suspects] == [s.suspect.task for s in answer.order]
            assert (one.cap and one.cap.task) == (answer.cap and answer.cap.suspect.task)
            assert one.reason == answer.reason


def _judge(rows: list[dict[str, Any]], machine: str, now: int, rule: Rule) -> Any:
    starts = range(now - 540, now + 60, 60)
    by_task: dict[tuple[str, str, str], dict[int, dict[str, Any]]] = {}
    for row in rows:
        if row["machine"] == machine:
            key = (row["job"], row["task"], row["job_class"])
            by_task.setdefault(key, {})[row["window_start_unix_s"]] = row
    victim = next(series for key, series in by_task.items() if key[0] == "web")
    cpi = [
        victim[s]["cpi"] if s in victim and victim[s]["cpu_s"] / 60 >= rule.minimum_usage else None
        for s in starts
    ]
    suspects = [
        Suspect(*key, usage=[series[s]["cpu_s"] / 60 if s in series else None for s in starts])
        for key, series in by_task.items()
        if key[0] != "web"
    ]
    return judge("latency-sensitive", cpi, 2.0, suspects, rule)


def test_one_outlier_is_enough_where_the_rule_says_so() -> None:
    rows = [sample(0, cpi=3.0), sample(1, cpi=1.0)]
    rule = Rule(outliers=1)
    (found,) = fetch_rows(cpi_outliers.expression(table(rows), thresholds(2.0), rule))
    assert found["is_anomalous"] is True


def test_jobs_without_a_spec_are_named_as_such() -> None:
    rows = [sample(n, cpi=3.0) for n in range(4)] + [sample(n, job="new", task="new/0") for n in range(7)]
    samples = table(rows)
    outliers = cpi_outliers.expression(samples, thresholds(2.0))
    found = find_anomalies(outliers, cpi_outliers.counts(samples, thresholds(2.0)))
    web, new = found.jobs
    assert (web.job, web.samples, web.outliers, web.outlier_ratio, web.anomalous_tasks) == (
        "web",
        4,
        4,
        1.0,
        1,
    )
    assert (new.job, new.samples, new.threshold_cpi, new.outlier_ratio) == ("new", 7, None, None)
    (task,) = found.tasks
    assert (task.task, task.outliers, task.anomalous_samples) == ("web/0", 4, 2)
    assert (task.first_anomalous_unix_s, task.last_anomalous_unix_s) == (NOON + 120, NOON + 180)


def test_windows_that_begin_a_little_apart_are_simultaneous() -> None:
    rows = []
    for n in range(5):
        start = NOON + 60 * n
        rows.append(sample(window_start_unix_s=start + 3, cpi=4.0))
        rows.append(sample(window_start_unix_s=start + 40, job="encode", task="encode/0", job_class="batch"))
    outliers = cpi_outliers.expression(table(rows), thresholds(2.0))
    (row,) = [r for r in fetch_rows(cpi_suspects.expression(table(rows), outliers)) if r["is_guilty"]]
    assert (row["pairs"], row["correlation"]) == (3, 0.5)
