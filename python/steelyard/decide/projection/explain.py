"""What carries a projection and what misleads: single results, suites, shuffled results, contradictions.

In: features, targets and folds. Out: parts of a `Projection`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from steelyard.decide.projection.features import Features, Floats
from steelyard.decide.projection.geomean import log_scores
from steelyard.decide.projection.learn import Fold, Learner, Model, left_out
from steelyard.decide.projection.result import Contradiction, ResultWorth, SuiteError
from steelyard.decide.tables.model import MachineTable

CHEAP = Learner(trees=12, ridges=((True, (100.0,)), (False, (100.0,))))
"""For comparisons of suites and of numbers of machines: all of them by the same, smaller model."""
_ALIKE = 0.2
"""Results of machines that are alike differ by less, as the median over results of their largest ratio."""
_CONTRADICTS = np.log(1.5)


def errors_of(projected: Floats, target: Floats) -> Floats:
    """Return |projected / measured - 1| of logarithms, without what is missing."""
    known = np.isfinite(projected) & np.isfinite(target)
    found: Floats = np.abs(np.expm1(projected[known] - target[known]))
    return found


def middle_and_p90(errors: Floats) -> tuple[float, float] | tuple[None, None]:
    """Return median and 90th percentile."""
    if not len(errors):
        return None, None
    return float(np.median(errors)), float(np.quantile(errors, 0.9))


def scaled(logs: Floats, target: Floats, folds: Sequence[Fold]) -> Floats:
    """Return the target as a score in proportion to it says, scaled by the median of the other folds."""
    found = np.full(len(target), np.nan)
    ratio = target - logs
    for fold in folds:
        known = ratio[fold.known]
        if np.isfinite(known).any():
            found[fold.projected] = logs[fold.projected] + np.nanmedian(known)
    return found


def suites_of(results: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return suites of results by the first word of their names, where there are several words.

    >>> suites_of(["geekbench6_single", "geekbench6_multi", "zstd_compress"])
    {'geekbench6': ('geekbench6_single', 'geekbench6_multi'), 'zstd': ('zstd_compress',)}
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in results:
        first = name.split("_")[0]
        found[first] = (*found.get(first, ()), name)
    return found


def suite_error(name: str, results: Sequence[str], errors: Floats) -> SuiteError:
    """Return the error of a suite that was scaled by one machine."""
    middle, p90 = middle_and_p90(errors)
    return SuiteError(name, tuple(results), middle, p90, None, None)


def compare_suites(
    table: MachineTable,
    features: Features,
    target: Floats,
    groups: NDArray[np.str_],
    folds: Sequence[Fold],
    suites: Mapping[str, Sequence[str]],
    *,
    higher: bool,
) -> list[SuiteError]:
    """Return the error of each suite alone, best first."""
    attributes = {name for name in features.of if name not in {column.name for column in table.results}}
    found = []
    for name, results in suites.items():
        logs = log_scores(table, results) * (1.0 if higher else -1.0)
        alone = middle_and_p90(errors_of(scaled(logs, target, folds), target))
        only = features.only({*results, *attributes})
        model = middle_and_p90(errors_of(left_out(only, target, groups, folds, CHEAP)[0], target))
        found.append(SuiteError(name, tuple(results), *alone, *model))
    return sorted(found, key=lambda one: one.model_median_error_ratio or np.inf)


def worths(
    table: MachineTable,
    features: Features,
    target: Floats,
    folds: Sequence[Fold],
    models: Sequence[Model],
    results: Sequence[str],
    *,
    higher: bool,
) -> list[ResultWorth]:
    """Return what each result is worth, the one that carries most first, then attributes."""
    random = np.random.default_rng(4)
    before = _mean_error(features, target, folds, models)
    found = []
    for name in dict.fromkeys(features.of):
        loss = _shuffled(features, name, random, target, folds, models) / before - 1.0
        if name in results:
            logs = log_scores(table, [name]) * (1.0 if higher else -1.0)
            alone = scaled(logs, target, folds)
            middle, p90 = middle_and_p90(errors_of(alone, target))
            off = alone - target
            at = int(np.nanargmax(np.abs(off))) if np.isfinite(off).any() else None
            machine = None if at is None else table.machines[at].name
            times = None if at is None else float(np.exp(off[at]))
            found.append(ResultWorth(name, middle, p90, loss, machine, times))
        else:
            found.append(ResultWorth(name, None, None, loss, None, None))
    return sorted(found, key=lambda one: -(one.loss_ratio or 0.0))


def _mean_error(features: Features, target: Floats, folds: Sequence[Fold], models: Sequence[Model]) -> float:
    errors = [
        np.abs(model.predict(features, fold.projected) - target[fold.projected])
        for fold, model in zip(folds, models, strict=True)
    ]
    return float(np.concatenate(errors).mean())


def _shuffled(
    features: Features,
    name: str,
    random: np.random.Generator,
    target: Floats,
    folds: Sequence[Fold],
    models: Sequence[Model],
) -> float:
    # Machines in an order of their own: the figure is the same in whatever order they stand.
    at_rank = np.lexsort(np.nan_to_num(np.round(features.matrix, 6)).T)
    order = np.empty(len(target), int)
    order[at_rank] = at_rank[random.permutation(len(target))]
    mine = [at for at, of in enumerate(features.of) if of == name]
    matrix, anchors = features.matrix.copy(), features.anchors.copy()
    matrix[:, mine] = matrix[order][:, mine]
    at = [at for at, anchor in enumerate(features.anchor_names) if anchor == name]
    anchors[:, at] = anchors[order][:, at]
    shuffled = Features(
        features.names, features.of, matrix, anchors, features.anchor_names, features.is_size, features.size
    )
    return _mean_error(shuffled, target, folds, models)


def contradictions(
    table: MachineTable, target: Floats, groups: NDArray[np.str_], results: Sequence[str]
) -> list[Contradiction]:
    """Return machines of one group and size that most results take for alike, the target not."""
    cpus = table.numbers("cpus")
    cpus = table.numbers("cores") if not np.isfinite(cpus).any() else cpus
    logs = np.array([np.log(table.values(name)) for name in results]) if results else np.zeros((0, 0))
    found = []
    keys = np.array([f"{group}\0{size:g}" for group, size in zip(groups, cpus, strict=True)])
    for key in np.unique(keys):
        at = np.flatnonzero((keys == key) & np.isfinite(target))
        if len(at) < 2 or not len(logs):
            continue
        spread = float(np.ptp(target[at]))
        known = logs[:, at]
        spans = [float(np.ptp(row[np.isfinite(row)])) for row in known if np.isfinite(row).sum() > 1]
        if spread < _CONTRADICTS or not spans or float(np.median(spans)) > _ALIKE:
            continue
        lowest, highest = at[np.argmin(target[at])], at[np.argmax(target[at])]
        size = float(cpus[at[0]])
        found.append(
            Contradiction(
                str(groups[at[0]]),
                size if np.isfinite(size) else None,
                len(at),
                table.machines[lowest].name,
                table.machines[highest].name,
                float(np.exp(spread)),
                float(np.exp(np.median(spans))),
            )
        )
    return sorted(found, key=lambda one: -one.target_ratio)
