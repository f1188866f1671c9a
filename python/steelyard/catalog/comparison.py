"""Runs or suites of a catalog compared by their paths: two in full, three to eight laid over one another.

What is known of their noise comes from other runs of the folder that measured the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from steelyard._base import SteelyardError, UsageError, command_text
from steelyard.analyze.comparison import NOISE_UNKNOWN
from steelyard.analyze.sessions import settings_of
from steelyard.bench import runs
from steelyard.catalog.entries import Entry, day_of
from steelyard.catalog.filters import RunFilter
from steelyard.catalog.folder import Catalog
from steelyard.catalog.roots import NotThereError, check_links, folder_at
from steelyard.records import Run
from steelyard.report.answer import Answer, Section
from steelyard.report.compare.folders import compare_folders
from steelyard.report.compare.several import MOST, NOISE, several_answer
from steelyard.report.folders.kinds import Kind, kind_of
from steelyard.stats.sessions import FEWEST_SESSIONS

_EARLIER = 12
"""Sessions that noise is known from."""
_MOST_READ = 500
"""Runs that are read to find them."""
_FROM_FOLDER = (
    "Noise is known from earlier runs of this folder. The command reads the two runs alone, and says that"
    " noise is not known."
)


def comparison_of(catalog: Catalog, paths: Sequence[str]) -> Answer:
    """Return the answer of the runs or suites at ``paths``. Raises UsageError."""
    if not 2 <= len(paths) <= MOST:
        raise UsageError(f"two to {MOST} runs are compared, not {len(paths)}")
    if len(set(paths)) < len(paths):
        raise UsageError("a run is compared with others, not with itself")
    root = catalog.settings.root
    folders = [folder_at(root, path) for path in paths]
    kinds = [kind_of(folder) for folder in folders]
    for folder, path, kind in zip(folders, paths, kinds, strict=True):
        if kind not in (Kind.RUN, Kind.SUITE):
            raise NotThereError(f"there is no run or suite at {path[:200]!r}")
        check_links(root, folder)
    words = ["steelyard", "compare", *paths, "--runs", catalog.settings.runs_name]
    command = command_text(words) if len(paths) == 2 else ""
    if len(paths) == 2:
        whole = compare_folders(folders[0], folders[1], command=command).answer
        if Kind.SUITE in kinds:
            return whole
        over = several_answer(folders, _sessions(catalog, paths))
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
            lines=[*whole.lines, *over.lines, *([_FROM_FOLDER] if is_known else [])],
            cautions=cautions,
            sections=_joined(over, whole, over if is_known else whole),
        )
    return several_answer(folders, _sessions(catalog, paths), command=command)


def _joined(over: Answer, whole: Answer, results_of: Answer) -> list[Section]:
    """Return what differs in full, the known noise before it and the charts after the results."""
    by_anchor = {section.anchor: section for section in over.sections}
    first = [by_anchor["runs"]] if "runs" in by_anchor else []
    time = [by_anchor["time"]] if "time" in by_anchor else []
    results = [section for section in results_of.sections if section.anchor == "results"]
    rest = [section for section in whole.sections if section.anchor != "results"]
    return [*first, *results, *time, *rest]


def _sessions(catalog: Catalog, paths: Sequence[str]) -> list[list[Run]]:
    """Return the runs of earlier sessions like these: of the first of them that has enough."""
    catalog.index.refresh(most_s=0.1)
    entries = [entry for path in paths if (entry := catalog.index.entry(path)) is not None]
    if not entries:
        return []
    own = {entry.session for entry in entries}
    before_ns = min(entry.begin_ns for entry in entries)
    most: list[list[Run]] = []
    for like in entries:
        found = _sessions_like(catalog, like, own, before_ns)
        if len(found) > len(most):
            most = found
        if len(most) >= FEWEST_SESSIONS:
            break
    return most


def _sessions_like(catalog: Catalog, like: Entry, own: Collection[str], before_ns: int) -> list[list[Run]]:
    """Return the latest sessions before a time in which what ``like`` measured was measured there."""
    root = catalog.settings.root
    wanted = settings_of(runs.load(root / like.path))
    found: dict[str, list[Run]] = {}
    for entry in islice(_earlier(catalog, like, before_ns), _MOST_READ):
        session = entry.session
        if session in own or (len(found) == _EARLIER and session not in found):
            continue
        with contextlib.suppress(SteelyardError):
            run = runs.load(root / entry.path)
            if settings_of(run) == wanted:
                found.setdefault(session, []).append(run)
    return list(found.values())


def _earlier(catalog: Catalog, like: Entry, before_ns: int) -> Iterator[Entry]:
    """Yield the runs of a benchmark before a time on the machine of one of them, the latest first."""
    asked = RunFilter(
        benchmark=like.title, tier=like.tier, host=like.host, members=True, status="complete",
        until=day_of(before_ns),
    )  # fmt: skip
    while True:
        rows = catalog.index.rows(asked)
        for entry in rows.entries:
            if entry.begin_ns < before_ns and _is_same_machine(entry, like):
                yield entry
        if asked.page >= rows.pages:
            return
        asked = replace(asked, page=asked.page + 1)


def _is_same_machine(one: Entry, other: Entry) -> bool:
    """Return whether two runs were made on one machine, as far as host, processor and CPUs say.

    Where the host is unknown, processor and CPUs have to be known.
    """
    if one.host != other.host:
        return False
    pairs = ((one.processor, other.processor), (one.cpus, other.cpus))
    return all(left == right if left and right else bool(one.host) for left, right in pairs)
