"""How every page is rendered and written.

In: a template's name, and what it shows. Out: the page's text, or its path. A page is one file that needs no
network and no fonts, with a content security policy that refuses every connection. Names from outside are
escaped by the template and, inside the data, as JSON whose ``<`` cannot end a script.

Not here: what pages say, and the library that draws their charts (``chart_library``).
"""

import functools
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from steelyard import __version__
from steelyard._base import replacing
from steelyard.report import chart_library
from steelyard.report.controls import without_controls
from steelyard.report.embedding import embed

PAGE = "report.html"


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
    folder: Path | None = None,
    nonce: str | None = None,
    styles: Sequence[str] = ("tax.css", "counters.css", "answer.css"),
    scripts: Sequence[str] = (),
) -> str:
    """Return the text of a page from its template, with our styles and scripts in it.

    ``chart_data`` is the input of the page's script, with ``charts``; ``folder`` is where the page will be,
    for pages that share the script of their charts. ``nonce`` is what the page's scripts are known by; a part
    that brings its own script must have the same.
    """
    nonce = nonce or secrets.token_urlsafe(16)
    charts = chart_library.library(nonce, folder) if chart_data["charts"] else None
    environment = _environment()
    text = environment.get_template(name).render(
        **content,
        version=__version__,
        nonce=nonce,
        data=embed(chart_data),
        chart_library=charts.element if charts else "",
        charts_missing=charts.missing if charts else "",
        style=Markup("").join(_verbatim(file) for file in ("report.css", *styles)),
        script=Markup("").join(
            _verbatim(file)
            for file in ("page.js", "tables.js", "charts.js", "timelines.js", *scripts, "start.js")
        ),
    )
    return without_controls(text)


@functools.cache
def _environment() -> Environment:
    """Return the templates, each of which is compiled once a process."""
    environment = Environment(
        loader=PackageLoader("steelyard.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["flags"] = _flags
    return environment


def _verbatim(name: str) -> Markup:
    # Our own files, not material from outside.
    source, _, _ = _environment().loader.get_source(_environment(), name)  # type: ignore[union-attr]
    return Markup(source)  # noqa: S704


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
