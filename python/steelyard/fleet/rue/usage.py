"""Resource usage effectiveness (RUE): what each configuration uses for a unit of work, summed for comparing.

In: task samples, and the label whose values are the configurations. Out: Ibis expressions (`expression`,
`assignments`, `label_keys`), and their answers as columns of codes and sums (`Observed`).

RUE = resource usage / work done. Usage is CPU-s, byte-seconds of resident memory, bytes moved to and from
storage or network; work is the job's own operations, or instructions. A sample counts for a resource only
where it has both; how many had not is kept.

Invariants: only sums leave the engine, one row for each configuration, replicate and combination of factors.
Missing is counted, never taken as 0.

Not here: comparing (``compare``), choosing strata (``strata``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from steelyard._base import ResultSaysNoError, UsageError
from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import fetch, fetch_rows, floats, integers

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

RESOURCES = ("cpu", "memory", "storage", "network")
UNITS = {"cpu": "CPU-s", "memory": "byte-s", "storage": "bytes", "network": "bytes"}
"""In which unit usage of each resource is summed."""
WORK = ("operations", "instructions")
REPLICATES = {
    "machine": ("cluster", "machine"),
    "machine-day": ("cluster", "machine", "date"),
    "task": ("cluster", "job", "task"),
    "task-day": ("cluster", "job", "task", "date"),
}
"""Columns that name one replicate: samples of one are alike, so that they do not count as many."""
LOAD = "load level"
"""The factor made of the machine's CPU utilisation, in fifths."""
PLATFORM = "platform"
"""A stratum in any case."""
FACTORS = ("job", PLATFORM, "cluster", LOAD)
"""What every task sample has beside its labels, and may be stratified by."""
NAME_PREFIX = "name"
"""The beginnings of machines' names, which often name the rack (``clusters``)."""
UNKNOWN = "(none)"
"""The level of a factor where a sample says nothing."""
LABELS_AT_MOST = 12
LOAD_LEVELS = 5
_FINITE = 1e300


@dataclass(frozen=True)
class RueSettings:
    """What is compared, and how sure one wants to be."""

    label: str
    resources: tuple[str, ...] = ("cpu",)
    work: str = "operations"
    baseline: str | None = None
    """Which value is configuration 1; by default the one with most samples."""
    jobs: tuple[str, ...] = ()
    """Only these jobs; all without any."""
    labels: tuple[str, ...] = ()
    """Keys of other labels that may be stratified by."""
    replicate: str = "machine"
    strata: tuple[str, ...] | None = None
    """Factors to stratify by; None chooses them, empty uses none."""
    split: dict[str, float] | None = None
    """The declared share of units of each configuration, in any scale."""
    confidence: float = 0.95
    power: float = 0.8
    least_effect_ratio: float = 0.01
    """The smallest difference worth a decision."""
    expected_effect_ratio: float = 0.05
    cluster_by: str | None = None
    """What replicates are alike by: ``cluster``, ``name`` or a label; None looks for it, ``none`` says that
    nothing is.
    """
    looks: str = "any"
    """``any``: decided by intervals valid however often somebody looks; ``once``: at one time fixed
    before."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.resources if name not in RESOURCES]
        if unknown or not self.resources:
            raise UsageError(f"no resource is called {', '.join(unknown)!r}", hint=", ".join(RESOURCES))
        for noun, value, known in (
            ("work", self.work, WORK),
            ("replicate", self.replicate, tuple(REPLICATES)),
            ("looks", self.looks, ("any", "once")),
        ):
            if value not in known:
                raise UsageError(f"{value!r} is no {noun}", hint=", ".join(known))
        if not 0.5 <= self.confidence < 1 or not 0.5 <= self.power < 1:
            raise UsageError("confidence and power must be from 0.5 to below 1")
        if not 0 < self.least_effect_ratio < 1 or not 0 < self.expected_effect_ratio < 1:
            raise UsageError("effects are ratios between 0 and 1, such as 0.01")
        known = (*FACTORS, *self.labels)
        for name in self.strata or ():
            if name not in known:
                raise UsageError(f"cannot stratify by {name!r}", hint=f"there are: {', '.join(known)}")
        allowed = (*self.may_group, NAME_PREFIX, "none")
        if self.cluster_by is not None and self.cluster_by not in allowed:
            raise UsageError(
                f"cannot cluster by {self.cluster_by!r}", hint=f"there are: {', '.join(allowed)}"
            )
        if self.cluster_by == NAME_PREFIX and "machine" not in REPLICATES[self.replicate]:
            raise UsageError("tasks have no machine's name", hint="--replicate machine")

    @property
    def may_group(self) -> tuple[str, ...]:
        """Factors that replicates may be alike by."""
        return ("cluster", *self.labels)


def label_keys(tasks: Any) -> Any:
    """Return the keys that any sample's labels have, as a table of one column ``key``, in order."""
    keys = tasks.select(key=tasks.labels.keys().unnest())
    # Grouped for the same reason as assignments are.
    return keys.group_by("key").agg(samples=keys.count()).select("key").order_by("key")


def _columns(settings: RueSettings) -> dict[str, str]:
    """Return the name in answers of each factor."""
    names = {"job": "job", "platform": "platform", "cluster": "cluster", LOAD: "load_level"}
    return names | {label: f"label_{at}" for at, label in enumerate(settings.labels)}


def _selected(tasks: Any, settings: RueSettings) -> Any:
    """Return the samples that have the label, with a column for the configuration and each factor."""
    rows = tasks
    if settings.jobs:
        rows = rows.filter(rows.job.isin(list(settings.jobs)))
    rows = rows.mutate(configuration=rows.labels.get(settings.label))
    rows = rows.filter(rows.configuration.notnull())
    level = (rows.machine_cpu_ratio * LOAD_LEVELS).floor().cast("int64")
    # A full machine is of the highest level, and readings a little beyond 1 are, too.
    top = LOAD_LEVELS - 1
    bounded = ibis.cases((level > top, top), (level < 0, 0), else_=level)
    named = {f"label_{at}": rows.labels.get(label) for at, label in enumerate(settings.labels)}
    return rows.mutate(load_level=bounded.cast("int64"), **named)


def expression(tasks: Any, settings: RueSettings) -> Any:
    """Return usage, work and samples of each configuration, combination of factors and replicate."""
    rows = _selected(tasks, settings)
    work = rows[settings.work].cast("float64")
    usage = {
        "cpu": rows.cpu_s,
        "memory": rows.memory_bytes * rows.window_s,
        "storage": rows.storage_bytes,
        "network": rows.network_bytes,
    }
    # NaN compares as greater than any number on every engine.
    has_work = (work >= 0) & (work < _FINITE)
    sums: dict[str, Any] = {"samples": rows.count(), "no_work": rows.count(where=~has_work.fill_null(False))}
    for name in settings.resources:
        used = usage[name]
        has_usage = (used >= 0) & (used < _FINITE)
        both = (has_work & has_usage).fill_null(False)
        sums[f"{name}_usage"] = used.sum(where=both)
        sums[f"{name}_work"] = work.sum(where=both)
        sums[f"{name}_samples"] = rows.count(where=both)
        sums[f"{name}_missing"] = rows.count(where=~has_usage.fill_null(False))
    keys = ["configuration", *_columns(settings).values()]
    keys += [name for name in REPLICATES[settings.replicate] if name not in keys]
    return rows.group_by(keys).agg(**sums).order_by(keys)


def assignments(tasks: Any, settings: RueSettings) -> Any:
    """Return which task on which machine was of which configuration and factors, each once.

    The load level is left out: a task passes through several, while it is assigned once.
    """
    rows = _selected(tasks, settings)
    keys = ["configuration", *(name for name in _columns(settings).values() if name != "load_level")]
    keys += ["machine", "task"]
    # Grouped: Ibis 12 cannot put distinct rows in order for Spark where two columns come from one.
    return rows.group_by(keys).agg(samples=rows.count()).select(keys).order_by(keys)


@dataclass(frozen=True)
class Factor:
    """The level of a factor in each row: codes into ``names``."""

    codes: Integers
    names: tuple[str, ...]


@dataclass(frozen=True)
class Observed:
    """The answer of `expression` in columns, one element a row of it."""

    configuration: Factor
    factors: dict[str, Factor]
    replicate: Integers
    samples: Integers
    usage: dict[str, Floats]
    work: dict[str, Floats]
    counted: dict[str, Integers]
    """Samples that have both work and usage, by resource."""
    no_work: int
    """Samples without a figure for work."""
    missing: dict[str, int] = field(default_factory=dict)
    """Samples without a figure for usage, by resource."""
    machine: Factor | None = None
    """Names of machines, where replicates are of one."""


@dataclass(frozen=True)
class Assigned:
    """The answer of `assignments` in columns, one element a task on a machine in a combination of factors."""

    configuration: Factor
    factors: dict[str, Factor]
    machine: Integers
    task: Integers


def observe(tasks: Any, settings: RueSettings) -> Observed:
    """Run `expression`. Raises UsageError where no sample has the label."""
    table = fetch(expression(tasks, settings))
    if not table.num_rows:
        _refuse_label(tasks, settings)
    factors = {name: _factor(table, column) for name, column in _columns(settings).items()}
    factors[LOAD] = _load_names(factors[LOAD])
    names = settings.resources
    return Observed(
        configuration=_factor(table, "configuration"),
        factors=factors,
        replicate=_combined([_factor(table, name).codes for name in REPLICATES[settings.replicate]]),
        samples=_integers(table, "samples"),
        usage={name: _floats(table, f"{name}_usage") for name in names},
        work={name: _floats(table, f"{name}_work") for name in names},
        counted={name: _integers(table, f"{name}_samples") for name in names},
        no_work=int(_integers(table, "no_work").sum()),
        missing={name: int(_integers(table, f"{name}_missing").sum()) for name in names},
        machine=_factor(table, "machine") if "machine" in REPLICATES[settings.replicate] else None,
    )


def observe_assignments(tasks: Any, settings: RueSettings) -> Assigned:
    """Run `assignments`."""
    table = fetch(assignments(tasks, settings))
    return Assigned(
        configuration=_factor(table, "configuration"),
        factors={name: _factor(table, column) for name, column in _columns(settings).items() if name != LOAD},
        machine=_combined([_factor(table, name).codes for name in ("cluster", "machine")]),
        task=_combined([_factor(table, name).codes for name in ("cluster", "job", "task")]),
    )


def other_labels(tasks: Any, label: str) -> tuple[str, ...]:
    """Return the keys of labels beside ``label``, at most `LABELS_AT_MOST`, in order."""
    keys = [row["key"] for row in fetch_rows(label_keys(tasks))]
    return tuple(key for key in keys if key != label)[:LABELS_AT_MOST]


def _refuse_label(tasks: Any, settings: RueSettings) -> None:
    keys = [row["key"] for row in fetch_rows(label_keys(tasks))]
    of = f" of {', '.join(settings.jobs)}" if settings.jobs else ""
    if not keys:
        raise ResultSaysNoError(f"no task sample{of} has labels", hint="a comparison needs samples with one")
    hint = f"labels that samples have: {', '.join(keys[:LABELS_AT_MOST])}"
    raise UsageError(f"no task sample{of} has the label {settings.label!r}", hint=hint)


def _factor(table: pa.Table, column: str) -> Factor:
    """Return a column as codes into its distinct values in order, so that codes do not hang on row order."""
    encoded = table[column].cast(pa.string()).fill_null(UNKNOWN).combine_chunks().dictionary_encode()
    names = np.array(encoded.dictionary.to_pylist(), dtype=object)
    order = np.argsort(names)
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    codes = integers(pa.chunked_array([encoded.indices]))
    return Factor(rank[codes] if len(names) else codes, tuple(str(name) for name in names[order]))


def _load_names(factor: Factor) -> Factor:
    width = 100 // LOAD_LEVELS
    names = [
        name if name == UNKNOWN else f"{int(name) * width} to {(int(name) + 1) * width} %"
        for name in factor.names
    ]
    return Factor(factor.codes, tuple(names))


def _combined(columns: Sequence[Integers]) -> Integers:
    """Return one code for each distinct combination."""
    _, code = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return np.asarray(code.reshape(-1), dtype=np.int64)


def _integers(table: pa.Table, column: str) -> Integers:
    return integers(table[column])


def _floats(table: pa.Table, column: str) -> Floats:
    """Return sums; of no samples the sum is null, which adds nothing."""
    return floats(table[column].cast(pa.float64()).fill_null(0.0))
