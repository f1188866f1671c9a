"""On one page, equal labels have equal figures: tiles, and rows of a figure each."""

import re
from collections import defaultdict
from html.parser import HTMLParser

import pytest

from tests.report import pages
from tests.report.test_pages import NAMES, Pages, written

__all__ = ["written"]
_VOID = {"br", "hr", "img", "meta", "link", "input", "path", "circle", "rect", "line", "use"}


class _Reader(HTMLParser):
    """Collects the texts of tiles (name, value) and of tables (rows of cells)."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, str, list[str]]] = []
        self.tiles: list[tuple[str, str]] = []
        self.tables: list[list[list[str]]] = []
        self._name = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID:
            return
        if tag == "table":
            self.tables.append([])
        if tag == "tr" and self.tables:
            self.tables[-1].append([])
        self.open.append((tag, dict(attrs).get("class") or "", []))

    def handle_data(self, data: str) -> None:
        for _, _, texts in self.open:
            texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        while self.open:
            found, kind, texts = self.open.pop()
            text = " ".join("".join(texts).split())
            if kind == "name":
                self._name = text
            if kind == "value" and self._name:
                self.tiles.append((self._name, text))
                self._name = ""
            if found in ("td", "th") and self.tables and self.tables[-1]:
                self.tables[-1][-1].append(text)
            if found == tag:
                return


def _figures(html: str) -> dict[str, set[str]]:
    """Return the figures of a page by label."""
    reader = _Reader()
    reader.feed(re.sub(r"(?s)<(script|style)\b.*?</\1>", "", html))
    found: dict[str, set[str]] = defaultdict(set)
    for name, value in reader.tiles:
        found[name.lower()].add(value)
    for table in reader.tables:
        rows = [row for row in table if len(row) >= 2]
        # A table of one figure a row: name, figure, and perhaps what it means.
        if rows and all(not re.search(r"\d", "".join(row[2:])) for row in rows):
            for row in rows:
                if re.match(r"[\d.,]+\s*\S*$", row[1]):
                    found[row[0].lower()].add(row[1])
    return found


@pytest.mark.parametrize("kind", [name for name in NAMES if not name.startswith("fleet ")])
def test_equal_labels_have_equal_figures(written: Pages, kind: str) -> None:
    path = written.path(kind)
    found = _figures(path.read_text(encoding="utf-8"))
    twice = {label: figures for label, figures in found.items() if len(figures) > 1}
    assert twice == {}


def test_the_reader_finds_what_it_looks_for(written: Pages) -> None:
    assert pages.KINDS
    page = (
        "<div class=tile><span class=name>server CPU</span><span class=value>27.3 %</span></div>"
        "<table><tr><th>figure</th><th>value</th></tr><tr><th>server CPU</th><td>99.8 %</td></tr></table>"
    )
    assert _figures(page)["server cpu"] == {"27.3 %", "99.8 %"}
    path = written.path("run")
    assert len(_figures(path.read_text(encoding="utf-8"))) > 3
