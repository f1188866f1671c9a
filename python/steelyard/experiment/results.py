"""What an experiment says as a whole, and what one that is planned needs, beside what was asked.

In: the record of an experiment, and what ``answers``, ``response`` and ``power`` find in it. Out: the results
that ``--json`` prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from steelyard._base.documents import INLINE
from steelyard.experiment.outcomes import ArmAnswer
from steelyard.experiment.power import Forecast
from steelyard.experiment.response import Response
from steelyard.records import RunStatus
from steelyard.records.experiment import Experiment, ExperimentMetric, ExperimentPlan


@dataclass(frozen=True, slots=True)
class ExperimentNeeds:
    """What `steelyard experiment --plan --json` and `--pilot N --json` print."""

    KIND: ClassVar[str] = "experiment_plan"

    directory: Path | None
    """Folder of the pilot, None without one."""
    benchmark: str | None
    """Benchmark of the trials, None where they are commands."""
    factor: str
    """What differs between the arms."""
    arms: list[str]
    """Their names; the first is the base."""
    metric: ExperimentMetric
    """What is compared."""
    plan: ExperimentPlan
    """What is decided before the first trial."""
    forecast: Forecast = field(metadata=INLINE)

    @classmethod
    def of(cls, experiment: Experiment, forecast: Forecast, directory: Path | None) -> ExperimentNeeds:
        """Return what ``experiment`` needs by ``forecast``."""
        return cls(
            directory=directory,
            benchmark=experiment.benchmark,
            factor=experiment.factor,
            arms=[arm.name for arm in experiment.arms],
            metric=experiment.metric,
            plan=experiment.plan,
            forecast=forecast,
        )


@dataclass(frozen=True, slots=True)
class ExperimentAnswer:
    """What an experiment says: `steelyard experiment --json`."""

    KIND: ClassVar[str] = "experiment_answer"

    experiment_id: str | None
    """Name of the experiment and of its folder, None where it was measured elsewhere."""
    directory: Path | None
    """Its folder, which holds experiment.json, None where it was measured elsewhere."""
    benchmark: str | None
    """Benchmark of the trials, None where they are commands."""
    factor: str
    """What differs between the arms."""
    metric: ExperimentMetric
    """What is compared."""
    plan: ExperimentPlan
    """What was decided before the first trial."""
    status: RunStatus
    """Status."""
    status_reason: str | None
    """Why it is incomplete, or ended early."""
    base: str
    """The arm that the others are compared with."""
    answers: Sequence[ArmAnswer]
    """One for each arm after the base."""
    response: Response | None
    """The curve, None where the arms are not at least three numbers."""
    by_factor: Mapping[str, Sequence[ArmAnswer]]
    """Levels of each factor beside its first, over all levels of the others; empty without combinations of
    factors."""

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        directory: Path | None,
        answers: Sequence[ArmAnswer],
        response: Response | None,
        by_factor: Mapping[str, Sequence[ArmAnswer]],
    ) -> ExperimentAnswer:
        """Return what was found in ``experiment``."""
        return cls(
            experiment_id=experiment.experiment_id or None,
            directory=directory,
            benchmark=experiment.benchmark,
            factor=experiment.factor,
            metric=experiment.metric,
            plan=experiment.plan,
            status=experiment.status,
            status_reason=experiment.status_reason,
            base=experiment.arms[0].name,
            answers=answers,
            response=response,
            by_factor=by_factor,
        )
