"""`steelyard compare` between two runs on disk."""

import html
import json
import re
from pathlib import Path

import pytest

from steelyard.cli.main import invoke
from tests.report.runs import write_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for index, scale in enumerate((1.0, 1.5), start=1):
        write_run(tmp_path / f"tao-{index}", index=index, count=2, scale=scale)
    return tmp_path


def test_differences_are_reported_with_what_to_know_before_believing_them(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["compare", "tao-1", "tao-2", "--runs", str(runs), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["a"] == "tao-1"
    (rate,) = (one for one in document["differences"] if one["name"] == "requests_per_s")
    assert rate["ratio"] == pytest.approx(1.5, rel=0.02)
    assert rate["better"] is True
    assert any("whose noise is not known" in caution for caution in document["cautions"])
    assert invoke(["compare", "tao-1", "tao-2", "--runs", str(runs)]) == 0
    said = capsys.readouterr().out
    assert "requests" in said
    # Which way is better, and not whether B is.
    assert "better if" in said
    assert "higher" in said


def test_a_run_against_itself_differs_in_nothing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["compare", "tao-1", "tao-1", "--runs", str(runs), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["differences"] == []
    assert document["machine"] == []
    assert document["parameters"] == {}
    assert document["findings_gone"] == document["findings_new"] == []


def test_a_run_that_is_not_there_is_a_wrong_argument(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["compare", "tao-1", "nothing", "--runs", str(runs)]) == 2
    assert "unknown run" in capsys.readouterr().err


def test_a_page_says_what_differs_and_what_it_is_drawn_from(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = runs / "page.html"
    arguments = ["compare", "tao-1", "tao-2", "--runs", str(runs), "--json", "--report", str(page)]
    assert invoke(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["report"] == str(page)
    text = page.read_text()
    (count,) = re.findall(r"(\d+) results? differs? by 1 % or more", text)
    assert int(count) == len(document["differences"])
    assert "from two runs." in text
    assert "better if" in text
    for caution in document["cautions"]:
        # Flags are marked as code.
        assert caution in html.unescape(re.sub(r"</?code>", "", text))
