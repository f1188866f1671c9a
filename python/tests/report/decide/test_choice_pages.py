"""Pages of ``steelyard choose`` and ``steelyard size`` in a real browser, wide and narrow."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from steelyard.decide.choice.making import choose, improve
from steelyard.decide.choice.request import ChooseRequest
from steelyard.decide.sizing.curves import LoadSweep, MemorySweep
from steelyard.decide.sizing.making import size
from steelyard.decide.sizing.sources import Measured
from steelyard.report.answer import Answer
from steelyard.report.answer.page import write_page
from steelyard.report.decide import savings
from steelyard.report.decide.choose import answer as choice_answer
from steelyard.report.decide.size import answer as size_answer
from tests.decide.choice.tables import of_section_4_6, priced
from tests.decide.sizing.test_sizing import RATE, curve, types


def priced_choice() -> Answer:
    table = priced(
        {"A": [100.0, 101.0], "B": [104.0, 105.0], "C": [60.0, 61.0]},
        {"A": 8000.0, "B": 7600.0, "C": 4000.0},
        {"A": 300.0, "B": 420.0, "C": 200.0},
    )
    request = ChooseRequest(power_price=0.1, demands={"web_per_s": "1e4"})
    return choice_answer(choose(table, request))


def suites_beside_each_other() -> Answer:
    suites = {"DCPerf": "mediawiki,django,feed,tao,spark", "SPEC 2017": "spec2017"}
    request = ChooseRequest(suites=suites, baseline="SKU4", by="perf-per-watt")
    return choice_answer(choose(of_section_4_6(), request))


def worth_of_a_percent() -> Answer:
    request = ChooseRequest(improvement="1%", interval="0.4%..1.6%", power_price=0.1)
    return savings.answer(improve(types(), request))


def sized() -> Answer:
    return size_answer(size(Measured([curve()]), types(), RATE))


def swept() -> Answer:
    memory = {g << 30: [500.0 * min(g, 8) * each for each in (1.0, 1.01)] for g in (1, 2, 4, 8, 16, 32)}
    load = LoadSweep("m", [1, 2, 4], [[1000.0, 1010.0], [1900.0, 1910.0], [2500.0, 2490.0]], LATENCIES, "s")
    return size_answer(size(Measured([], [load], [MemorySweep("m", memory, "sweep")]), types(), RATE))


LATENCIES = {"p99": [[1e6, 1e6], [1.2e6, 1.3e6], [3e6, 4e6]]}


@pytest.mark.parametrize("width", [1280, 420])
@pytest.mark.parametrize(
    ("made", "charts"),
    [(priced_choice, 7), (suites_beside_each_other, 3), (worth_of_a_percent, 1), (sized, 2), (swept, 3)],
    ids=["prices", "suites", "savings", "sizes", "sweeps"],
)
def test_a_page_is_drawn_and_fits(browser: Browser, tmp_path: Path, made, charts: int, width: int) -> None:  # type: ignore[no-untyped-def]
    path = write_page(tmp_path / "page.html", made())
    page = browser.new_page(viewport={"width": width, "height": 900})
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"file://{path}")
    page.wait_for_selector("html[data-drawn=yes]")
    assert errors == []
    assert page.locator(".js-plotly-plot").count() == charts
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()
