"""The site: every page is there, no page needs a network or an inline script, and a browser shows it."""

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[3]
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'"
REFERENCE = ("reference/commands.html", "reference/schemas.html")
PAGES = ("index.html", "guides/choose.html", *REFERENCE, "gallery.html")

pytestmark = pytest.mark.slow


class Handler(SimpleHTTPRequestHandler):
    """Serves files with a policy that allows nothing from elsewhere and nothing inline."""

    def end_headers(self) -> None:
        if not self.path.startswith("/examples/"):
            self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_document_is_a_page_and_has_nothing_inline(site: Path) -> None:
    documents = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    wanted = {path.with_suffix(".html") for path in documents - {Path("README.md")}}
    wanted |= {Path("index.html"), Path("search.html")}
    made = {path.relative_to(site) for path in site.rglob("*.html")}
    assert wanted <= made
    for path in made - {path for path in made if path.parts[0] == "examples"}:
        text = (site / path).read_text()
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=\"", text), path
        assert not re.search(r"<(?:script|img)[^>]* src=\"https?:|<link[^>]* href=\"https?:", text), path
    sheets = [path.read_text() for path in site.rglob("*.css")]
    assert sheets
    assert not any(re.search(r"@import|url\([\"']?https?:", text) for text in sheets)
    assert sum(path.stat().st_size for path in (ROOT / "docs/images").glob("gallery-*")) <= 300_000


def watched(page: Page, said: list[str]) -> Page:
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda one: said.append(one.url) if "127.0.0.1" not in one.url else None)
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_a_browser_shows_pages(browser: Browser, address: str, scheme: str, width: int) -> None:
    said: list[str] = []
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})  # type: ignore[arg-type]
    page = watched(context.new_page(), said)
    for name in PAGES:
        page.goto(f"{address}/{name}")
        assert page.locator("h1").first.inner_text()
        spills = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not page.evaluate(spills), f"{name} is wider than {width}"
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        bright = sum(map(int, re.findall(r"\d+", colour)[:3])) > 380
        assert bright == (scheme == "light"), (name, colour)
    context.close()
    assert said == []


def test_the_search_finds_a_page_and_the_button_changes_the_theme(browser: Browser, address: str) -> None:
    said: list[str] = []
    page = watched(browser.new_page(), said)
    page.goto(f"{address}/index.html")
    page.locator("input.sidebar-search").first.fill("break-even")
    page.locator("input.sidebar-search").first.press("Enter")
    page.wait_for_selector("#search-results li a")
    page.goto(f"{address}/index.html")
    before = page.evaluate("document.body.dataset.theme")
    page.locator("button.theme-toggle:visible").first.click()
    assert page.evaluate("document.body.dataset.theme") != before
    page.goto(f"{address}/examples/choose.html")
    assert "SKU-A is first" in page.locator("h1").first.inner_text()
    page.close()
    assert said == []


def test_a_page_works_from_a_file(browser: Browser, site: Path) -> None:
    said: list[str] = []
    page = browser.new_page()
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.goto((site / "search.html").as_uri() + "?q=headroom")
    page.wait_for_selector("#search-results li a")
    page.close()
    assert said == []
