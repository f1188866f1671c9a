"""The table of a decision from what was typed: CSV files, runs, suites, folders of runs, fleets' stores.

In: a `TableRequest`. Out: a `MachineTable`. Not here: reading files (``decide.tables``), finding runs
(``bench.runs``), querying stores (``fleet_table``).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from steelyard import records
from steelyard._base import SteelyardError, UsageError
from steelyard.bench import declaration, runs
from steelyard.bench.manifest import MANIFEST, SUITE
from steelyard.bench.suites import suite as suite_files
from steelyard.cli.decide.fleet_table import is_store, table_of_store
from steelyard.cli.decide.power import power_of
from steelyard.decide.request import TableRequest
from steelyard.decide.tables.columns import Declarations, read_declarations
from steelyard.decide.tables.delimited import read_delimited
from steelyard.decide.tables.model import MachineTable
from steelyard.decide.tables.reading import together
from steelyard.decide.tables.runs import MachineRun, table_of_runs
from steelyard.records import Machine, RunStatus
from steelyard.report.format import several

MACHINE_FILE = "machine.json"
_FILES = (".csv", ".tsv", ".toml", ".txt", ".xlsx")
"""Ends of names that are no run's."""


def table_of(request: TableRequest) -> MachineTable:
    """Return the table of all sources together. Raises UsageError for what is no source."""
    if not request.sources:
        raise UsageError("no machines", hint="give CSV files, runs, suites, folders of runs, or a store")
    declared = Declarations() if request.columns is None else read_declarations(request.columns)
    files: list[Path] = []
    found: list[MachineRun] = []
    stores: list[MachineTable] = []
    left: list[str] = []
    for text in request.sources:
        name, path = _split(text)
        if not name and is_store(text):
            if any(text.rstrip("/") == one.sources[0].rstrip("/") for one in stores):
                raise UsageError(f"{text} is given twice", hint="its figures would count twice")
            stores.append(table_of_store(text).with_attributes(declared.machines))
        elif path.is_file() and path.name not in (MANIFEST, SUITE):
            if name:
                raise UsageError(f"{text}: a file names its machines itself", hint="give its path alone")
            if any(path.samefile(one) for one in files):
                raise UsageError(f"{path} is given twice", hint="its repeats would count twice")
            files.append(path)
        else:
            check_file(path)
            found += _runs(path, name, request, left)
    tables = [*read_delimited(files, declared), *stores]
    if found:
        tables.append(table_of_runs(found, _metrics(found)).with_attributes(declared.machines))
    table = together(tables, declared)
    return table.with_notes([f"{several(len(left), 'run')} left out: {left[0]}"]) if left else table


def _runs(path: Path, name: str, request: TableRequest, left: list[str]) -> list[MachineRun]:
    """Return the runs of a source; of a folder of runs, why some cannot be read goes to ``left``."""
    found = _readable(path, name, request.runs, left)
    if request.tier is None:
        return found
    chosen = [one for one in found if one.run.tier == request.tier]
    if not chosen:
        tiers = ", ".join(sorted({one.run.tier for one in found}))
        raise UsageError(f"{path}: no run of tier {request.tier!r} in it", hint=f"there are runs of {tiers}")
    return chosen


def _readable(path: Path, name: str, out: Path, left: list[str]) -> list[MachineRun]:
    folders = _folders(path, out)
    if not _is_folder_of_runs(path):
        return [_run(folder, name) for folder in folders]
    found, before = [], len(left)
    for folder in folders:
        try:
            found.append(_run(folder, name))
        except SteelyardError as error:
            left.append(error.message)
    if not found:
        raise UsageError(f"{path}: no run in it can be read: {left[before]}", hint="give other runs")
    return found


def check_file(path: Path) -> None:
    """Raise UsageError for a name that is a file's where there is none: it is no run's."""
    if path.suffix.lower() in _FILES and not path.exists():
        raise UsageError(f"there is no file {path}", hint="look at the path and the folder you are in")


def is_one_run(text: str, out: Path) -> bool:
    """Whether a source is one run or suite: a folder of it, or an id under ``out``, as no table is."""
    path = Path(text)
    if is_store(text):
        return False
    if "=" not in text:
        check_file(path)
    if path.is_file():
        return path.name in (MANIFEST, SUITE)
    if path.is_dir():
        return any((path / name).exists() for name in (MANIFEST, SUITE))
    return "=" not in text


def _split(text: str) -> tuple[str, Path]:
    """Return the machine's name, empty where none was given, and the path."""
    name, equals, path = text.partition("=")
    return (name, Path(path)) if equals and not Path(text).exists() else ("", Path(text))


def folders_of_runs(text: str, out: Path) -> list[Path]:
    """Return the directories of the runs of a source; every run of a suite must be there.

    Raises SteelyardError for a suite that is not complete: a member would be missing.
    """
    if _is_folder_of_runs(Path(text)):
        return [folder for one in runs.outermost(Path(text)) for folder in folders_of_runs(str(one), out)]
    directory = runs.find(text, out)
    if suite_files.is_suite(directory):
        suite = suite_files.load(directory)[0]
        if suite.status is not RunStatus.COMPLETE:
            raise SteelyardError(f"{suite.suite_id}: the suite is {suite.status}: {suite.status_reason}")
    return _members(directory)


def _folders(path: Path, out: Path) -> list[Path]:
    """Return the directories of runs that a source stands for."""
    if _is_folder_of_runs(path):
        folders = [folder for one in runs.outermost(path) for folder in _members(one)]
        if not folders:
            raise UsageError(f"{path}: no runs in it", hint="give a run, a suite, or a folder of them")
        return folders
    return _members(runs.find(str(path), out))


def _is_folder_of_runs(path: Path) -> bool:
    return path.is_dir() and not any((path / name).exists() for name in (MANIFEST, SUITE))


def _members(directory: Path) -> list[Path]:
    if not suite_files.is_suite(directory):
        return [directory]
    return [folder for folder, _ in suite_files.load(directory)[1]]


def _run(folder: Path, name: str) -> MachineRun:
    run, machine = runs.load(folder), records.read(Machine, folder / MACHINE_FILE)
    return MachineRun(run, machine, name, folder, power_of(folder))


def _metrics(found: Iterable[MachineRun]) -> dict[str, str]:
    names = {one.run.benchmark for one in found}
    headlines = {name: declaration.of_run(name).headline for name in names}
    return {name: headline[0] for name, headline in headlines.items() if headline}
