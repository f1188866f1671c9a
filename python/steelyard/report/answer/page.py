"""The page of an answer: one HTML file.

In: an `Answer`. Out: the page's path. The page
needs no network; names from outside (jobs, machines, functions, labels) are escaped by the template and,
inside the data, as JSON whose ``<`` cannot end a script.

    write_page(path, Answer("Top", heading, [Section("functions", "Functions", (table(...), Chart(...)))]))

Not here: what the figures are (``analyze``, ``fleet``), the terminal (``terminal``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from steelyard.report.answer import (
    Answer,
    Block,
    Chart,
    Fragment,
    Heat,
    Links,
    Notes,
    Output,
    Paragraph,
    Remarks,
    Section,
    Table,
    Tiles,
    Timeline,
)
from steelyard.report.assets import Assets, InPage
from steelyard.report.template import Site, publish, template
from steelyard.report.unmeasured import unmeasured


def write_page(path: Path, answer: Answer) -> Path:
    """Write the page to ``path``; a reader never sees half a page.

    Raises WorkloadFailedError when it cannot be written.
    """
    return publish(path, render(answer, folder=path.parent))


def render(
    answer: Answer,
    *,
    folder: Path | None = None,
    assets: Assets | None = None,
    site: Site | None = None,
    name: str = "answer.html.j2",
    more: Mapping[str, Any] | None = None,
) -> str:
    """Return the page's text, to be written into ``folder``.

    A server gives its own ``assets`` and the ``site`` that this is a page of, and may have a template of its
    own, ``name``, with ``more`` to show.
    """
    assets = assets or InPage(folder)
    # A heading without anything under it says nothing.
    sections = [
        section
        for section in answer.sections
        if section.missing or any(not _is_empty(block) for block in section.blocks)
    ]
    charts = [
        block
        for section in sections
        for block in section.blocks
        if isinstance(block, Chart | Heat | Timeline) and block.is_drawable
    ]
    ids = [chart.id for chart in charts]
    if len(set(ids)) != len(ids):
        raise ValueError(f"two charts of one page have the same id: {sorted(ids)}")
    content = {
        "title": answer.title,
        "heading": answer.heading or answer.title,
        "lines": [line for line in answer.lines if line],
        "eyebrow": answer.eyebrow,
        "up": answer.up,
        "figure": answer.figure,
        "remarks": None if answer.remarks is None else answer.remarks.items,
        "level": answer.level,
        "verdict": answer.verdict,
        "cautions": list(answer.cautions),
        "tiles": list(answer.tiles),
        "command": answer.command,
        "command_title": answer.command_title,
        "source": answer.source,
        "sections": [_section(section, assets) for section in sections],
        **(more or {}),
    }
    return template(
        name,
        content,
        {**answer.time_axis, "charts": [chart.spec() for chart in charts]},
        assets=assets,
        site=site,
    )


def _is_empty(block: Block) -> bool:
    return isinstance(block, Notes | Remarks | Tiles | Links) and not block.items


def _section(section: Section, assets: Assets) -> dict[str, Any]:
    blocks = [_block(block, assets) for block in section.blocks]
    if section.grid:
        # An odd chart at the end of a row of pairs takes the whole width.
        charts = [block for block in blocks if block["kind"] == "chart"]
        if len(charts) % 2:
            charts[-1]["wide"] = True
    return {
        "anchor": section.anchor,
        "title": section.title,
        "intro": section.intro,
        "grid": section.grid,
        "small": section.small,
        "blocks": blocks,
        "unmeasured": unmeasured(section.missing),
    }


def _block(block: Block, assets: Assets) -> dict[str, Any]:
    if isinstance(block, Table):
        return {"kind": "table", "table": block.answer_first()}
    if isinstance(block, Paragraph):
        return {"kind": "paragraph", "text": block.text, "level": block.level}
    if isinstance(block, Notes):
        return {"kind": "notes", "title": block.title, "items": block.items}
    if isinstance(block, Remarks):
        return {"kind": "cards" if block.are_cards else "remarks", "items": block.items}
    if isinstance(block, Output):
        return {"kind": "output", "title": block.title, "text": block.text}
    if isinstance(block, Tiles):
        return {"kind": "tiles", "items": block.items}
    if isinstance(block, Links):
        return {"kind": "links", "items": block.items}
    if isinstance(block, Fragment):
        # Made by our own code, which escapes what comes from outside.
        return {"kind": "fragment", "html": Markup(block.make(assets))}  # noqa: S704
    if not block.is_drawable:
        return {"kind": "absent", "title": block.title, "reason": block.missing or "nothing was recorded"}
    return {"kind": "chart", "chart": block, "wide": block.wide}
