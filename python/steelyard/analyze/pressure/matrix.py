"""The pressure point matrix: workloads by the resources that hold them back, beside what was published.

In: runs with their telemetry, limits that somebody states. Out: a `Row` for each workload: intensities of
each step of its measure phase, the worst of them by part, and where it differs from the published table and
why.

Awasthi et al. (ICPE 2015) propose such a matrix to choose machines for a tier, and to pair workloads.

Not here: running workloads, drawing the matrix, and predicting pairs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from steelyard import telemetry
from steelyard._base import SteelyardError, data_dir
from steelyard._base.documents import printed
from steelyard.analyze.conditions import observe
from steelyard.analyze.pressure.intensities import (
    Intensities,
    Pressure,
    intensities,
    over_phases,
    pressure_points,
)
from steelyard.analyze.pressure.limits import Limits, with_set
from steelyard.records import HealthResult, Level, Machine, Run

RESOURCES = {
    "cpu": ("cpu",),
    "dram": ("dram_capacity", "dram_bandwidth"),
    "disk": ("disk_latency", "disk_bandwidth"),
    "network": ("network",),
}
"""The four resources of the paper, each with its parts."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A resource that is a pressure point here and not in the paper, or the other way round."""

    resource: str
    """`cpu`, `dram`, `disk` or `network`."""
    here: bool
    """Whether it is one here."""
    why: str
    """What was seen of it here."""


@dataclass(frozen=True, slots=True)
class Row:
    """One workload. Without telemetry it has no intensities, and ``missing`` says why."""

    benchmark: str
    """Which benchmark."""
    run_id: str
    """Its run."""
    steps: Mapping[str, Intensities]
    """Each step's parts."""
    parts: Intensities | None
    """The worst step by part, None where ``missing`` says why."""
    published: tuple[str, ...] | None
    """Resources that the paper names, None for a workload that it does not have."""
    missing: str | None = None
    """Why there are no figures, None where there are."""
    objections: tuple[str, ...] = ()
    """Why the run's result is invalid: what others did on the machine is in its intensities, too."""

    @property
    @printed
    def pressure_points(self) -> tuple[str, ...]:
        """Return the resources that are pressure points here, in the paper's order."""
        if self.parts is None:
            return ()
        points = pressure_points(self.parts)
        return tuple(name for name, parts in RESOURCES.items() if any(part in points for part in parts))

    @property
    @printed
    def differences(self) -> list[Difference]:
        """Return where this row and the paper's differ; none where there is nothing to compare."""
        if self.published is None or self.parts is None:
            return []
        return [
            Difference(name, name in self.pressure_points, _evidence(self.parts, parts))
            for name, parts in RESOURCES.items()
            if (name in self.pressure_points) != (name in self.published)
        ]


@dataclass(frozen=True, slots=True)
class PressureMatrix:
    """The pressure point matrix of a suite: `steelyard characterize --suite --json`."""

    KIND: ClassVar[str] = "pressure_matrix"

    suite_id: str
    """The suite's run."""
    rows: Sequence[Row]
    """Its complete runs."""


def _evidence(worst: Intensities, parts: Sequence[str]) -> str:
    return "; ".join(_words(getattr(worst, part)) for part in parts)


def _words(pressure: Pressure) -> str:
    text = pressure.evidence or pressure.reason or "not measured"
    if pressure.ratio is not None:
        return f"{text} ({pressure.ratio * 100:.0f} % of its limit: {pressure.limit})"
    return f"{text} ({pressure.reason})" if pressure.evidence and pressure.reason else text


@cache
def published() -> dict[str, tuple[str, ...]]:
    """Return the paper's pressure points by benchmark (``data/characterization/table4.json``)."""
    document = json.loads((data_dir() / "characterization" / "table4.json").read_text())
    return {name: tuple(points) for name, points in document["pressure_points"].items()}


def row_of(
    folder: Path,
    run: Run,
    machine: Machine | None,
    *,
    health: HealthResult | None = None,
    limits: Limits | None = None,
) -> Row:
    """Return the row of one run; each step of its measure phase counts, or the phase where it has none."""
    of_paper = published().get(run.benchmark)
    spans = [(step.name, step.begin_ns, step.end_ns) for step in run.steps if step.end_ns is not None]
    if not spans:
        phases = [phase for phase in run.phases if phase.name == "measure" and phase.end_ns is not None]
        spans = [(phase.name, phase.begin_ns, phase.end_ns or 0) for phase in phases]
    if not spans:
        return Row(run.benchmark, run.run_id, {}, None, of_paper, "it has no measure phase")
    in_force = with_set(limits, run)
    try:
        with telemetry.open(folder) as recording:
            steps = {
                name: intensities(
                    observe(recording, begin_ns, end_ns, run=run, machine=machine, whole=False),
                    machine,
                    health=health,
                    limits=in_force,
                )
                for name, begin_ns, end_ns in spans
            }
    except SteelyardError as error:
        return Row(run.benchmark, run.run_id, {}, None, of_paper, error.message)
    checks = run.verdict.checks if run.verdict is not None else []
    objections = tuple(check.claim for check in checks if check.level is Level.INVALID)
    return Row(run.benchmark, run.run_id, steps, over_phases(steps), of_paper, objections=objections)
