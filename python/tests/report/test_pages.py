"""Every kind of page in a real browser: alone, offline, narrow, on paper, and with hostile names."""

import io
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from steelyard.cli.main import invoke
from steelyard.report import chart_library
from steelyard.report.answer import Answer, Cell, Column, Section, table
from steelyard.report.answer.page import write_page
from tests.report import pages
from tests.report.runs import write_run

HOSTILE = "-</script><img src=x onerror=window.hacked=1>\"'`&{{7*7}}\u2028\x1b[31m\u202etxt.exe" + "W" * 600
SHOWN = "</script><img src=x onerror=window.hacked=1>\"'`&{{7*7}}"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
LARGEST_BYTES = 1_500_000
NAMES = [*pages.KINDS, *(f"fleet {query}" for query in pages.FLEET)]
QUICK = ("run", "health", "two profiles", "fleet incidents", "fleet top")
"""Kinds of page that are drawn each time; the others are slow."""


def kinds(names: Sequence[str]) -> pytest.MarkDecorator:
    """Return the mark that gives a test each kind of page among ``names``."""
    marks = {one: () if one in QUICK else pytest.mark.slow for one in names}
    return pytest.mark.parametrize("kind", [pytest.param(one, marks=marks[one]) for one in names])


@dataclass(frozen=True)
class Pages:
    """Pages full of hostile names, each written when it is first asked for."""

    folder: Path
    written: dict[str, tuple[Path, str]] = field(default_factory=dict)

    def path(self, kind: str) -> Path:
        """Return the page of a kind."""
        return self._written(kind)[0]

    def printed(self, kind: str) -> str:
        """Return what the command printed that wrote the page."""
        return self._written(kind)[1]

    def _written(self, kind: str) -> tuple[Path, str]:
        if kind not in self.written:
            self.written[kind] = self._write(kind)
        return self.written[kind]

    def _write(self, kind: str) -> tuple[Path, str]:
        said = io.StringIO()
        if kind in pages.KINDS:
            where = self.folder / kind
            where.mkdir()
            with redirect_stdout(said), redirect_stderr(said):
                return pages.KINDS[kind](where, HOSTILE), said.getvalue()
        query = kind.removeprefix("fleet ")
        store, path = self.folder / "store", self.folder / f"{query}.html"
        if not store.exists():
            pages.hostile_store(self.folder, HOSTILE)
        with redirect_stdout(said), redirect_stderr(said):
            assert pages.fleet(store, query, path, HOSTILE) in (0, 1), said.getvalue()
        return path, said.getvalue()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return Pages(tmp_path_factory.mktemp("pages"))


PLOTLY_NOTES = ["WARN: Too many auto-margin redraws."]
"""What Plotly says while a page is narrowed: it stops fitting margins to labels that have no room."""


@contextmanager
def alone(browser: Browser, path: Path, folder: Path, **options: Any) -> Iterator[tuple[Page, list[str]]]:
    """Open a copy of a page in a folder of its own, without a network; yield it with all that went wrong."""
    copy = folder / "copy.html"
    shutil.copyfile(path, copy)
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}, offline=True)
    page, wrong = context.new_page(), []
    page.on("console", lambda message: message.text in PLOTLY_NOTES or wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.on("request", lambda request: request.url == copy.as_uri() or wrong.append(request.url))
    page.goto(copy.as_uri())
    page.wait_for_selector("html[data-drawn]", timeout=30_000)
    yield page, wrong
    context.close()


@kinds(NAMES)
def test_a_page_alone_is_drawn_and_its_names_are_text(
    browser: Browser, written: Pages, tmp_path: Path, kind: str
) -> None:
    path = written.path(kind)
    assert path.stat().st_size <= LARGEST_BYTES
    assert not STEERING.search(path.read_text().replace("\n", ""))
    with alone(browser, path, tmp_path) as (page, wrong):
        places = page.locator(".plot")
        assert places.count() == page.locator(".plot svg.main-svg").count() / 3
        for place in places.all():
            marks = "path.js-line, path.js-fill, .points path, .bars path, .hm image, .heatmaplayer image"
            assert place.locator(marks).count() > 0, place.get_attribute("id")
        assert page.evaluate("window.hacked") is None
        assert page.locator("img").count() == 0
        everything = page.evaluate("document.documentElement.textContent")
        # Categories are ours; only charts of that page have names from outside, and those are cut.
        assert kind == "fleet category" or SHOWN in page.locator("main").inner_text()
        assert not STEERING.search(everything.replace("\n", ""))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        for width in (1280, 700):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.eval_on_selector_all(".bar nav a", OUTSIDE_THE_BAR) == []
        assert wrong == []


@kinds([one for one in NAMES if one.startswith("fleet ") or one in pages.answers.PRINTS])
def test_no_command_passes_escapes_to_the_terminal(written: Pages, kind: str) -> None:
    text = written.printed(kind)
    assert not STEERING.search(text.replace("\n", ""))
    # Categories are ours.
    assert (SHOWN[:12] in text) == (kind != "fleet category")


def test_the_library_is_the_published_bundle() -> None:
    import hashlib
    import json
    from importlib.resources import files

    folder = files("steelyard.report") / "plotly"
    provenance = json.loads((folder / "provenance.json").read_text())
    assert hashlib.sha256(chart_library.bundle()).hexdigest() == provenance["sha256"]
    assert f"v{provenance['version']}".encode() in chart_library.bundle()[:200]
    assert "MIT License" in (folder / "LICENSE").read_text()


def test_pages_may_share_one_script(browser: Browser, tmp_path: Path) -> None:
    from steelyard.report import html

    runs = [write_run(tmp_path / "suite" / name) for name in ("tao-1", "tao-2")]
    with chart_library.shared(tmp_path / "suite"):
        shared = [html.write(run) for run in runs]
    assert (
        invoke(["report", str(runs[0]), "--shared-script", "--report", str(tmp_path / "one" / "p.html")]) == 0
    )
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["p.html", chart_library.SCRIPT]
    assert sum(path.stat().st_size for path in shared) < 500_000
    assert [path.name for path in (tmp_path / "suite").glob("*.js")] == [chart_library.SCRIPT]
    page = browser.new_page()
    page.goto(shared[1].as_uri())
    page.wait_for_selector("html[data-drawn]", timeout=30_000)
    assert page.locator("#chart-throughput path.js-line").count() > 0
    # Without it the page says what is missing; its tables stand.
    (tmp_path / "suite" / chart_library.SCRIPT).unlink()
    page.goto(shared[0].as_uri())
    page.wait_for_selector("#charts-missing:visible")
    assert "../plotly-cartesian.min.js" in page.inner_text("#charts-missing")
    assert page.locator("#figure-throughput table").count() == 1
    page.close()


WIDE = [*pages.KINDS, *(f"fleet {query}" for query in ("incidents", "numa", "pressure", "rue", "specs"))]
"""Kinds of page that are tried narrow and on paper; the other fleet pages have the same tables."""
OUTSIDE = """areas => areas.flatMap(area => {
    const frame = area.getBoundingClientRect();
    return [...area.querySelectorAll('.answer, tr > :first-child')].filter(cell => {
        const box = cell.getBoundingClientRect();
        return box.width && (box.left < frame.left - 1 || box.right > frame.right + 1);
    }).map(cell => cell.textContent.slice(0, 60));
})"""
SCROLLED = """areas => areas.filter(area => area.clientWidth && area.scrollWidth > area.clientWidth + 1)
    .map(area => [area.tabIndex, area.getAttribute('role'), Boolean(area.getAttribute('aria-label'))])"""

MOVED = """area => [area.scrollLeft, area.querySelector('tbody th').getBoundingClientRect().left
    - area.getBoundingClientRect().left]"""
OUTSIDE_THE_BAR = """all => all.filter(one => {
    const [link, bar] = [one, one.parentElement].map(each => each.getBoundingClientRect());
    return link.right > bar.right + 1 || link.bottom > bar.bottom + 1 || link.width < 8;
}).map(one => one.textContent)"""
CUT = """all => all.filter(one => one.getBoundingClientRect().right > 719)
    .map(one => one.outerHTML.slice(0, 200))"""


@kinds(WIDE)
def test_a_narrow_page_shows_what_answers(
    browser: Browser, written: Pages, tmp_path: Path, kind: str
) -> None:
    with alone(browser, written.path(kind), tmp_path, viewport={"width": 420, "height": 800}) as (
        page,
        wrong,
    ):
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        assert page.eval_on_selector_all(".scroll", OUTSIDE) == []
        areas = page.eval_on_selector_all(".scroll", SCROLLED)
        assert all(area == [0, "region", True] for area in areas)
        # A keyboard scrolls it, and the name of the row stays.
        for area in page.locator(".scroll[tabindex]:visible").all()[:1]:
            area.focus()
            for _ in range(8):
                page.keyboard.press("ArrowRight")
            page.wait_for_timeout(300)
            moved = area.evaluate(MOVED)
            assert moved[0] > 0
            assert 0 <= moved[1] < 20
        assert wrong == []


@kinds(WIDE)
def test_nothing_is_cut_on_paper(browser: Browser, written: Pages, tmp_path: Path, kind: str) -> None:
    with alone(browser, written.path(kind), tmp_path) as (page, wrong):
        # A4 less its margins, in CSS pixels.
        page.set_viewport_size({"width": 718, "height": 1000})
        page.emulate_media(media="print")
        page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
        page.wait_for_timeout(100)
        cut = page.eval_on_selector_all(
            "main table, main th, main td, main pre, main h2, main .copyable", CUT
        )
        assert cut == []
        assert page.eval_on_selector_all(".scroll", SCROLLED) == []
        assert len(page.pdf()) > 10_000
        assert wrong == []


def test_a_table_sorts_by_mouse_and_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    columns = (Column("job", is_text=True), Column("time", "s"), Column("CPI"), Column("first", is_text=True))
    rows = [
        ("job-2", 0.002, None, "2026-01-03 10:00"),
        ("job-10", 90.0, 1.5, "2026-01-01 10:00"),
        ("job-1", 3.0e-6, Cell("2.5 (2 to 3)", "2.5, 2 to 3"), "2026-01-02 10:00"),
        ("", 7200.0, 12.0, ""),
    ]
    path = write_page(tmp_path / "page.html", Answer("T", "", [Section("s", "S", (table(columns, rows),))]))
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn]")

    def column(at: int) -> list[str]:
        texts = page.locator(f"tbody tr > :nth-child({at})").all_inner_texts()
        return [text.replace("\u202f", " ") for text in texts]

    def press(name: str) -> list[str | None]:
        page.get_by_role("button", name=name).click()
        return [head.get_attribute("aria-sort") for head in page.locator("thead th").all()]

    assert press("time") == [None, "descending", None, None]
    assert column(2) == ["2 h 0 min 0 s", "90.0 s", "2.00 ms", "3.00 µs"]
    assert press("time") == [None, "ascending", None, None]
    assert column(2)[0] == "3.00 µs"
    assert press("time") == [None] * 4
    assert column(1) == ["job-2", "job-10", "job-1", ""]
    # Missing is last either way; names sort as people count.
    press("CPI")
    assert column(3) == ["12", "2.5 (2 to 3)", "1.50", "–"]
    press("CPI")
    assert column(3)[-1] == "–"
    page.get_by_role("button", name="job").focus()
    page.keyboard.press("Enter")
    assert column(1) == ["job-1", "job-2", "job-10", ""]
    press("first")
    assert column(4) == ["2026-01-01 10:00", "2026-01-02 10:00", "2026-01-03 10:00", ""]
    page.close()
