"""``steelyard characterize --suite``: runs a suite, or reads one, and shows its pressure point matrix."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import ExitCode, SteelyardError, UsageError, parse_rate
from steelyard.analyze.pressure.limits import Limits, with_set
from steelyard.analyze.workload import read_health
from steelyard.bench import tiers
from steelyard.bench.launch import Request, execute
from steelyard.bench.parameters import parse_assignments
from steelyard.bench.suites import suite as suite_files
from steelyard.cli.output import complain, page_of, print_json, show_answer
from steelyard.cli.progress import shown
from steelyard.cli.run.make import errors_of
from steelyard.cli.run.preflight import announce
from steelyard.records import Machine, Run, RunStatus, read

if TYPE_CHECKING:
    from steelyard.analyze.pressure.matrix import Row
    from steelyard.analyze.pressure.panels import Panels

STATED = "stated by --limit"


def _parsed(flag: str, texts: list[str]) -> list[tuple[str, str, float, bool]]:
    """Return part, text of the rate, bytes per second and whether it counts bits; raises UsageError."""
    parsed = []
    for text in texts:
        part, _, written = text.partition("=")
        rate = parse_rate(written) if re.fullmatch(r"[\w.:-]+", part) else None
        if rate is None:
            raise UsageError(
                f"{flag} {text}: not a limit", hint="write INTERFACE=1Gbit, DISK=200MB or dram=20GB"
            )
        parsed.append((part, written, *rate))
    return parsed


def limits_of(texts: list[str]) -> Limits:
    """Return stated limits: ``lo=1Gbit``, ``sda=200MB``, ``dram=20GB``; each a second. Raises UsageError."""
    dram: float | None = None
    links: dict[str, float] = {}
    disks: dict[str, float] = {}
    for part, _, rate, in_bits in _parsed("--limit", texts):
        if part == "dram":
            dram = rate
        elif in_bits:
            links[part] = rate
        else:
            disks[part] = rate
    return Limits(dram_bytes_per_s=dram, network_bytes_per_s=links, disk_bytes_per_s=disks, source=STATED)


def hooks_of(texts: list[str]) -> list[str]:
    """Return the hooks that set limits for a run, as ``--hook`` names them. Raises UsageError."""
    hooks: dict[str, str] = {}
    for part, written, _, in_bits in _parsed("--set-limit", texts):
        if part == "dram":
            raise UsageError(
                "--set-limit dram: memory bandwidth cannot be limited", hint="state it with --limit"
            )
        name, noun = ("network-limit", "interface") if in_bits else ("disk-limit", "device")
        if name in hooks:
            raise UsageError(f"--set-limit {part}: one {noun} is limited already")
        hooks[name] = f"{name}:{noun}={part},rate={written}"
    return list(hooks.values())


def show_matrix(
    name: str,
    tier: str | None,
    limits: list[str],
    set_limits: list[str],
    settings: list[str],
    out: Path,
    *,
    report: Path | None,
    as_json: bool,
) -> int:
    """Run suite ``name``, or read the suite in folder ``name``, and show its matrix; return the exit code."""
    stated = limits_of(limits)
    hooks = hooks_of(set_limits)
    twice = {text.partition("=")[0] for text in limits} & {text.partition("=")[0] for text in set_limits}
    if twice:
        raise UsageError(f"{min(twice)} has both --limit and --set-limit", hint="a limit that is set counts")
    folder = Path(name)
    code = ExitCode.OK
    if not suite_files.is_suite(folder):
        folder, code = _run(name, tier, parse_assignments(settings), hooks, out)
    elif tier is not None or hooks or settings:
        flag = "--tier" if tier is not None else "--set-limit" if hooks else "--set"
        raise UsageError(f"{flag} is for a suite that is run: this one has been")
    from steelyard.analyze.pressure.matrix import row_of
    from steelyard.report.pressure.answer import answer
    from steelyard.report.pressure.document import document
    from steelyard.report.template import page_path

    suite, runs = suite_files.load(folder)
    rows, found = [], []
    places = {member.benchmark: at for at, member in enumerate(suite.members)}
    for directory, run in sorted(runs, key=lambda pair: places.get(pair[1].benchmark, len(places))):
        if run.status is RunStatus.COMPLETE:
            machine = _machine(directory)
            rows.append(row_of(directory, run, machine, health=read_health(directory), limits=stated))
            found.append((directory, run, machine))
    panels = _panels(rows, found, stated) if report is not None else []
    said = answer(suite.suite_id, rows, panels, command=["steelyard", *sys.argv[1:]])
    page = page_path(report) if report is not None and rows else None
    if as_json:
        page_of(said, page)
        print_json(
            {"suite_id": suite.suite_id, **document(rows), "report": None if page is None else str(page)},
            kind="pressure_matrix",
        )
    elif rows:
        show_answer(said, page)
    if not rows:
        return int(max(code, ExitCode.FAILED))
    return int(max(code, ExitCode(int(said.says_no))))


def _panels(
    rows: "Sequence[Row]", found: "Sequence[tuple[Path, Run, Machine | None]]", stated: Limits
) -> "list[Panels]":
    from steelyard.analyze.pressure.panels import panels_of

    return [
        panels_of(directory, run, machine, health=read_health(directory), limits=with_set(stated, run))
        for _, (directory, run, machine) in zip(rows, found, strict=True)
    ]


def _run(
    name: str, tier: str | None, chosen: dict[str, str], hooks: list[str], out: Path
) -> tuple[Path, ExitCode]:
    if name not in tiers.suites():
        raise UsageError(
            f"unknown suite {name!r}", hint=f"suites: {', '.join(tiers.suites())}, or the folder of one"
        )
    request = Request(name=name, tier=tier, chosen=chosen, hooks=hooks, out=out)
    with shown() as progress:
        launched = execute(
            request, progress=progress, planned=lambda plans: announce(request, plans, progress)
        )
    errors = errors_of(launched)
    for error in errors:
        complain(error)
    if launched.suite is None:
        raise AssertionError("a suite has a folder")
    return launched.suite, max((error.exit_code for error in errors), default=ExitCode.OK)


def _machine(directory: Path) -> Machine | None:
    try:
        return read(Machine, directory / "machine.json")
    except SteelyardError:
        return None
