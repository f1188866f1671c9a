"""The sentences of a projection.

In: a `Projection`. Out: its headline, what else it says, and what to know before believing it.
"""

from __future__ import annotations

from steelyard.decide.projection.result import Projection, plural, singular
from steelyard.report import format as fmt

_LARGEST = 1_000
_COVERS_BETWEEN = (-0.08, 0.12)
"""Share of machines inside their intervals, minus the confidence, that needs no caution."""


def percent(ratio: float) -> str:
    """Return a ratio in percent, as sentences have it; beyond a thousand times the figure says no more."""
    return fmt.quantity(ratio, "ratio") if ratio < _LARGEST else factor(ratio)


def factor(ratio: float) -> str:
    """Return how many times.

    >>> factor(2.54), factor(3e20)
    ('2.5x', 'over 1,000x')
    """
    return f"{ratio:.1f}x" if ratio < _LARGEST else f"over {_LARGEST:,}x"


def heading(found: Projection) -> str:
    """Return the answer in one line."""
    fresh = [machine for machine in found.machines if machine.is_new]
    projected = [machine for machine in fresh if machine.projected is not None]
    count = f"{found.target} of {fmt.several(len(projected), 'machine')}" if projected else found.target
    if found.error is None:
        return f"{count}: projected from {found.calibration}; error unknown."
    said = f"{count}: median error {percent(found.error.median_error_ratio)}"
    where = (
        "on other machines"
        if found.method == "geomean"
        else f"on a {singular(found.group_attribute)} never seen"
    )
    return f"{said} {where}, 90th percentile {percent(found.error.p90_error_ratio)}."


def sentences(found: Projection) -> list[str]:
    """Return what else is said under the headline."""
    said = []
    error = found.error
    one, several = singular(found.group_attribute), plural(found.group_attribute)
    if error is not None and found.method == "model":
        named = one if error.groups == 1 else several
        machines = f"Error of {fmt.several(error.machines, 'machine')}"
        said.append(
            f"{machines}, each projected from the others."
            if found.group_attribute == "machine"
            else f"{machines} of {error.groups:,} {named}, each projected without its own {one}."
        )
    if found.method == "geomean":
        said.append(
            f"Geometric mean of {fmt.several(len(found.results), 'result')} over {found.calibration},"
            " which has no error by construction."
        )
    if error is not None and error.coverage_ratio is not None:
        said.append(
            f"Intervals of {found.confidence * 100:g} % hold {percent(error.coverage_ratio)} of the machines."
        )
    elif found.method == "model":
        said.append(f"No intervals: too few {several} are known.")
    if found.siblings:
        first = found.siblings[0]
        said.append(
            f"With one machine of the {one} measured, the others are within"
            f" {percent(first.median_error_ratio)} (median)."
        )
    if found.groups_needed is not None:
        named = one if found.groups_needed == 1 else several
        said.append(
            f"A median error of {percent(found.wanted_error_ratio or 0.0)} takes about"
            f" {found.groups_needed:,} {named}."
        )
    elif found.wanted_error_ratio is not None:
        said.append(
            f"A median error of {percent(found.wanted_error_ratio)} is not in sight: more {several} reduce"
            " the error too little, or too few are known to say."
        )
    return said


def notes(found: Projection) -> list[str]:
    """Return what to know before believing the projection."""
    said = []
    if found.contradictions:
        worst = found.contradictions[0]
        machines = sum(one.machines for one in found.contradictions)
        said.append(
            f"The target contradicts itself on {machines:,} machines: {factor(worst.target_ratio)} between"
            f" {worst.lowest} and {worst.highest}, which are alike by most results."
        )
    flagged = [machine for machine in found.machines if machine.flags]
    if flagged:
        said.append(
            f"{fmt.several(len(flagged), 'machine')} outside of the known ones, such as {flagged[0].name}:"
            " extrapolated, with wider intervals."
        )
    doubles = [machine for machine in found.machines if machine.same_as is not None]
    if doubles:
        said.append(
            f"{fmt.several(len(doubles), 'machine')} with exactly the results of another one, such as"
            f" {doubles[0].name} and {doubles[0].same_as}: one machine under two names?"
        )
    error = found.error
    if error is not None and error.coverage_ratio is not None:
        off = error.coverage_ratio - found.confidence
        if not _COVERS_BETWEEN[0] <= off <= _COVERS_BETWEEN[1]:
            word = "fewer" if off < 0 else "more"
            said.append(f"Intervals hold {word} machines than they state: {percent(error.coverage_ratio)}.")
    unprojected = [machine for machine in found.machines if machine.projected is None]
    if unprojected:
        said.append(
            f"{fmt.several(len(unprojected), 'machine')} not projected, such as {unprojected[0].name}:"
            f" {unprojected[0].missing}."
        )
    return said
