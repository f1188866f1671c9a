"""Compares configurations by RUE within strata, and refuses totals that mislead.

In: task samples and settings. Out: `RueResult`. Each other configuration is held against configuration 1, for
each resource: in every stratum, in total, and re-weighted to configuration 1's mix of work.

A total compares mixes as well as configurations. It is refused where, beyond the noise within groups, it
contradicts the same groups at one mix: on the other side of 1 (Simpson's paradox where every group is),
outside of the range of the groups, or significant where they are not.

Invariants: decisions are made by the re-weighted speedup, never by the total.

Not here: sums (``usage``), the choice of strata (``strata``), words of advice (``advice``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard._base import ResultSaysNoError, UsageError
from steelyard.fleet.rue import advice as rue_advice
from steelyard.fleet.rue.assignment import sample_ratios
from steelyard.fleet.rue.clusters import find_alike, many_groups, prefixes
from steelyard.fleet.rue.result import (
    Comparison,
    Decision,
    Group,
    Reweighted,
    RueResult,
    Speedup,
    Total,
)
from steelyard.fleet.rue.strata import Cells, StrataChoice, behind, choose_strata, explained_by, met
from steelyard.fleet.rue.strata import Step as StrataStep
from steelyard.fleet.rue.usage import (
    LOAD,
    PLATFORM,
    UNITS,
    Factor,
    Observed,
    RueSettings,
    observe,
    observe_assignments,
)
from steelyard.stats.power import Need, pairs_needed, replicates_needed, variance_needed
from steelyard.stats.ratios import (
    LEAST_DEGREES,
    ArmSums,
    Effect,
    arm_variances,
    comparable_strata,
    mix_effect,
    reweighted_effect,
    stratum_effect,
    total_effect,
)

CONFIGURATIONS_AT_MOST = 20
"""A label with more values names something else than configurations."""


def compare(tasks: Any, settings: RueSettings) -> RueResult:
    """Compare the configurations of ``settings.label`` over ``tasks``, an Ibis table of task samples.

    Raises UsageError where the label or a configuration is not there, or there is only one.
    """
    observed = observe(tasks, settings)
    first, others = _configurations(observed, settings)
    assigned = observe_assignments(tasks, settings)
    names = observed.configuration.names
    comparisons, ratios, notes = [], [], []
    for other in others:
        pair = (names[first], names[other])
        for resource in settings.resources:
            comparisons.append(compare_one(observed, (first, other), resource, settings))
        strata = comparisons[-len(settings.resources)].choice.factors
        cells = _cells(observed, (first, other), settings.resources[0])[0]
        if len(cells.arm):
            alike = comparisons[-len(settings.resources)].alike
            ratios += sample_ratios(assigned, cells, (first, other), pair, strata, settings, alike)
    if settings.baseline is None:
        notes.append(f"configuration 1 is {names[first]!r}, which most samples have (--baseline sets it)")
    if settings.cluster_by is None and all(comparison.alike is None for comparison in comparisons):
        notes.append(
            f"{settings.replicate}s are treated as independent: names and labels show no racks or rollout"
            " waves (--cluster-by declares them)"
        )
    if any(LOAD in comparison.choice.factors for comparison in comparisons):
        notes.append(
            "a configuration also changes the load of its machines: strata by load remove that part of the"
            " difference"
        )
    return RueResult(
        label=settings.label,
        work=settings.work,
        replicate=settings.replicate,
        looks=settings.looks,
        confidence=settings.confidence,
        least_effect_ratio=settings.least_effect_ratio,
        comparisons=tuple(rue_advice.with_mismatch(comparison, ratios) for comparison in comparisons),
        sample_ratios=tuple(ratios),
        samples=int(observed.samples.sum()),
        no_work=observed.no_work,
        notes=tuple(notes),
    )


def _configurations(observed: Observed, settings: RueSettings) -> tuple[int, list[int]]:
    """Return the code of configuration 1, and those of the others."""
    names = observed.configuration.names
    if len(names) < 2:
        raise ResultSaysNoError(
            f"all samples with the label {settings.label!r} have one value, {names[0]!r}",
            hint="a comparison needs two; other days (--from, --to) may have both",
        )
    if len(names) > CONFIGURATIONS_AT_MOST:
        raise UsageError(
            f"the label {settings.label!r} has {len(names)} values, more than {CONFIGURATIONS_AT_MOST}",
            hint="is it a configuration? --job and --from, --to narrow the samples",
        )
    if settings.baseline is None:
        samples = np.bincount(observed.configuration.codes, weights=observed.samples)
        first = int(samples.argmax())
    elif settings.baseline in names:
        first = names.index(settings.baseline)
    else:
        raise UsageError(f"no sample has {settings.label}={settings.baseline}", hint=", ".join(names[:12]))
    unknown = [name for name in settings.split or () if name not in names]
    if unknown:
        raise UsageError(f"the split names {unknown[0]!r}, which no sample has", hint=", ".join(names[:12]))
    return first, [code for code in range(len(names)) if code != first]


def compare_one(
    observed: Observed, pair: tuple[int, int], resource: str, settings: RueSettings
) -> Comparison:
    """Compare two configurations, by their codes, by one resource."""
    names = (observed.configuration.names[pair[0]], observed.configuration.names[pair[1]])
    cells, samples = _cells(observed, pair, resource)
    reason = _nothing_to_compare(cells, names, resource, settings)
    if reason is not None:
        return _without(resource, names, reason, observed, samples)
    choice = _choose(cells, settings)
    alike, cells = find_alike(cells, choice.factors, settings)
    sums = cells.sums(choice.factors)
    groups = _groups(cells, samples, sums, choice.factors, settings)
    by_first = _by_first(cells, samples, sums, choice.factors, settings)
    # Many small groups differ by chance: the larger groups of the first factor decide where they exist.
    deciding = by_first or groups
    total, reweighted, need = _over_all(sums, samples, cells, deciding, choice, settings)
    decision, recommendation = rue_advice.recommend(
        resource, names, total, reweighted, deciding, choice, need, settings, alike
    )
    return Comparison(
        resource=resource,
        unit=UNITS[resource],
        configurations=names,
        choice=choice,
        groups=groups,
        by_first=by_first,
        total=total,
        reweighted=reweighted,
        need=need,
        decision=decision,
        recommendation=recommendation,
        missing=None,
        no_usage=observed.missing[resource],
        counted=int(samples.sum()),
        alike=alike,
    )


def _cells(observed: Observed, pair: tuple[int, int], resource: str) -> tuple[Cells, NDArray[np.int64]]:
    """Return the rows of two configurations that have a resource's figures, and how many samples each has."""
    codes = observed.configuration.codes
    keep = (np.isin(codes, pair)) & (observed.counted[resource] > 0)
    cells = Cells(
        arm=np.where(codes[keep] == pair[1], 1, 0).astype(np.int64),
        replicate=observed.replicate[keep],
        usage=observed.usage[resource][keep],
        work=observed.work[resource][keep],
        factors={name: Factor(factor.codes[keep], factor.names) for name, factor in observed.factors.items()},
        prefix=None
        if observed.machine is None
        else prefixes(Factor(observed.machine.codes[keep], observed.machine.names)),
    )
    return cells, observed.counted[resource][keep]


def _nothing_to_compare(
    cells: Cells, names: tuple[str, str], resource: str, settings: RueSettings
) -> str | None:
    for arm, name in enumerate(names):
        here = cells.arm == arm
        if not here.any():
            return f"no sample of {name!r} has both {settings.work} and a figure for {resource}"
        if not cells.work[here].sum() > 0:
            return f"{name!r} did no work that was counted"
        if not cells.usage[here].sum() > 0:
            return f"{name!r} used none of it"
    return None


def _without(
    resource: str, names: tuple[str, str], reason: str, observed: Observed, samples: NDArray[np.int64]
) -> Comparison:
    return Comparison(
        resource=resource,
        unit=UNITS[resource],
        configurations=names,
        choice=StrataChoice((), (), {}),
        groups=(),
        by_first=(),
        total=None,
        reweighted=None,
        need=None,
        decision=Decision.UNDECIDED,
        recommendation=f"Undecided about {resource}: {reason}.",
        missing=reason,
        no_usage=observed.missing[resource],
        counted=int(samples.sum()),
    )


def _choose(cells: Cells, settings: RueSettings) -> StrataChoice:
    """Return the strata asked for, or those that explain most."""
    if settings.strata is not None:
        steps = [
            StrataStep(name, *explained_by(cells, settings.strata[: at + 1]))
            for at, name in enumerate(settings.strata)
        ]
        return StrataChoice(settings.strata, tuple(steps), {}, settings.strata)
    several = tuple(name for name, factor in cells.factors.items() if len(np.unique(factor.codes)) > 1)
    # What each configuration has many of, as racks, is no part of the difference but of its noise.
    several = tuple(
        name
        for name in several
        if name != settings.cluster_by and not (name in settings.may_group and _is_noise(cells, name))
    )
    # Operations of two jobs are not the same work, so that they are never added.
    forced = ("job",) if "job" in several and settings.work == "operations" else ()
    choice = choose_strata(cells, several, forced)
    # Few machines do not show what their platforms do, and mixes of platforms differ by chance alone.
    if PLATFORM in choice.factors or PLATFORM not in several or not met(cells, (*forced, PLATFORM)):
        return choice
    return behind(cells, choose_strata(cells, several, (*forced, PLATFORM)), PLATFORM)


def _is_noise(cells: Cells, name: str) -> bool:
    """Return whether a factor that no two configurations meet on has many levels of each."""
    codes = cells.factors[name].codes
    met = np.intersect1d(codes[cells.arm == 0], codes[cells.arm == 1])
    return not len(met) and many_groups(cells, name)


def _groups(
    cells: Cells,
    samples: NDArray[np.int64],
    sums: ArmSums,
    factors: tuple[str, ...],
    settings: RueSettings,
) -> tuple[Group, ...]:
    """Return every stratum, those with most samples first."""
    strata = cells.strata(factors)
    comparable = set(comparable_strata(sums, least_replicates=1).tolist())
    everything = float(samples.sum())
    groups = []
    for stratum, levels in cells.levels(factors).items():
        sides = [sums.sums(arm, stratum) for arm in (0, 1)]
        here = strata == stratum
        shares = [float(samples[here & (cells.arm == arm)].sum()) / everything for arm in (0, 1)]
        speedup, missing = None, None
        if stratum in comparable:
            speedup = _speedup(stratum_effect(sums, stratum), settings, max(1, len(comparable)))
        else:
            lacking = [str(arm + 1) for arm in (0, 1) if not (sides[arm][0] > 0 and sides[arm][1] > 0)]
            missing = f"configuration {' and '.join(lacking)} did nothing here"
        groups.append(
            Group(
                levels=levels,
                shares=(shares[0], shares[1]),
                work=(sides[0][1], sides[1][1]),
                usage=(sides[0][0], sides[1][0]),
                rue=(_ratio(sides[0]), _ratio(sides[1])),
                replicates=(sides[0][2], sides[1][2]),
                speedup=speedup,
                missing=missing,
            )
        )
    return tuple(sorted(groups, key=lambda group: (-sum(group.shares), group.levels)))


def _by_first(
    cells: Cells,
    samples: NDArray[np.int64],
    sums: ArmSums,
    factors: tuple[str, ...],
    settings: RueSettings,
) -> tuple[Group, ...]:
    """Return the levels of the first factor, each re-weighted over the strata within it."""
    if len(factors) < 2:
        return ()
    kept = set(comparable_strata(sums).tolist())
    levels = cells.levels(factors)
    coarse = _groups(cells, samples, cells.sums(factors[:1]), factors[:1], settings)
    merged = []
    for group in coarse:
        inside = [
            stratum for stratum, names in levels.items() if names[0] == group.levels[0] and stratum in kept
        ]
        if not inside:
            merged.append(replace(group, speedup=None, missing="no group within it has both configurations"))
            continue
        effect = reweighted_effect(sums.in_strata(np.array(inside, dtype=np.int64)))
        merged.append(replace(group, speedup=_speedup(effect, settings, len(coarse))))
    return tuple(merged)


def _over_all(
    sums: ArmSums,
    samples: NDArray[np.int64],
    cells: Cells,
    groups: tuple[Group, ...],
    choice: StrataChoice,
    settings: RueSettings,
) -> tuple[Total, Reweighted | None, Need | None]:
    shares = [float(samples[cells.arm == arm].sum() / samples.sum()) for arm in (0, 1)]
    everything = [sums.sums(arm) for arm in (0, 1)]
    effect = total_effect(sums)
    # Groups with one replicate have no spread of their own; a few of them would take the interval from all.
    strata = comparable_strata(sums)
    if not len(strata):
        strata = comparable_strata(sums, least_replicates=1)
    refused: tuple[str, ...] = ()
    paradox, reweighted, need = False, None, None
    if len(strata):
        kept = sums.in_strata(strata)
        fair = reweighted_effect(kept)
        kept_sums = [kept.sums(arm) for arm in (0, 1)]
        mix = mix_effect(kept)
        # The job is one of the strata where its operations are not the same work as another's.
        addable = "job" not in choice.factors or settings.work != "operations"
        first = _ratio(kept_sums[0])
        reweighted = Reweighted(
            rue=(first, first / fair.ratio) if addable and first is not None else (None, None),
            speedup=_speedup(fair, settings),
            mix_ratio=effect.ratio / fair.ratio,
            covered=(
                kept_sums[0][0] / everything[0][0],
                kept_sums[1][0] / everything[1][0],
            ),
        )
        refused, paradox = _refusal(_speedup(effect, settings), reweighted, mix, groups, settings)
        need = _need(kept, fair, settings)
    total = Total(
        shares=(shares[0], shares[1]),
        rue=(_ratio(everything[0]), _ratio(everything[1])),
        speedup=_speedup(effect, settings),
        refused=refused,
        paradox=paradox,
    )
    return total, reweighted, need


def _refusal(
    total: Speedup, fair: Reweighted, mix: Effect, groups: tuple[Group, ...], settings: RueSettings
) -> tuple[tuple[str, ...], bool]:
    """Return why the total must not be used, and whether every group shows the opposite."""
    span = mix.interval(settings.confidence)
    known = [group.speedup.value for group in groups if group.speedup is not None]
    if span is None or span[0] <= 1 <= span[1] or len(known) < 2:
        return (), False
    reasons = []
    side, fair_side = np.sign(total.value - 1), fair.speedup.side
    apart = (total.value - 1) * (fair.speedup.value - 1) < 0
    opposite = [value for value in known if (value - 1) * side < 0]
    same = [group for group in groups if group.speedup and group.speedup.side == side]
    paradox = bool(apart and ((fair_side == -side and not same) or len(opposite) == len(known)))
    matters = abs(np.log(fair.mix_ratio)) >= np.log1p(settings.least_effect_ratio)
    if paradox:
        each = f"{_word(2 - total.value)} in each of the {len(known)} groups"
        if len(opposite) < len(known):
            each = f"significantly so in none of the {len(known)} groups, and at one mix of groups it is"
            each = f"{each} {_word(fair.speedup.value)} ({fair.speedup.value:.2f})"
        reasons.append(
            f"configuration 2 is {_word(total.value)} in total ({total.value:.2f}), but {each}: Simpson's"
            " paradox"
        )
    elif apart and matters:
        reasons.append(
            f"configuration 2 is {_word(total.value)} in total ({total.value:.2f}), but"
            f" {_word(fair.speedup.value)} at one mix of groups ({fair.speedup.value:.2f})"
        )
    elif matters and _beyond(total.value, fair.speedup, known, settings):
        reasons.append(
            f"the total ({total.value:.2f}) is outside of the range of the groups ({min(known):.2f} to"
            f" {max(known):.2f})"
        )
    elif matters and total.side not in (0, fair.speedup.side):
        reasons.append(
            f"the total {_direction(total.side)} ({total.value:.3f}), but one mix of the groups"
            f" {_direction(fair.speedup.side)} ({fair.speedup.value:.3f})"
        )
    if reasons:
        reasons.append(
            "the mix of groups differs between the configurations, which alone moves the total by a factor of"
            f" {fair.mix_ratio:.2f}"
        )
    return tuple(reasons), paradox


def _beyond(total: float, fair: Speedup, known: list[float], settings: RueSettings) -> bool:
    """Return whether a total is outside of the range of the groups, by more than the noise at one mix."""
    span = fair.interval(settings.looks)
    outside = not min(known) <= total <= max(known)
    return outside and (span is None or not span[0] <= total <= span[1])


def _word(speedup: float) -> str:
    return "better" if speedup > 1 else "worse"


def _direction(side: int) -> str:
    return {
        1: "shows it significantly better",
        -1: "shows it significantly worse",
        0: "shows no significant difference",
    }[side]


def _need(sums: ArmSums, fair: Effect, settings: RueSettings) -> Need | None:
    variances = arm_variances(sums)
    if variances is None or fair.log_variance is None:
        return None
    variance = variance_needed(
        float(np.log1p(settings.least_effect_ratio)),
        confidence=settings.confidence,
        power=settings.power,
        always_valid_for=None
        if settings.looks == "once"
        else float(np.log1p(settings.expected_effect_ratio)),
        degrees=max(LEAST_DEGREES, fair.degrees or LEAST_DEGREES),
    )
    both = np.intersect1d(sums.cluster[sums.arm == 0], sums.cluster[sums.arm == 1])
    if 2 * len(both) > min(fair.replicates):
        return pairs_needed(fair.log_variance, fair.replicates, variance)
    return replicates_needed(variances, fair.replicates, variance)


def _speedup(effect: Effect, settings: RueSettings, among: int = 1) -> Speedup:
    return Speedup.of(
        effect,
        settings.confidence,
        settings.expected_effect_ratio,
        looks=settings.looks,
        among=among,
    )


def _ratio(side: tuple[float, float, int]) -> float | None:
    usage, work, _ = side
    return usage / work if work > 0 else None
