"""``steelyard report`` of what is no run: it shows and writes the page of every kind of folder."""

import json
import shutil
from pathlib import Path

import pytest

from steelyard.analyze.health.comparison import compare
from steelyard.bench.health.check import save_comparison
from steelyard.records import HealthResult, read
from tests.calling import call
from tests.report.pages_of_answers import GOLDEN
from tests.report.runs import write_run


def put(out: Path, kind: str) -> Path:
    """Write a folder of a kind below ``out``."""
    folder = out / f"{kind}-1"
    folder.mkdir(parents=True)
    golden = "health_result" if kind == "health" else kind
    shutil.copy(GOLDEN / f"{golden}.json", folder / f"{kind}.json")
    if kind == "health":
        judged = compare(read(HealthResult, folder / "health.json"), [], against="others")
        save_comparison(folder, judged, accepted=False)
    return folder


@pytest.mark.parametrize("kind", ["experiment", "tuning", "health", "colocation"])
def test_report_shows_every_kind_and_writes_its_page(kind: str, tmp_path: Path) -> None:
    folder = put(tmp_path, kind)
    for name in (f"{kind}-1", str(folder), "latest", kind[:6]) if kind != "colocation" else (f"{kind}-1",):
        done = call("report", name, "--runs", str(tmp_path))
        assert done.returncode in (0, 1), done.stderr
        assert str(folder / "report.html") in done.stdout
        page = (folder / "report.html").read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>")
        (folder / "report.html").unlink()
    page_file = tmp_path / "page.html"
    done = call("report", f"{kind}-1", "--runs", str(tmp_path), "--report", str(page_file), "--json")
    document = json.loads(done.stdout)
    assert (document["directory"], document["report"]) == (str(folder), str(page_file))
    assert page_file.exists()
    assert not (folder / "report.html").exists()


def test_latest_is_a_run_where_there_is_one(tmp_path: Path) -> None:
    write_run(tmp_path / "run-1")
    put(tmp_path, "experiment")
    done = call("report", "latest", "--runs", str(tmp_path))
    assert str(tmp_path / "run-1" / "report.html") in done.stdout


def test_an_experiment_is_held_against_no_baseline(tmp_path: Path) -> None:
    put(tmp_path, "experiment")
    done = call("report", "experiment-1", "--runs", str(tmp_path), "--baseline", "x")
    assert done.returncode == 2
    assert "--baseline is for runs and suites" in done.stderr
