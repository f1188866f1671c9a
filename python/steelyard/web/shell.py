"""A page of the server: an answer, or a template of this package, below the names of all pages.

In: an `Answer` or what a template shows. Out: the page's text. Not here: what pages say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from steelyard.catalog.fields import Field
from steelyard.report.answer import Answer
from steelyard.report.answer.page import render
from steelyard.report.assets import Linked
from steelyard.report.template import Site, template

PACKAGE = "steelyard.web"
_MAIN = Markup("<main>")
STATIC = "/static"
ASSETS = Linked(STATIC, PACKAGE)
PAGES = (
    ("Runs", "/runs"),
    ("Compare", "/compare"),
    ("Trends", "/trends"),
    ("Fleet", "/fleet"),
    ("Decide", "/decide"),
)


def site_of(here: str) -> Site:
    """Return what stands above the page, of which ``here`` is the part."""
    pages = tuple((name, address, address == here) for name, address in PAGES)
    return Site("/runs", pages, PACKAGE, ("web.css",), ("web.js",))


def answer_page(
    answer: Answer,
    here: str,
    *,
    form: Sequence[Field] = (),
    action: str = "",
    submit: str = "Show",
    live: str = "",
    so_far: Sequence[Any] = (),
    links: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the page of an answer, with a form before it.

    ``action`` is the address that the form asks, ``live`` one that tells of a run under way, and
    ``so_far`` what is known of its verdict; ``links`` are
    other views of the same.
    """
    more = {
        "form": list(form),
        "action": action,
        "submit": submit,
        "live": live,
        "so_far": list(so_far),
        "links": list(links),
    }
    return render(answer, assets=ASSETS, site=site_of(here), name="page.html.j2", more=more)


def in_two(title: str, here: str, make: Callable[[], str]) -> tuple[str, Callable[[], str]]:
    """Return the beginning of a page that takes time to be made, and what makes the rest.

    A browser shows the beginning at once, and has the library of charts ready when the rest arrives. What
    goes wrong later can no longer change the status.
    """
    blank: dict[str, Any] = {
        "title": title,
        "eyebrow": "",
        "heading": "",
        "lines": [],
        "job": None,
        "links": [],
    }
    beginning = template_page("message.html.j2", here, {**blank, "job": None}).partition(_MAIN)[0]
    waiting = Markup('{}<p class="reading" role="status">{}: reading its files</p>').format(_MAIN, title)

    library = str(ASSETS.charts().element)

    def rest() -> str:
        return make().partition(_MAIN)[2].replace(library, "", 1)

    return beginning + str(waiting) + library, rest


def template_page(name: str, here: str, content: Mapping[str, Any]) -> str:
    """Return a page of a template of this package."""
    return template(name, content, {"charts": []}, assets=ASSETS, site=site_of(here))
