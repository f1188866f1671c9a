"""Moves scripts and styles out of the pages that Sphinx wrote, so that they work without inline ones.

In: the folder of the site. Out: the same pages; what stood in them is in `_static`.

Not here: pages of examples, which are one file each by design.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)
_CLASSES = {'style="display: none;"': 'class="site-hidden"', 'style="opacity: 50%"': 'class="site-half"'}


def without_inline(site: Path) -> None:
    """Rewrite every page of Sphinx."""
    for page in site.rglob("*.html"):
        if page.is_relative_to(site / "examples"):
            continue
        text = page.read_text(encoding="utf-8")
        up = "../" * (len(page.relative_to(site).parts) - 1)
        made = _INLINE.sub(lambda found, up=up: _moved(site, found, up), text)  # type: ignore[misc]
        for style, name in _CLASSES.items():
            made = made.replace(style, name)
        if made != text:
            page.write_text(made, encoding="utf-8")


def _moved(site: Path, found: re.Match[str], up: str) -> str:
    kind, text = found.groups()
    end = "js" if kind == "script" else "css"
    name = f"_static/{hashlib.sha256(text.encode()).hexdigest()[:12]}.{end}"
    (site / name).write_text(text.strip() + "\n", encoding="utf-8")
    if kind == "script":
        return f'<script src="{up}{name}"></script>'
    return f'<link rel="stylesheet" type="text/css" href="{up}{name}">'
