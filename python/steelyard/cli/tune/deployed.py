"""``steelyard tune list|apply|verify|restore``: knobs of this machine, and a soft SKU on it.

In: a soft SKU's file. Out: lines or one JSON document. Not here: searching for one (``make``).
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from pathlib import Path

from steelyard import machine as machines
from steelyard._base import EnvironmentLacksError, ExitCode, UsageError
from steelyard.bench import undo
from steelyard.cli.output import complain, print_json, show_answer
from steelyard.records.tuning import TuningLack
from steelyard.report import format as fmt
from steelyard.tune.begin import entry_of
from steelyard.tune.changes import Write, apply_and_keep, differences
from steelyard.tune.deploy.results import KnobList, Restoration, SoftSkuState
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
        print_json(KnobList(root, entries, lacks))
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
    state = SoftSkuState(softsku, [], programs, other)
    _tell(state, checked=len(wanted.levels) - len(programs), as_json=as_json)
    return int(ExitCode.OK)


def verify_softsku(softsku: Path, user_file: Path | None, root: Path, *, as_json: bool) -> int:
    """Compare the machine with a soft SKU; 1 where it differs."""
    wanted = read_softsku(softsku)
    writes, programs = _writes(wanted.levels, user_file, root)
    found = differences(writes)
    other, checked = wanted.differences(machines.snapshot(root)), len(wanted.levels) - len(programs)
    _tell(SoftSkuState(softsku, found, programs, other), checked=checked, as_json=as_json)
    return int(ExitCode.NO if found or not checked else ExitCode.OK)


def _tell(state: SoftSkuState, *, checked: int, as_json: bool) -> None:
    for line in state.other_machine:
        print(f"steelyard: another kind of machine: {line}", file=sys.stderr)
    if as_json:
        print_json(state)
        return
    for one in state.differences:
        print(f"{one.place}: {one.found or 'cannot be read'}, not {one.wanted}")
    if not state.differences and checked:
        print(f"the machine has the values of {fmt.several(checked, 'knob')} of the soft SKU")
    if not checked:
        print("the soft SKU has no knob of the machine")
    if state.programs_own:
        print(f"not compared, as they are a program's or unknown here: {', '.join(state.programs_own)}")


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
        print_json(Restoration(done, failed, living))
    else:
        for line in [*lines, *living] or ([] if waiting else ["nothing to undo"]):
            print(line)
    if waiting is not None:
        complain(EnvironmentLacksError(f"a soft SKU stays applied: {waiting.message}", hint=waiting.hint))
        return int(ExitCode.ENVIRONMENT)
    return int(ExitCode.FAILED if failed else ExitCode.OK)
