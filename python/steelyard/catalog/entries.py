"""One line of the index: what a folder holds, as far as a list needs it.

In: a folder. Out: an `Entry`, also for a folder whose record cannot be read. Records are read by their own
models, machines as plain JSON, of which three values are needed.

Not here: keeping entries (``store``), the answer of a folder (``report.folders``).
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steelyard._base import RecordError, SteelyardError, read_regular
from steelyard.bench import declaration, runs
from steelyard.bench.health.check import FOLDER as HEALTH
from steelyard.catalog.roots import NOT_UTF8, check_links, is_utf8, listed_path, subfolders
from steelyard.records import Colocation, HealthResult, Metric, Run, RunStatus, read
from steelyard.records.experiment import Experiment
from steelyard.records.text import load_object
from steelyard.records.tuning import Tuning
from steelyard.report.folders.kinds import Kind, kind_of

UNREADABLE = "unreadable"
_MACHINE = "machine.json"
_MACHINE_BYTES = 8 << 20
_CPUS_BELOW = 1 << 31


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a folder. Times are ns since 1970; ``path`` is relative to the folder of runs."""

    path: str
    kind: str
    title: str
    """Benchmark, suite or what was tried."""
    status: str
    """``running``, ``complete``, ``incomplete`` or ``unreadable``."""
    reason: str = ""
    """Why it is not complete."""
    verdict: str = ""
    """``valid``, ``suspect``, ``invalid``; empty where nothing was judged."""
    tier: str = ""
    parent: str = ""
    """The suite's folder, empty outside of one."""
    metric: str = ""
    """Name of the main result."""
    value: float | None = None
    unit: str = ""
    begin_ns: int = 0
    host: str = ""
    processor: str = ""
    cpus: int | None = None
    kernel: str = ""
    version: str = ""
    tags: tuple[str, ...] = ()
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.rpartition("/")[2]

    @property
    def session(self) -> str:
        """What was measured in one go: its suite, or the day (UTC) of a run that is in none."""
        return self.parent or day_of(self.begin_ns)


def day_of(ns: int) -> str:
    """Return the day (UTC) of a time, as 2026-01-31."""
    return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d")


def folders(root: Path, suites: Container[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the paths of folders below ``root`` that are listed, each with that of the suite that it is in.

    ``suites`` are paths of suites that are known. Raises OSError where ``root`` cannot be read.
    """

    def inner(path: str) -> list[str]:
        try:
            return [f"{path}/{name}" for name in subfolders(root, f"{root}/{path}")]
        except OSError:
            return []

    for name in subfolders(root, str(root)):
        if name == HEALTH:
            yield from ((check, "") for machine in inner(name) for check in inner(machine))
            continue
        yield name, ""
        if name in suites or os.path.lexists(f"{root}/{name}/{Kind.SUITE.record}"):
            yield from ((member, name) for member in inner(name))


def entry_of(folder: Path, root: Path, parent: str = "") -> Entry | None:
    """Return the line of a folder; None where it holds nothing of Steelyard, or is gone.

    Whatever is wrong with one folder is its own line's reason: the others are listed.
    """
    kind = kind_of(folder)
    if kind is None:
        return None
    path = folder.relative_to(root).as_posix()
    if not is_utf8(path):
        return unreadable(listed_path(path), kind, NOT_UTF8, parent)
    try:
        check_links(root, folder)
        return _READERS[kind](folder, path, parent)
    except FileNotFoundError:
        return None
    except SteelyardError as error:
        return unreadable(path, kind, error.message.replace(f"{root}/", ""), parent)
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        return unreadable(path, kind, f"an error in Steelyard: {type(error).__name__}", parent)


def unreadable(path: str, kind: str, reason: str, parent: str) -> Entry:
    """Return the line of a folder that cannot be read."""
    return Entry(path, str(kind), path.rpartition("/")[2], UNREADABLE, reason, parent=parent)


def _run(folder: Path, path: str, parent: str) -> Entry:
    run = runs.load(folder)
    metric, found = main_result(run)
    processor, cpus, kernel = _machine(folder)
    return Entry(
        path,
        Kind.RUN.value,
        run.benchmark,
        run.status.value,
        run.status_reason or "",
        run.verdict.level.value if run.verdict is not None else "",
        run.tier,
        parent,
        metric,
        found.value if found is not None else None,
        found.unit if found is not None else "",
        run.clock.realtime_ns,
        run.orchestrator.hostname or "",
        processor,
        cpus,
        kernel,
        run.steelyard_version,
        tuple(run.tags),
        run.metrics,
    )


def main_result(run: Run) -> tuple[str, Metric | None]:
    """Return the metric that a run is scored by, else its first one that has a value."""
    declared = [name for name in declaration.of_run(run.benchmark).headline if name in run.metrics]
    names = [*declared[:1], *(name for name, metric in run.metrics.items() if metric.value is not None)]
    return (names[0], run.metrics[names[0]]) if names else ("", None)


def _suite(folder: Path, path: str, parent: str) -> Entry:
    from steelyard.bench.suites.suite import load, verdict_of

    suite, member_runs = load(folder)
    verdict = verdict_of(suite)
    score = suite.overall.score if suite.overall is not None else None
    member = next((path.parent for path in sorted(folder.glob(f"*/{_MACHINE}"))), folder)
    processor, cpus, kernel = _machine(member)
    return Entry(
        path,
        Kind.SUITE.value,
        suite.suite,
        suite.status.value,
        suite.status_reason or "",
        "" if verdict is None else verdict.value,
        suite.tier,
        parent,
        "overall" if score is not None else "",
        score,
        "1" if score is not None else "",
        suite.clock.realtime_ns,
        suite.orchestrator.hostname or "",
        processor,
        cpus,
        kernel,
        suite.steelyard_version,
        tuple(dict.fromkeys(tag for _, run in member_runs for tag in run.tags)),
    )


def _experiment(folder: Path, path: str, parent: str) -> Entry:
    from steelyard.experiment import engine

    experiment: Experiment = engine.load(folder)
    arms = ", ".join(arm.name for arm in experiment.arms[:6])
    entry = _plain(
        folder,
        path,
        Kind.EXPERIMENT,
        f"{experiment.benchmark or 'command'}: {experiment.factor} {arms}",
        experiment.status.value,
        experiment.status_reason,
        experiment.clock.realtime_ns,
        experiment.tier or "",
        experiment.steelyard_version,
    )
    return replace(entry, **_between(experiment))


def _between(experiment: Experiment) -> dict[str, Any]:
    """Return the result of an experiment of two arms: its outcome, and how much one has of the other."""
    from steelyard.experiment.answers import answers

    if experiment.status is not RunStatus.COMPLETE or len(experiment.arms) != 2:
        return {}
    answer = next(iter(answers(experiment, is_over=True)), None)
    if answer is None or answer.ratio is None:
        return {}
    metric = f"{answer.arm} over {answer.base}, {answer.outcome.value}"
    return {"metric": metric, "value": answer.ratio, "unit": "1"}


def _tuning(folder: Path, path: str, parent: str) -> Entry:
    from steelyard.tune import session

    tuning: Tuning = session.load(folder)
    knobs = ", ".join(knob.name for knob in tuning.knobs[:6])
    return _plain(
        folder,
        path,
        Kind.TUNING,
        f"{tuning.benchmark or 'command'}: {knobs}",
        tuning.status.value,
        tuning.status_reason,
        tuning.clock.realtime_ns,
        "",
        tuning.steelyard_version,
    )


def _colocation(folder: Path, path: str, parent: str) -> Entry:
    from steelyard.bench.colocation.manifest import load

    pair: Colocation = load(folder)
    first, second = pair.workloads
    entry = _plain(
        folder,
        path,
        Kind.COLOCATION,
        f"{first.name} beside {second.name}",
        pair.status.value,
        pair.status_reason,
        pair.clock.realtime_ns,
        pair.tier,
        pair.steelyard_version,
    )
    level = "" if pair.level is None else pair.level.value
    return replace(entry, verdict=level)


def _health(folder: Path, path: str, parent: str) -> Entry:
    result = read(HealthResult, folder / "health.json")
    return _plain(
        folder,
        path,
        Kind.HEALTH,
        f"health, {result.settings.mode}",
        "complete",
        None,
        result.clock.realtime_ns,
        "",
        result.tool.version,
    )


def _plain(
    folder: Path,
    path: str,
    kind: Kind,
    title: str,
    status: str,
    reason: str | None,
    begin_ns: int,
    tier: str,
    version: str,
) -> Entry:
    processor, cpus, kernel = _machine(folder)
    return Entry(
        path,
        kind.value,
        title,
        status,
        reason or "",
        tier=tier,
        begin_ns=begin_ns,
        processor=processor,
        cpus=cpus,
        kernel=kernel,
        version=version,
    )


def _machine(folder: Path) -> tuple[str, int | None, str]:
    """Return processor, CPUs and kernel of the inventory in ``folder``, as far as it has them."""
    try:
        raw = read_regular(folder / _MACHINE, at_most_bytes=_MACHINE_BYTES)
        document = load_object(raw, where=_MACHINE)
    except RecordError:
        return "", None, ""
    cpu, kernel = (_object(document, name) for name in ("cpu", "kernel"))
    model, cpus, release = cpu.get("model"), cpu.get("logical_cpus"), kernel.get("release")
    return (
        model if isinstance(model, str) else "",
        cpus if isinstance(cpus, int) and not isinstance(cpus, bool) and 0 < cpus < _CPUS_BELOW else None,
        release if isinstance(release, str) else "",
    )


def _object(document: object, name: str) -> dict[str, object]:
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


_READERS = {
    Kind.RUN: _run,
    Kind.SUITE: _suite,
    Kind.EXPERIMENT: _experiment,
    Kind.TUNING: _tuning,
    Kind.COLOCATION: _colocation,
    Kind.HEALTH: _health,
}
