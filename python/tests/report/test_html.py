"""The page's text: what it holds, what it leaves out with a reason, and where its script comes from."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard._base import RecordError
from steelyard.decide.score import Refusal
from steelyard.records import Run, read
from steelyard.report import html, model, page
from steelyard.report.workload_charts import curve
from tests.report.conftest import SCORE
from tests.report.runs import cache_lines, load_result, write_run
from tests.web.serving import many_runs


def page_data(path: Path) -> dict[str, object]:
    found = re.search(
        r'<script type="application/json" id="drawn">(.*?)</script>', path.read_text(), re.DOTALL
    )
    assert found is not None
    return dict(json.loads(found[1]))


def test_the_page_is_whole_and_rebuilt_at_will(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "tao-1")
    path = html.write(folder, score=SCORE)
    first = re.sub(r"nonce[-=]\"?[\w-]+", "", path.read_text())
    assert path == folder / "report.html"
    assert not list(folder.glob("*.partial"))
    again = re.sub(r"nonce[-=]\"?[\w-]+", "", html.write(folder, score=SCORE).read_text())
    assert again == first
    assert "one run only" in first
    for word in (
        "Busiest processes",
        "chosen for this machine",
        "set by the command",
        "steelyard doctor",
        "no /sys/class/powercap here",
        "CPU time per tick",
        "exit code 0",
        "this guest has no cpufreq",
    ):
        assert word in first, word


def test_a_refused_score_says_why(tmp_path: Path) -> None:
    text = html.write(write_run(tmp_path / "tao-1"), score=Refusal("no baseline is shipped")).read_text()
    assert "no score: no baseline is shipped" in text


def test_the_page_may_go_to_another_folder(tmp_path: Path) -> None:
    data = model.gather(write_run(tmp_path / "tao-1"))
    path = html.write_data(data, tmp_path / "elsewhere" / "deep")
    data.close()
    assert path.is_file()
    assert not (tmp_path / "tao-1" / "report.html").exists()


@pytest.mark.parametrize(
    ("without", "reason"),
    [
        ("telemetry", "no recording here"),
        ("load", "load.json: No such file or directory"),
        ("cache_stats", "cache-stats.jsonl: No such file or directory"),
        ("machine", "machine.json: No such file or directory"),
    ],
)
def test_a_missing_part_is_reported_with_its_reason(tmp_path: Path, without: str, reason: str) -> None:
    text = html.write(write_run(tmp_path / "tao-1", without=(without,))).read_text()
    assert reason in text


def test_a_broken_recording_does_not_cost_the_report(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "tao-1")
    (folder / "telemetry" / "telemetry.json").write_text('{"schema_version":"9.0","kind":"telemetry"}')
    (folder / "load.json").write_text("{")
    text = html.write(folder).read_text()
    assert "schema version 9.0" in text
    assert "load.json: not JSON" in text


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError):
        html.write(tmp_path)


def test_a_killed_run_shows_the_log_of_what_failed(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "tao-1", changes={"status": "running", "metrics": {}, "verdict": None})
    (folder / "logs").mkdir()
    manifest = json.loads((folder / "run.json").read_text())
    manifest["processes"][0] |= {"exit_code": None, "signal": 9}
    manifest["processes"][1] |= {"exit_code": 4, "log": "../../outside.log"}
    (folder / "run.json").write_text(json.dumps(manifest))
    (folder / "logs" / "server.log").write_text("out of memory\n")
    (tmp_path.parent / "outside.log").write_text("not of this run")
    text = html.write(folder).read_text()
    # Its orchestrator is long gone: a manifest that says "running" is not believed.
    assert "This run is incomplete" in text
    assert "out of memory" in text
    assert "not of this run" not in text
    assert "signal 9" in text


def test_a_server_that_was_stopped_shows_no_log(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "tao-1")
    (folder / "logs").mkdir()
    (folder / "logs" / "server.log").write_text("received SIGTERM\n")
    for number, is_shown in ((15, False), (9, True)):
        manifest = json.loads((folder / "run.json").read_text())
        manifest["processes"][0] |= {"exit_code": None, "signal": number}
        (folder / "run.json").write_text(json.dumps(manifest))
        assert ("received SIGTERM" in html.write(folder).read_text()) is is_shown


def test_siblings_are_found_among_very_many_other_runs(tmp_path: Path) -> None:
    many_runs(tmp_path, 900)
    for index in (1, 2):
        write_run(tmp_path / f"tao-00045{index}-", index=index, count=2)
    run = read(Run, tmp_path / "tao-000451-" / "run.json")
    found = model.siblings_of(tmp_path / "tao-000451-", run)
    assert [one.folder.name for one in found] == ["tao-000451-", "tao-000452-"]


def test_siblings_are_the_runs_of_the_same_series(tmp_path: Path) -> None:
    for index in (2, 1, 3):
        write_run(tmp_path / f"tao-{index}", index=index, count=3, scale=1 + index / 100)
    write_run(tmp_path / "other", changes={"series": {"id": "another", "index": 1, "count": 1}})
    (tmp_path / "tao-3" / "load.json").unlink()
    run = read(Run, tmp_path / "tao-1" / "run.json")
    assert [one.run.series.index for one in model.siblings_of(tmp_path / "tao-1", run)] == [1, 2, 3]
    data = model.gather(tmp_path / "tao-1")
    [found] = [one for one in page.answer(data).sections if one.anchor == "repeats"]
    data.close()
    rows = found.tables[0].rows
    assert rows[0][0].text == "1 (this run)"
    assert rows[2][0].href == "../tao-3/report.html"
    assert "3 were given" in found.intro


def test_several_servers_and_generators_are_added_up(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one")
    two = write_run(tmp_path / "two")
    (two / "load.json").rename(two / "load-0.json")
    (two / "load-1.json").write_text((two / "load-0.json").read_text())
    (two / "cache-stats.jsonl").rename(two / "cache-stats-0.jsonl")
    (two / "cache-stats-1.jsonl").write_text((two / "cache-stats-0.jsonl").read_text())
    single, double = (
        {chart["id"]: chart for chart in page_data(html.write(folder))["charts"]}  # type: ignore[attr-defined]
        for folder in (one, two)
    )
    for chart in ("throughput", "slow-queue"):
        for before, after in zip(single[chart]["traces"], double[chart]["traces"], strict=True):
            for a, b in zip(before["y"], after["y"], strict=True):
                assert b == pytest.approx(2 * a, rel=2e-3)
    for before, after in zip(single["percentiles"]["series"], double["percentiles"]["series"], strict=True):
        # Twice the requests reach further; what both cover is alike.
        for a, b in zip(before["y"][:100], after["y"][:100], strict=False):
            assert math.isclose(a, b, rel_tol=0.15)


def no_answers(load: dict[str, Any]) -> None:
    for row in load["series"]:
        row |= dict.fromkeys((key for key in row if "_p" in key), None) | {
            "completed": 0,
            "hits": 0,
            "misses": 0,
        }
    for summary in filter(None, load["latency"].values()):
        summary |= dict.fromkeys(summary, None) | {"count": 0, "curve": []}


DEGENERATE: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "no series": ("load.json", lambda load: load.update(series=[], threads=[])),
    "one second": ("load.json", lambda load: load.update(series=load["series"][:1])),
    "no answers": ("load.json", no_answers),
    "no phases": ("run.json", lambda run: run.update(phases=[])),
    "no measure phase": ("run.json", lambda run: run.update(phases=run["phases"][:2])),
    "measure phase not ended": ("run.json", lambda run: run["phases"][2].update(end_ns=None)),
    "beyond the calendar": ("run.json", lambda run: run["clock"].update(realtime_ns=2**63)),
    "no parameters, processes, metrics": (
        "run.json",
        lambda run: run.update(parameters={}, processes=[], metrics={}, hooks={}, artifacts={}),
    ),
}


@pytest.mark.parametrize("case", sorted(DEGENERATE))
def test_degenerate_records_give_a_page_without_empty_charts(tmp_path: Path, case: str) -> None:
    name, change = DEGENERATE[case]
    folder = write_run(tmp_path / "tao-1")
    record = json.loads((folder / name).read_text())
    change(record)
    (folder / name).write_text(json.dumps(record))
    charts = page_data(html.write(folder))["charts"]
    for chart in charts:  # type: ignore[attr-defined]
        assert any(
            value is not None for line in chart.get("traces") or chart["series"] for value in line["y"]
        ), chart["id"]


@pytest.mark.parametrize("lines", [0, 1])
def test_too_few_statistics_give_a_page(tmp_path: Path, lines: int) -> None:
    folder = write_run(tmp_path / "tao-1")
    path = folder / "cache-stats.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
    assert "Throughput" in html.write(folder).read_text()


def test_the_percentile_chart_has_an_axis_of_percentiles(tmp_path: Path) -> None:
    data = model.gather(write_run(tmp_path / "tao-1"))
    chart = next(
        chart
        for section in page.answer(data).sections
        for chart in section.charts
        if chart.id == "percentiles"
    )
    data.close()
    assert chart.summary_rows == []
    median = data.run.metrics["response_p50_ns"].value
    assert median is not None
    assert re.search(r"response: median 16\d µs, 99 % 4\d\d µs", chart.summary.replace("\u202f", " "))
    assert 155_000 < median < 170_000


def test_the_mixture_of_two_curves_lies_between_them() -> None:
    fast = load_result().latency.response
    slow = fast.model_copy(
        update={"curve": [point.model_copy(update={"value_ns": point.value_ns * 10}) for point in fast.curve]}
    )
    x, mixed = curve([fast, slow])
    _, low = curve([fast])
    median = mixed[abs(x - 2).argmin()]
    assert fast.p50_ns is not None
    assert fast.p50_ns < median < 10 * fast.p50_ns
    # Half of the requests are ten times slower, so the tail is theirs.
    assert mixed[-1] == pytest.approx(10 * low[-1], rel=0.2)
    assert (mixed[1:] >= mixed[:-1]).all()
    assert len(curve([])[0]) == 0


def test_a_restarted_server_leaves_a_gap_not_a_fall(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "tao-1")
    lines = [line.model_dump_json() for line in cache_lines(load_result(seed=1))]
    reset = json.loads(lines[30]) | {"fast_requests": 0}
    (folder / "cache-stats.jsonl").write_text("\n".join([*lines[:30], json.dumps(reset), *lines[31:]]) + "\n")
    charts = {chart["id"]: chart for chart in page_data(html.write(folder))["charts"]}  # type: ignore[attr-defined]
    fast = next(trace for trace in charts["throughput"]["traces"] if trace["role"] == "fast")
    assert None in fast["y"]
    assert all(value is None or value >= 0 for value in fast["y"])


def test_the_time_in_which_the_load_ends_is_no_fall_of_the_rate(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "tao-1")
    load = load_result(seed=1)
    found = [line for line in cache_lines(load) if line.monotonic_ns <= load.end_ns]
    lines = [json.loads(line.model_dump_json()) for line in found]
    lines[-1]["monotonic_ns"] -= 100_000_000
    closing = lines[-1] | {"monotonic_ns": lines[-1]["monotonic_ns"] + 500_000_000}
    (folder / "cache-stats.jsonl").write_text(
        "\n".join(json.dumps(line) for line in [*lines, closing]) + "\n"
    )
    charts = {chart["id"]: chart for chart in page_data(html.write(folder))["charts"]}  # type: ignore[attr-defined]
    fast = next(trace for trace in charts["throughput"]["traces"] if trace["role"] == "fast")
    assert min(fast["y"][-5:]) > 0.5 * max(fast["y"][-5:])
