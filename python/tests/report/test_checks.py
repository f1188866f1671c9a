"""The table of checks in words: the document of verdicts, and the bounds on a run's page."""

from pathlib import Path

from steelyard.analyze.checks import CHECKS, Bounds, measured, stated
from steelyard.records import Check, Level
from steelyard.report import html
from steelyard.report.checks import PAGE, bounds_text, page
from steelyard.report.format import plain
from tests.report.runs import write_run


def test_the_document_of_verdicts_has_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text), "run: python -m steelyard.report.checks"
    assert all(f"| `{name}` |" in text for name in CHECKS)


def test_both_bounds_are_shown_with_their_side() -> None:
    assert bounds_text(measured("generator-late", 0.5, "late")) == "suspect above 0.1 %"
    few = measured("samples", 12, "few", bounds=Bounds(2_000, 200))
    assert bounds_text(few) == "suspect below 2,000, invalid below 200"
    full = measured("memory-limit", 3 * 2**30, "full", bounds=Bounds(invalid=2**30))
    assert plain(bounds_text(full)) == "invalid above 1.00 GiB"
    assert bounds_text(stated("hook", Level.SUSPECT, "failed")) == "–"


def test_a_check_of_another_version_has_no_side() -> None:
    check = Check(id="of-another-version", level=Level.VALID, claim="", value=1, suspect=2, unit="count")
    assert bounds_text(check) == "suspect 2"


def test_the_page_of_a_run_shows_both_bounds(tmp_path: Path) -> None:
    text = html.write(write_run(tmp_path / "run")).read_text(encoding="utf-8")
    section = text[text.index('<section id="checks"') :].partition("</section>")[0]
    assert "suspect above 0.001 %, invalid above 0.1 %" in section
