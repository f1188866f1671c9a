"""``steelyard tune list|apply|verify|restore``: knobs of this machine, and a soft SKU on it.

In: a soft SKU's file. Out: lines or one JSON document. Not here: searching for one (``make``).
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steelyard import machine as machines
from steelyard._base import EnvironmentLacksError, ExitCode, UsageError
from steelyard.bench import undo
from steelyard.cli.output import complain, print_json, show_answer
from steelyard.records.tuning import TuningLack
from steelyard.report import format as fmt
from steelyard.tune.begin import entry_of
from steelyard.tune.changes import Write, apply_and_keep, differences
from steelyard.tune.deploy.softsku import read_softsku
from steelyard.tune.knobs import Knob, Lacking, find
from steelyard.tune.knobs.user import read_user_file
from steelyard.tune.session import alone
from steelyard.tune.trials import writes_of

_TYPO_RATIO = 0.85
"""How alike a name is to a knob's that is taken for a misspelt one."""


def list_knobs(root: Path, user_file: Path | None, *, as_json: bool) -> int:
    """List knobs and what is lacking."""
    knobs, lacking = _all_knobs(root, user_file)
    entries = [entry_of(knob) for knob in knobs.values()]
    lacks = [TuningLack(name=one.name, reason=one.reason) for one in lacking]
    if as_json:
        document = {
            "root": str(root),
            "knobs": [one.model_dump() for one in entries],
            "lacking": [one.model_dump() for one in lacks],
        }
        print_json(document, kind="knob_list")
    else:
        from steelyard.report.tune.knobs import knobs_answer

        show_answer(knobs_answer(entries, lacks), None)
    return int(ExitCode.OK)


def _all_knobs(root: Path, user_file: Path | None) -> tuple[dict[str, Knob], list[Lacking]]:
    found, lacking = find(root)
    mine = read_user_file(user_file)[0] if user_file is not None else []
    return {one.name: one for one in [*found, *mine]}, lacking


def _writes(levels: Mapping[str, str], user_file: Path | None, root: Path) -> tuple[list[Write], list[str]]:
    """Return what the levels of a soft SKU write here, and which of them are the program's own."""
    knobs, lacking = _all_knobs(root, user_file)
    missing = {one.name: one.reason for one in lacking}
    here: dict[str, str] = {}
    programs: list[str] = []
    for name, level in levels.items():
        if name in missing:
            raise EnvironmentLacksError(f"{name}: {missing[name]}", hint="nothing was changed")
        if name not in knobs:
            # A program's knobs have any names; one that is nearly a knob of the machine is no other's.
            close = difflib.get_close_matches(name, [*knobs, *missing], n=1, cutoff=_TYPO_RATIO)
            if close:
                raise UsageError(
                    f"unknown knob {name!r}, did you mean {close[0]}?", hint="nothing was changed"
                )
            programs.append(f"{name}={level}")
            continue
        if knobs[name].needs_reboot:
            raise UsageError(f"{name} needs a reboot: set it by hand")
        knobs[name].check(level)
        if knobs[name].section == "service":
            programs.append(f"{name}={level}")
        else:
            here[name] = level
    return writes_of(knobs, here), programs


def apply_softsku(softsku: Path, user_file: Path | None, root: Path, *, as_json: bool) -> int:
    """Set the knobs; everything is put back where one is refused."""
    wanted = read_softsku(softsku)
    other = wanted.differences(machines.snapshot(root))
    with alone(root):
        for line in undo.replay():
            print(f"steelyard: {line}", file=sys.stderr)
        writes, programs = _writes(wanted.levels, user_file, root)
        apply_and_keep(writes, name="softsku", root=root)
    _tell(softsku, [], programs, other, checked=len(wanted.levels) - len(programs), as_json=as_json)
    return int(ExitCode.OK)


def verify_softsku(softsku: Path, user_file: Path | None, root: Path, *, as_json: bool) -> int:
    """Compare the machine with a soft SKU; 1 where it differs."""
    wanted = read_softsku(softsku)
    writes, programs = _writes(wanted.levels, user_file, root)
    found = [{"place": place, "wanted": text, "found": now} for place, text, now in differences(writes)]
    other, checked = wanted.differences(machines.snapshot(root)), len(wanted.levels) - len(programs)
    _tell(softsku, found, programs, other, checked=checked, as_json=as_json)
    return int(ExitCode.NO if found or not checked else ExitCode.OK)


def _tell(
    softsku: Path,
    found: list[dict[str, Any]],
    programs: list[str],
    other: list[str],
    *,
    checked: int,
    as_json: bool,
) -> None:
    for line in other:
        print(f"steelyard: another kind of machine: {line}", file=sys.stderr)
    if as_json:
        document = {
            "softsku": str(softsku),
            "differences": found,
            "programs_own": programs,
            "other_machine": other,
        }
        print_json(document, kind="softsku_state")
        return
    for one in found:
        print(f"{one['place']}: {one['found'] or 'cannot be read'}, not {one['wanted']}")
    if not found and checked:
        print(f"the machine has the values of {fmt.several(checked, 'knob')} of the soft SKU")
    if not checked:
        print("the soft SKU has no knob of the machine")
    if programs:
        print(f"not compared, as they are a program's or unknown here: {', '.join(programs)}")


def restore_all(*, as_json: bool) -> int:
    """Undo what was left behind or applied; 4 where something could not be undone.

    A soft SKU that was applied is what a tuning under way takes for the machine as found: it stays until that
    has ended.
    """
    lines = undo.replay()
    waiting: EnvironmentLacksError | None = None
    if roots := undo.kept_roots():
        try:
            with alone(*roots):
                lines += undo.undo_kept()
        except EnvironmentLacksError as error:
            waiting = error
    living = [f"{name} is in use by process {pid}" for name, pid in undo.pending()]
    failed = [line for line in lines if not line.startswith(undo.UNDID)]
    if as_json:
        done = [line for line in lines if line.startswith(undo.UNDID)]
        print_json({"undone": done, "failed": failed, "in_use": living}, kind="restoration")
    else:
        for line in [*lines, *living] or ([] if waiting else ["nothing to undo"]):
            print(line)
    if waiting is not None:
        complain(EnvironmentLacksError(f"a soft SKU stays applied: {waiting.message}", hint=waiting.hint))
        return int(ExitCode.ENVIRONMENT)
    return int(ExitCode.FAILED if failed else ExitCode.OK)
