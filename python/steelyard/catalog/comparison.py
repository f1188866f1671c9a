"""Runs or suites of a catalog compared by their paths: two in full, three to eight laid over one another.

What is known of their noise comes from other runs of the folder that measured the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from steelyard._base import SteelyardError, UsageError, command_text
from steelyard.analyze.comparison import NOISE_UNKNOWN
from steelyard.bench import runs
from steelyard.catalog.filters import RunFilter
from steelyard.catalog.folder import Catalog
from steelyard.catalog.roots import NotThereError, check_links, folder_at
from steelyard.records import Run
from steelyard.report.answer import Answer, Section
from steelyard.report.compare.folders import compare_folders
from steelyard.report.compare.several import MOST, NOISE, several_answer
from steelyard.report.folders.kinds import Kind, kind_of

_EARLIER = 12
"""Sessions that noise is known from."""


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
    command = command_text(["steelyard", "compare", *paths]) if len(paths) == 2 else ""
    if len(paths) == 2:
        whole = compare_folders(folders[0], folders[1], command=command).answer
        if Kind.SUITE in kinds:
            return whole
        over = several_answer(folders, _sessions(catalog, folders))
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
    return several_answer(folders, _sessions(catalog, folders), command=command)


def _joined(over: Answer, whole: Answer, results_of: Answer) -> list[Section]:
    """Return what differs in full, the known noise before it and the charts after the results."""
    by_anchor = {section.anchor: section for section in over.sections}
    first = [by_anchor["runs"]] if "runs" in by_anchor else []
    time = [by_anchor["time"]] if "time" in by_anchor else []
    results = [section for section in results_of.sections if section.anchor == "results"]
    rest = [section for section in whole.sections if section.anchor != "results"]
    return [*first, *results, *time, *rest]


def _sessions(catalog: Catalog, folders: Sequence[Path]) -> list[list[Run]]:
    """Return other runs like these, of which each session's are together."""
    first = runs.load(folders[0])
    own = {folder.resolve() for folder in folders}
    series = {runs.load(folder).series.id for folder in folders}
    asked = RunFilter(benchmark=first.benchmark, tier=first.tier, members=True)
    catalog.index.refresh(most_s=0.1)
    found: dict[str, list[Run]] = {}
    for entry in catalog.index.rows(asked).entries:
        folder = catalog.settings.root / entry.path
        if folder.resolve() in own:
            continue
        with contextlib.suppress(SteelyardError):
            run = runs.load(folder)
            if run.series.id not in series:
                found.setdefault(run.series.id, []).append(run)
        if len(found) == _EARLIER:
            break
    return list(found.values())
