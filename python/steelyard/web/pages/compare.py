"""Runs and suites compared: two in full, three to eight laid over one another."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, unquote, urlencode

from steelyard._base import SteelyardError, UsageError, command_text
from steelyard.analyze.comparison import NOISE_UNKNOWN
from steelyard.analyze.run_files import PROFILES
from steelyard.bench import runs
from steelyard.records import Run
from steelyard.report.answer import Answer, Section
from steelyard.report.compare.folders import compare_folders
from steelyard.report.compare.several import MOST, NOISE, several_answer
from steelyard.report.folders.kinds import Kind, kind_of
from steelyard.web.context import Context
from steelyard.web.index.filters import RunFilter
from steelyard.web.pages import waiting
from steelyard.web.pages.listing import address, moment
from steelyard.web.roots import NotThereError, check_links, folder_at
from steelyard.web.shell import answer_page, template_page

_EARLIER = 12
"""Sessions that noise is known from."""


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
    return answer_page(answer(context, paths), "/compare", links=links)


def answer(context: Context, paths: Sequence[str]) -> Answer:
    """Return the answer of the runs or suites at ``paths``. Raises UsageError."""
    if not 2 <= len(paths) <= MOST:
        raise UsageError(f"two to {MOST} runs are compared, not {len(paths)}")
    if len(set(paths)) < len(paths):
        raise UsageError("a run is compared with others, not with itself")
    root = context.settings.root
    folders = [folder_at(root, path) for path in paths]
    kinds = [kind_of(folder) for folder in folders]
    for folder, path, kind in zip(folders, paths, kinds, strict=True):
        if kind not in (Kind.RUN, Kind.SUITE):
            raise NotThereError(f"there is no run or suite at {path[:200]!r}")
        check_links(root, folder)
    command = command_text(["steelyard", "compare", *paths]) if len(paths) == 2 else ""
    if len(paths) == 2:
        whole = compare_folders(folders[0], folders[1], command=command).answer
        if Kind.SUITE in kinds:
            return whole
        over = several_answer(folders, _sessions(context, folders))
        is_known = any(
            column.name == NOISE
            for section in over.sections
            for shown in section.tables
            for column in shown.columns
        )
        # Earlier runs say what two runs alone do not.
        cautions = [one for one in whole.cautions if not (is_known and one == NOISE_UNKNOWN)]
        return replace(
            whole,
            heading=over.heading,
            lines=[*whole.lines, *over.lines],
            cautions=cautions,
            sections=_joined(over, whole, over if is_known else whole),
        )
    return several_answer(folders, _sessions(context, folders), command=command)


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
    said = diff_answer(
        (a, b), ("A", "B"), (classify(a, rules), classify(b, rules)),
        diff(first, second, rules, are_blocks=are_blocks),
        command=command_text(["steelyard", "profile", "diff", *paths]), rules=rules,
    )  # fmt: skip
    named = ", ".join(f"{letter} {path}" for letter, path in zip("AB", paths, strict=True))
    return replace(said, title=named, lines=[named, *said.lines])


def _has_profile(context: Context, path: str) -> bool:
    folder = context.settings.root / path
    return kind_of(folder) is Kind.RUN and (folder / PROFILES["server"]).is_file()


def _joined(over: Answer, whole: Answer, results_of: Answer) -> list[Section]:
    """Return what differs in full, the known noise before it and the charts after the results."""
    by_anchor = {section.anchor: section for section in over.sections}
    first = [by_anchor["runs"]] if "runs" in by_anchor else []
    time = [by_anchor["time"]] if "time" in by_anchor else []
    results = [section for section in results_of.sections if section.anchor == "results"]
    rest = [section for section in whole.sections if section.anchor != "results"]
    return [*first, *results, *time, *rest]


def _sessions(context: Context, folders: Sequence[Path]) -> list[list[Run]]:
    """Return other runs like these, of which each session's are together."""
    first = runs.load(folders[0])
    own = {folder.resolve() for folder in folders}
    series = {runs.load(folder).series.id for folder in folders}
    asked = RunFilter(benchmark=first.benchmark, tier=first.tier, members=True)
    context.index.refresh(most_s=0.1)
    found: dict[str, list[Run]] = {}
    for entry in context.index.rows(asked).entries:
        folder = context.settings.root / entry.path
        if folder.resolve() in own:
            continue
        with contextlib.suppress(SteelyardError):
            run = runs.load(folder)
            if run.series.id not in series:
                found.setdefault(run.series.id, []).append(run)
        if len(found) == _EARLIER:
            break
    return list(found.values())


def _earlier(context: Context, path: str) -> str:
    """Return the path of the run before the one at ``path`` that measured the same on the same host."""
    context.index.refresh(most_s=2)
    here = context.index.entry(path)
    if here is None:
        raise NotThereError(f"there is no run at {path[:200]!r}")
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
            when = moment(here.begin_ns)
            raise UsageError(f"no {here.title} of this host and tier was made before {when}")
        page += 1
