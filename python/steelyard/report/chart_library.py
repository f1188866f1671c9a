"""The script that draws the charts of all pages: Plotly's cartesian bundle, in each page or beside several.

In: ``plotly/`` of this package, the bundle as published and compressed, with its licence and checksum. Out:
the element that brings it into a page. By default a page holds the bundle itself (660 kB), so that one file
is the whole report; pages written within `shared` refer to one copy, which suits folders with many pages.

Not here: what is drawn (``chart``), writing pages (``html``).
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from steelyard._base import replacing

SCRIPT = "plotly-cartesian.min.js"
_shared_folder: ContextVar[Path | None] = ContextVar("shared_folder", default=None)


@dataclass(frozen=True)
class Library:
    """How a page gets the bundle: an element, and what to say where it does not arrive."""

    element: Markup
    missing: str


@contextmanager
def shared(folder: Path) -> Iterator[None]:
    """Let every page written within refer to one script in ``folder``, which is put there.

    Raises WorkloadFailedError when it cannot be written.
    """
    _place(folder)
    token = _shared_folder.set(folder)
    try:
        yield
    finally:
        _shared_folder.reset(token)


def library(nonce: str, page_folder: Path | None) -> Library:
    """Return how a page in ``page_folder`` gets the bundle: in itself, unless written within `shared`."""
    folder = _shared_folder.get()
    if folder is None or page_folder is None:
        # A type that no browser runs: the page's own script unpacks it.
        element = Markup('<script type="application/gzip" id="chart-library">{}</script>').format(_base64())
        missing = "The charts need a newer browser: Chrome 80, Firefox 113, Safari 16.4 or later."
        return Library(element, missing)
    source = quote(os.path.relpath(folder / SCRIPT, page_folder))
    element = Markup('<script nonce="{}" src="{}"></script>').format(nonce, source)
    return Library(element, f"The charts need {source}, which is not there.")


def bundle() -> bytes:
    """Return the bundle as it was published."""
    return gzip.decompress(_packed())


@cache
def _base64() -> Markup:
    return Markup(base64.b64encode(_packed()).decode("ascii"))  # noqa: S704 - letters and digits


def _packed() -> bytes:
    return (files("steelyard.report") / "plotly" / f"{SCRIPT}.gz").read_bytes()


def _place(folder: Path) -> None:
    """Put the bundle into ``folder`` unless it is there."""
    target = folder / SCRIPT
    # A gzip file ends with the length of what it holds.
    length = int.from_bytes(_packed()[-4:], "little")
    with contextlib.suppress(OSError):
        if target.is_file() and target.stat().st_size == length:
            return
    with replacing(target) as partial:
        folder.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(bundle())
