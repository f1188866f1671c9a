"""The load of the wiki: kinds of page with their weights, as a mix, and a look at one page of each.

In: a prepared wiki and its address. Out: a mix file, the command of the load, and an error for a page that is
not what it should be.

Weights are after DCPerf's list of addresses, by kind of page; within a kind, articles follow ``popularity``.
An operation of the mix is a kind of page, so that its result has a rate and percentiles for each.

Not here: warming up and measuring (``bench.load``).
"""

import http.client
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import WorkloadFailedError, executable, replacing
from steelyard.bench.parameters import Setting
from steelyard.bench.ports import HOST
from steelyard.benchmarks.mediawiki import content
from steelyard.benchmarks.mediawiki.words import YEARS

PAGE_TIMEOUT_S = 60.0
"""For a first page of its kind, which is compiled and parsed."""


@dataclass(frozen=True, slots=True)
class PageKind:
    """One kind of page. ``query`` is the address after ``/index.php?``, as a mix writes it."""

    name: str
    weight: int
    query: str
    expected: str
    """Text that a right answer holds."""


def page_kinds(articles: int) -> tuple[PageKind, ...]:
    """Return the kinds of page of a wiki with so many articles."""
    long = f"Long_article_{{uniform:1:{content.long_articles(articles)}}}"
    year = f"{{uniform:{YEARS[0]}:{YEARS[1]}}}"
    front = content.MAIN_PAGE.replace(" ", "_")
    return (
        PageKind("main-page", 6, f"title={front}", content.MAIN_PAGE_TEXT),
        PageKind("article", 4, "title=Article_{key}", "mw-parser-output"),
        PageKind("long-article", 3, f"title={long}", "mw-parser-output"),
        PageKind("printable", 3, "title=Article_{key}&printable=yes", "mw-parser-output"),
        PageKind("history", 3, "title=Article_{key}&action=history", 'id="pagehistory"'),
        PageKind("talk", 2, "title=Talk:Article_{key}", "mw-parser-output"),
        PageKind("edit-form", 3, "title=Article_{key}&action=edit", 'id="wpTextbox1"'),
        PageKind("login", 2, "title=Special:UserLogin", 'id="wpPassword1"'),
        PageKind(
            "recent-changes", 2, "title=Special:RecentChanges&days=7300&limit=50", "mw-changeslist-line"
        ),
        PageKind("search", 2, f"title=Special:Search&fulltext=1&search={year}", "mw-search-results"),
    )


def write_mix(path: Path, *, articles: int, popularity: str) -> None:
    """Write the mix of a wiki with so many articles."""
    lines = [
        "# Kinds of page of the wiki, weighted as DCPerf's; {key} is an article's number.",
        'schema_version = "1.0"',
        'kind = "mix"',
        f'description = "Pages of a generated wiki with {articles} articles"',
        "",
        "[keys]",
        f"count = {articles}",
        f'distribution = "{popularity}"',
        # Exactly the digits that distinguish articles, which end their titles.
        f"sizes = {content.key_digits(articles)}",
    ]
    for kind in page_kinds(articles):
        lines += [
            "",
            "[[operation]]",
            f'name = "{kind.name}"',
            f"weight = {kind.weight}",
            f'http = {{ path = "/index.php?{kind.query}", headers = {{ Accept = "text/html" }} }}',
        ]
    with replacing(path) as partial:
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")


def load_command(settings: Mapping[str, Setting], *, target: str, mix: Sequence[str]) -> list[str]:
    """Return the command line of the load, without where it writes; ``mix`` names it, and the hosts."""
    rate = float(settings["rate"])
    return [
        str(executable("steelyard-load")),
        *("--protocol", "http", "--target", target),
        *mix,
        *("--threads", str(settings["load_threads"])),
        *("--connections", str(settings["connections"])),
        *("--duration", f"{float(settings['measure']):g}s"),
        # In a unit in which the shortest has no exponent, which flags do not take.
        *("--warmup", f"{float(settings['warmup_min']) * 1e9:.0f}ns", "--hold"),
        # A page of a busy wiki may take longer than the default of 2 s.
        *("--drain", "20s"),
        *("--seed", str(settings["seed"])),
        *(("--rate", f"{rate:g}") if rate > 0 else ()),
        *("--progress", "json"),
    ]


def fetch(port: int, path: str, host: str = HOST) -> tuple[int, str]:
    """Return status and text of a page. Raises OSError or HTTPException where there is no answer."""
    connection = http.client.HTTPConnection(host, port, timeout=PAGE_TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Accept": "text/html"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


def example(kind: PageKind, articles: int) -> str:
    """Return the address of one page of a kind."""
    query = kind.query.replace("{key}", content.article_title(0, articles).removeprefix("Article "))
    head, brace, rest = query.partition("{uniform:")
    if brace:
        low, _, tail = rest.partition(":")
        query = head + low + tail.partition("}")[2]
    return f"/index.php?{query}"


def check_page(port: int, kind: PageKind, articles: int, host: str = HOST) -> None:
    """Raise WorkloadFailedError unless a page of this kind is answered with 200 and the expected text."""
    path = example(kind, articles)
    try:
        status, text = fetch(port, path, host)
    except (OSError, http.client.HTTPException) as error:
        raise WorkloadFailedError(f"{path}: no answer: {error}") from error
    if status != http.client.OK or kind.expected not in text:
        lacks = f" without {kind.expected!r}" if status == http.client.OK else ""
        raise WorkloadFailedError(
            f"{path}: answered with status {status}{lacks}", hint="see logs/php-fpm.log"
        )
