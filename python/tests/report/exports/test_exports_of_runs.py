"""``steelyard export``: each format is read back by another reader than the one that wrote it."""

import csv
import dataclasses
import io
import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from google.protobuf import json_format
from opentelemetry.proto.metrics.v1.metrics_pb2 import DataPointFlags, MetricsData

from steelyard import open_store, telemetry
from steelyard.analyze.health.comparison import compare
from steelyard.bench import runs as of_bench
from steelyard.bench.health.check import save_comparison
from steelyard.records import HealthResult, LoadResult, Run, RunStatus, read
from steelyard.report import page
from steelyard.report.answer.delimited import FIGURES, figures_of
from steelyard.report.exports.open_metrics import Family, Sample, open_metrics
from steelyard.report.folders.answers import answer_of
from steelyard.report.model import gather
from steelyard.telemetry.engine import fetch
from tests.calling import call
from tests.cli.suites import write_suite
from tests.cli.test_documents import hold
from tests.fleet.simulated import simulated_store
from tests.folded import folded
from tests.report.conftest import SCORE
from tests.report.pages_of_answers import GOLDEN
from tests.report.runs import run_record, write_run

STACKS = {"web;main [web];serve [web];write [libc]": 7, "web;main [web]": 3, "db;main [db];main [db]": 100}
HOSTILE = "=1+1\x1b[31m\"'\\\n\u2028</script>b"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "run-1")
    write_suite(folder / "suite-1", ("tao", "feed"))
    write_run(folder / "profiled", without=("telemetry", "cache_stats"))
    stacks = {
        "web;main [web];serve [web];write [libc]": 7,
        "web;main [web]": 3,
        "db;main [db];main [db]": 100,
    }
    write_run(folder / "counted")
    path = folder / "counted" / "run.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["hooks"] |= {"counters": {"scope": "cpu", "cpu_ratio": 0.0125}, "topdown": {}, "profile": {}}
    path.write_text(json.dumps(document), encoding="utf-8")
    for name in ("profiled", "counted"):
        folded(folder / name, stacks, "# hz: 99\n# event: cpu-clock\n", name="profile.folded")
    return folder


def export(out: Path, name: str, to: str, *more: str) -> str:
    done = call("export", name, *more, "--to", to, "--runs", str(out))
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_of(out: Path, name: str = "run-1") -> Run:
    return read(Run, out / name / "run.json")


_ROUNDED = re.compile(r"[+-]?[\d.,]+ ?(%|[kMG]|[nµm]?s|([KMG]i?)?B|\w*/s|Hz|[kMG]Hz)?")
_WORDS = ("Machine", "Processor", "Memory", "System", "Kernel settings")
"""Tables whose texts an inventory writes."""


@pytest.mark.parametrize("name", ["run-1", "profiled", "counted", "suite-1"])
def test_no_figure_of_a_run_is_left_as_rounded_text(out: Path, name: str) -> None:
    rows = list(csv.DictReader(io.StringIO(export(out, name, "csv"))))
    rounded = [
        row
        for row in rows
        if not (row["value"] or row["low"] or row["table"] in _WORDS or row["figure"] == "id")
        and _ROUNDED.fullmatch(row["note"])
    ]
    assert rounded == []


def test_figures_of_checks_phases_and_functions_are_exact_with_their_units(out: Path) -> None:
    run = run_of(out)
    rows = list(csv.DictReader(io.StringIO(export(out, "run-1", "csv"))))
    phases = {row["row"]: row for row in rows if row["table"] == "Phases" and row["figure"] == "lasted"}
    for phase in run.phases:
        assert phase.end_ns is not None
        assert float(phases[phase.name]["value"]) == phase.end_ns - phase.begin_ns
        assert phases[phase.name]["unit"] == "ns"
    assert run.verdict is not None
    checks = [row for row in rows if row["table"] == "Checks behind the verdict" and row["figure"] == "value"]
    values = [(check.value, check.unit or "1") for check in run.verdict.checks if check.value is not None]
    assert [(float(row["value"]), row["unit"]) for row in checks] == values
    rows = list(csv.DictReader(io.StringIO(export(out, "counted", "csv"))))
    shares = {float(row["value"]) for row in rows if row["figure"] == "itself" and row["unit"] == "ratio"}
    assert 7 / 110 in shares


def test_a_difference_of_shares_is_a_ratio() -> None:
    store = simulated_store(machines=12, days=1, platforms=2, clusters=1, step_s=120)
    with open_store(store) as fleet:
        days = {"a": "to=2026-03-02T12:00", "b": "from=2026-03-02T12:00"}
        found = [one for one in fleet.diff(**days).figures() if one.figure == "difference of shares"]
    assert found
    assert {one.unit for one in found} == {"ratio"}


def test_csv_has_every_metric_and_every_figure(out: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(export(out, "run-1", "csv"))))
    assert tuple(rows[0]) == FIGURES
    metrics = {row["figure"]: row for row in rows if row["table"] == "metrics"}
    run = run_of(out)
    assert metrics.keys() == run.metrics.keys()
    for name, metric in run.metrics.items():
        row = metrics[name]
        assert (float(row["value"]) if row["value"] else None) == metric.value
        assert (row["unit"], row["note"]) == (metric.unit, metric.missing or "")
    assert metrics["power_w"]["note"] == "no power source on this machine"
    answered = list(figures_of(answer_of(out / "run-1")))
    rest = [row for row in rows if row["table"] != "metrics"]
    assert [row["figure"] for row in rest] == [str(figure[2]) for figure in answered]
    assert [float(row["value"] or "nan") for row in rest] == pytest.approx(
        [float("nan") if figure[3] is None else float(figure[3]) for figure in answered], nan_ok=True
    )


def test_parquet_has_the_same_rows_as_csv(out: Path, tmp_path: Path) -> None:
    file = tmp_path / "figures.parquet"
    assert export(out, "suite-1", "parquet", str(file)) == ""
    table = pq.read_table(file)
    rows = list(csv.DictReader(io.StringIO(export(out, "suite-1", "csv"))))
    assert table.num_rows == len(rows) > 10
    for mine, theirs in zip(table.to_pylist(), rows, strict=True):
        assert mine["value"] == (float(theirs["value"]) if theirs["value"] else None)
        assert mine["note"] == theirs["note"]
    benchmarks = {row["row"].split(",")[0] for row in rows if row["table"] == "metrics"}
    assert benchmarks == {"tao", "feed"}


@pytest.mark.parametrize("kind", ["experiment", "tuning", "health", "colocation"])
def test_figures_of_what_is_no_run(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / kind
    folder.mkdir()
    golden = "health_result" if kind == "health" else kind
    shutil.copy(GOLDEN / f"{golden}.json", folder / f"{kind}.json")
    if kind == "health":
        judged = compare(read(HealthResult, folder / "health.json"), [], against="others")
        save_comparison(folder, judged, accepted=False)
    rows = list(csv.DictReader(io.StringIO(export(tmp_path, str(folder), "csv"))))
    assert any(row["value"] for row in rows)
    assert not [row for row in rows if row["table"] == "metrics"]


def test_json_has_the_same_figures(out: Path) -> None:
    done = call("export", "run-1", "--runs", str(out), "--json")
    document = json.loads(done.stdout)
    rows = list(csv.DictReader(io.StringIO(export(out, "run-1", "csv"))))
    assert document["holds"] == "run"
    assert [figure["figure"] for figure in document["figures"]] == [row["figure"] for row in rows]


def test_series_have_every_reading_and_exact_counters(out: Path, tmp_path: Path) -> None:
    file = tmp_path / "series.parquet"
    done = call("export", "run-1", str(file), "--to", "parquet", "--series", "--runs", str(out))
    assert done.returncode == 0
    assert "power: no /sys/class/powercap here" in done.stderr
    found = pq.read_table(file).to_pylist()
    run = run_of(out)
    offset = run.clock.realtime_ns - run.clock.monotonic_ns
    with telemetry.open(out / "run-1") as recording:
        rows = fetch(recording.table("cpu").rows).to_pylist()
        sources = set(recording.sources)
    mine = [row for row in found if (row["source"], row["name"]) == ("cpu", "user_ns")]
    expected = Counter((str(row["cpu"]), row["time_ns"] + offset, row["user_ns"]) for row in rows)
    assert Counter((row["entity"], row["time_ns"], row["count"]) for row in mine) == expected
    assert {row["source"] for row in found} == sources | {"load"}
    load = read(LoadResult, out / "run-1" / "load.json")
    completed = [row for row in found if (row["source"], row["name"]) == ("load", "completed")]
    assert [row["value"] for row in completed] == [second.completed for second in load.series]
    assert all((row["count"] is None) != (row["value"] is None) for row in completed + mine)
    text = call("export", "run-1", "--to", "csv", "--series", "--runs", str(out)).stdout
    lines = list(csv.DictReader(io.StringIO(text)))
    assert len(lines) == len(found)
    assert [line["count"] for line in lines] == ["" if r["count"] is None else str(r["count"]) for r in found]


def test_names_in_a_series_are_no_formulas(tmp_path: Path) -> None:
    write_run(tmp_path / "r", comm="=cmd|'/c'!A1\x1b[2J")
    rows = list(csv.DictReader(io.StringIO(export(tmp_path, "r", "csv", "--series"))))
    names = {row["entity"] for row in rows if row["source"] == "process"}
    assert all(name[0] not in "=+-@" and "\x1b" not in name for name in names), names
    assert any("cmd|" in name for name in names)


SAMPLE = re.compile(r'^(\w+)\{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)\} (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\\n]|\\.)*)"')


def samples(text: str) -> list[tuple[str, dict[str, str], float]]:
    """Return the samples of a text of OpenMetrics, and hold it to the format."""
    assert text.endswith("# EOF\n")
    found, family, seen = [], "", set()
    for line in text.split("\n")[:-2]:
        if line.startswith("# TYPE "):
            family = line.split()[2]
            assert family not in seen, "a family has one block"
            seen.add(family)
            assert line.endswith(" gauge")
        elif line.startswith("# UNIT "):
            assert family.endswith(f"_{line.split()[3]}")
        elif not line.startswith("# HELP "):
            match = SAMPLE.match(line)
            assert match, line
            assert match[1] == family
            labels = {
                name: re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], value)
                for name, value in LABEL.findall(match[2])
            }
            found.append((match[1], labels, float(match[3])))
    return found


def test_open_metrics_have_each_metric_with_its_labels_and_begin(out: Path) -> None:
    found = samples(export(out, "suite-1", "openmetrics"))
    members = {
        path.name: read(Run, path / "run.json") for path in (out / "suite-1").iterdir() if path.is_dir()
    }
    for name, run in members.items():
        mine = [sample for sample in found if sample[1]["run"] == name]
        valued = [metric for metric in run.metrics.values() if metric.value is not None]
        assert len(mine) == len(run.metrics) + 1
        for _, labels, _ in mine:
            assert labels["benchmark"] == run.benchmark
            assert (labels["tier"], labels["host"], labels["verdict"]) == ("quick", "bench-01", "suspect")
        (begin_s,) = (value for family, _, value in mine if family == "steelyard_run_begin_seconds")
        measure = next(phase for phase in run.phases if phase.name == "measure")
        at_ns = run.clock.realtime_ns + measure.begin_ns - run.clock.monotonic_ns
        assert begin_s == pytest.approx(at_ns / 1e9, abs=1e-3)
        missing = [labels for family, labels, *_ in mine if family == "steelyard_missing_metric"]
        assert len(missing) == len(run.metrics) - len(valued) == 1
        assert missing[0]["metric"] == "power_w"
        assert missing[0]["reason"] == "no power source on this machine"
    hits = [value for family, _, value in found if family == "steelyard_hit_ratio"]
    assert hits == [0.9003, 0.9003]


def attributes(found: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in found}


def test_otlp_is_what_the_protocols_own_reader_takes(out: Path) -> None:
    lines = export(out, "suite-1", "otlp").splitlines()
    assert len(lines) == 2
    for line in lines:
        message = json_format.Parse(line, MetricsData())
        (resource,) = message.resource_metrics
        about = attributes(resource.resource.attributes)
        run = run_of(out, f"suite-1/{about['service.instance.id']}")
        assert about["service.name"] == run.benchmark
        assert about["host.name"] == "bench-01"
        assert about["host.arch"] == "amd64"
        assert about["host.cpu.model.name"] == "AMD EPYC 9B45"
        assert about["os.version"] == "6.18.0"
        (scope,) = resource.scope_metrics
        assert scope.scope.name == "steelyard"
        by_name = {metric.name.removeprefix("steelyard."): metric for metric in scope.metrics}
        assert by_name.keys() == run.metrics.keys()
        for name, metric in run.metrics.items():
            (point,) = by_name[name].gauge.data_points
            said = attributes(point.attributes)
            assert said["steelyard.verdict"] == "suspect"
            assert point.time_unix_nano - point.start_time_unix_nano == 40 * 10**9
            if metric.value is None:
                assert point.WhichOneof("value") is None
                assert point.flags == DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
                assert said["steelyard.missing"] == metric.missing
            else:
                assert point.as_double == metric.value
                assert "steelyard.missing" not in said
        assert by_name["response_p99_ns"].unit == "ns"
        assert by_name["network_bytes_per_s"].unit == "By/s"


@pytest.mark.parametrize("to", ["openmetrics", "otlp", "csv", "findings"])
def test_hostile_names_stay_names(to: str, tmp_path: Path) -> None:
    run = run_record(_load(tmp_path), tmp_path / "r")
    hostile = {f"n{HOSTILE}": run.metrics["power_w"].model_copy(update={"missing": HOSTILE})}
    changes = {"benchmark": HOSTILE, "metrics": {**run.metrics, **hostile}}
    write_run(tmp_path / "r", changes=changes)
    text = export(tmp_path, "r", to)
    assert "\x1b" not in text or to == "openmetrics"
    if to == "openmetrics":
        assert {labels["benchmark"] for _, labels, *_ in samples(text)} == {HOSTILE}
        assert HOSTILE in {labels.get("reason") for _, labels, *_ in samples(text)}
    elif to == "otlp":
        message = json_format.Parse(text, MetricsData())
        assert attributes(message.resource_metrics[0].resource.attributes)["service.name"] == HOSTILE
    elif to == "findings":
        assert {json.loads(line)["run"]["benchmark"] for line in text.splitlines()} == {HOSTILE}
    else:
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert not [cell for cell in cells if cell.startswith("=")]


def _load(folder: Path) -> LoadResult:
    write_run(folder / "other")
    return read(LoadResult, folder / "other" / "load.json")


def test_findings_are_the_rules_own_with_the_run_beside_them(out: Path) -> None:
    documents = [json.loads(line) for line in export(out, "run-1", "findings").splitlines()]
    data = gather(out / "run-1")
    data.close()
    assert [document["rule"] for document in documents] == [finding.id for finding in data.findings]
    assert documents
    for document, finding in zip(documents, data.findings, strict=True):
        hold(document)
        assert document["claim"] == finding.claim
        assert document["next_step"] == finding.next_step
        assert [(e["metric"], e["value"], e["unit"], e["bound"]) for e in document["evidence"]] == [
            (e.metric, e.value, e.unit, e.bound) for e in finding.evidence
        ]
        run = document["run"]
        assert (run["benchmark"], run["verdict"], run["duration_s"]) == ("tao", "suspect", 40)
        assert run["machine"]["processor"] == "AMD EPYC 9B45"
        assert [check["id"] for check in run["objections"]] == ["shared-cpus"]
        assert run["metrics"]["power_w"]["missing"] == "no power source on this machine"
    assert documents[0]["evidence"]


@pytest.mark.parametrize(
    ("file", "to"),
    [
        ("figures.csv", "csv"),
        ("figures.parquet", "parquet"),
        ("run.prom", "openmetrics"),
        ("profile.pb.gz", "pprof"),
        ("profile.speedscope.json", "speedscope"),
    ],
)
def test_the_format_is_that_of_the_suffix(file: str, to: str, out: Path, tmp_path: Path) -> None:
    for name, words in ((file, ()), (f"named-{file}", ("--to", to))):
        done = call("export", "profiled", str(tmp_path / name), *words, "--runs", str(out))
        assert done.returncode == 0, done.stderr
    assert (tmp_path / file).read_bytes() == (tmp_path / f"named-{file}").read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["run-1", "f.jsonl"], 2, "f.jsonl: its suffix names no format (give --to FORMAT, or one of .csv"),
        (["run-1", "--format", "csv"], 2, "No such option: --format"),
        (["run-1", "--to", "pprof", "f"], 1, "no profile of the server: no profile was recorded"),
        (["run-1", "--to", "speedscope", "--side", "load"], 1, "no profile of the load"),
        (["suite-1", "--to", "speedscope"], 2, "2 runs, and a profile is of one"),
        (["run-1", "--to", "parquet"], 2, "parquet needs a file"),
        (["run-1", "--to", "pprof"], 2, "pprof needs a file"),
        (["run-1"], 2, "export needs one of --to FORMAT and --json"),
        (["run-1", "--to", "csv", "--json"], 2, "export needs one of --to FORMAT and --json"),
        (["run-1", "--to", "otlp", "--series"], 2, "--series is for"),
        (["run-1", "--to", "csv", "--side", "load"], 2, "--side is for"),
        (["run-1", "f", "--json"], 2, "--json prints to standard output"),
        (["none", "--to", "csv"], 2, "unknown run 'none'"),
        (["", "--to", "csv"], 2, "unknown run ''"),
        (["profiled", "--to", "csv", "--series", "no/such/folder"], 4, "cannot be written"),
        (["run-1", "no/such/folder/f", "--to", "csv"], 4, "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_an_exit_code(
    words: list[str], code: int, line: str, out: Path, tmp_path: Path
) -> None:
    done = call("export", *words, "--runs", str(out), folder=tmp_path)
    assert done.returncode == code
    assert line in done.stderr
    assert done.stdout == ""
    assert os.listdir(tmp_path) == [], "no half file is left"


def test_a_run_that_came_to_no_result_has_nothing_to_export_but_says_so(tmp_path: Path) -> None:
    changes = {"status": RunStatus.INCOMPLETE, "status_reason": "killed", "metrics": {}, "verdict": None}
    write_run(tmp_path / "r", changes=changes)
    for to, line in (("otlp", "no metrics: r is incomplete"), ("findings", "it is incomplete: killed")):
        done = call("export", "r", "--to", to, "--runs", str(tmp_path))
        assert (done.returncode, done.stdout) == (1, "")
        assert line in done.stderr
    assert "Latency" in export(tmp_path, "r", "csv")


def test_a_member_that_cannot_be_read_is_no_silent_gap(tmp_path: Path) -> None:
    write_suite(tmp_path / "s", ("tao", "feed"))
    (tmp_path / "s" / "feed-1" / "run.json").write_text("{")
    done = call("export", "s", "--to", "otlp", "--runs", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "feed-1/run.json" in done.stderr


def test_a_run_is_named_as_by_report(out: Path) -> None:
    for name in ("run-1", str(out / "run-1"), str(out / "run-1" / "run.json"), "run"):
        assert export(out, name, "csv") == export(out, "run-1", "csv")
    assert of_bench.find("latest", out).name == "suite-1"
    assert export(out, "latest", "otlp") == export(out, "suite-1", "otlp")


def test_openmetrics_divides_and_names_rates_by_cpu_time_once() -> None:
    nanoseconds = Family("steelyard_p99_ns", "p99.", [Sample({}, 7679999.0)], "ns")
    assert "steelyard_p99_seconds{} 0.007679999\n" in open_metrics([nanoseconds])
    by_cpu = Family("steelyard_requests_per_server_cpu_s", "x", [Sample({}, 1.5)], "1/s")
    assert "\nsteelyard_requests_per_server_cpu_second{} 1.5\n" in open_metrics([by_cpu])


def test_a_score_is_a_figure(tmp_path: Path) -> None:
    write_run(tmp_path / "r")
    data = gather(tmp_path / "r", score=dataclasses.replace(SCORE, ratio_low=1.2, ratio_high=1.3))
    data.close()
    rows = [dict(zip(FIGURES, row, strict=True)) for row in figures_of(page.answer(data))]
    (found,) = (row for row in rows if (row["table"], row["row"]) == ("Score", "score"))
    assert [found[name] for name in ("value", "low", "high", "unit")] == [1.284, 1.2, 1.3, "ratio"]


def test_the_interval_of_a_health_check_is_exact(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "health_result.json", tmp_path / "health.json")
    judged = compare(read(HealthResult, tmp_path / "health.json"), [], against="others")
    save_comparison(tmp_path, judged, accepted=False)
    rows = [dict(zip(FIGURES, row, strict=True)) for row in figures_of(answer_of(tmp_path))]
    ends = {(row["low"], row["high"], row["unit"]) for row in rows if row["figure"] == "interval"}
    measured = [one.figure for one in judged.figures if one.figure.low is not None]
    assert ends >= {(one.low, one.high, one.unit) for one in measured}


@pytest.mark.parametrize("name", ["experiment", "colocation", "tuning"])
def test_every_value_of_an_answer_has_a_unit(name: str, tmp_path: Path) -> None:
    shutil.copy(GOLDEN / f"{name}.json", tmp_path / f"{name}.json")
    rows = [dict(zip(FIGURES, row, strict=True)) for row in figures_of(answer_of(tmp_path))]
    without = {(row["table"], row["figure"]) for row in rows if row["value"] is not None and not row["unit"]}
    assert without == set()
