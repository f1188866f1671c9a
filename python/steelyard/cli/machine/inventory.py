"""``steelyard machine show|diff|check``.

In: names of machines. Out: tables, or one JSON document. Not here: inventories, comparison and rules
(``machine``), drawing (``report.machine.views``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steelyard._base import ExitCode, UsageError
from steelyard._base.documents import Sides
from steelyard.cli.leftovers import is_here, put_back
from steelyard.cli.output import print_json, show_answer
from steelyard.machine.sources import LIVE, machine_of
from steelyard.records import Machine


def find(name: str, out: Path) -> Machine:
    """Return the machine of a path or ``live``, else of the run with that id, or ``latest``."""
    if name == LIVE:
        put_back()
    if name == LIVE or Path(name).exists():
        return machine_of(name)
    from steelyard.bench import runs

    try:
        return machine_of(runs.find(name, out))
    except UsageError as error:
        raise UsageError(
            f"unknown machine {name!r}: no such file, folder or run under {out}",
            hint="give live, a machine.json, a run, or a recorded tree (a folder or .tar.bz2)",
        ) from error


def show_machine(root: Path | None, *, as_json: bool) -> int:
    """Print an inventory."""
    if is_here(root):
        put_back()
    machine = machine_of(LIVE if root is None else root)
    if as_json:
        print_json(machine.model_dump(mode="json"))
    else:
        from steelyard.report.machine.views import machine_answer

        show_answer(machine_answer(machine), None)
    return int(ExitCode.OK)


def show_diff(a: str, b: str, out: Path, *, as_json: bool) -> int:
    """Print what differs between two machines; 1 when something that moves results does."""
    from steelyard.machine.compare import compare_machines

    machines = [find(name, out) for name in (a, b)]
    comparison = compare_machines(*machines)
    if as_json:
        print_json(Sides(a, b, comparison))
    else:
        from steelyard.report.machine.table import machine_line
        from steelyard.report.machine.views import diff_answer

        lines = (f"{name}: {machine_line(machine)}" for name, machine in zip((a, b), machines, strict=True))
        show_answer(diff_answer(comparison, *lines), None)
    return int(ExitCode.OK if comparison.is_same else ExitCode.NO)


def show_check(
    name: str, out: Path, *, ignore: Sequence[str], everything: bool, strict: bool, as_json: bool
) -> int:
    """Print what the rules say of a machine; 1 when one says no."""
    from steelyard.machine.checks.registry import all_rules, check
    from steelyard.machine.checks.rule import MachineCheck

    answers = check(find(name, out), all_rules(), ignore=ignore)
    says_no = any(answer.says_no(strict=strict) for answer in answers)
    if as_json:
        print_json(MachineCheck(name, not says_no, answers))
    else:
        from steelyard.report.machine.views import check_answer

        show_answer(check_answer(answers, everything=everything, strict=strict), None)
    return int(ExitCode.NO if says_no else ExitCode.OK)
