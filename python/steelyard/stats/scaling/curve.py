"""All that statistics say of a scaling curve: the model that holds, its parameters, the peak.

In: throughput by number of CPUs and block, and what is known of the machine. Out: `CurveFit`.

The law's parameters are those of the CPUs before a bend: of all steps where the law alone holds. Where no
model holds there are none. The rate of one CPU is never other than the reading at one CPU says.

Not here: how models are compared (``choice``), sentences (``report.scale``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from steelyard._base.documents import NOT_PRINTED, printed
from steelyard.stats.scaling.choice import Chosen, Figure, Kind, Topology, choose
from steelyard.stats.scaling.law import FEWEST_STEPS, LawFit, Parameter, fit_law
from steelyard.stats.scaling.peak import peak_of
from steelyard.stats.scaling.prediction import Prediction, SiblingWorth, predict

_ROUNDED = 1e-9
"""What logarithms leave of a reading."""


@dataclass(frozen=True)
class CurveFit:
    """A curve with the model that holds."""

    law: LawFit = field(metadata=NOT_PRINTED)
    """The law of the CPUs before a bend, with the curve's peak; no parameters where no model holds."""
    chosen: Chosen | None = field(metadata=NOT_PRINTED)
    """None of one step."""

    @property
    @printed
    def kind(self) -> Kind:
        """The model that holds: the law, over cores where siblings are worth a share, a node that costs
        something, a ceiling, a bend that may be any of these, or none.
        """
        return Kind.LAW if self.chosen is None else self.chosen.kind

    @property
    def holds(self) -> bool:
        """Whether any model does."""
        return self.kind is not Kind.NONE

    @property
    @printed
    def at_cpus(self) -> Figure | None:
        """CPUs at which the curve bends, None without a bend."""
        return None if self.chosen is None else self.chosen.at

    @property
    @printed
    def worth_ratio(self) -> Figure | None:
        """What a CPU beyond the bend is worth of one before it; of a level, all throughput."""
        return None if self.chosen is None else self.chosen.worth

    @property
    @printed
    def node_worth_ratio(self) -> Figure | None:
        """Of siblings after a second node: what its cores are worth of the first one's."""
        return None if self.chosen is None else self.chosen.node_worth

    @property
    @printed
    def is_level(self) -> bool:
        """Whether all throughput is lower beyond the bend."""
        return self.chosen is not None and self.chosen.is_level

    @property
    @printed
    def alternatives(self) -> tuple[Kind, ...]:
        """Other models that are as near to the readings."""
        return () if self.chosen is None else self.chosen.alternatives

    @property
    @printed
    def nearest(self) -> Kind | None:
        """The nearest model, also where none holds; None of one step."""
        return None if self.chosen is None else self.chosen.best.kind

    @property
    @printed
    def cores(self) -> int | None:
        """Cores that steps use up before siblings, None where that is not known."""
        return None if self.chosen is None else self.chosen.topology.cores

    @property
    @printed
    def node_ends(self) -> tuple[int, ...]:
        """Numbers of CPUs at which a NUMA node's cores are used up."""
        return () if self.chosen is None else self.chosen.topology.node_ends

    @property
    @printed
    def misfit_ratio(self) -> float | None:
        """Largest distance of a step from the nearest model, None of one step."""
        return None if self.chosen is None else self.chosen.misfit_ratio

    def throughput(self, cpus: float) -> float | None:
        """Return the throughput of the model that holds; None without one."""
        if self.chosen is None or not self.holds:
            return None
        return self.law.throughput(cpus) if self.kind is Kind.LAW else self.chosen.throughput(cpus)

    def predict(self, cpus: int, worth: SiblingWorth | None = None) -> Prediction:
        """Return throughput on ``cpus``; ``worth`` is what siblings are worth on another machine."""
        if self.chosen is None:
            return Prediction(cpus, None, None, None, "one step is no curve: measure two at least")
        return predict(self.chosen, cpus, worth)

    def noise_factor(self) -> float:
        """Return by what factor the last step may differ from the first one by noise alone (97.5 %)."""
        if self.chosen is None:
            return 1.0
        from scipy.special import stdtrit

        noise = self.chosen.noise_of_readings
        spread = float(noise.squares[0] + noise.squares[-1]) ** 0.5
        return float(np.exp(min(float(stdtrit(noise.degrees, 0.975)) * spread, 700.0)))


def fit_curve(values: Mapping[int, Sequence[float]], topology: Topology | None = None) -> CurveFit:
    """Return the model of throughput by number of CPUs; value i of every step is of block i.

    Raises ValueError for values that are not finite and positive, and for steps of different lengths.

    >>> curve = fit_curve({n: [100.0 * min(n, 8)] for n in (1, 2, 4, 8, 16, 32)})
    >>> curve.kind.value, round(curve.predict(12).ops_per_s), curve.law.peak.is_identified
    ('ceiling', 800, False)
    """
    if len(values) < 2:
        return CurveFit(fit_law(values), None)
    chosen = choose(values, topology or Topology())
    before = values
    end = chosen.alike_up_to
    if chosen.kind is not Kind.LAW and end is not None:
        before = {cpus: row for cpus, row in values.items() if cpus <= end * (1 + 1e-9)}
    law = fit_law(before)
    if chosen.kind is Kind.NONE:
        law = _without(law, chosen)
    elif len(before) < FEWEST_STEPS <= len(values):
        law = _few(law, len(before))
    law = replace(law, rate=_rate(law.rate, chosen), steps=len(values))
    peak, throughput = peak_of(chosen, law)
    has_freedom = len(values) > chosen.best.fitted.form.count
    law = replace(
        law,
        peak=peak,
        peak_throughput=throughput,
        misfit_ratio=chosen.misfit_ratio if has_freedom else None,
        misfit_p_value=chosen.misfit_p_value,
    )
    return CurveFit(law, chosen)


def _without(law: LawFit, chosen: Chosen) -> LawFit:
    reason = f"no model fits: readings are up to {chosen.misfit_ratio:.0%} from the nearest"
    unknown = Parameter(None, None, None, False, reason)
    return replace(law, rate=unknown, contention=unknown, coherency=unknown)


def _few(law: LawFit, steps: int) -> LawFit:
    reason = f"{steps} steps before the bend cannot determine three parameters: measure {FEWEST_STEPS}"
    unknown = Parameter(None, None, None, False, reason)
    return replace(law, rate=unknown, contention=unknown, coherency=unknown)


def _rate(rate: Parameter, chosen: Chosen) -> Parameter:
    """Return the rate with an interval that holds what was read at one CPU."""
    if chosen.kind not in (Kind.LAW, Kind.NONE) and rate.low is None and not chosen.noise.is_assumed:
        # Steps before the bend are too few for the law, and those beyond it tell the noise as well.
        fits, shift = chosen.resampled(chosen.best)
        low, high = np.exp(np.clip(np.quantile(fits.rate + shift, (0.025, 0.975)), -600, 600))
        rate = Parameter(float(np.exp(chosen.best.fitted.rate[0])), float(low), float(high), True, None)
    if chosen.cpus[0] != 1 or rate.low is None or rate.high is None:
        return rate
    read = float(np.exp(chosen.means[0]))
    return replace(rate, low=min(rate.low, read * (1 - _ROUNDED)), high=max(rate.high, read * (1 + _ROUNDED)))
