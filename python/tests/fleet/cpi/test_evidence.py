"""The evidence against suspects, held to the vectors that the agent's guard reads too."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import schemas_dir
from steelyard.fleet.cpi import outliers as cpi_outliers
from steelyard.fleet.cpi import windows
from steelyard.fleet.cpi.evidence import Bar, is_look, weigh
from steelyard.fleet.cpi.incidents import find_incidents
from tests.fleet.cpi.cpi_tables import sample, table, thresholds

VECTORS = json.loads((schemas_dir() / "golden" / "cpi2_vectors.json").read_text())["evidence"]


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["name"])
def test_evidence_is_that_of_the_vectors(case: dict[str, Any]) -> None:
    bar = Bar(false_name_ratio=case["false_name_ratio"])
    usages = [one["usage"] for one in case["suspects"]]
    misses = [one["misses"] for one in case["suspects"]]
    found = weigh(case["victim_cpi"], usages, case["threshold_cpi"], misses, bar)
    for one, expected in zip(found, case["expected"], strict=True):
        for name, value in expected.items():
            is_figure = isinstance(value, float)
            assert getattr(one, name) == (pytest.approx(value, abs=1e-9) if is_figure else value), name


def _noise(count: int, seed: int) -> list[float]:
    random = np.random.default_rng(seed)
    return random.normal(0, 0.05, count).tolist()


def test_what_grows_beside_the_victim_is_not_named() -> None:
    cpi = [1 + n / 60 + e for n, e in zip(range(120), _noise(120, 1), strict=True)]
    usage = [n / 30 * (1 + e) for n, e in zip(range(120), _noise(120, 2), strict=True)]
    (one,) = weigh(cpi, [usage], 1.5)
    assert one.p_value is not None
    assert one.p_value <= 0.01
    assert one.refusal == "its changes do not meet the victim's: both may grow by themselves"
    # It grows as much, and comes and goes with what the victim suffers.
    waves = [float(n // 10 % 2) for n in range(120)]
    grown = [c + 2 * wave for c, wave in zip(cpi, waves, strict=True)]
    (one,) = weigh(grown, [[u + 4 * wave for u, wave in zip(usage, waves, strict=True)]], 2.5)
    assert one.refusal is None


def test_a_burst_of_four_minutes_counts_by_what_it_adds() -> None:
    random = np.random.default_rng(3)
    burst = np.arange(120) >= 116
    cpi = 1 + 0.09 * random.standard_normal(120) + 1.0 * burst
    usage = 4.0 * burst * (1 + 0.08 * random.standard_normal(120))
    (one,) = weigh(cpi, [usage], 1.09)
    # Most windows above the threshold are others: by the difference between them and the rest it adds less.
    assert one.effect_ratio is not None
    assert one.effect_ratio < 0.4
    assert one.refusal is None


def test_looks_are_seldom() -> None:
    assert [count for count in range(100) if is_look(count)] == [3, 9, 27, 81]


@given(st.lists(st.tuples(st.floats(0.5, 4), st.floats(0, 4)), min_size=2, max_size=40))
def test_p_values_are_shares_of_turns(pairs: list[tuple[float, float]]) -> None:
    usages = [[usage for _, usage in pairs], [4 - usage for _, usage in pairs]]
    for one in weigh([cpi for cpi, _ in pairs], usages, 1.5):
        assert one.p_value is None or 1 / len(pairs) <= one.p_value <= 1
        assert one.refusal is not None, "40 windows cannot name at 0.01"


@pytest.mark.parametrize(
    "wrong",
    [
        {"false_name_ratio": 0.0},
        {"evidence_s": 0},
        {"least_swing": 0.0},
        {"look_factor": 1},
        {"change_windows": 0},
    ],
)
def test_bars_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1|at least 1|above 0"):
        Bar(**wrong)


def _machine(minutes: int, machine: str = "m1") -> list[dict[str, Any]]:
    """Return a victim that suffers for the last 12 minutes, and three tasks beside it."""
    rows = []
    for n in range(minutes):
        suffers = n >= minutes - 12
        rows.append(sample(n, cpi=(3.0 if suffers else 1.0) + 0.01 * (n % 7)))
        others = [("steady", "batch", 2.0), ("burst", "batch", 1.0 if n % 11 < 3 else 0.0)]
        if suffers:  # It comes: there is no sample of it before.
            others.append(("encode", "batch", 4.0))
        for job, job_class, usage in others:
            rows.append(
                sample(n, job=job, task=f"{job}/0", job_class=job_class, usage=usage, llc_misses=None)
            )
    return [{**row, "machine": machine} for row in rows]


def test_a_task_that_comes_is_named_from_enough_windows_only() -> None:
    for minutes, named in ((120, "encode/0"), (80, None)):
        samples = table(_machine(minutes))
        outliers = cpi_outliers.expression(samples, thresholds(2.0))
        (one,) = find_incidents(samples, outliers, bar=Bar())
        assert (one.antagonist and one.antagonist.task) == named
        assert (one.cap and one.cap.task) == named
        assert one.suspects[0].task == "encode/0"
        evidence = one.suspects[0].evidence
        assert evidence is not None
        if named is None:
            assert one.reason == f"encode/0: {evidence.refusal}"
            assert "of the 100 that a name takes" in one.reason
        else:
            assert evidence.p_value is not None
            assert evidence.p_value <= 0.01


def test_machines_that_share_a_batch_are_judged_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    by_place = windows._by_place

    def counted(some: Iterable[Any]) -> Iterator[Any]:
        for batch in some:
            batches.append(len(batch))
            yield batch

    monkeypatch.setattr(windows, "_BATCH_ROWS", 100)
    monkeypatch.setattr(windows, "_by_place", lambda some: by_place(counted(some)))
    machines = {f"m{number}": _machine(100 + 10 * number, f"m{number}") for number in range(8)}
    together = table([row for rows in machines.values() for row in rows])
    found = find_incidents(together, cpi_outliers.expression(together, thresholds(2.0)), bar=Bar())
    assert len(batches) > 1
    alone = []
    for rows in machines.values():
        samples = table(rows)
        alone += find_incidents(samples, cpi_outliers.expression(samples, thresholds(2.0)), bar=Bar())
    assert sorted(found, key=lambda one: one.machine) == sorted(alone, key=lambda one: one.machine)
    assert {one.machine for one in found} == set(machines)
