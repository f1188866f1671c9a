"""Which replicates are alike: machines of one rack, one cluster, one wave of a rollout.

In: the rows of two configurations, and what may group their replicates: the column ``cluster``, labels, and
the beginnings of machines' names (``rack7`` of ``rack7-m03``). Out: `Alike`: what was found, and the rows
with its groups as replicates.

Machines of a rack share a switch, a power feed, an age, a share of the load. Where a configuration was
given to whole racks, the rack is what was assigned, and its machines do not count one by one, however alike
they look (Abadie, Athey, Imbens and Wooldridge, Quarterly Journal of Economics 138, 2023). Where racks have
both configurations, what machines share cancels, unless the variance between racks says otherwise.

Invariants: what was declared is taken; else a grouping is taken where configurations went to whole groups, or
where the variance by groups is beyond that by replicates by more than chance makes of it (``ALPHA``); of
several the one with the largest variance.

Not here: the variance itself (``stats.ratios``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steelyard._base import UsageError
from steelyard.fleet.rue.strata import Cells
from steelyard.fleet.rue.usage import NAME_PREFIX, UNKNOWN, Factor, RueSettings
from steelyard.stats.ratios import Effect, comparable_strata, reweighted_effect

Integers = NDArray[np.int64]
ALPHA = 0.05
PURE_BY_CHANCE = 0.01
"""Groups of one configuration each, where drawing replicates one by one makes it so less often than this,
were assigned as wholes.
"""
LEAST_GROUPS = 5
"""With as many groups of each configuration, what groups differ by is noise, and no part of the
difference."""
_NAME = re.compile(r"(.*?)[-_]?[A-Za-z]*\d+")


@dataclass(frozen=True)
class Alike:
    """By what replicates are alike."""

    name: str
    """The column or label."""
    groups: tuple[int, int]
    """Groups with configuration 1 and with configuration 2."""
    declared: bool
    assigned: bool
    """Whether configurations went to whole groups."""
    design_effect: float | None
    """Variance of the speedup's logarithm with groups as draws, over that with replicates as draws."""


def prefix_of(machine: str) -> str:
    """Return what the name of a machine begins with, before its own number.

    >>> prefix_of("rack7-m03.example.com"), prefix_of("r3n07"), prefix_of("m12"), prefix_of("solo")
    ('rack7', 'r3', '', 'solo')
    """
    host = machine.split(".")[0]
    match = _NAME.fullmatch(host)
    return match[1] if match else host


def prefixes(machines: Factor) -> Factor:
    """Return the beginnings of machines' names as a factor."""
    names = [prefix_of(name) for name in machines.names]
    distinct = sorted(set(names))
    place = {name: at for at, name in enumerate(distinct)}
    codes = np.array([place[name] for name in names], dtype=np.int64)
    return Factor(codes[machines.codes], tuple(distinct))


def many_groups(cells: Cells, name: str) -> bool:
    """Return whether a factor that never has both configurations is noise: many groups of each."""
    codes = cells.factors[name].codes
    counts = [len(np.unique(codes[cells.arm == arm])) for arm in (0, 1)]
    return min(counts) >= LEAST_GROUPS


def find_alike(cells: Cells, strata: tuple[str, ...], settings: RueSettings) -> tuple[Alike | None, Cells]:
    """Return by what replicates are alike, if anything, and the rows with those groups as replicates.

    Raises UsageError where what was declared is no property of replicates.
    """
    if settings.cluster_by == "none":
        return None, cells
    factors = {name: factor for name, factor in cells.factors.items() if name in settings.may_group}
    if cells.prefix is not None:
        factors[NAME_PREFIX] = cells.prefix
    if settings.cluster_by is not None:
        factors = (
            {settings.cluster_by: factors[settings.cluster_by]} if settings.cluster_by in factors else {}
        )
    candidates: list[tuple[float, Alike, Cells]] = []
    alone = _effect(cells, strata)
    for name, factor in factors.items():
        declared = settings.cluster_by is not None
        groups = _groups(cells.replicate, factor)
        if groups is None:
            if declared:
                why = f"some {settings.replicate}s are in several"
                raise UsageError(f"cannot cluster by {name!r}: {why}", hint="--replicate chooses others")
            continue
        if not declared and _is_uninformative(groups, cells, cells.strata(strata)):
            continue
        made = replace(cells, replicate=groups)
        alike = _judged(name, made, cells, strata, alone, declared=declared)
        if alike is not None:
            candidates.append((alike.design_effect or np.inf, alike, made))
    if not candidates:
        return None, cells
    _, best, made = max(candidates, key=lambda each: (each[0], each[1].name))
    return best, made


def _judged(
    name: str, made: Cells, cells: Cells, strata: tuple[str, ...], alone: Effect | None, *, declared: bool
) -> Alike | None:
    """Return the grouping where it is to be taken."""
    arms = [np.unique(made.replicate[made.arm == arm]) for arm in (0, 1)]
    counts = (len(arms[0]), len(arms[1]))
    assigned = _is_assigned(made.replicate, cells)
    effect = _effect(made, strata)
    ratio = None
    if effect is not None and alone is not None and effect.log_variance and alone.log_variance:
        ratio = effect.log_variance / alone.log_variance
    alike = Alike(name, counts, declared, assigned, ratio)
    if declared or assigned:
        return alike
    if ratio is None or effect is None or effect.degrees is None:
        return None
    from scipy.special import chdtrc

    # The variance by replicates has many more degrees of freedom, and is taken for known.
    return alike if chdtrc(effect.degrees, effect.degrees * ratio) < ALPHA else None


def _groups(replicate: Integers, factor: Factor) -> Integers | None:
    """Return the group of each row; None where a replicate is in several. Unknown ones are groups alone."""
    codes = factor.codes.copy()
    if UNKNOWN in factor.names:
        unknown = codes == factor.names.index(UNKNOWN)
        codes[unknown] = len(factor.names) + replicate[unknown]
    pairs = np.unique(np.stack([replicate, codes], axis=1), axis=0)
    return codes if len(pairs) == len(np.unique(replicate)) else None


def _is_uninformative(groups: Integers, cells: Cells, strata: Integers) -> bool:
    """Return whether groups are the strata, the configurations within them, or the replicates themselves.

    There is then nothing to estimate a variance between groups from, or it is what is used anyway.
    """

    def pairs(*columns: Integers) -> int:
        return len(np.unique(np.stack(columns, axis=1), axis=0))

    inside = pairs(strata, groups)
    is_each = len(np.unique(groups)) == len(np.unique(cells.replicate))
    return is_each or inside in (len(np.unique(strata)), pairs(strata, cells.arm))


def _is_assigned(groups: Integers, cells: Cells) -> bool:
    """Return whether each group has one configuration, where that is no accident."""
    pairs = np.unique(np.stack([groups, cells.replicate, cells.arm], axis=1), axis=0)
    _, of = np.unique(pairs[:, 0], return_inverse=True)
    size, second = np.bincount(of), np.bincount(of, weights=pairs[:, 2])
    if ((second > 0) & (second < size)).any():
        return False
    share = float(second.sum() / size.sum())
    chance = share**size + (1 - share) ** size
    return bool(np.prod(chance[size > 1]) < PURE_BY_CHANCE)


def _effect(cells: Cells, strata: tuple[str, ...]) -> Effect | None:
    sums = cells.sums(strata)
    kept = comparable_strata(sums)
    if not len(kept):
        kept = comparable_strata(sums, least_replicates=1)
    return reweighted_effect(sums.in_strata(kept)) if len(kept) else None
