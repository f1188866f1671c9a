"""The page of a characterization on a machine without counters: short, without rows that say nothing."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from steelyard.cli.main import invoke
from steelyard.report.model import gather
from tests.report.test_browser import opened

HIGHEST_PX = 8_000
"""It was 14,500, mostly dashes; with up to four CPUs, whose panels stand in one row."""
ROW_OF_PANELS_PX = 250
DASHES = """all => all.filter(row => [...row.cells].slice(1).some(cell => cell.textContent === '–')
    && [...row.cells].slice(1).every(cell => ['', '–'].includes(cell.textContent.trim())))
    .map(row => row.textContent)"""


def test_without_counters_it_is_short_and_has_no_row_of_dashes(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["characterize", "--duration", "1s", "--out", str(tmp_path), "--", "sleep", "60"]
    assert invoke(command) in (0, 1)
    said_then = " ".join(capsys.readouterr().out.split())
    assert "before its own end; --duration 0 measures until it ends" in said_then
    (folder,) = tmp_path.iterdir()
    assert invoke(["list", "runs", "--runs", str(tmp_path)]) == 0
    assert "CPUs used 0." in capsys.readouterr().out
    data = gather(folder)
    data.close()
    counters = data.conditions.counters
    if counters is not None and counters.law.ipc.value is not None:
        pytest.skip("this machine has counters, whose figures make the page longer")
    further = max(0, (os.cpu_count() or 1) - 1) // 4
    with opened(browser, folder / "report.html") as (page, said, _):
        height = page.evaluate("document.documentElement.scrollHeight")
        assert 3_000 < height <= HIGHEST_PX + further * ROW_OF_PANELS_PX
        sections = "main > section:not(#details) table tbody tr"
        assert page.locator(sections).count() > 10
        assert page.eval_on_selector_all(sections, DASHES) == []
        # What stands behind other figures opens by its name, and paper shows it.
        assert not page.locator("details.closed table").first.is_visible()
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details.closed table").first.is_visible()
        # A path of the machine that measured is no reason.
        assert str(folder) not in page.inner_text("main > section#profile")
        assert said == []
