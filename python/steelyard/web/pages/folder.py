"""The page of a folder: of a run, a suite, an experiment or a check, as ``steelyard report`` has it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

from steelyard._base import SteelyardError
from steelyard.analyze.counters.definitions import definitions
from steelyard.analyze.profiles.tax_rules import shipped_rules
from steelyard.catalog.filters import RunFilter
from steelyard.catalog.roots import NotThereError, check_links, folder_at
from steelyard.machine.sources import machine_of
from steelyard.report.answer import Answer
from steelyard.report.folders.answers import answer_of
from steelyard.report.folders.kinds import Kind, kind_of
from steelyard.report.template import PAGE
from steelyard.web.context import Context
from steelyard.web.pages import live
from steelyard.web.pages.compare import earlier
from steelyard.web.shell import answer_page, in_two

MACHINE = "machine.html"


def page(context: Context, path: str) -> tuple[str, Callable[[], str]]:
    """Return the beginning of the page of the folder at ``path``, and what makes the rest.

    Raises NotThereError where there is none.
    """
    root = context.settings.root
    folder = folder_at(root, path)
    kind = kind_of(folder)
    if kind is None:
        raise NotThereError(f"there is no run at {path[:200]!r}")
    check_links(root, folder)
    return in_two(folder.name, "/runs", lambda: _page(context, folder, path, kind))


def prepare(context: Context) -> None:
    """Make the page of the newest run, which is most likely to be asked for next, unless it is under way.

    Before that, read the rules and definitions that any run's page needs.
    """
    with contextlib.suppress(SteelyardError):
        shipped_rules()
        definitions()
    for entry in context.index.rows(RunFilter()).entries[:1]:
        # What is wrong with it is said on its page, when it is asked for.
        with contextlib.suppress(SteelyardError, OSError, ValueError):
            folder = folder_at(context.settings.root, entry.path)
            kind = kind_of(folder)
            check_links(context.settings.root, folder)
            if kind is not None and not (kind is Kind.RUN and live.is_running(folder)):
                _page(context, folder, entry.path, kind)


def _page(context: Context, folder: Path, path: str, kind: Kind) -> str:
    if kind is Kind.RUN and live.is_running(folder):
        return live.page(context, folder, path)
    key = (path, _stamp(folder), _stamp(folder.parent))
    return context.pages.get(
        key, lambda: answer_page(answer_of(folder), "/runs", links=_links(context, folder, path, kind))
    )


def answer(context: Context, path: str) -> Answer:
    """Return the answer of the folder at ``path``."""
    folder = folder_at(context.settings.root, path)
    check_links(context.settings.root, folder)
    return answer_of(folder)


def machine_page(context: Context, *, path: str, query: Mapping[str, Sequence[str]]) -> str:
    """Return the page of the machine of a run: its inventory, and what its settings mean."""
    from steelyard.machine.checks.registry import all_rules, check
    from steelyard.report.machine.views import check_answer, machine_answer

    root = context.settings.root
    folder = folder_at(root, path)
    check_links(root, folder)
    if not any(folder.glob("machine.json")) and not any(folder.glob("*/machine.json")):
        raise NotThereError(f"{path}: there is no inventory of its machine")
    machine = machine_of(folder)
    said = machine_answer(machine)
    checked = check_answer(check(machine, all_rules()), everything=False)
    whole = Answer(
        said.title,
        said.heading,
        [*said.sections, *checked.sections],
        lines=said.lines,
        cautions=said.cautions,
        tiles=said.tiles,
        eyebrow="machine",
        source="the inventory in this folder",
    )
    return answer_page(whole, "/runs", links=[("Run", PAGE)])


def _links(context: Context, folder: Path, path: str, kind: Kind) -> list[tuple[str, str]]:
    found = []
    if (folder / "machine.json").is_file() or kind is Kind.SUITE:
        found.append(("Machine", MACHINE))
    if kind in (Kind.RUN, Kind.SUITE) and earlier(context, path) is not None:
        found.append(
            ("Compare with the one before", f"/compare?{urlencode({'run': quote(path), 'with': 'earlier'})}")
        )
    found.append(("Figures as JSON", f"/api/v1/runs/{quote(path)}"))
    return found


def _stamp(folder: Path) -> tuple[int, int]:
    try:
        status = folder.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_ino
