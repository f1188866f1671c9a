"""Runs and suites compared: two in full, three to eight laid over one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, unquote, urlencode

from steelyard._base import UsageError, command_text
from steelyard.analyze.run_files import PROFILES
from steelyard.catalog.comparison import comparison_of
from steelyard.catalog.filters import RunFilter
from steelyard.catalog.roots import NotThereError, check_links, folder_at
from steelyard.report.answer import Answer
from steelyard.report.folders.kinds import Kind, kind_of
from steelyard.web.context import Context
from steelyard.web.pages import waiting
from steelyard.web.pages.listing import address, moment
from steelyard.web.shell import answer_page, template_page


def page(context: Context, *, query: Mapping[str, Sequence[str]]) -> str:
    """Return the page of the runs that ``run`` names, or of one and the ``earlier`` one like it."""
    paths = [unquote(path) for path in query.get("run", ())]
    if not paths:
        said = {
            "title": "Compare",
            "eyebrow": "compare",
            "heading": "Choose runs to compare",
            "lines": ["Mark two to eight runs in the list, then press Compare."],
            "job": None,
            "links": [("Runs", "/runs")],
        }
        return template_page("message.html.j2", "/compare", said)
    if query.get("with") == ["earlier"] and len(paths) == 1:
        paths = [_earlier(context, paths[0]), *paths]
    links = [(f"{chr(ord('A') + at)} {path}", address(path)) for at, path in enumerate(paths)]
    if len(paths) == 2 and all(_has_profile(context, path) for path in paths):
        where = urlencode([("run", quote(path)) for path in paths])
        links.append(("Difference of their profiles", f"/compare/profile?{where}"))
    return answer_page(comparison_of(context, paths), "/compare", links=links)


def profile_page(context: Context, *, query: Mapping[str, Sequence[str]]) -> str:
    """Return the page of what differs between the profiles of the two runs that ``run`` names."""
    paths = [unquote(path) for path in query.get("run", ())]
    if len(paths) != 2:
        raise UsageError(f"two runs have a difference of profiles, not {len(paths)}")
    root = context.settings.root
    for path in paths:
        check_links(root, folder_at(root, path))
        if not _has_profile(context, path):
            raise NotThereError(f"there is no profile of {path[:200]!r}")
    found, waits = waiting.answered(
        context,
        ("profiles", *paths),
        "difference of profiles",
        "/compare",
        lambda _: _profiles(context, paths),
    )
    if found is None:
        return waits
    where = urlencode([("run", quote(path)) for path in paths])
    return answer_page(found, "/compare", links=[("Compare these runs", f"/compare?{where}")])


def _profiles(context: Context, paths: Sequence[str]) -> Answer:
    from steelyard.analyze.profiles.diff import diff
    from steelyard.analyze.profiles.tax_map import classify
    from steelyard.analyze.profiles.tax_rules import rules_with
    from steelyard.cli.profile.reading import ALL
    from steelyard.cli.profile.sides import side_of
    from steelyard.report.profiles.answer import diff_answer

    rules = rules_with([])
    sides = [side_of(context.settings.root / path, replace(ALL, samples=True)) for path in paths]
    are_blocks = all(side.blocks for side in sides)
    first, second = (side.blocks if are_blocks else side.runs for side in sides)
    a, b = (side.whole for side in sides)
    named_on_disk = [str(Path(context.settings.runs_name) / path) for path in paths]
    said = diff_answer(
        (a, b), ("A", "B"), (classify(a, rules), classify(b, rules)),
        diff(first, second, rules, are_blocks=are_blocks),
        command=command_text(["steelyard", "profile", "diff", *named_on_disk]), rules=rules,
    )  # fmt: skip
    named = ", ".join(f"{letter} {path}" for letter, path in zip("AB", paths, strict=True))
    return replace(said, title=named, lines=[named, *said.lines])


def _has_profile(context: Context, path: str) -> bool:
    folder = context.settings.root / path
    return kind_of(folder) is Kind.RUN and (folder / PROFILES["server"]).is_file()


def _earlier(context: Context, path: str) -> str:
    """Return the path of the run before the one at ``path`` that measured the same on the same host."""
    context.index.refresh(most_s=2)
    here = context.index.entry(path)
    if here is None:
        raise NotThereError(f"there is no run at {path[:200]!r}")
    found = earlier(context, path)
    if found is None:
        when = moment(here.begin_ns)
        raise UsageError(f"no {here.title} of this host and tier was made before {when}")
    return found


def earlier(context: Context, path: str) -> str | None:
    """Return the path of that run as far as the index knows, None where there is none."""
    here = context.index.entry(path)
    if here is None:
        return None
    asked = RunFilter(
        kind=here.kind, benchmark=here.title if here.kind == Kind.RUN else "", tier=here.tier, host=here.host,
        members=True, status="complete",
    )  # fmt: skip
    page = 1
    while True:
        rows = context.index.rows(replace(asked, page=page))
        for entry in rows.entries:
            same = entry.title == here.title and bool(entry.parent) == bool(here.parent)
            if same and (entry.begin_ns, entry.path) < (here.begin_ns, here.path):
                return entry.path
        if page >= rows.pages:
            return None
        page += 1
