"""How every page is rendered and written.

In: a template's name, and what it shows. Out: the page's text, or its path. A page is one file that needs no
network and no fonts, with a content security policy that refuses every connection. Names from outside are
escaped by the template and, inside the data, as JSON whose ``<`` cannot end a script.

Not here: what pages say, and the library that draws their charts (``chart_library``).
"""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from steelyard import __version__
from steelyard._base import replacing
from steelyard.report import format as fmt
from steelyard.report.assets import OWN, Assets
from steelyard.report.controls import without_controls
from steelyard.report.embedding import embed

PAGE = "report.html"


@dataclass(frozen=True)
class Site:
    """What stands above a page that is one of several of a server."""

    home: str
    """Address of its first page."""
    pages: tuple[tuple[str, str, bool], ...]
    """Name and address of its pages, and whether this is one of them."""
    templates: str
    """Package whose folder ``templates`` has the server's own templates, style sheets and scripts."""
    styles: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()


def page_path(path: Path) -> Path:
    """Return where a page goes: ``path`` itself, or ``report.html`` in it where it is a folder.

    >>> page_path(Path("differences.html"))
    PosixPath('differences.html')
    """
    return path / PAGE if path.is_dir() or path.suffix.lower() not in (".html", ".htm") else path


def publish(path: Path, text: str) -> Path:
    """Write a page to ``path`` so that the name never shows a part of it; return the path.

    Raises WorkloadFailedError when it cannot be written.
    """
    with replacing(path) as partial:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
    return path


def template(
    name: str,
    content: Mapping[str, Any],
    chart_data: Mapping[str, Any],
    *,
    assets: Assets,
    styles: Sequence[str] = ("tax.css", "counters.css", "answer.css"),
    scripts: Sequence[str] = (),
    site: Site | None = None,
) -> str:
    """Return the text of a page from its template, with our styles and scripts.

    ``chart_data`` is the input of the page's script, with ``charts``; ``assets`` is how the page gets styles
    and scripts, ``site`` what stands above it where it is one of several of a server.
    """
    charts = assets.charts() if chart_data["charts"] else None
    text = (
        _environment(site.templates if site else OWN)
        .get_template(name)
        .render(
            **content,
            version=__version__,
            site=site,
            policy=assets.policy,
            data=embed(chart_data),
            chart_library=charts.element if charts else "",
            charts_missing=charts.missing if charts else "",
            style=assets.style("report.css", *styles, *(site.styles if site else ())),
            script=assets.script(
                "page.js",
                "tables.js",
                "charts.js",
                "timelines.js",
                *scripts,
                "start.js",
                *(site.scripts if site else ()),
            ),
        )
    )
    return without_controls(text)


@functools.cache
def _environment(package: str) -> Environment:
    """Return the templates, each of which is compiled once a process: those of ``package``, then our own."""
    packages = dict.fromkeys((package, OWN))
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = _unbroken
    environment.filters["flags"] = _flags
    return environment


def _unbroken(text: str) -> str:
    made = fmt.unbroken(text)
    return Markup(made) if isinstance(text, Markup) else made  # noqa: S704 - it was escaped before


def _flags(text: str) -> Markup:
    """Return ``text`` with command-line flags as code, which does not break at its hyphens.

    >>> _flags("try --set a=1 <b>")
    Markup('try <code>--set a=1</code> &lt;b&gt;')
    """
    parts = re.split(r"(?<![^\s(])(--[a-z][\w-]*(?: \w+=[^\s);,]*)?)", text)
    wrapped = [
        Markup("<code>{}</code>").format(part) if part.startswith("--") else escape(part) for part in parts
    ]
    return Markup("").join(wrapped)
