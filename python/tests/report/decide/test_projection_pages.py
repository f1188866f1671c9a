"""Pages of ``steelyard project`` in a real browser, wide and narrow."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from steelyard.decide.projection.problem import Question
from steelyard.decide.projection.project import project
from steelyard.report.answer import Answer
from steelyard.report.answer.page import write_page
from steelyard.report.decide.project import answer
from tests.decide.choice.tables import csv_table
from tests.decide.projection.fleets import World, fleet, hidden
from tests.decide.projection.test_geomean import HAND

SMALL = World(processors=7, machines=4)


def by_model() -> Answer:
    table = fleet(np.random.default_rng(3), SMALL)
    # One processor alone is a name that a page must not take for its own markup.
    hostile = "<b>p</b>|`" + "x" * 60
    machines = [
        replace(one, name=f"{hostile}{at}", attributes={**one.attributes, "processor": hostile})
        if at < 4
        else one
        for at, one in enumerate(table.machines)
    ]
    table = hidden(replace(table, machines=tuple(machines)), {machines[1].name, "p3-0", "p3-1", "p5-2"})
    return answer(project(table, Question(("web",), explain=True, learning=True)), "", "")


def forward() -> Answer:
    table = fleet(np.random.default_rng(4), SMALL)
    machines = [
        replace(one, attributes={**one.attributes, "year": 2015.0 + int(one.name[1])})
        for one in table.machines
    ]
    question = Question(("web",), forward=True, compares_suites=False)
    return answer(project(replace(table, machines=tuple(machines)), question), "", "")


def by_means() -> Answer:
    return answer(project(csv_table(HAND), Question(("web_per_s",))), "", "")


@pytest.mark.parametrize("width", [1280, 420])
@pytest.mark.parametrize(
    ("made", "charts"), [(by_model, 4), (forward, 2), (by_means, 2)], ids=["model", "forward", "means"]
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
