"""Pages of ``steelyard fidelity`` in a real browser, and what their headings say."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from steelyard.decide.fidelity.comparison import compare
from steelyard.decide.fidelity.workload import WorkloadProfile
from steelyard.report.answer.page import write_page
from steelyard.report.decide import calibration, fidelity
from steelyard.tune.calibration.search import Calibrator
from tests.decide.fidelity.profiles import profile
from tests.tune.calibration.test_search import Cache, plan

SLOTS = ("retiring_ratio", "bad_speculation_ratio", "frontend_ratio", "backend_ratio")


def workload(name: str, scale: float) -> WorkloadProfile:
    """Return a profile with a metric in each of the paper's figures."""
    metrics: dict[str, float | list[float]] = {
        **dict(zip(SLOTS, (0.25 * scale, 0.05, 0.2, 0.7 - 0.25 * scale), strict=True)),
        "ipc": [1.0 * scale, 1.1 * scale, 1.05 * scale],
        "memory_bytes_per_s": 2e10 * scale,
        "l1i_mpki": 30 / scale,
        "cpu_user_ratio": 0.5 * scale,
        "cpu_kernel_ratio": 0.3,
        "package_power_w": 150 * scale,
        "frequency_hz": 1.94e9,
        "latency_p50_ns": 1e6,
        "latency_p99_ns": 5e6 * scale,
    }
    return profile(name, metrics, {"copy": 0.2 * scale, "parse": 0.1})


def opened(browser: Browser, path: Path, width: int) -> tuple[list[str], Page]:
    page = browser.new_page(viewport={"width": width, "height": 900})
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"file://{path}")
    page.wait_for_selector("html[data-drawn=yes]")
    return errors, page


@pytest.mark.parametrize("width", [1280, 420])
def test_two_workloads_are_drawn_side_by_side(browser: Browser, tmp_path: Path, width: int) -> None:
    found = compare(workload("bench", 1.2), workload("production", 1.0))
    path = write_page(tmp_path / "page.html", fidelity.answer(found))
    errors, page = opened(browser, path, width)
    assert errors == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Distances; slots, CPU time and functions; IPC, misses, bandwidth, power, frequency and latency.
    assert page.locator(".js-plotly-plot").count() == 10


@pytest.mark.parametrize("width", [1280, 420])
def test_a_calibration_is_drawn(browser: Browser, tmp_path: Path, width: int) -> None:
    target = Cache(0.0).profile({"target_hit_ratio": 0.6, "depth": 4, "connections": 100})
    made = Calibrator(plan(tmp_path, target, 12), Cache(0.02)).run()
    said = calibration.answer(made)
    assert said.heading.startswith("tao came nearer to cache: distance ")
    assert "; of metrics held out " in said.heading
    errors, page = opened(browser, write_page(tmp_path / "page.html", said), width)
    assert errors == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".js-plotly-plot").count() == 2


def test_headings_answer_in_a_line() -> None:
    a, b = workload("bench", 1.2), workload("production", 1.0)
    assert fidelity.heading(compare(a, a)).startswith("bench and bench are the same in all metrics")
    said = fidelity.heading(compare(a, b))
    assert said.startswith("bench is closest to production in frequency (0 %) and furthest in ")
    one = profile("bench", {"ipc": 1.0})
    assert fidelity.heading(compare(one, b)).startswith("bench and production can be compared in IPC only; ")


def test_ratios_are_of_a_over_b_and_a_zero_has_none() -> None:
    a = profile("a", {"context_switches_per_s": 0.0, "ipc": 2.0, "cpu_user_ratio": 0.4})
    b = profile("b", {"context_switches_per_s": 50.0, "ipc": 1.0, "cpu_user_ratio": 0.5})
    [table] = list(fidelity.answer(compare(a, b)).sections[0].tables)
    column = [head.name for head in table.columns].index("A against B")
    assert [row[column].text for row in table.rows] == ["0 in A", "2x", "10 points less"]
