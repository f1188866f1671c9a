"""Baseline machines: results that others are put in proportion to, with where they come from.

In: files ``data/baselines/*.json``. Out: ``Baseline`` records. ``build`` makes one from runs, so that no
figure is ever typed by hand.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from steelyard import records
from steelyard._base import SteelyardError, UsageError, data_dir, users_dir
from steelyard.analyze.sessions import NOT_COMPARED
from steelyard.records import Level, Machine, Parameter, Run, RunStatus
from steelyard.records.values import Count, Value
from steelyard.stats.intervals import RATIO_COUNT, median_interval

DEFAULT = "default"
"""Name of the baseline that is used by default, when there are several."""


class MachineSummary(Value):
    """What a reader must know of a baseline's machine; nothing that names its owner."""

    cpu_model: str | None = Field(default=None, description="Model name of the processor")
    architecture: str | None = Field(default=None, description="Instruction set")
    sockets: Count | None = Field(default=None, description="Sockets")
    cores: Count | None = Field(default=None, description="Physical cores")
    logical_cpus: Count = Field(description="Logical CPUs online")
    usable_cpus: Count = Field(description="Logical CPUs that the run could use")
    memory_bytes: Count = Field(description="Memory")
    numa_nodes: Count = Field(description="NUMA nodes")
    hypervisor: str | None = Field(default=None, description="Hypervisor, null on bare metal")
    kernel: str | None = Field(default=None, description="Major and minor version of the kernel")
    distribution: str | None = Field(default=None, description="Distribution")


class BaselineResult(Value):
    """What one benchmark gave on the machine."""

    benchmark: str = Field(description="Which benchmark")
    tier: str = Field(description="In which tier")
    metric: str = Field(description="Which metric is compared")
    unit: str = Field(description="Its unit")
    better: str = Field(description="`higher` or `lower`", pattern="^(higher|lower)$")
    value: float = Field(description="Median over the repeats", gt=0)
    low: float | None = Field(default=None, description="Lower end of the interval for the median")
    high: float | None = Field(default=None, description="Upper end of the interval for the median")
    coverage: float = Field(description="Coverage of low to high; where they are null, of the whole range")
    spread_ratio: float = Field(description="Largest minus smallest, over the median", ge=0)
    values: list[float] = Field(description="Every repeat, in order", min_length=1)
    verdicts: list[Level] = Field(description="Verdict of every repeat, in order")
    parameters: dict[str, Parameter] = Field(description="Settings by name")
    parts: dict[str, float] = Field(
        default_factory=dict, description="Median of each metric that is a part of the result, by its name"
    )
    date: dt.date | None = Field(default=None, description="When, if not when the baseline says")
    provenance: str | None = Field(default=None, description="How it was made, if not as the baseline says")


class Baseline(records.Record):
    """A machine that results are put in proportion to."""

    KIND: ClassVar[str] = "baseline"

    name: str = Field(description="How users name it", pattern=r"^[a-z0-9][a-z0-9.-]*$")
    title: str = Field(description="How a report names it")
    provenance: str = Field(description="How the figures were made")
    date: dt.date = Field(description="When")
    steelyard_version: str = Field(description="By which Steelyard")
    machine: MachineSummary
    results: list[BaselineResult]

    def result(self, benchmark: str, tier: str) -> BaselineResult | None:
        """Return the result of ``benchmark`` in ``tier``, ``None`` where there is none."""
        matching = (result for result in self.results if (result.benchmark, result.tier) == (benchmark, tier))
        return next(matching, None)


def load_baselines(folder: Path | None = None) -> dict[str, Baseline]:
    """Return the baselines in ``folder`` (``data/baselines`` unless given) by name; none is no error.

    Raises RecordError for a file that is no baseline, and UsageError where two have one name.
    """
    folder = folder or data_dir() / "baselines"
    baselines: dict[str, Baseline] = {}
    for path in sorted(folder.glob("*.json")):
        baseline = records.read(Baseline, path)
        if baseline.name in baselines:
            raise UsageError(f"{path}: there are two baselines called {baseline.name!r}")
        baselines[baseline.name] = baseline
    return baselines


def find_baseline(
    name: str | None = None,
    folder: Path | None = None,
    *,
    benchmarks: Iterable[str] = (),
    brought: Iterable[Path] = (),
) -> Baseline | None:
    """Return the baseline called ``name``, from ``folder`` or ``brought``, the folders of benchmarks.

    Without a name it is the first with results of all ``benchmarks``, ``default`` before others, and those
    of ``folder`` before those brought; else ``default``, or the first, or ``None``. A name that is taken in
    ``folder`` stays so. Raises UsageError, which lists the valid names, for a name that none has.
    """
    known: dict[str, Baseline] = {}
    for baselines in (load_baselines(folder), *map(load_baselines, brought)):
        known |= {key: baseline for key, baseline in baselines.items() if key not in known}
    if name is None:
        order = sorted(known.values(), key=lambda baseline: baseline.name != DEFAULT)
        needed = set(benchmarks)
        complete = (
            baseline for baseline in order if needed <= {result.benchmark for result in baseline.results}
        )
        return next(complete, next(iter(order), None))
    if name not in known:
        hint = f"baselines: {', '.join(known)}" if known else "none is shipped in data/baselines"
        raise UsageError(f"unknown baseline {name!r}", hint=hint)
    return known[name]


def summarise(machine: Machine) -> MachineSummary:
    """Return what of ``machine`` goes into a baseline."""
    release = machine.kernel.release
    return MachineSummary(
        cpu_model=machine.cpu.model,
        architecture=machine.cpu.architecture,
        sockets=machine.cpu.sockets,
        cores=machine.cpu.cores,
        logical_cpus=machine.cpu.logical_cpus,
        usable_cpus=machine.cpu.usable_cpus,
        memory_bytes=machine.memory.total_bytes,
        numa_nodes=len(machine.numa_nodes),
        hypervisor=machine.hypervisor,
        kernel=".".join(release.split("-")[0].split(".")[:2]) if release else None,
        distribution=machine.distribution,
    )


def build(
    runs: Sequence[tuple[Run, Machine]],
    *,
    name: str,
    title: str,
    provenance: str,
    metrics: Mapping[str, str],
    parts: Mapping[str, Sequence[str]] | None = None,
    allow_suspect: bool = False,
) -> Baseline:
    """Return the baseline that ``runs``, all on one machine, make.

    ``metrics`` names the metric of each benchmark, ``parts`` those that are its parts.

    Raises SteelyardError where a run is not fit: incomplete, invalid, suspect unless ``allow_suspect``, or
    unlike the others in machine, version or parameters.
    """
    if not runs:
        raise UsageError("a baseline needs at least one run")
    summaries = [summarise(machine) for _, machine in runs]
    if any(summary != summaries[0] for summary in summaries):
        raise SteelyardError(
            "the runs are of different machines", hint="use runs of one machine and one boot"
        )
    versions = sorted({run.steelyard_version for run, _ in runs})
    if len(versions) > 1:
        raise SteelyardError(f"the runs are by different versions of Steelyard: {', '.join(versions)}")
    for run, _ in runs:
        _check_fit(run, allow_suspect)
    groups: dict[tuple[str, str], list[Run]] = {}
    for run, _ in runs:
        groups.setdefault((run.benchmark, run.tier), []).append(run)
    last_ns = max(run.clock.realtime_ns for run, _ in runs)
    return Baseline(
        name=name,
        title=title,
        provenance=provenance,
        date=dt.datetime.fromtimestamp(last_ns / 1e9, tz=dt.UTC).date(),
        steelyard_version=versions[0],
        machine=summaries[0],
        results=[
            _result(members, metrics[benchmark], (parts or {}).get(benchmark, ()))
            for (benchmark, _), members in groups.items()
        ],
    )


def difference(ours: Mapping[str, Parameter], theirs: Mapping[str, Parameter]) -> str | None:
    """Return in which parameter two runs differ so that they must not be compared, ``None`` for none.

    A number may differ where the machine's own size decided it on both sides: that is the machine being
    weighed. A word, such as the popularity of keys, may not.
    """
    for name in sorted((ours.keys() | theirs.keys()) - set(NOT_COMPARED)):
        here, there = ours.get(name), theirs.get(name)
        if here is None or there is None:
            return f"only one of the two has the parameter {name}"
        sized = here.source == there.source == "machine" and isinstance(here.value, int | float)
        if here.value != there.value and not sized:
            return f"parameter {name} is {here.value} ({here.source}) and {there.value} ({there.source})"
    return None


def _check_fit(run: Run, allow_suspect: bool) -> None:
    if run.status is not RunStatus.COMPLETE or run.verdict is None:
        reason = run.status_reason or "no reason given"
        raise SteelyardError(f"{run.run_id}: the run is {run.status}: {reason}", hint="run it again")
    reasons = "; ".join(check.claim for check in run.verdict.reasons) or "no check has a reason"
    if run.verdict.level is Level.INVALID:
        raise SteelyardError(f"{run.run_id}: the result is invalid: {reasons}", hint="run it again")
    if run.verdict.level is Level.SUSPECT and not allow_suspect:
        raise SteelyardError(
            f"{run.run_id}: the result is suspect: {reasons}",
            hint="run it on a quiet machine, or allow it: the baseline records it",
        )


def _result(runs: Sequence[Run], metric: str, parts: Sequence[str]) -> BaselineResult:
    first = runs[0]
    values = []
    for run in runs:
        different = difference(run.parameters, first.parameters)
        if different:
            raise SteelyardError(f"{run.run_id} and {first.run_id} differ: {different}")
        measured = run.metrics.get(metric)
        if measured is None or measured.value is None:
            why = measured.missing if measured else "there is no such metric"
            raise SteelyardError(f"{run.run_id}: {metric}: {why}")
        values.append(measured.value)
    interval = median_interval(values, in_order=True)
    return BaselineResult(
        benchmark=first.benchmark,
        tier=first.tier,
        metric=metric,
        unit=first.metrics[metric].unit,
        better=first.metrics[metric].better or "higher",
        value=interval.median,
        low=interval.low,
        high=interval.high,
        coverage=interval.coverage,
        spread_ratio=(interval.highest - interval.lowest) / interval.median,
        values=values,
        verdicts=[run.verdict.level for run in runs if run.verdict],
        parameters=first.parameters,
        parts=medians(runs, parts),
    )


def medians(runs: Sequence[Run], names: Iterable[str]) -> dict[str, float]:
    """Return the median over ``runs`` of each of the metrics ``names`` that all of them have."""
    median_by_name = {}
    for name in names:
        metrics = [run.metrics.get(name) for run in runs]
        values = [metric.value for metric in metrics if metric is not None and metric.value is not None]
        if len(values) == len(runs):
            median_by_name[name] = median_interval(values).median
    return median_by_name


def check_counts(baseline: Baseline) -> None:
    """Raise SteelyardError when a result rests on too few runs for any score to have an interval."""
    for one in baseline.results:
        if len(one.values) < RATIO_COUNT:
            raise SteelyardError(
                f"{one.benchmark} {one.tier} has {len(one.values)} runs: {RATIO_COUNT} give an interval",
                hint=f"run it with --repeat {RATIO_COUNT}, or allow it with --allow-few",
            )


def summary(baseline: Baseline) -> list[str]:
    """Return a line for each result: median, runs, spread, suspect runs."""
    return [
        f"{one.benchmark} {one.tier}: {one.metric} {one.value:.6g} {one.unit}, {len(one.values)} runs,"
        f" spread {one.spread_ratio:.1%}, {sum(level is Level.SUSPECT for level in one.verdicts)} suspect"
        for one in baseline.results
    ]


def with_others(new: Baseline, old: Baseline) -> Baseline:
    """Return ``new`` with the results of ``old`` that it has not; they keep when and how they were made.

    Raises SteelyardError when the two are not of one machine and one version of Steelyard.
    """
    # A kernel sets aside a little more or less at each boot.
    boot = {"memory_bytes": old.machine.memory_bytes}
    same_memory = abs(new.machine.memory_bytes / old.machine.memory_bytes - 1) < 0.01
    same = new.machine.model_copy(update=boot) == old.machine and same_memory
    if not same or new.steelyard_version != old.steelyard_version:
        raise SteelyardError(f"{old.name} is of another machine or by another version of Steelyard")
    made = {(one.benchmark, one.tier) for one in new.results}
    kept = [
        one.model_copy(update={"date": one.date or old.date, "provenance": one.provenance or old.provenance})
        for one in old.results
        if (one.benchmark, one.tier) not in made
    ]
    return new.model_copy(update={"results": [*kept, *new.results]})


def users_baselines() -> Path:
    """Return the folder of the user's own baselines, which `--baseline` knows beside those of Steelyard."""
    return users_dir("XDG_DATA_HOME", ".local/share") / "steelyard" / "baselines"
