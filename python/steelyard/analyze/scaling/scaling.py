"""All that is concluded from a scaling curve.

In: steps, what is known of the machine, the numbers of CPUs to predict, and where they are known the
functions that ran at its ends. Out: `Scaling`.

Not here: models and their statistics (``stats.scaling``), drawing (``report.scale``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from steelyard._base.documents import NOT_PRINTED, printed
from steelyard.analyze.profiles.hot_functions import Diagnosis, FunctionChange, FunctionShares, diagnose
from steelyard.analyze.scaling.curve import Step, whole_blocks
from steelyard.analyze.scaling.limits import Limit, limits_of
from steelyard.analyze.scaling.loss import Loss, scaling_loss
from steelyard.stats.scaling.choice import Topology
from steelyard.stats.scaling.curve import CurveFit, fit_curve
from steelyard.stats.scaling.law import LawFit
from steelyard.stats.scaling.prediction import Prediction, SiblingWorth

FUNCTION_BY_CHANCE = 0.05
"""Above this chance no function is named."""
_FUNCTIONS = 50
"""Functions that are kept, of many thousands."""


@dataclass(frozen=True)
class Scaling:
    """A curve and what it says."""

    steps: tuple[Step, ...]
    """In the order of their CPUs."""
    model: CurveFit | None
    """The model that holds; None without any throughput."""
    loss: Loss | None
    """From the first to the last step; None with one."""
    limits: tuple[Limit, ...]
    """What the workload cannot use."""
    diagnosis: Diagnosis | None = field(default=None, metadata=NOT_PRINTED)
    by_chance: float | None = None
    """Chance that sampling alone makes the first function grow so; None where samples are not counted."""
    functions_missing: str | None = None
    """Why no function is named."""
    notes: tuple[str, ...] = ()
    """What to know of the machine and the trials."""
    predictions: tuple[Prediction, ...] = ()
    """Throughput at the numbers of CPUs that were asked for."""

    @property
    @printed
    def law(self) -> LawFit | None:
        """The Universal Scalability Law, None without any throughput."""
        return None if self.model is None else self.model.law

    @property
    @printed
    def functions(self) -> tuple[FunctionChange, ...]:
        """Functions by what they added from the first to the last step, the largest first."""
        return () if self.diagnosis is None else self.diagnosis.functions[:_FUNCTIONS]

    @property
    def noun(self) -> str:
        """What its steps count: CPU, or thread."""
        return self.steps[0].noun if self.steps else "CPU"

    @property
    @printed
    def speedup(self) -> float | None:
        """Throughput of the last step over that of the first."""
        known = [step.ops_per_s for step in self.steps if step.ops_per_s is not None]
        return known[-1] / known[0] if known else None

    @property
    def grown(self) -> FunctionChange | None:
        """The function that added most, None where sampling alone may have made it the first."""
        if not self.functions:
            return None
        first = self.functions[0]
        return None if self.by_chance is not None and self.by_chance > FUNCTION_BY_CHANCE else first


def analyse(
    steps: Sequence[Step],
    *,
    low: FunctionShares | None = None,
    high: FunctionShares | None = None,
    profiles_missing: str = "no profiles of both ends are there",
    notes: Sequence[str] = (),
    topology: Topology | None = None,
    predict: Sequence[int] = (),
    worth: SiblingWorth | None = None,
) -> Scaling:
    """Return what steps say; ``low`` and ``high`` are profiles of the first and the last one.

    ``predict`` are numbers of CPUs, ``worth`` is what siblings are worth on another machine.
    """
    known = [step for step in steps if step.ops_per_s is not None]
    values = whole_blocks(known)
    functions, missing = None, None
    if low is None or high is None:
        missing = profiles_missing
    else:
        laws = (known[0].law, known[-1].law) if len(known) > 1 else (None, None)
        try:
            functions = diagnose(low, high, *laws)
        except ValueError as error:
            missing = f"the profiles do not compare: {error}"
    curve = fit_curve(values, topology) if values else None
    noise = 1.0 if curve is None else curve.noise_factor()
    return Scaling(
        tuple(
            replace(
                step,
                efficiency_ratio=_efficiency(step, known),
                law_ops_per_s=None if curve is None else curve.throughput(step.cpus),
            )
            for step in steps
        ),
        curve,
        scaling_loss(known[0], known[-1], noise_factor=noise) if len(known) > 1 else None,
        limits_of(steps),
        functions,
        None if functions is None or low is None or high is None else _chance(functions, low, high),
        missing,
        tuple(notes),
        () if curve is None else tuple(curve.predict(cpus, worth) for cpus in predict),
    )


def _efficiency(step: Step, known: Sequence[Step]) -> float | None:
    """Return throughput of each CPU of a step over that of each of the first known one."""
    if step.ops_per_s is None or known[0].ops_per_s is None:
        return None
    # Means of logarithms leave the last digits to chance: exactly linear is exactly 1.
    return round(step.ops_per_s / step.cpus / (known[0].ops_per_s / known[0].cpus), 12)


def _chance(found: Diagnosis, low: FunctionShares, high: FunctionShares) -> float | None:
    """Return the chance that any function would move as far as the first one by sampling alone.

    Fisher's exact test of independent samples, times the number of functions (Bonferroni).
    """
    if not low.samples or not high.samples or not found.functions:
        return None
    from steelyard.analyze.profiles.diff import fisher

    first, event = found.functions[0], found.event
    shares = (first.before[event] or 0.0, first.after[event] or 0.0)
    counts = [
        np.array([round(share * size)])
        for share, size in zip(shares, (low.samples, high.samples), strict=True)
    ]
    p_value = float(fisher(counts[0], low.samples, counts[1], high.samples)[0])
    return min(1.0, p_value * len(found.functions))
