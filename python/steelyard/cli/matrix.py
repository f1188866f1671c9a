"""``steelyard characterize --suite``: runs a suite, or reads one, and shows its pressure point matrix."""

import re
from pathlib import Path

from steelyard._base import ExitCode, SteelyardError, UsageError
from steelyard.analyze.pressure.limits import Limits
from steelyard.analyze.workload import read_health
from steelyard.bench import suite as suite_files
from steelyard.bench import tiers
from steelyard.bench.launch import Request, execute
from steelyard.cli.output import complain, output_console, print_json
from steelyard.cli.progress import shown
from steelyard.records import Machine, RunStatus, read

_BITS = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_BYTES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
_LIMIT = re.compile(r"(?P<part>[\w.:-]+)=(?P<number>\d+(?:\.\d+)?)(?P<unit>[A-Za-z]+)(?:/s)?")
STATED = "stated by --limit"


def limits_of(texts: list[str]) -> Limits:
    """Return stated limits: ``lo=1Gbit``, ``sda=200MB``, ``dram=20GB``; each a second. Raises UsageError."""
    dram: float | None = None
    links: dict[str, float] = {}
    disks: dict[str, float] = {}
    for text in texts:
        match = _LIMIT.fullmatch(text)
        unit = match["unit"].lower() if match is not None else ""
        if match is None or (unit not in _BITS and unit not in _BYTES) or float(match["number"]) <= 0:
            raise UsageError(
                f"--limit {text}: not a limit", hint="write INTERFACE=1Gbit, DISK=200MB or dram=20GB"
            )
        rate = float(match["number"]) * (_BITS[unit] / 8 if unit in _BITS else _BYTES[unit])
        if match["part"] == "dram":
            dram = rate
        elif unit in _BITS:
            links[match["part"]] = rate
        else:
            disks[match["part"]] = rate
    return Limits(dram_bytes_per_s=dram, network_bytes_per_s=links, disk_bytes_per_s=disks, source=STATED)


def show_matrix(name: str, tier: str | None, limits: list[str], out: Path, *, as_json: bool) -> int:
    """Run suite ``name``, or read the suite in folder ``name``, and show its matrix; return the exit code."""
    stated = limits_of(limits)
    folder = Path(name)
    code = ExitCode.OK
    if not suite_files.is_suite(folder):
        folder, code = _run(name, tier, out)
    elif tier is not None:
        raise UsageError("--tier is for a suite that is run: this one has been")
    from steelyard.analyze.pressure.matrix import row_of
    from steelyard.report.pressure_matrix import document, render

    suite, runs = suite_files.load(folder)
    rows = []
    places = {member.benchmark: at for at, member in enumerate(suite.members)}
    for directory, run in sorted(runs, key=lambda pair: places.get(pair[1].benchmark, len(places))):
        if run.status is RunStatus.COMPLETE:
            machine = _machine(directory)
            rows.append(row_of(directory, run, machine, health=read_health(directory), limits=stated))
    if as_json:
        print_json({"suite_id": suite.suite_id, **document(rows)}, kind="pressure_matrix")
    elif rows:
        output_console().print(render(rows))
    return int(code if rows else max(code, ExitCode.FAILED))


def _run(name: str, tier: str | None, out: Path) -> tuple[Path, ExitCode]:
    if name not in tiers.suites():
        raise UsageError(
            f"unknown suite {name!r}", hint=f"suites: {', '.join(tiers.suites())}, or the folder of one"
        )
    with shown() as progress:
        launched = execute(Request(name=name, tier=tier, out=out), progress=progress)
    errors = [
        *launched.refused.values(),
        *(attempt.error for attempt in launched.attempts if attempt.error is not None),
    ]
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
