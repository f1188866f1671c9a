"""Baselines made from runs, and scores against them: what is refused, and why."""

from __future__ import annotations

import datetime as dt
import json
import math
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import records
from steelyard._base import RecordError, SteelyardError, UsageError, data_dir, schemas_dir
from steelyard._base.documents import as_document
from steelyard.bench import declaration
from steelyard.decide import Baseline, Refusal, Score, find_baseline, load_baselines, overall
from steelyard.decide.baseline import build
from steelyard.decide.score import ScorePart, score
from steelyard.records import Check, Level, Machine, Metric, Parameter, Run, RunStatus, Verdict
from steelyard.records.schemas import schema_text

GOLDEN = schemas_dir() / "golden"
MACHINE = records.read(Machine, GOLDEN / "machine.json")
PARAMETERS = {
    "depth": Parameter(value=1, unit=None, source="default"),
    "memory": Parameter(value=1 << 30, unit="bytes", source="machine"),
    "keys": Parameter(value="uniform", unit=None, source="machine"),
    "seed": Parameter(value=7, unit=None, source="machine"),
}


def verdict(level: Level) -> Verdict:
    return Verdict.of([Check(id="steady", level=level, claim=f"it is {level}")])


def run(value: float | None = 1000.0, level: Level = Level.VALID, **changes: object) -> Run:
    """A complete run of the golden kind with one metric."""
    base = records.read(Run, GOLDEN / "run.json")
    metric = Metric(
        value=value, unit="1/s", better="higher", missing=None if value else "nothing was answered"
    )
    fields = {
        "benchmark": "tao",
        "tier": "quick",
        "status": RunStatus.COMPLETE,
        "parameters": PARAMETERS,
        "metrics": {"requests_per_s": metric},
        "verdict": verdict(level),
        **changes,
    }
    return base.model_copy(update=fields)


def baseline(*runs: Run, **options: object) -> Baseline:
    return build(
        [(one, MACHINE) for one in runs or (run(),)],
        name="test-machine",
        title="test machine",
        provenance="made in a test",
        metrics={"tao": "requests_per_s"},
        **options,  # type: ignore[arg-type]
    )


def refusal(one: Run, reference: Baseline | None) -> str:
    answer = score([one], reference)
    assert isinstance(answer, Refusal)
    return answer.reason


def test_a_score_is_the_result_over_the_baseline() -> None:
    answer = score([run(2500.0)], baseline(run(900.0), run(1000.0), run(1100.0)))
    assert isinstance(answer, Score)
    assert (answer.ratio, answer.value, answer.baseline_value, answer.runs) == (2.5, 2500.0, 1000.0, 1)
    assert (answer.ratio_low, answer.reservations) == (None, ())
    assert "median of 3 runs, spread 20.0 %" in answer.provenance
    assert json.loads(json.dumps(as_document(answer)))["baseline"] == "test machine"


SEVEN = (1900.0, 2000.0, 2100.0, 1950.0, 2050.0, 2010.0, 1990.0)


def test_repeats_give_an_interval_with_the_noise_of_both_sides() -> None:
    ours = [run(value) for value in SEVEN]
    answer = score(ours, baseline(*(run(value / 2) for value in SEVEN)))
    assert isinstance(answer, Score)
    assert (answer.ratio, answer.no_interval) == (1.0 * 2, None)
    assert (answer.ratio_low, answer.ratio_high) == (pytest.approx(1.926, 1e-3), pytest.approx(2.077, 1e-3))
    steady = score(ours, baseline(*(run(1000.0) for _ in SEVEN)))
    assert isinstance(steady, Score)
    assert (steady.ratio_low, steady.ratio_high) == (pytest.approx(1.940, 1e-3), pytest.approx(2.060, 1e-3))
    assert steady.spread_ratio == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("runs", "references", "why"),
    [
        (1, 7, "one run, no error bars: add --repeat 3"),
        (2, 3, "2 runs, no error bars: add --repeat 3"),
        (9, 2, "9 runs, no error bars: the baseline has 2 of 3 runs"),
        (1, 1, "one run, no error bars: add --repeat 3; the baseline has 1 of 3 runs"),
    ],
)
def test_too_few_runs_on_either_side_give_no_interval_and_say_how_many_do(
    runs: int, references: int, why: str
) -> None:
    reference = baseline(*(run(1000.0 + index) for index in range(references)))
    answer = score([run(2000.0 + index) for index in range(runs)], reference)
    assert isinstance(answer, Score)
    assert (answer.ratio_low, answer.ratio_high, answer.no_interval) == (None, None, why)


def test_a_score_says_how_noisy_and_how_sound_the_baseline_is() -> None:
    reference = baseline(run(900.0), run(1000.0, Level.SUSPECT), run(1200.0), allow_suspect=True)
    answer = score([run(1000.0)], reference)
    assert isinstance(answer, Score)
    assert (answer.baseline_runs, answer.baseline_suspect_runs) == (3, 1)
    assert answer.baseline_spread_ratio == pytest.approx(0.3)
    assert answer.baseline_ratios == pytest.approx((0.9, 1.0, 1.2))
    assert (answer.spread_ratio, answer.baseline_date) == (None, reference.date.isoformat())
    shown = as_document(answer)
    assert (shown["baseline_runs"], shown["baseline_spread_ratio"]) == (3, pytest.approx(0.3))


def test_a_kept_result_says_when_and_how_it_was_made() -> None:
    reference = baseline()
    kept = reference.results[0].model_copy(update={"date": dt.date(2020, 2, 3), "provenance": "kept"})
    answer = score([run()], reference.model_copy(update={"results": [kept]}))
    assert isinstance(answer, Score)
    assert answer.baseline_date == "2020-02-03"
    assert answer.provenance.startswith("kept; median of 1 run, 2020-02-03, ")


def test_the_worst_and_the_best_part_stand_beside_a_score() -> None:
    def with_parts(memory: float, rpc: float) -> Run:
        parts = {"memory_per_s": memory, "rpc_per_s": rpc, "hashing_per_s": 1.0}
        own = {name: Metric(value=value, unit="1/s", better="higher") for name, value in parts.items()}
        return run(metrics={**run().metrics, **own})

    reference = build(
        [(with_parts(2.0, 2.0), MACHINE)],
        name="parts",
        title="test machine",
        provenance="made in a test",
        metrics={"tao": "requests_per_s"},
        parts={"tao": ["memory_per_s", "rpc_per_s", "hashing_per_s"]},
    )
    answer = score([with_parts(1.5, 4.2)], reference)
    assert isinstance(answer, Score)
    assert answer.ratio == 1.0
    assert as_document(answer)["worst_part"] == {"name": "memory_per_s", "ratio": 0.75}
    assert as_document(answer)["best_part"] == {"name": "rpc_per_s", "ratio": 2.1}


def test_where_less_is_better_the_ratio_is_turned_round() -> None:
    def with_latency(value: float) -> Run:
        return run(metrics={"requests_per_s": Metric(value=value, unit="ns", better="lower")})

    same = baseline(*(with_latency(100) for _ in range(7)))
    answer = score([with_latency(value) for value in (50, 40, 60, 45, 55, 52, 51)], same)
    assert isinstance(answer, Score)
    assert answer.ratio == pytest.approx(100 / 51)
    assert answer.ratio_low is not None
    assert answer.ratio_high is not None
    assert answer.ratio_low < answer.ratio < answer.ratio_high


@given(st.floats(min_value=1e-3, max_value=1e9), st.floats(min_value=1e-3, max_value=1e9))
def test_scores_of_two_machines_against_each_other_are_inverse(one: float, other: float) -> None:
    forth, back = score([run(one)], baseline(run(other))), score([run(other)], baseline(run(one)))
    assert isinstance(forth, Score)
    assert isinstance(back, Score)
    assert forth.ratio * back.ratio == pytest.approx(1)


def parameters(**changes: Parameter) -> dict[str, Parameter]:
    return {**PARAMETERS, **changes}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": RunStatus.INCOMPLETE, "status_reason": "killed"}, "the run is incomplete: killed"),
        ({"verdict": None}, "has no verdict"),
        ({"level": Level.INVALID}, "the result is invalid: it is invalid"),
        ({"steelyard_version": "99.0.0"}, "made by Steelyard 99.0.0"),
        ({"tier": "standard"}, "has tao in tier quick only, not in standard"),
        ({"benchmark": "other"}, "has other in no tier"),
        ({"value": None}, "requests_per_s: nothing was answered"),
        ({"metrics": {}}, "requests_per_s: it has no positive value"),
        ({"metrics": {"requests_per_s": Metric(value=1.0, unit="1/h")}}, "is in 1/h, the baseline's in 1/s"),
        (
            {"parameters": parameters(depth=Parameter(value=16, unit=None, source="set"))},
            "depth is 16 (set) and 1 (default)",
        ),
        (
            {"parameters": parameters(memory=Parameter(value=1 << 20, unit="bytes", source="set"))},
            "memory is 1048576 (set)",
        ),
        ({"parameters": {}}, "only one of the two has the parameter depth"),
        (
            {"parameters": parameters(keys=Parameter(value="zipf:0.99", unit=None, source="machine"))},
            "parameter keys is zipf:0.99 (machine) and uniform (machine)",
        ),
    ],
)
def test_what_is_not_alike_is_refused_with_the_reason(changes: dict[str, object], words: str) -> None:
    one = run(**changes)  # type: ignore[arg-type]
    assert words in refusal(one, baseline())


def test_what_the_machine_decides_and_what_moves_nothing_may_differ() -> None:
    changed = parameters(
        memory=Parameter(value=8 << 30, unit="bytes", source="machine"),
        seed=Parameter(value=8, unit=None, source="set"),
    )
    assert isinstance(score([run(parameters=changed)], baseline()), Score)
    version = f"{baseline().steelyard_version.rsplit('.', 1)[0]}.99"
    assert isinstance(score([run(steelyard_version=version)], baseline()), Score)


def test_suspect_results_are_scored_with_a_reservation() -> None:
    reference = baseline(run(level=Level.SUSPECT), run(), allow_suspect=True)
    answer = score([run(level=Level.SUSPECT)], reference)
    assert isinstance(answer, Score)
    assert len(answer.reservations) == 2
    assert "is suspect: it is suspect" in answer.reservations[0]
    # Claims of the data plane end with a full stop.
    checks = [Check(id=name, level=Level.SUSPECT, claim=f"{name}.") for name in ("wide", "short")]
    answer = score([run().model_copy(update={"verdict": Verdict.of(checks)})], reference)
    assert isinstance(answer, Score)
    assert answer.reservations[0].endswith(" is suspect: wide; short")
    assert answer.reservations[1] == "1 of the baseline's 2 runs are suspect"


def test_without_a_baseline_there_is_a_reason() -> None:
    assert refusal(run(), None).startswith("no baseline")


def test_a_mean_has_an_interval_where_every_member_has_runs_enough() -> None:
    eight = [1000.0 + 10 * index for index in range(8)]
    reference = baseline(*(run(value) for value in eight))
    two, four = (score([run(factor * value) for value in eight], reference) for factor in (2, 4))
    found = overall({"a": two, "b": four})
    assert (found.no_interval, found.value) == (None, pytest.approx(8**0.5))
    assert isinstance(two, Score)
    assert two.ratio_low is not None
    # All members share their noise here, so that it does not average out.
    assert found.low == pytest.approx(8**0.5 * two.ratio_low / 2)


def test_the_mean_is_withheld_when_a_member_is_missing() -> None:
    two, eight = score([run(2000.0)], baseline()), score([run(8000.0)], baseline())
    found = overall({"a": two, "b": eight})
    assert (found.value, found.reason, found.low, found.high) == (pytest.approx(4.0), None, None, None)
    assert (found.worst, found.best) == (ScorePart("a", 2.0), ScorePart("b", 8.0))
    assert found.no_interval == "one run, no error bars: add --repeat 3; the baseline has 1 of 3 runs"
    withheld = overall({"a": two, "b": Refusal("the result is invalid"), "c": Refusal("not run")})
    assert withheld.value is None
    assert withheld.reason == "withheld: no score for b (the result is invalid); c (not run)"
    assert overall({}).value is None


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([run(status=RunStatus.INCOMPLETE, status_reason="killed")], "the run is incomplete: killed"),
        ([run(level=Level.INVALID)], "the result is invalid"),
        ([run(level=Level.SUSPECT)], "the result is suspect"),
        ([run(value=None)], "nothing was answered"),
        ([run(), run(steelyard_version="9.9.9")], "different versions"),
        ([run(), run(parameters={})], "only one of the two has the parameter"),
    ],
)
def test_a_baseline_is_made_of_fit_runs_only(runs: list[Run], words: str) -> None:
    with pytest.raises(SteelyardError, match=words):
        baseline(*runs)


def test_a_baseline_is_made_of_one_machine() -> None:
    other = MACHINE.model_copy(update={"cpu": MACHINE.cpu.model_copy(update={"model": "another"})})
    with pytest.raises(SteelyardError, match="different machines"):
        build([(run(), MACHINE), (run(), other)], name="x", title="x", provenance="x", metrics={})
    with pytest.raises(UsageError, match="at least one run"):
        build([], name="x", title="x", provenance="x", metrics={})


def test_a_baseline_holds_nothing_that_names_its_owner() -> None:
    text = baseline().model_dump_json()
    for name in (MACHINE.hostname, MACHINE.kernel.command_line, MACHINE.kernel.boot_id):
        assert name is None or name not in text


def test_a_baseline_fits_its_schema_and_comes_back_whole(tmp_path: Path) -> None:
    reference = baseline(run(900.0), run(1000.0))
    path = tmp_path / "test-machine.json"
    records.write(reference, path)
    schema = json.loads((schemas_dir() / "baseline.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), schema)
    assert load_baselines(tmp_path) == {"test-machine": reference}
    assert find_baseline(None, tmp_path) == find_baseline("test-machine", tmp_path) == reference
    assert math.isclose(reference.results[0].spread_ratio, 100 / 950)


def test_a_benchmark_may_bring_a_baseline(tmp_path: Path) -> None:
    shipped, brought = tmp_path / "shipped", tmp_path / "brought"
    ours = baseline(run()).model_copy(update={"name": "default"})
    other = ours.results[0].model_copy(update={"benchmark": "spin"})
    theirs = ours.model_copy(update={"name": "spin-machine", "results": [other]})
    taken = theirs.model_copy(update={"name": "default"})
    for folder, one in ((shipped, ours), (brought, theirs), (brought, taken)):
        folder.mkdir(exist_ok=True)
        records.write(one, folder / f"{one.name}.json")
    for benchmarks, found in (("spin",), theirs), ((ours.results[0].benchmark,), ours), (("nap",), ours):
        assert find_baseline(None, shipped, benchmarks=benchmarks, brought=[brought]) == found
    assert find_baseline("default", shipped, benchmarks=["spin"], brought=[brought]) == ours
    assert find_baseline("spin-machine", shipped, brought=[brought]) == theirs


def test_the_schema_file_is_what_the_model_gives() -> None:
    assert (schemas_dir() / "baseline.schema.json").read_text(encoding="utf-8") == schema_text(Baseline)


def test_a_folder_without_baselines_is_no_error_but_a_wrong_name_is(tmp_path: Path) -> None:
    assert load_baselines(tmp_path) == {}
    assert find_baseline(None, tmp_path) is None
    with pytest.raises(UsageError, match="unknown baseline 'x'") as caught:
        find_baseline("x", tmp_path)
    assert caught.value.hint == "none is shipped in data/baselines"
    records.write(baseline(), tmp_path / "a.json")
    with pytest.raises(UsageError) as caught:
        find_baseline("x", tmp_path)
    assert caught.value.hint == "baselines: test-machine"
    records.write(baseline(), tmp_path / "b.json")
    with pytest.raises(UsageError, match="two baselines"):
        load_baselines(tmp_path)
    (tmp_path / "b.json").write_text(baseline().model_dump_json().replace('"1.0"', '"2.0"'), encoding="utf-8")
    with pytest.raises(RecordError, match=r"schema version 2\.0 of baseline"):
        load_baselines(tmp_path)


def test_every_shipped_baseline_can_be_scored_against() -> None:
    for name, shipped in load_baselines().items():
        assert (data_dir() / "baselines" / f"{name}.json").is_file()
        for result in shipped.results:
            assert Level.INVALID not in result.verdicts
            assert len(result.values) == len(result.verdicts)
            assert result.value > 0


@pytest.mark.parametrize("name", ["tao", "feed", "tax"])
def test_the_shipped_baseline_has_every_parameter_of_todays_benchmarks(name: str) -> None:
    """A parameter that only one side has refuses the score, and a newcomer's first page would have none."""
    reference = find_baseline("default").result(name, "quick")
    assert reference is not None
    known = {parameter.name for parameter in declaration.find(name).load().parameters}
    assert reference.parameters.keys() == known
