"""What a NUMA experiment says as a whole, beside what was asked: the result that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from steelyard.experiment.numa.production import Production
from steelyard.experiment.numa.verdict import Verdict
from steelyard.records import RunStatus
from steelyard.records.experiment import Experiment, ExperimentMetric, ExperimentPlan


@dataclass(frozen=True, slots=True)
class NumaExperiment:
    """What a NUMA experiment says: `steelyard numa experiment --json`."""

    KIND: ClassVar[str] = "numa_experiment"

    experiment_id: str
    """Name of the experiment and of its folder, or of the file."""
    directory: Path | None
    """Its folder, None for figures of a file."""
    benchmark: str | None
    """Benchmark of the trials, None where they are commands."""
    metric: ExperimentMetric
    """What is compared."""
    plan: ExperimentPlan
    """What was decided before the first trial."""
    status: RunStatus
    """Status."""
    status_reason: str | None
    """Why it is incomplete, or ended early."""
    clusters: Sequence[Verdict]
    """Alone, then beside each co-runner."""
    production: Production | None
    """A fleet's finding, None where none was named."""

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        directory: Path | None,
        clusters: Sequence[Verdict],
        production: Production | None,
    ) -> NumaExperiment:
        """Return what was found in ``experiment``."""
        return cls(
            experiment_id=experiment.experiment_id,
            directory=directory,
            benchmark=experiment.benchmark,
            metric=experiment.metric,
            plan=experiment.plan,
            status=experiment.status,
            status_reason=experiment.status_reason,
            clusters=clusters,
            production=production,
        )
