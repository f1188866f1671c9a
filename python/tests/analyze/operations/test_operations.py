"""Operations of a run from files as the readers leave them, and from a load result."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.analyze.operations.files import KIND, _total
from steelyard.analyze.operations.operations import OperationSeries
from steelyard.analyze.operations.progress import operations_of_run
from steelyard.analyze.operations.stalls import stalls_of
from steelyard.records import Clock, Cpus, Orchestrator, Phase, Run, RunStatus, Series, write
from tests.report.runs import load_result

SECOND = 1_000_000_000
CLOCK = Clock(monotonic_ns=100 * SECOND, realtime_ns=1_795_314_434 * SECOND)
OFFSET = CLOCK.realtime_ns - CLOCK.monotonic_ns


def run_record(begin_ns: int = 100 * SECOND, end_ns: int = 110 * SECOND) -> Run:
    return Run(
        run_id="r",
        benchmark="characterize",
        tier="all",
        series=Series(id="x", index=1, count=1),
        status=RunStatus.COMPLETE,
        steelyard_version="0",
        command=[],
        clock=CLOCK,
        orchestrator=Orchestrator(pid=1, start_ticks=1),
        parameters={},
        cpus=Cpus(),
        phases=[
            Phase(name="warmup", begin_ns=begin_ns - 5 * SECOND, end_ns=begin_ns),
            Phase(name="measure", begin_ns=begin_ns, end_ns=end_ns),
        ],
        processes=[],
        metrics={},
        hooks={},
        artifacts={},
    )


def source(
    folder: Path, *readings: dict[str, Any], meaning: str = "count", tail: Any = None, **head: Any
) -> Path:
    """Write a source's file as its reader leaves it."""
    path = folder / "operations"
    path.mkdir(exist_ok=True)
    first = {"kind": KIND, "schema_version": "1.0", "given": "log:x", "type": "log", "name": "x"}
    first |= {"meaning": meaning, "begin_ns": 95 * SECOND, "what": "", **head}
    lines = [
        first,
        *readings,
        *([{"end_ns": 110 * SECOND, "cpu_s": 0.1, **tail}] if tail is not None else []),
    ]
    file = path / f"{len(list(path.iterdir()))}.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def at(seconds: float, **what: Any) -> dict[str, Any]:
    return {"time_ns": int(seconds * SECOND), **what}


def test_lines_by_arrival_have_zeros_where_nothing_came(tmp_path: Path) -> None:
    counts = [at(95 + i, counts={"a": 10} if i % 2 else {}) for i in range(1, 16)]
    source(tmp_path, *counts, tail={})
    found = operations_of_run(tmp_path, run_record())
    assert found.per_s.value == pytest.approx(5.0)
    assert found.count.value == pytest.approx(50)
    assert found.covered_ratio == 1.0
    assert found.timeline is not None
    assert set(found.timeline.value) == {0.0, 10.0}
    assert [(phase.name, rate.value) for phase, rate in found.phases] == [
        ("warmup", pytest.approx(6)),
        ("measure", pytest.approx(5)),
    ]


def test_a_reset_shortens_the_time_and_does_not_bend_the_rate(tmp_path: Path) -> None:
    values = [100, 200, 300, 50, 150, 250, 350, 450, 550, 650, 750]
    source(tmp_path, *(at(100 + i, values={"": v}) for i, v in enumerate(values)), meaning="counter", tail={})
    found = operations_of_run(tmp_path, run_record())
    assert found.per_s.value == pytest.approx(100)
    assert found.covered_ratio == pytest.approx(0.9)
    assert found.main is not None
    assert "counters fell 1 times" in found.main.notes[0]


def test_a_failed_reading_is_bridged_and_never_a_zero(tmp_path: Path) -> None:
    readings = [at(100 + i, values={"": 20 * i}) for i in range(11) if i not in (3, 4)]
    source(
        tmp_path,
        *readings,
        at(103, problem="no answer"),
        at(104, problem="no answer"),
        meaning="counter",
        tail={},
    )
    found = operations_of_run(tmp_path, run_record())
    assert found.per_s.value == pytest.approx(20)
    assert found.main is not None
    assert "2 readings failed: no answer" in found.main.notes
    assert found.timeline is not None
    assert found.timeline.value.min() == pytest.approx(20)


def test_little_coverage_is_no_rate(tmp_path: Path) -> None:
    source(tmp_path, at(107, values={"": 1}), at(110, values={"": 4}), meaning="counter", tail={})
    found = operations_of_run(tmp_path, run_record())
    assert found.per_s.value is None
    assert found.per_s.missing == "operations are known of 30% of the time only"
    assert found.count.value is None


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"tail": {"lines": 1234, "matched": 0}}, "the pattern matched none of 1,234 lines"),
        ({"tail": {"lines": 0}}, "nothing was written to the log during the run"),
        ({"missing": "it has no rows", "tail": {}}, "it has no rows"),
        ({"meaning": "sum", "tail": {}}, "is no meaning of values"),
        ({"tail": {"lines": 5, "matched": 0, "zoneless": 5}}, "no time zone"),
        ({"tail": {"lines": 5, "matched": 0, "unread_stamps": 5}}, "time that cannot be read"),
    ],
)
def test_what_is_missing_has_its_reason(tmp_path: Path, what: dict[str, Any], said: str) -> None:
    source(tmp_path, **what)
    found = operations_of_run(tmp_path, run_record())
    assert found.per_s.value is None
    assert said in str(found.per_s.missing)
    assert found.timeline is None


def test_without_any_source_the_reason_is_that(tmp_path: Path) -> None:
    found = operations_of_run(tmp_path, run_record())
    assert found.sources == ()
    assert "--ops" in str(found.per_s.missing)


def test_negative_rates_are_no_operations(tmp_path: Path) -> None:
    source(tmp_path, *(at(100 + i, values={"": -3.0}) for i in range(11)), meaning="rate", tail={})
    found = operations_of_run(tmp_path, run_record())
    assert found.per_s.missing == "its values are negative: they are no operations"
    assert found.count.value is None


def test_stamps_count_in_their_own_seconds_whenever_they_are_read(tmp_path: Path) -> None:
    stamps = [[(1_795_314_434 + i) * SECOND, "", 100 + i] for i in range(-5, 11)]
    source(tmp_path, at(104.3, stamps=stamps[:8], offset_ns=OFFSET, resolution_ns=SECOND),
           at(110.0, stamps=stamps[8:], offset_ns=OFFSET, resolution_ns=SECOND), tail={})  # fmt: skip
    found = operations_of_run(tmp_path, run_record())
    assert found.per_s.value == pytest.approx(np.mean([100 + i for i in range(10)]))
    assert found.timeline is not None
    assert list(found.timeline.value[:3]) == [95, 96, 97]


def test_a_wall_clock_that_is_set_moves_no_operation(tmp_path: Path) -> None:
    before = [[(1_795_314_434 + i) * SECOND, "", 50] for i in range(5)]
    after = [[(1_795_314_434 + 3600 + i) * SECOND, "", 50] for i in range(5, 10)]
    later = OFFSET + 3600 * SECOND
    source(tmp_path, at(105, stamps=before, offset_ns=OFFSET, resolution_ns=SECOND),
           at(110, stamps=after, offset_ns=later, resolution_ns=SECOND), tail={})  # fmt: skip
    found = operations_of_run(tmp_path, run_record())
    assert found.per_s.value == pytest.approx(50)
    assert found.main is not None
    assert "the wall clock was set by +3600.000 s" in found.main.notes[0]


def test_the_first_source_that_counts_is_the_main_one(tmp_path: Path) -> None:
    source(tmp_path, at(101, values={"": 3.0}), at(102, values={"": 5.0}), meaning="gauge", tail={})
    source(tmp_path, *(at(100 + i, values={"": 7 * i}) for i in range(11)), meaning="counter", tail={})
    found = operations_of_run(tmp_path, run_record())
    assert found.per_s.value == pytest.approx(7)
    assert found.sources[0].series[0].per_s(100 * SECOND, 110 * SECOND).value == 4.0
    assert found.sources[0].total is None


def test_an_endpoint_says_what_its_metric_is_else_the_name_does(tmp_path: Path) -> None:
    values = [at(100 + i, values={"": 7 * i}) for i in range(11)]
    source(
        tmp_path, *values, at(100, declared="counter"), type="prometheus", meaning=None, what="jobs", tail={}
    )
    source(tmp_path, *values, type="prometheus", meaning=None, what='jobs_total{a="b"}', tail={})
    source(tmp_path, *values, type="prometheus", meaning=None, what="jobs", tail={})
    found = operations_of_run(tmp_path, run_record())
    assert [one.meaning for one in found.sources] == ["counter", "counter", "gauge"]


def test_a_file_that_was_cut_off_keeps_what_it_has(tmp_path: Path) -> None:
    path = source(tmp_path, *(at(100 + i, counts={"": 9}) for i in range(1, 11)), begin_ns=100 * SECOND)
    path.write_bytes(path.read_bytes() + b'{"time_ns": 12')
    found = operations_of_run(tmp_path, run_record())
    assert found.per_s.value == pytest.approx(9, rel=0.01)
    assert found.main is not None
    assert "stopped before its end" in found.main.notes[-1]


@pytest.mark.parametrize(
    "text", ["", "x\n", '{"kind":"run"}\n', '{"kind":"operations","schema_version":"2.0"}\n']
)
def test_a_file_of_another_kind_costs_its_source_only(tmp_path: Path, text: str) -> None:
    source(tmp_path, *(at(100 + i, counts={"": 9}) for i in range(1, 11)), tail={})
    (tmp_path / "operations" / "9.jsonl").write_text(text)
    found = operations_of_run(tmp_path, run_record())
    assert found.per_s.value is not None
    assert found.sources[1].missing


def test_a_load_generators_result_is_the_operations_of_its_run(tmp_path: Path) -> None:
    load = load_result()
    write(load, tmp_path / "load.json")
    found = operations_of_run(tmp_path, run_record(load.begin_ns, load.end_ns))
    assert found.count.value == pytest.approx(load.requests.completed)
    assert found.per_s.value == pytest.approx(load.throughput_per_s, rel=1e-3)


def test_two_generators_are_added_up(tmp_path: Path) -> None:
    load = load_result()
    for index in range(2):
        write(load, tmp_path / f"load-{index}.json")
    found = operations_of_run(tmp_path, run_record(load.begin_ns, load.end_ns))
    assert found.count.value == pytest.approx(2 * load.requests.completed, rel=1e-6)


values = st.lists(st.floats(0, 1e6) | st.just(math.nan), min_size=1, max_size=20)


@given(values, values, st.integers(0, 3))
def test_a_sum_of_series_keeps_every_operation_that_is_known(
    one: list[float], other: list[float], shift: int
) -> None:
    def make(name: str, found: list[float], begin: int) -> OperationSeries:
        begin_ns = (np.arange(len(found)) + begin) * SECOND
        return OperationSeries(name, "counter", begin_ns, begin_ns + SECOND, np.array(found))

    total = _total([make("a", one, 0), make("b", other, shift)], "all")
    lost = {i for i, v in enumerate(one) if math.isnan(v)}
    lost |= {i + shift for i, v in enumerate(other) if math.isnan(v)}
    expected = sum(v for i, v in enumerate(one) if i not in lost)
    expected += sum(v for i, v in enumerate(other) if i + shift not in lost)
    assert np.nansum(total.value) == pytest.approx(expected, rel=1e-9, abs=1e-6)
    begin, end = 0, (max(len(one), len(other) + shift) + 1) * SECOND
    assert total.over(begin, end)[0] == pytest.approx(expected, rel=1e-9, abs=1e-6)


def rates(*values: float, step_s: float = 0.1) -> OperationSeries:
    begin = (np.arange(len(values)) * step_s * SECOND).astype(np.int64)
    return OperationSeries("x", "count", begin, begin + int(step_s * SECOND), np.array(values, dtype=float))


def test_stretches_without_progress_are_found_with_their_period() -> None:
    series = rates(*(10.0 if i % 20 < 4 and i >= 20 else 100.0 for i in range(120)))
    found = stalls_of(series, 0, 12 * SECOND)
    assert found is not None
    assert len(found.stretches) == 5
    assert found.stretches[0] == (2 * SECOND, int(2.4 * SECOND))
    assert found.ratio == pytest.approx(20 / 120)
    assert found.period_ns == pytest.approx(2 * SECOND)
    assert (found.usual_per_s, found.stalled_per_s) == (pytest.approx(1000), pytest.approx(100))


def test_chance_makes_no_stretches() -> None:
    rng = np.random.default_rng(3)
    for mean in (0.5, 3, 20, 60, 500):
        for _ in range(20):
            series = rates(*rng.poisson(mean, 600))
            assert stalls_of(series, 0, 60 * SECOND) is None
