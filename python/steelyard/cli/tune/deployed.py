"""``steelyard tune list|apply|verify|restore``: knobs of this machine, and a soft SKU on it.

In: a soft SKU's file. Out: lines or one JSON document. Not here: searching for one (``make``).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from steelyard._base import EnvironmentLacksError, ExitCode, UsageError
from steelyard.bench import undo
from steelyard.cli.output import output_console, print_json
from steelyard.cli.tune.make import entry_of
from steelyard.records.tuning import TuningLack
from steelyard.tune.changes import Write, apply_and_keep, differences
from steelyard.tune.deploy.softsku import read_softsku
from steelyard.tune.knobs import Knob, Lacking, find
from steelyard.tune.knobs.user import read_user_file
from steelyard.tune.session import alone
from steelyard.tune.trials import writes_of


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
        from steelyard.report.tune.table import knob_table

        output_console().print(knob_table(entries, lacks))
    return int(ExitCode.OK)


def _all_knobs(root: Path, user_file: Path | None) -> tuple[dict[str, Knob], list[Lacking]]:
    found, lacking = find(root)
    mine = read_user_file(user_file)[0] if user_file is not None else []
    return {one.name: one for one in [*found, *mine]}, lacking


def _writes(softsku: Path, user_file: Path | None, root: Path) -> tuple[list[Write], list[str]]:
    """Return what a soft SKU writes here, and which levels are the program's own."""
    levels = read_softsku(softsku)
    knobs, lacking = _all_knobs(root, user_file)
    missing = {one.name: one.reason for one in lacking}
    here: dict[str, str] = {}
    programs: list[str] = []
    for name, level in levels.items():
        if name in missing:
            raise EnvironmentLacksError(f"{name}: {missing[name]}", hint="nothing was changed")
        if name not in knobs:
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
    with alone():
        for line in undo.replay():
            print(f"steelyard: {line}", file=sys.stderr)
        writes, programs = _writes(softsku, user_file, root)
        apply_and_keep(writes, name="softsku")
    _tell("softsku_state", {"softsku": str(softsku), "differences": [], "programs_own": programs}, as_json)
    return int(ExitCode.OK)


def verify_softsku(softsku: Path, user_file: Path | None, root: Path, *, as_json: bool) -> int:
    """Compare the machine with a soft SKU; 1 where it differs."""
    writes, programs = _writes(softsku, user_file, root)
    found = [{"place": place, "wanted": wanted, "found": now} for place, wanted, now in differences(writes)]
    document = {"softsku": str(softsku), "differences": found, "programs_own": programs}
    _tell("softsku_state", document, as_json)
    return int(ExitCode.NO if found else ExitCode.OK)


def _tell(kind: str, document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(document, kind=kind)
        return
    for one in document["differences"]:
        print(f"{one['place']}: {one['found'] or 'cannot be read'}, not {one['wanted']}")
    if not document["differences"]:
        print("the machine has the values of the soft SKU")
    if document["programs_own"]:
        print(f"not of the machine, but of the program or its service: {', '.join(document['programs_own'])}")


def restore_all(*, as_json: bool) -> int:
    """Undo what was left behind or applied; 4 where something could not be undone."""
    lines = [*undo.replay(), *undo.undo_kept()]
    living = [f"{name} is in use by process {pid}" for name, pid in undo.pending()]
    failed = [line for line in lines if not line.startswith(undo.UNDID)]
    if as_json:
        done = [line for line in lines if line.startswith(undo.UNDID)]
        print_json({"undone": done, "failed": failed, "in_use": living}, kind="restoration")
    else:
        for line in [*lines, *living] or ["nothing to undo"]:
            print(line)
    return int(ExitCode.FAILED if failed else ExitCode.OK)
