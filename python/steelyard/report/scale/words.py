"""What a scaling curve says, in sentences: the answer, and what to know before believing it.

In: a `Scaling`. Out: text. Not here: its model (``model``), tables and charts (``answer``).
"""

from __future__ import annotations

from steelyard.analyze.profiles.hot_functions import Diagnosis
from steelyard.analyze.scaling.curve import Step
from steelyard.analyze.scaling.scaling import Scaling
from steelyard.report import format as fmt
from steelyard.report.scale.model import misfit_sentence, model_notes, model_sentence, peak_sentence


def exact(value: float | None) -> str:
    """Return a ratio of counts with six decimals, as ``perf`` reports are compared by; large ones with fewer.

    >>> exact(0.3630827893), exact(None), exact(4377970203645.0), exact(12345.678)
    ('0.363083', '–', '4,377,970,203,645', '12,345.68')
    """
    if value is None:
        return fmt.MISSING
    return f"{value:,.{6 if abs(value) < 1e3 else 2 if abs(value) < 1e6 else 0}f}"


def sentences(scaling: Scaling) -> list[str]:
    """Return what the curve says, the answer first."""
    known = [step for step in scaling.steps if step.ops_per_s is not None]
    if not known:
        return ["no step has a throughput"]
    misfit = misfit_sentence(scaling.model)
    found = [] if misfit is None else [misfit]
    if len(known) > 1 and scaling.speedup is not None:
        ratio = known[-1].efficiency_ratio
        found.append(
            f"{fmt.several(known[-1].cpus, scaling.noun)} do {fmt.plain(times(scaling.speedup))} the work of"
            f" {known[0].cpus},"
            f" {fmt.plain(fmt.quantity(ratio, 'ratio'))} of linear{_range(known[0], known[-1])}"
        )
    bend = None if scaling.model is None else model_sentence(scaling.model, scaling.noun)
    found += [] if bend is None else [bend]
    found += [limit.claim for limit in scaling.limits]
    loss = scaling.loss
    if loss is not None and loss.is_clear:
        cause = f"the cause is {loss.cause}" if loss.cause.startswith("not known") else loss.cause
        found.append(
            f"each {loss.noun} does {times(loss.factor.value)} less at {loss.high_cpus} {scaling.noun}s than"
            f" at {loss.low_cpus}: {cause}"
        )
    if scaling.diagnosis is not None:
        found.append(_function(scaling, scaling.diagnosis))
    if scaling.law is not None:
        found.append(peak_sentence(scaling.law, scaling.noun))
    return found


def _range(first: Step, last: Step) -> str:
    """Return the least and the largest share of linear of any block, where there are several."""
    ratios = [
        value / last.cpus / (first.by_block[block] / first.cpus)
        for block, value in last.by_block.items()
        if first.by_block.get(block)
    ]
    if len(ratios) < 2:
        return ""
    low, high = (fmt.plain(fmt.quantity(ratio, "ratio")) for ratio in (min(ratios), max(ratios)))
    return f" ({low} to {high} in {len(ratios)} blocks)"


def times(factor: float | None) -> str:
    """Return a factor: 20.9x."""
    return fmt.MISSING if factor is None else f"{fmt.significant(factor)}x"


def share(ratio: float | None) -> str:
    """Return a share of samples with the two decimals that ``perf report`` prints."""
    return "not listed" if ratio is None else f"{ratio:.2%}"


def _function(scaling: Scaling, found: Diagnosis) -> str:
    grown = scaling.grown
    if grown is None:
        return "no function's share grew by more than sampling alone explains"
    moves = ", ".join(
        f"{share(grown.before[event])} to {share(grown.after[event])} of {event}" for event in grown.after
    )
    part = grown.share_of_change.value
    weight = "" if part is None else f": {part:.0%} of what each operation costs more"
    return f"function that grew most: {grown.function}, from {moves}{weight}"


def notes(scaling: Scaling) -> list[str]:
    """Return what to know before believing the curve."""
    found = list(scaling.notes)
    for step in scaling.steps:
        if step.lost:
            lost = fmt.several(len(step.lost), "trial")
            found.append(f"{fmt.several(step.cpus, step.noun)}: {lost} without a value: {step.lost[0]}")
    loss = scaling.loss
    if loss is not None and loss.caveat is not None:
        found.append(loss.caveat)
    reasons = [step.law.cpi.missing for step in scaling.steps if step.law.cpi.missing]
    if reasons:
        found.append(f"CPI and path length are not known: {reasons[0]}")
    if scaling.model is not None:
        found += model_notes(scaling.model)
    if scaling.functions_missing is not None:
        found.append(f"no function is named: {scaling.functions_missing}")
    return found
