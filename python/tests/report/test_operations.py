"""The section of operations: on the page in a real browser, in the terminal, and as a document."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser
from rich.console import Console

from steelyard.report import html
from steelyard.report.answer.terminal import terminal
from steelyard.report.characterize import table as characterize_table
from steelyard.report.model import ReportData, gather
from tests.report.runs import BEGIN, MEASURE_S, SECOND, WARMUP_S, write_run
from tests.report.test_browser import HOSTILE, opened

MEASURED = BEGIN + WARMUP_S * SECOND


def write_characterization(folder: Path) -> None:
    write_run(folder, without=("load", "cache_stats"), changes={"benchmark": "characterize", "tier": "all"})
    run = json.loads((folder / "run.json").read_text())
    run["cpus"] = {"server": "0-1", "load": None}
    (folder / "run.json").write_text(json.dumps(run))


def write_operations(folder: Path, *, gauge: bool = True) -> Path:
    """A characterization: an endpoint's counter that stalls every 5 s, a gauge, and a log without lines."""
    write_characterization(folder)
    where = folder / "operations"
    where.mkdir()
    rng = np.random.default_rng(5)
    times = MEASURED + (np.arange(4 * MEASURE_S + 1) * SECOND) // 4
    rates = np.where((np.arange(len(times)) % 20) < 3, 20, 400) + rng.integers(0, 30, len(times))
    totals = np.cumsum(rates)

    def file(file_name: str, *lines: object, **head: object) -> None:
        first = {"kind": "operations", "schema_version": "1.0", "begin_ns": MEASURED, "what": "", **head}
        (where / file_name).write_text("".join(json.dumps(line) + "\n" for line in (first, *lines)))

    label = f'path="{HOSTILE}"'
    readings = [
        {"time_ns": int(at), "values": {label: int(total), 'path="/b"': int(total // 3)}}
        for at, total in zip(times, totals, strict=True)
    ]
    end = {"end_ns": int(times[-1]), "cpu_s": 0.08}
    about = {"type": "prometheus", "meaning": "counter", "given": "prometheus:http://127.0.0.1:1#jobs_total"}
    file("0.jsonl", *readings, end, name="jobs_total", **about)
    levels = [{"time_ns": int(at), "values": {"": 3.0 + index % 7}} for index, at in enumerate(times)]
    if gauge:
        file(
            "1.jsonl",
            *levels,
            end,
            type="prometheus",
            meaning="gauge",
            given="prometheus:...#waiting",
            name="waiting",
        )
    file("2.jsonl", {**end, "lines": 0}, type="log", meaning="count", given="log:/x.log", name="x.log")
    return folder


@pytest.fixture
def data(tmp_path: Path) -> ReportData:
    return gather(write_operations(tmp_path / "run"))


def test_the_document_has_every_figure_or_its_reason(data: ReportData) -> None:
    document = characterize_table.document(data)["operations"]
    json.dumps(document, allow_nan=False)
    assert document["per_s"]["value"] == pytest.approx(4 / 3 * 4 * 358, rel=0.05)
    assert document["per_joule"] == {
        "value": None, "unit": "1/joule", "missing": "no /sys/class/powercap here: a guest sees no RAPL",
    }  # fmt: skip
    assert document["per_cpu_s"]["value"] > 0
    assert document["correlates"]["tried"] >= 5
    assert document["correlates"]["found"] == []
    assert document["stalls"]["period_ns"] == pytest.approx(5 * SECOND, rel=0.02)
    gauge, log = document["sources"][1:]
    assert gauge["meaning"] == "gauge"
    assert log["missing"] == "nothing was written to the log during the run"
    assert "operations-stall-periodic" in {one.id for one in data.findings}


def test_the_terminal_says_rate_and_what_moves(data: ReportData) -> None:
    out = io.StringIO()
    Console(file=out, width=110, color_system=None).print(terminal(characterize_table.answer(data)))
    text = out.getvalue()
    assert "operations" in text
    assert "/s by jobs_total" in text
    assert "correlate with them beyond chance" in text
    assert "nothing was written to the log" in text


def test_without_sources_there_is_no_section(tmp_path: Path) -> None:
    write_characterization(tmp_path / "run")
    data = gather(tmp_path / "run")
    assert data.conditions.progress is None
    assert characterize_table.document(data)["operations"] is None
    assert 'id="operations"' not in html.write_data(data).read_text()


def test_the_page_draws_operations_on_the_axis_of_telemetry(browser: Browser, data: ReportData) -> None:
    path = html.write_data(data)
    with opened(browser, path) as (page, said, _):
        assert said == []
        assert page.evaluate("window.hacked") is None
        section = page.locator("#operations")
        assert "in the measure phase" in section.locator(".intro").inner_text()
        assert section.locator(".plot").count() == 2
        charts = page.evaluate(
            """() => ["operations", "gauge-0", "memory"].map(id => {
                const place = document.getElementById("chart-" + id);
                return [place.layout.xaxis.range, place.data.length];
            })"""
        )
        ranges = [one[0] for one in charts]
        assert ranges[0] == ranges[1] == ranges[2]
        rows = section.locator("table tbody tr").all_inner_texts()
        assert any("per CPU-second of the machine" in row for row in rows)
        assert any("nothing was written to the log" in row for row in rows)
    with opened(browser, path, viewport={"width": 400, "height": 800}) as (page, _, _):
        # Tables scroll, the page does not.
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
