"""The server's pages in a real browser: keyboard, widths, themes, hostile names, a run under way."""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from steelyard.records import Check, Level, Verdict
from tests.fleet.simulated import simulated_store
from tests.report.pages import hostile_store
from tests.report.runs import write_run
from tests.web.serving import Served, many_runs, served

HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"'`${7*7}\x1b[31m"


@contextmanager
def page_of(browser: Browser, server: Served, **options: Any) -> Iterator[Page]:
    """Yield a page; nothing may be said on its console, and nothing asked of another server."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.on("response", lambda answer: said.append(answer.url) if answer.status >= 400 else None)
    yield page
    context.close()
    assert said == []
    assert all(url.startswith((server.address, "data:", "blob:")) for url in asked), asked


def test_runs_are_found_chosen_and_compared_by_keyboard(browser: Browser, server: Served) -> None:
    with page_of(browser, server) as page:
        page.goto(f"{server.address}/runs")
        page.keyboard.press("/")
        page.keyboard.type("tao")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("search=tao"))
        assert page.inner_text("h1") == "3 runs"
        # Its headings are links: the server sorts all pages.
        assert page.locator("table.runs thead a").count() == 5
        assert page.locator("table.runs thead button").count() == 0
        mark = "getComputedStyle(document.querySelector('th[aria-sort] a'), '::after').content"
        assert "↓" in page.evaluate(mark)
        button = page.locator("#compare")
        assert button.is_disabled()
        for at in (0, 1):
            box = page.locator("input[name=run]").nth(at)
            box.focus()
            page.keyboard.press("Space")
        assert button.inner_text() == "Compare 2 runs"
        button.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("html[data-drawn]")
        assert "has" in page.inner_text("h1")
        assert page.locator("#chart-throughput .js-line").count() >= 2
        page.locator("a", has_text="tao-2").first.click()
        page.wait_for_selector("html[data-drawn]")
        assert "report.html" in page.url
        assert page.get_attribute("nav.site a[aria-current]", "href") == "/runs"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_no_page_scrolls_sideways(browser: Browser, server: Served, width: int, scheme: str) -> None:
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with page_of(browser, server, **options) as page:
        for path in (
            "/runs",
            "/runs/tao-1/report.html",
            "/runs/tao-1/machine.html",
            "/compare?run=tao-1&run=tao-2&run=tao-3",
            "/trends?benchmark=tao",
            "/decide",
            "/decide/choose",
            "/fleet",
            "/nothing",
        ):
            if path != "/nothing":
                page.goto(f"{server.address}{path}")
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
                assert page.locator("nav.site a").first.is_visible(), path
                assert page.locator("#reading").count() == 0


def test_a_page_that_is_not_there_says_so(browser: Browser, server: Served) -> None:
    answer = server.get("/nothing")
    assert answer.status == 404
    assert "there is no such page" in answer.data.decode().lower()
    assert "<h1" in answer.data.decode()
    assert browser.is_connected()


def test_hostile_names_stay_text_everywhere(browser: Browser, tmp_path: Path) -> None:
    name = HOSTILE.replace("/", "_")
    root = tmp_path / "runs"
    for at in (1, 2):
        write_run(
            root / f"run-{at}{name}",
            index=at,
            comm=HOSTILE,
            changes={
                "benchmark": f"tao{HOSTILE}",
                "tier": f"quick{HOSTILE}",
                "command": ["steelyard", HOSTILE],
                "verdict": Verdict.of([Check(id=f"x{HOSTILE}", level=Level.SUSPECT, claim=HOSTILE)]),
            },
        )
    store = hostile_store(tmp_path / "store", HOSTILE)
    table = tmp_path / "table.csv"
    table.write_text('machine,result,price\n"<img src=x onerror=window.hacked=1>",1,2\nb,2,3\n')
    with served(root, "--store", str(store), "--table", str(table)) as server:
        rows = server.json("/api/v1/runs")["runs"]
        assert len(rows) == 2
        with page_of(browser, server) as page:
            page.goto(f"{server.address}/runs")
            page.locator("tbody a").first.click()
            page.wait_for_selector("html[data-drawn]")
            assert "window.hacked=1" in page.inner_text("main")
            page.goto(f"{server.address}/runs")
            for at in (0, 1):
                page.locator("input[name=run]").nth(at).check()
            page.locator("#compare").click()
            page.wait_for_selector("html[data-drawn]")
            for path in ("/trends", "/decide/choose?tables=table.csv", "/fleet/top", "/fleet/numa"):
                page.goto(f"{server.address}{path}")
                # A page that waits for its answer gives way to it.
                page.wait_for_selector("main:not(:has([data-job]))", timeout=60_000)
                assert page.evaluate("window.hacked") is None, path
            assert "\x1b" not in page.content()


def test_addresses_have_what_was_asked_and_no_more(browser: Browser, server: Served) -> None:
    with page_of(browser, server) as page:
        page.goto(f"{server.address}/runs")
        page.get_by_label("search").fill("tao")
        page.get_by_role("button", name="Search").click()
        page.wait_for_url(f"{server.address}/runs?search=tao")
        page.get_by_text("More filters").click()
        page.get_by_label("also the runs of suites").check()
        page.get_by_label("search").fill("")
        page.get_by_role("button", name="Search").click()
        page.wait_for_url(f"{server.address}/runs?members=yes")
        assert page.get_by_label("also the runs of suites").is_visible()
        page.goto(f"{server.address}/trends")
        page.get_by_label("ordered by").select_option("kernel")
        page.get_by_role("button", name="Show").click()
        page.wait_for_url(re.compile(r"/trends\?benchmark=tao&metric=requests_per_s&by=kernel$"))
        page.get_by_label("ordered by").select_option("time")
        page.get_by_role("button", name="Show").click()
        page.wait_for_url(re.compile(r"/trends\?benchmark=tao&metric=requests_per_s$"))


def test_every_input_has_a_name_and_its_help(browser: Browser, server: Served) -> None:
    with page_of(browser, server) as page:
        for path in ("/runs", "/trends", "/decide/choose?tables=runs", "/decide/project", "/decide/size"):
            page.goto(f"{server.address}{path}")
            wrong = page.evaluate(
                "[...document.querySelectorAll('input, select')].filter((one) => one.type !== 'hidden' &&"
                " !(one.labels && one.labels.length) && !one.getAttribute('aria-label')"
                " || one.getAttribute('aria-describedby')"
                " && !document.getElementById(one.getAttribute('aria-describedby'))).map((one) => one.name)"
            )
            assert wrong == [], path
            assert page.locator("h1").count() == 1, path
            ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
            assert len(ids) == len(set(ids)), path


def test_a_run_under_way_is_followed(browser: Browser, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    command = ["steelyard", "run", "tao", "--tier", "smoke", "--out", str(root), "--set", "measure=20"]
    with served(root) as server, page_of(browser, server) as page:
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            rows: list[dict[str, Any]] = []
            while not rows and time.monotonic() < deadline:
                rows = server.json("/api/v1/runs?status=running")["runs"]
                time.sleep(0.2)
            path = rows[0]["path"]
            page.goto(f"{server.address}/runs/{path}/report.html")
            # Opened before there is anything to draw, it shows charts when there is.
            page.locator("#result h1", has_text="requests").wait_for(timeout=60_000)
            page.locator("#chart-throughput .js-line").first.wait_for(timeout=60_000)
            page.locator("[data-live]", has_text="not final").wait_for()
            page.locator("[data-live] .badge.valid", has_text="valid so far").first.wait_for(timeout=60_000)
            shown_s = "document.getElementById('chart-throughput').layout.xaxis.range[1]"
            before = page.evaluate(shown_s)
            deadline = time.monotonic() + 20
            while page.evaluate(shown_s) < before + 2:
                assert time.monotonic() < deadline
                page.wait_for_timeout(200)
            assert "finished requests failed" in page.inner_text("[data-live]")
            assert re.search(r"measure · \d+ of 20 s", page.inner_text("#result h1"))
            state = server.json(f"/runs/{path}/live.json")
            assert state["status"] == "running"
            charts = {chart["id"]: chart for chart in state["charts"]}
            assert {"throughput", "latency", "lag"} <= set(charts)
            assert any(value for value in charts["throughput"]["traces"][0]["y"])
            # The page becomes the report when the run ends.
            page.locator("[data-live]").wait_for(state="detached", timeout=90_000)
            page.wait_for_selector("html[data-drawn]")
            assert page.locator("#chart-throughput").count() == 1
        finally:
            run.wait(timeout=90)


def test_a_query_waits_and_is_asked_anew_by_its_form(browser: Browser, tmp_path: Path) -> None:
    store = simulated_store()
    (tmp_path / "runs").mkdir()
    with served(tmp_path / "runs", "--store", str(store)) as server, page_of(browser, server) as page:
        for query in ("/fleet/cpi/incidents", "/fleet/top"):
            page.goto(f"{server.address}{query}")
            # Whether it waits first or not, the answer comes without a click.
            page.wait_for_selector("form.ask", timeout=60_000)
        page.select_option("select[name=by]", "category")
        page.locator("form.ask button").click()
        page.wait_for_url(re.compile("by=category"))
        page.wait_for_selector("html[data-drawn]", timeout=60_000)


def test_prices_are_slid(browser: Browser, tmp_path: Path) -> None:
    table = tmp_path / "servers.csv"
    table.write_text(
        "machine,web_per_s,db_per_s,power_w,price_usd\n"
        "old,1000,500,300,5000\nnew,1600,700,450,9000\nsmall,600,450,120,2500\n"
    )
    (tmp_path / "runs").mkdir()
    with served(tmp_path / "runs", "--table", str(table)) as server, page_of(browser, server) as page:
        page.goto(f"{server.address}/decide/choose?tables=servers.csv")
        assert suggested(page, "baseline") == ["old", "new", "small"]
        assert page.locator("select[name=by] option").all_inner_texts()[1:] == [
            "perf", "perf-per-watt", "perf-per-cost",
        ]  # fmt: skip
        exact = page.locator("input[name='weight:db_per_s']")
        slider = page.locator("[id='field-weight:db_per_s-slider']")
        assert exact.count() == slider.count() == 1
        before = page.inner_text("main")
        slider.focus()
        page.keyboard.press("Home")
        page.wait_for_url(re.compile("weight%3Adb_per_s=0"))
        page.wait_for_load_state()
        # Whoever moves a slider by keyboard goes on moving it.
        assert page.evaluate("document.activeElement.id") == "field-weight:db_per_s-slider"
        assert page.inner_text("main") != before
        page.locator("#field-years-slider").focus()
        page.keyboard.press("End")
        page.wait_for_url(re.compile(r"\?tables=servers\.csv&years=10&weight%3Adb_per_s=0$"))
        assert page.locator("h1").inner_text()
        # What is not set stays so until it is typed or slid, and may lie beyond the slider.
        price = page.locator("input[name=power_price]")
        assert price.input_value() == ""
        price.fill("12")
        price.press("Enter")
        page.wait_for_url(re.compile("power_price=12"))
        assert page.locator("input[name=power_price]").input_value() == "12"
        assert "refused" not in page.inner_text("main")
        page.fill("input[name=power_price]", "")
        page.press("input[name=power_price]", "Enter")
        page.wait_for_url(re.compile(r"\?tables=servers\.csv&years=10&weight%3Adb_per_s=0$"))


def suggested(page: Page, name: str) -> list[str]:
    """Return what an input suggests."""
    options = page.locator(f"#field-{name}-list option")
    return [str(options.nth(at).get_attribute("value")) for at in range(options.count())]


def test_ten_thousand_runs_are_listed_at_once(browser: Browser, tmp_path: Path) -> None:
    many_runs(tmp_path / "runs", 2_000, day_ns=3_600_000_000_000)
    with served(tmp_path / "runs") as server, page_of(browser, server) as page:
        deadline = time.monotonic() + 60
        while server.json("/api/v1/runs")["total"] < 2_000 and time.monotonic() < deadline:
            time.sleep(0.2)
        page.goto(f"{server.address}/runs")
        assert page.inner_text("h1") == "2,000 runs"
        assert page.locator("tbody tr").count() == 100
        page.locator(".pager a", has_text="20").click()
        page.wait_for_url(re.compile("page=20"))
        page.goto(f"{server.address}/trends?benchmark=tao&metric=requests_per_s")
        page.wait_for_selector("html[data-drawn]")
        assert "no change" in page.inner_text("h1").lower()
