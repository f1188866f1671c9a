"""Whether units went to configurations as they were meant to: the tests of ``fleet rue``.

In: who was assigned what, and what each replicate did. Out: `SampleRatio`s. What was assigned is found from
the data: machines where each has one configuration, else tasks, else the work itself, where one task serves
both (as when requests are split).

Not here: the tests themselves (``stats.assignment``), what follows from a mismatch (``advice``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from steelyard.fleet.rue.clusters import Alike
from steelyard.fleet.rue.result import SampleRatio
from steelyard.fleet.rue.strata import Cells
from steelyard.fleet.rue.usage import LOAD, Assigned, RueSettings
from steelyard.stats.assignment import (
    Mismatch,
    share_mismatch,
    split_mismatch,
    uneven_shares,
    uneven_split,
    uneven_units,
)

Integers = NDArray[np.int64]

MISMATCH_P_VALUE = 0.001
"""Below it a mismatch is reported: it means that something is broken, so false alarms must be rare."""
CHANGED_RATIO = 0.05
"""Where more of the tasks than this had both configurations, tasks are not what was assigned."""

REPLICATES_A_GROUP = 3
"""Shares of work are tested by group only with at least this many replicates for each group."""


def sample_ratios(
    assigned: Assigned,
    cells: Cells,
    pair: tuple[int, int],
    names: tuple[str, str],
    strata: tuple[str, ...],
    settings: RueSettings,
    alike: Alike | None = None,
) -> list[SampleRatio]:
    """Test the declared split, if any, and whether the split is the same in every stratum.

    Where configurations were given to whole groups (``alike``), groups are what was split.
    """
    codes = assigned.configuration.codes
    keep = np.isin(codes, pair)
    arm = np.where(codes[keep] == pair[1], 1, 0).astype(np.int64)
    declared = None
    if settings.split is not None and all(configuration in settings.split for configuration in names):
        declared = (settings.split[names[0]], settings.split[names[1]])
    if alike is not None and alike.assigned:
        if declared is None:
            return []
        shares, of, counts = declared, f"group by {alike.name}", alike.groups
        question = f"is the split of groups by {alike.name} {shares[0]:g} to {shares[1]:g}, as declared?"
        return [_tested(question, of, counts, shares, lambda: split_mismatch(counts, shares))]
    units = (("machine", assigned.machine[keep], 0.0), ("task", assigned.task[keep], CHANGED_RATIO))
    for name, unit, most in units:
        both = np.intersect1d(unit[arm == 0], unit[arm == 1])
        if len(both) > most * len(np.unique(unit)):
            continue
        # A unit that changed its configuration was assigned twice, and counts in neither.
        sure = ~np.isin(unit, both)
        levels = [assigned.factors[factor].codes[keep][sure] for factor in strata if factor != LOAD]
        return _of_units(name, arm[sure], unit[sure], levels, declared, strata)
    return _of_work(cells, strata, declared, settings)


def _of_units(
    name: str,
    arm: Integers,
    unit: Integers,
    levels: list[Integers],
    declared: tuple[float, float] | None,
    strata: tuple[str, ...],
) -> list[SampleRatio]:
    counts = (len(np.unique(unit[arm == 0])), len(np.unique(unit[arm == 1])))
    tests = []
    if declared is not None:
        shares = declared
        question = f"is the split of {name}s {shares[0]:g} to {shares[1]:g}, as declared?"
        tests.append(_tested(question, name, counts, shares, lambda: split_mismatch(counts, shares)))
    if levels:
        _, group = np.unique(np.stack(levels, axis=1), axis=0, return_inverse=True)
        code = np.asarray(group.reshape(-1), dtype=np.int64)
        factors = ", ".join(factor for factor in strata if factor != LOAD)
        question = f"is the split of {name}s the same in every group by {factors}?"
        tests.append(_tested(question, name, counts, None, lambda: _uneven(arm, unit, code)))
    return tests


def _of_work(
    cells: Cells, strata: tuple[str, ...], declared: tuple[float, float] | None, settings: RueSettings
) -> list[SampleRatio]:
    """Test shares of work, of replicates that serve both configurations."""
    _, replicate = np.unique(cells.replicate, return_inverse=True)
    # With few replicates a test of many groups says nothing: the first factors, which explain most, suffice.
    most = len(np.unique(replicate)) // REPLICATES_A_GROUP
    while strata and len(np.unique(cells.strata(strata))) > most:
        strata = strata[:-1]
    stratum = cells.strata(strata)
    shape = (2, int(replicate.max()) + 1, int(stratum.max()) + 1)
    work = np.zeros(shape)
    np.add.at(work, (cells.arm, replicate.reshape(-1), stratum), cells.work)
    jobs = len(np.unique(cells.factors["job"].codes))
    name = settings.work
    counts = (float(work[0].sum()), float(work[1].sum()))
    tests = []
    if declared is not None:
        shares = declared
        question = f"is the split of {name} {shares[0]:g} to {shares[1]:g}, as declared?"
        if jobs > 1 and name == "operations":
            # Operations of several jobs are not added: each job's count as shares of its own.
            work = work / np.maximum(_per_job(cells, stratum, shape[2]), 1e-300)
        first, second = work[0].sum(axis=1), work[1].sum(axis=1)
        share = shares[1] / sum(shares)
        tests.append(_tested(question, name, counts, shares, lambda: share_mismatch(first, second, share)))
    if strata:
        question = f"is the split of {name} the same in every group by {', '.join(strata)}?"
        tests.append(_tested(question, name, counts, None, lambda: uneven_shares(work[0], work[1])))
    return tests


def _per_job(cells: Cells, stratum: Integers, count: int) -> NDArray[np.float64]:
    """Return, for each stratum, the work of all of its job."""
    codes = cells.factors["job"].codes
    of_job = np.bincount(codes, weights=cells.work)
    shares = np.ones(count)
    shares[stratum] = of_job[codes]
    return shares


def _uneven(arm: Integers, unit: Integers, group: Integers) -> Mismatch:
    rows = np.unique(np.stack([arm, unit, group], axis=1), axis=0)
    if len(rows) > len(np.unique(unit)):
        return uneven_units(rows[:, 0], rows[:, 1], rows[:, 2])
    counts = np.zeros((2, int(group.max()) + 1), dtype=np.int64)
    np.add.at(counts, (rows[:, 0], rows[:, 2]), 1)
    return uneven_split(counts)


def _tested(
    question: str,
    unit: str,
    counts: tuple[float, float],
    shares: tuple[float, float] | None,
    test: Callable[[], Mismatch],
) -> SampleRatio:
    scaled = None if shares is None else (shares[0] / sum(shares), shares[1] / sum(shares))
    try:
        outcome = test()
    except ValueError as error:
        return SampleRatio(question, unit, counts, scaled, None, None, None, str(error))
    mismatch = outcome.p_value < MISMATCH_P_VALUE
    return SampleRatio(question, unit, counts, scaled, outcome.p_value, outcome.method, mismatch)
