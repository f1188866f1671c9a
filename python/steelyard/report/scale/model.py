"""What the model of a scaling curve says, in sentences.

In: a `Scaling`, or parts of it. Out: text on where it bends, its parameters and its peak.

Not here: tables and charts (``answer``).
"""

from __future__ import annotations

import math

from steelyard.analyze.scaling.scaling import Scaling
from steelyard.report import format as fmt
from steelyard.stats.scaling.choice import Chosen, Figure, Kind
from steelyard.stats.scaling.curve import CurveFit
from steelyard.stats.scaling.law import LawFit, Parameter

_NAMES = {
    Kind.LAW: "the law",
    Kind.SIBLINGS: "siblings",
    Kind.NODE: "a NUMA node",
    Kind.CEILING: "a ceiling",
    Kind.BEND: "a bend",
}


def misfit_sentence(curve: CurveFit | None) -> str | None:
    """Return that no model holds, None where one does."""
    if curve is None or curve.chosen is None or curve.holds:
        return None
    nearest = _NAMES[curve.chosen.best.kind]
    sentence = (
        f"no model fits: readings are up to {curve.chosen.misfit_ratio:.0%} from the nearest one ({nearest}),"
        " so that there are no parameters and no prediction beyond the steps"
    )
    return (
        sentence
        if curve.law.blocks > 1
        else f"{sentence}; one block cannot distinguish this from noise: repeat it"
    )


def model_sentence(curve: CurveFit, noun: str) -> str | None:
    """Return where the curve bends and what that is; None for the law alone, and where no model holds."""
    chosen = curve.chosen
    if chosen is None or chosen.at is None or chosen.worth is None or not curve.holds:
        return None
    worth = _interval(chosen.worth)
    place = f"{_interval(chosen.at)} {noun}s"
    known = f"{chosen.at.value:g} {noun}s"
    if chosen.kind is Kind.SIBLINGS:
        sentence = f"cores end at {known}: each sibling beyond is worth {worth} of a core"
        if chosen.node_worth is None or chosen.alike_up_to is None:
            return sentence
        cost = f"a NUMA node ends at {chosen.alike_up_to:g}: each {noun} beyond is worth"
        return f"{cost} {_interval(chosen.node_worth)} of one before; {sentence}"
    if chosen.kind is Kind.CEILING:
        rate = fmt.plain(fmt.quantity(chosen.throughput(chosen.at.value), "1/s"))
        return f"throughput has a ceiling of {rate} from {place} on: a lock, bandwidth or a quota"
    is_found = chosen.best.fitted.form.is_searched
    if chosen.kind is Kind.NODE and chosen.is_level:
        cost = _percent(chosen.worth)
        if is_found:
            place = f"between {chosen.at.low:g} and {chosen.at.high:g} {noun}s"
            return f"{place} throughput is lower by {cost} than before, as another NUMA node may cost"
        return f"beyond {known}, where another NUMA node begins, throughput is lower by {cost}"
    if chosen.kind is Kind.NODE:
        return f"a NUMA node ends at {known}: each {noun} beyond is worth {worth} of one before"
    return (
        f"the curve bends at {place}: each {noun} beyond is worth {worth} of one before{_what_bends(chosen)}"
    )


def _what_bends(chosen: Chosen) -> str:
    if chosen.topology.last_core is None:
        return ", as siblings, another node or a ceiling would be: a column cores tells which"
    return ", where neither the cores nor a node of the machine end"


def _percent(worth: Figure) -> str:
    """Return what a level costs of the throughput."""
    if worth.low is None or worth.high is None:
        return f"{1 - worth.value:.0%}"
    return f"{1 - worth.value:.0%} ({1 - worth.high:.0%} to {1 - worth.low:.0%})"


def _interval(figure: Figure) -> str:
    if figure.low is None or figure.high is None or figure.low == figure.high:
        return f"{figure.value:.3g}"
    low, high = f"{figure.low:.3g}", f"{figure.high:.3g}"
    return f"{figure.value:.3g} ({low} to {high})" if low != high else f"{figure.value:.3g}"


def peak_sentence(fit: LawFit, noun: str = "CPU") -> str:
    """Return what is known of the peak."""
    peak = fit.peak
    if not peak.is_identified:
        return f"peak not known: {of_noun(peak.reason, noun)}"
    return f"peak at {number(peak)} {noun}s, {number(fit.peak_throughput, '1/s')}"


def of_noun(reason: str | None, noun: str) -> str:
    """Return a reason of the law's with what the steps count: threads are not CPUs.

    >>> of_noun("the steps up to 32 CPUs show no peak", "thread")
    'the steps up to 32 threads show no peak'
    """
    return (reason or "").replace("CPUs", f"{noun}s").replace("CPU", noun)


def number(one: Parameter, unit: str = "1") -> str:
    """Return a parameter with its interval."""

    def text(value: float | None) -> str:
        if value is None:
            return fmt.MISSING
        return "unbounded" if math.isinf(value) else fmt.plain(fmt.quantity(value, unit))

    if one.low is None or one.high is None:
        return text(one.value)
    return f"{text(one.value)} ({text(one.low)} to {text(one.high)})"


def parameter_meanings(fit: LawFit, noun: str) -> dict[str, str]:
    """Return what each parameter of the law is."""
    share = f"share of the work that one {noun} can do at a time"
    if (fit.contention.value or 0.0) > 1:
        share = f"above 1: a second {noun} costs more than it does, so that this is no share"
    return {
        "rate": f"throughput of one {noun}",
        "contention": share,
        "coherency": f"what each {noun} waits for each other one",
    }


def law_title(scaling: Scaling) -> str:
    """Return the title of the law's parameters, with the CPUs that they are of."""
    chosen = None if scaling.model is None else scaling.model.chosen
    end = None if chosen is None else chosen.alike_up_to
    if end is None:
        return "Universal Scalability Law"
    return f"Universal Scalability Law up to {end:.3g} {scaling.noun}s"


def model_notes(curve: CurveFit) -> list[str]:
    """Return what to know of the model."""
    chosen = curve.chosen
    if chosen is None or not curve.holds:
        return []
    found = []
    if curve.law.misfit_ratio is not None and curve.law.misfit_ratio >= _WORTH_SAYING:
        found.append(f"steps are up to {curve.law.misfit_ratio:.1%} from the model")
    if chosen.alternatives:
        names = ", ".join(_NAMES[kind] for kind in chosen.alternatives)
        found.append(f"another model is as near to the readings: {names}")
    return found


_WORTH_SAYING = 0.03
"""A smaller distance from the model is not worth a word."""
