"""The page of a health check in a real browser, and its table."""

import io
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from rich.console import Console

from steelyard.analyze.health.comparison import Alert, compare
from steelyard.records import HealthCpu, HealthResult
from steelyard.report.answer.page import write_page
from steelyard.report.answer.terminal import terminal
from steelyard.report.health.answer import answer
from tests import health_samples as samples


def _large() -> HealthResult:
    """Return a check of a machine with 48 CPUs in two sockets, and four nodes of which one is slow."""

    def near(a: int, b: int) -> float:
        if a % 24 == b % 24:
            return 9.0
        return 40.0 if a % 24 // 12 == b % 24 // 12 else 120.0

    def place(cpu: int) -> HealthCpu:
        return HealthCpu(id=cpu, core=cpu % 24, socket=cpu % 24 // 12, last_level_cache=cpu % 24 // 12)

    result = samples.with_nodes(samples.with_curve(samples.golden()), 4, slow=3)
    return samples.quiet(samples.with_matrix(result, samples.matrix(48, near), place))


def _open(browser: Browser, folder: Path, scheme: str = "light") -> tuple[list[str], object]:
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"file://{folder / 'report.html'}")
    page.wait_for_selector("html[data-drawn=yes]")
    return errors, page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_large_machine_is_readable(browser: Browser, tmp_path: Path, scheme: str) -> None:
    result = _large()
    write_page(tmp_path / "report.html", answer(result, compare(result, [], against="nothing: a test")))
    errors, page = _open(browser, tmp_path, scheme)
    assert errors == []
    plots = page.locator(".js-plotly-plot")  # type: ignore[attr-defined]
    # The curve, five kernels, the matrix.
    assert plots.count() == 7
    matrix = page.locator("#chart-core-to-core")  # type: ignore[attr-defined]
    box = matrix.bounding_box()
    assert box["width"] > 600
    assert box["height"] > 500
    labels = matrix.locator(".xtick text")
    boxes = [labels.nth(index).bounding_box() for index in range(labels.count())]
    assert len(boxes) >= 20, "most CPUs of 48 have a label"
    for left, right in pairwise(boxes):
        assert left["x"] + left["width"] <= right["x"] + 1, "labels do not overlap"
    groups = page.locator("#core-to-core .notes li").all_inner_texts()  # type: ignore[attr-defined]
    assert groups[0] == "2 groups, within 40 ns, 120 ns apart: 0-11,24-35 | 12-23,36-47"
    marks = page.locator("#chart-latency .annotation-text").all_text_contents()  # type: ignore[attr-defined]
    assert marks == ["L1 32 KiB", "L2 512 KiB", "L3 32 MiB"]
    # Nothing of the page is wider than the window.
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")  # type: ignore[attr-defined]
    page.close()  # type: ignore[attr-defined]


def test_small_machine_has_tables_instead_of_maps_of_one_cell(browser: Browser, tmp_path: Path) -> None:
    result = samples.golden()
    slow = samples.shaken(samples.quiet(result), 0, spread=0.0, latency=3.0)
    steady = samples.shaken(samples.quiet(result), 0, spread=0.0)
    write_page(
        tmp_path / "report.html", answer(slow, compare(slow, [steady] * 4, against="its last 4 good checks"))
    )
    errors, page = _open(browser, tmp_path)
    assert errors == []
    assert page.locator(".js-plotly-plot").count() == 1  # type: ignore[attr-defined]
    text = page.locator("main").inner_text()  # type: ignore[attr-defined]
    assert "1 alert, against its last 4 good checks" in text
    assert "may mean: slower or fewer memory channels" in text
    assert "this instruction set is not supported" in text
    page.close()  # type: ignore[attr-defined]


def test_texts_from_outside_stay_texts(browser: Browser, tmp_path: Path) -> None:
    bad = "<script>window.broken = 1</script>&{{ 7 * 7 }}"
    result = samples.golden()
    machine = result.machine.model_copy(update={"cpu_model": bad})
    disk = result.disk and result.disk.model_copy(update={"directory": bad, "device": bad})
    result = result.model_copy(
        update={"machine": machine, "disk": disk, "missing": {"disk.x": bad}, "command": [bad]}
    )
    comparison = compare(result, [], against=bad, changes=[Alert("x", bad, bad)], notes=[bad])
    write_page(tmp_path / "report.html", answer(result, comparison))
    errors, page = _open(browser, tmp_path)
    assert errors == []
    assert page.evaluate("window.broken === undefined")  # type: ignore[attr-defined]
    assert bad in page.locator("main").inner_text()  # type: ignore[attr-defined]
    page.close()  # type: ignore[attr-defined]


def test_table_says_what_changed_and_escapes_markup() -> None:
    result = samples.quiet(samples.shaken(samples.golden(), 0, spread=0.0))
    slow = samples.shaken(result, 0, spread=0.0, latency=2.0)
    comparison = compare(
        slow, [result] * 4, against="its last 4 good checks", notes=["[bold]not markup[/bold]"]
    )
    stream = io.StringIO()
    Console(file=stream, width=100).print(terminal(answer(slow, comparison)))
    text = stream.getvalue()
    assert "[bold]not markup[/bold]" in text
    assert "+100.0%" in text
    assert "1 alert, against its last 4 good checks" in text
    assert "- memory_latency.largest" in text
    assert max(len(line) for line in text.splitlines()) <= 100
