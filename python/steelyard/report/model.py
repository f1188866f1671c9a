"""Everything a report draws, read from one run directory.

In: a run directory, possibly copied from another machine. Out: `ReportData`. What cannot be read is named in
``lacking`` with the reason, so that the report of a broken run is a report of how it broke.

Not here: text and drawing.
"""

import bisect
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from steelyard import telemetry
from steelyard._base import SteelyardError, read_regular, read_tail
from steelyard.analyze import Conditions, Finding, explain
from steelyard.analyze.conditions import observe
from steelyard.analyze.facts.span import Span
from steelyard.analyze.pressure.vmstat_histograms import Histogram, vmstat_histograms
from steelyard.analyze.process_times import ProcessTime, process_times
from steelyard.analyze.profiles.figures import ReadProfile, read_profile
from steelyard.analyze.run_files import PROFILES
from steelyard.analyze.sessions import NOT_COMPARED
from steelyard.analyze.workload import (
    PressurePoint,
    observe_folder,
    pressure_points,
)
from steelyard.bench import declaration, runs
from steelyard.decide.score import Refusal, Score
from steelyard.records import (
    CacheStats,
    LoadResult,
    Machine,
    Metric,
    Phase,
    Record,
    Run,
    RunStatus,
    Telemetry,
    read,
    read_lines,
)
from steelyard.telemetry import Recording

# A folder may hold thousands of runs; the report looks for its siblings among the nearest ones only.
_SIBLINGS_AT_MOST = 200
"""Folders on each side of a run that are looked at for its repeats."""
_MANIFEST = "run.json"
_CACHE_STATS = "cache-stats"
MACHINE_LACK = "machine inventory"
"""What is lacking where there is no machine."""

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Lack:
    """Something that is not in the report, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Sibling:
    """A repeat of the same measurement: this run or another of its series."""

    run: Run
    folder: Path


@dataclass(frozen=True)
class ReportData:
    """One run, read. Times are CLOCK_MONOTONIC of the machine that ran it."""

    folder: Path
    run: Run
    machine: Machine | None
    loads: tuple[LoadResult, ...]
    cache_stats: tuple[tuple[CacheStats, ...], ...]
    metadata: Telemetry | None
    recording: Recording | None
    measure: Phase | None
    conditions: Conditions
    findings: tuple[Finding, ...]
    siblings: tuple[Sibling, ...]
    score: Score | Refusal | None
    headline: tuple[str, ...]
    lacking: tuple[Lack, ...]
    processes: Sequence[ProcessTime] = ()
    pressure: tuple[PressurePoint, ...] = ()
    histograms: tuple[Histogram, ...] = ()
    """vmstat's columns over the measure phase, of a characterization."""
    profile: ReadProfile = field(default_factory=ReadProfile)
    load_profile: ReadProfile | None = None
    """The load's, where servers and load were sampled apart."""
    logs: dict[str, str] = field(default_factory=dict)
    steps: tuple[tuple[Phase, Conditions], ...] = ()
    """Parts of the measure phase, each with what the machine did in it."""

    def close(self) -> None:
        """Free the recording's engine."""
        if self.recording is not None:
            self.recording.close()

    @property
    def complete(self) -> bool:
        """Whether the run ended with a result."""
        return self.run.status is RunStatus.COMPLETE

    @property
    def begin_ns(self) -> int:
        """When drawing begins: with the first phase that has load, else the first there is."""
        phases = self.run.phases
        shown = [phase for phase in phases if phase.name in ("warmup", "measure")] or phases
        return min((phase.begin_ns for phase in shown), default=self.run.clock.monotonic_ns)

    @property
    def end_ns(self) -> int:
        """When drawing ends: with the last phase, or the last thing that an unfinished run left."""
        ends = [phase.end_ns for phase in self.run.phases if phase.end_ns is not None]
        ends += [line.monotonic_ns for lines in self.cache_stats for line in lines[-1:]]
        ends += [row.end_ns for load in self.loads for row in load.series[-1:]]
        if self.metadata is not None and self.metadata.end_ns is not None and not self.complete:
            ends.append(self.metadata.end_ns)
        return max([*ends, self.begin_ns + 1])

    @property
    def zero_ns(self) -> int:
        """Time 0 of every chart: the beginning of the measure phase, else of the drawing."""
        return self.measure.begin_ns if self.measure else self.begin_ns


def read_run(folder: Path) -> Run:
    """Return the manifest of a run, corrected when its orchestrator is gone."""
    return runs.load(folder)


def gather(folder: Path, *, score: Score | Refusal | None = None, headline: Sequence[str] = ()) -> ReportData:
    """Read the run in ``folder``. Close ``recording`` when done.

    Raises RecordError when there is no readable manifest; everything else may be lacking.
    """
    run = read_run(folder)
    declared = declaration.of_run(run.benchmark)
    lacking: list[Lack] = []
    machine = _read(Machine, folder, "machine.json", lacking, MACHINE_LACK)
    # What a benchmark never leaves is not lacking.
    loads = _loads(folder, lacking if run.cpus.load is not None else [])
    stats = _cache_stats(folder, lacking if _CACHE_STATS in declared.leaves else [])
    recording = _open(folder, lacking)
    measure = next((phase for phase in run.phases if phase.name == "measure"), None)
    profile = _profile(folder, run, lacking)
    try:
        conditions = observe_folder(
            folder,
            run,
            recording,
            profile=profile,
            machine=machine,
            load=loads[0] if loads else None,
            cache_stats=stats[0] if stats else (),
        )
        processes = _processes(recording, measure)
        histograms = _histograms(recording, measure) if declared.describes else ()
        steps = _steps(recording, run, machine)
    except SteelyardError as error:
        lacking.append(Lack("telemetry", _reason(error, folder)))
        conditions, processes, recording, histograms, steps = Conditions(Span(0, 1)), (), None, (), ()
    if recording is not None:
        lacking += [
            Lack(f"{source.name} telemetry", source.reason or "not available on this machine")
            for source in recording.metadata.sources
            if not source.available
        ]
    if machine is not None:
        lacking += [Lack(f"machine: {name}", reason) for name, reason in sorted(machine.missing.items())]
    lacking += [
        Lack(f"metric {name}", metric.missing or "no reason was given")
        for name, metric in run.metrics.items()
        if metric.value is None
    ]
    findings = explain(conditions) if measure is not None else []
    return ReportData(
        folder=folder,
        run=run,
        machine=machine,
        loads=loads,
        cache_stats=stats,
        metadata=recording.metadata if recording else None,
        recording=recording,
        measure=measure,
        conditions=conditions,
        findings=tuple(findings),
        profile=profile,
        load_profile=_load_profile(folder),
        histograms=histograms,
        pressure=tuple(pressure_points(conditions, findings)) if measure is not None else (),
        siblings=siblings_of(folder, run),
        score=score,
        headline=tuple(headline) or headline_of(run),
        lacking=tuple(lacking),
        processes=processes,
        logs=_logs(run, folder),
        steps=steps,
    )


def _steps(
    recording: Recording | None, run: Run, machine: Machine | None
) -> tuple[tuple[Phase, Conditions], ...]:
    return tuple(
        (step, observe(recording, step.begin_ns, step.end_ns, run=run, machine=machine, whole=False))
        for step in run.steps
        if step.end_ns is not None and step.end_ns > step.begin_ns
    )


def _histograms(recording: Recording | None, measure: Phase | None) -> tuple[Histogram, ...]:
    if recording is None or measure is None or measure.end_ns is None:
        return ()
    return tuple(vmstat_histograms(recording, measure.begin_ns, measure.end_ns))


def headline_of(run: Run) -> tuple[str, ...]:
    """Return the metrics to show first: the benchmark's own choice, else the first ones of the record."""
    known = tuple(name for name in declaration.of_run(run.benchmark).headline if name in run.metrics)
    return (*known, *(name for name in _first_better(run.metrics) if name not in known))


def _first_better(metrics: dict[str, Metric]) -> tuple[str, ...]:
    """Return the first metric of which more is better, then the others in their order."""
    first = next((name for name, metric in metrics.items() if metric.better == "higher"), None)
    rest = tuple(name for name in metrics if name != first)
    return (first, *rest) if first is not None else rest


def siblings_of(folder: Path, run: Run) -> tuple[Sibling, ...]:
    """Return the repeats of ``run`` beside ``folder``, itself included, in order of their number."""
    siblings = [Sibling(run, folder)]
    own = folder.resolve()
    try:
        with os.scandir(own.parent) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
    except OSError:
        names = []
    # Names begin with the time, so that repeats stand side by side, however many runs there are.
    place = bisect.bisect_left(names, own.name)
    for name in names[max(0, place - _SIBLINGS_AT_MOST) : place + _SIBLINGS_AT_MOST + 1]:
        path = own.parent / name
        if name == own.name or not (path / _MANIFEST).is_file():
            continue
        try:
            # Most are of other series, which their text says quicker than their record.
            if run.series.id.encode() not in read_regular(path / _MANIFEST):
                continue
            other = read_run(path)
        except SteelyardError:
            continue
        if other.run_id != run.run_id and is_repeat(other, run):
            siblings.append(Sibling(other, path))
    return tuple(sorted(siblings, key=lambda sibling: (sibling.run.series.index, sibling.run.run_id)))


def is_repeat(run: Run, other: Run) -> bool:
    """Return whether two runs repeat one measurement, so that a median over both means something.

    All runs of one command, or of one suite, share a series id. Seeds and ports may differ.
    """
    return run.series.id == other.series.id and _measurement(run) == _measurement(other)


def _measurement(run: Run) -> tuple[object, ...]:
    """Return everything that is the same in all repeats of a measurement."""
    driver = run.orchestrator
    settings = {
        name: parameter.value for name, parameter in run.parameters.items() if name not in NOT_COMPARED
    }
    return (
        (run.benchmark, run.suite, run.tier, run.steelyard_version),
        (settings, run.cpus),
        (driver.hostname, driver.boot_id),
    )


def _inside(path: str) -> bool:
    """Return whether a path named by a record stays within the run's folder."""
    parts = Path(path)
    return not parts.is_absolute() and ".." not in parts.parts


def _reason(error: SteelyardError, folder: Path) -> str:
    """Return what an error says, with paths relative to the run's folder: not where that is."""
    return error.message.replace(f"{folder}/", "").replace(f"{folder}: ", "")


def _read(model: type[R], folder: Path, name: str, lacking: list[Lack], lack_name: str) -> R | None:
    try:
        return read(model, folder / name)
    except SteelyardError as error:
        lacking.append(Lack(lack_name, _reason(error, folder)))
        return None


def _loads(folder: Path, lacking: list[Lack]) -> tuple[LoadResult, ...]:
    """Return the whole result where there is one, else those of the single generators."""
    # Several generators leave load-0.json and so on; the benchmark merges them into load.json at its end.
    parts = sorted(path.name for path in folder.glob("load-*.json"))
    names = ["load.json"] if (folder / "load.json").exists() or not parts else parts
    loads = (_read(LoadResult, folder, name, lacking, "load result") for name in names)
    return tuple(load for load in loads if load is not None)


def _cache_stats(folder: Path, lacking: list[Lack]) -> tuple[tuple[CacheStats, ...], ...]:
    stats = []
    for name in sorted(path.name for path in folder.glob(f"{_CACHE_STATS}*.jsonl")) or [
        f"{_CACHE_STATS}.jsonl"
    ]:
        try:
            stats.append(tuple(read_lines(CacheStats, folder / name)))
        except SteelyardError as error:
            lacking.append(Lack("server statistics", _reason(error, folder)))
    return tuple(lines for lines in stats if lines)


def _open(folder: Path, lacking: list[Lack]) -> Recording | None:
    try:
        recording = telemetry.open(folder)
    except SteelyardError as error:
        lacking.append(Lack("telemetry", _reason(error, folder)))
        return None
    if not recording.metadata.complete:
        lacking.append(
            Lack(
                "end of the telemetry",
                "the recorder was stopped before it finished; what it flushed is shown",
            )
        )
    return recording


def _profile(folder: Path, run: Run, lacking: list[Lack]) -> ReadProfile:
    hook = run.hooks.get("profile")
    missing = hook.get("missing") if isinstance(hook, dict) else None
    profile = read_profile(folder, missing if isinstance(missing, str) else None)
    if profile.missing is not None and "profile" in run.hooks:
        lacking.append(Lack("profile", profile.missing))
    return profile


def _load_profile(folder: Path) -> ReadProfile | None:
    name = PROFILES["load"]
    return read_profile(folder, name=name) if (folder / name).is_file() else None


def _processes(recording: Recording | None, measure: Phase | None) -> Sequence[ProcessTime]:
    if recording is None or measure is None or measure.end_ns is None:
        return ()
    return process_times(recording, measure.begin_ns, measure.end_ns)


def _logs(run: Run, folder: Path, last_bytes: int = 4000) -> dict[str, str]:
    """Return the end of the log of each process that did not end well, by the process's name.

    Servers that know no other end than SIGTERM end well by it where the run came to its end. What a hook says
    itself of a recorder that gave up is not repeated.
    """
    reasons = [reason for about in run.hooks.values() if isinstance(about, dict) for reason in about.values()]
    tails = {}
    for process in run.processes:
        stopped = process.signal == signal.SIGTERM and run.status is RunStatus.COMPLETE
        if process.exit_code == 0 or stopped or process.log is None or not _inside(process.log):
            continue
        try:
            text = read_tail(folder / process.log, last_bytes).decode("utf-8", errors="replace").strip()
        except SteelyardError:
            continue
        if text and text.removeprefix("steelyard-probe: ") not in reasons:
            tails[process.name] = text
    return tails
