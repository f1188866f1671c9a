"""How a page gets Steelyard's own styles and scripts: in the page itself, or by address from a server.

In: names of files in ``templates``. Out: the elements that bring them, and the content security policy that
allows just those. A report is one file (`InPage`), whose scripts are known by a nonce; a page of ``steelyard
serve`` names files of its server (`Linked`), and no script of it is inline.

Not here: what is drawn, and the library that draws it (``chart_library``).
"""

from __future__ import annotations

import hashlib
import secrets
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Protocol

from markupsafe import Markup

from steelyard.report import chart_library

OWN = "steelyard.report"
"""The package whose folder ``templates`` has the files of reports."""


class Assets(Protocol):
    """What brings styles and scripts into a page."""

    @property
    def policy(self) -> str:
        """The content security policy of the page, where the page itself must say it; else empty."""

    def style(self, *names: str) -> Markup:
        """Return the elements of style sheets."""

    def script(self, *names: str, flame: str = "") -> Markup:
        """Return the elements of scripts, in the order in which they run; ``flame``: of which graph."""

    def charts(self) -> chart_library.Library:
        """Return how the page gets the library that draws its charts."""


class InPage:
    """Styles and scripts inside the page; ``folder`` is where it will be, for pages that share a library."""

    def __init__(self, folder: Path | None = None) -> None:
        self.nonce = secrets.token_urlsafe(16)
        self._folder = folder

    @property
    def policy(self) -> str:
        """The policy that refuses every connection and every script without the nonce."""
        return (
            f"default-src 'none'; script-src 'nonce-{self.nonce}'; style-src 'unsafe-inline';"
            " img-src data: blob:; base-uri 'none'; form-action 'none'"
        )

    def style(self, *names: str) -> Markup:
        """Return one element with all style sheets."""
        return Markup("<style>{}</style>").format(_joined(names))

    def script(self, *names: str, flame: str = "") -> Markup:
        """Return one element with all scripts."""
        data = Markup(' data-flame="{}"').format(flame) if flame else ""
        return Markup('<script nonce="{}"{}>{}</script>').format(self.nonce, data, _joined(names))

    def charts(self) -> chart_library.Library:
        """Return the library inside the page, or beside it within `chart_library.shared`."""
        return chart_library.library(self.nonce, self._folder)


class Linked:
    """Styles and scripts by their address below ``prefix``, which changes when their content does.

    They are those of reports, and those of ``package``.
    """

    policy = ""

    def __init__(self, prefix: str, package: str = OWN) -> None:
        self._prefix = prefix
        self._package = package

    def address(self, name: str) -> str:
        """Return the address of a file."""
        return f"{self._prefix}/{name}?v={_version(name, self._package)}"

    def style(self, *names: str) -> Markup:
        """Return an element a style sheet."""
        link = Markup('<link rel="stylesheet" href="{}">')
        return Markup("").join(link.format(self.address(name)) for name in names)

    def script(self, *names: str, flame: str = "") -> Markup:
        """Return an element a script."""
        data = Markup(' data-flame="{}"').format(flame) if flame else ""
        element = Markup('<script src="{}"{}></script>')
        return Markup("").join(element.format(self.address(name), data) for name in names)

    def charts(self) -> chart_library.Library:
        """Return the library by its address."""
        address = self.address(chart_library.SCRIPT)
        element = Markup('<script src="{}"></script>').format(address)
        return chart_library.Library(element, "The charts need a script that did not arrive.")


def content(name: str, package: str = OWN) -> bytes:
    """Return one of our own files, of reports or of ``package``; KeyError for any other name."""
    if name == chart_library.SCRIPT:
        return chart_library.bundle()
    for one in dict.fromkeys((OWN, package)):
        if name in _names(one):
            return (files(one) / "templates" / name).read_bytes()
    raise KeyError(name)


@cache
def _names(package: str) -> frozenset[str]:
    templates = files(package) / "templates"
    return frozenset(entry.name for entry in templates.iterdir() if entry.name.endswith((".css", ".js")))


@cache
def _version(name: str, package: str) -> str:
    return hashlib.sha256(content(name, package)).hexdigest()[:12]


def _joined(names: tuple[str, ...]) -> Markup:
    # Our own files, not material from outside.
    return Markup("").join(Markup(content(name).decode()) for name in names)  # noqa: S704
