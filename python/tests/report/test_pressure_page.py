"""The pages of the matrix and of a co-location, in a real browser: everything drawn, nothing fetched."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from steelyard._base import schemas_dir
from steelyard.cli.main import invoke
from steelyard.records import Colocation, Phase, Run, read, write
from steelyard.report.answer.page import write_page
from steelyard.report.colocation.answer import answer
from steelyard.report.colocation.words import error_text, predicted_text, slowdown_text
from tests.cli.suites import write_suite
from tests.report.runs import write_run
from tests.report.test_browser import HOSTILE, opened


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite-1"
    write_suite(folder, ("redis", "memcached"))
    for name in ("redis", "memcached"):
        # The suite's runs have no telemetry; these have.
        shutil.rmtree(folder / f"{name}-1")
        write_run(folder / f"{name}-1", changes={"benchmark": name, "tier": "quick"})
    path = folder / "redis-1" / "run.json"
    run = read(Run, path)
    measure = next(phase for phase in run.phases if phase.name == "measure")
    assert measure.end_ns is not None
    middle = (measure.begin_ns + measure.end_ns) // 2
    spans = [("lpush", measure.begin_ns, middle), (HOSTILE, middle, measure.end_ns)]
    steps = [Phase(name=name, begin_ns=begin, end_ns=end) for name, begin, end in spans]
    write(run.model_copy(update={"steps": steps}), path)
    return folder


def test_the_matrix_has_four_panels_of_each_workload(
    suite: Path, tmp_path: Path, browser: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    page_path = tmp_path / "matrix.html"
    arguments = ["characterize", "--suite", str(suite), "--limit", "lo=1Mbit", "--report", str(page_path)]
    assert invoke(arguments) == 0
    assert f"report: {page_path}" in capsys.readouterr().out.replace("\n", "")
    with opened(browser, page_path) as (page, said, asked):
        assert said == []
        assert asked == [page_path.as_uri()]
        plots = page.eval_on_selector_all(".plot", "places => places.map(place => place.id)")
        curves = page.eval_on_selector_all(
            "#chart-redis-cpu .scatterlayer path.js-line",
            "lines => lines.map(line => line.getAttribute('d').length)",
        )
        bands = page.eval_on_selector_all("#chart-redis-network .shapelayer path", "paths => paths.length")
        high, largest = page.eval_on_selector(
            "#chart-redis-network",
            "place => [place._fullLayout.yaxis.range[1], Math.max(...place.data.flatMap(each => each.y))]",
        )
        words = page.inner_text("main")
        hacked = page.evaluate("window.hacked")
    # The traffic is above the stated limit, and drawn whole.
    assert high > largest > 125_000
    assert {f"chart-{name}-{panel}" for name in ("redis", "memcached") for panel in PANELS} <= set(plots)
    assert len(curves) >= 2
    assert min(curves) > 10
    # Two steps, and the limit where it is in sight.
    assert bands >= 2
    assert hacked is None
    assert "Table 4 of the paper" in words
    assert "2 of 3 published pressure points are pressure points here" in words
    assert "memory only in the paper" in words
    assert "stated by --limit" in words


PANELS = ("cpu", "dram", "network")
"""The sample has no telemetry of disks."""


def test_a_page_needs_a_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["characterize", "--report", "x.html"]) == 2
    assert "need --suite" in capsys.readouterr().err


def golden() -> Colocation:
    return read(Colocation, schemas_dir() / "golden" / "colocation.json")


def test_a_colocation_is_drawn(tmp_path: Path, browser: Browser) -> None:
    record = golden()
    named = [record.workloads[0].model_copy(update={"name": HOSTILE}), record.workloads[1]]
    path = write_page(
        tmp_path / "page.html", answer(record.model_copy(update={"workloads": named}), tmp_path)
    )
    with opened(browser, path) as (page, said, asked):
        assert said == []
        assert asked == [path.as_uri()]
        bars = page.eval_on_selector_all("#chart-slowdown .bars .point path", "bars => bars.length")
        words = page.inner_text("main")
        assert page.evaluate("window.hacked") is None
    assert bars == 4
    assert "1.94x (1.90 to 2.00)" in words
    assert "-15%, outside the interval" in words


def test_a_colocation_without_a_result_is_drawn_without_figures(tmp_path: Path, browser: Browser) -> None:
    record = golden()
    bare = [
        each.model_copy(
            update={
                "alone": [],
                "together": [],
                "slowdown": None,
                "slowdown_low": None,
                "slowdown_high": None,
                "missing": "no valid run beside the other",
                "prediction": None,
            }
        )
        for each in record.workloads
    ]
    assert [slowdown_text(bare[0]), predicted_text(bare[0]), error_text(bare[0])] == ["–", "–", "–"]
    none = record.model_copy(update={"workloads": bare, "blocks": []})
    path = write_page(tmp_path / "page.html", answer(none, tmp_path))
    with opened(browser, path) as (page, said, _):
        assert said == []
        words = page.inner_text("main")
    assert "No slowdown was measured" in words
    assert "no valid run beside the other" in words
