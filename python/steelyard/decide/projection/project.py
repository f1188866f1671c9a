"""Project a target: choose the method, project every machine, and say how far off it is.

In: a `MachineTable` and what was asked. Out: a `Projection`.

Invariant: the projection of a machine whose target is known comes from other groups alone, so that its error
is what a machine of a new group would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steelyard._base import ResultSaysNoError, UsageError
from steelyard.decide.projection import explain, plan
from steelyard.decide.projection.features import (
    Features,
    Floats,
    features_of,
)
from steelyard.decide.projection.geomean import log_scores
from steelyard.decide.projection.intervals import (
    SiblingScores,
    difficulty,
    expected_residuals,
    quantile,
    scale_with_siblings,
    scores_for,
)
from steelyard.decide.projection.learn import Fold, Learner, Model, fit, folds_of, forward_folds, left_out
from steelyard.decide.projection.problem import GEOMEAN, MODEL, Problem, Question, matches, problem_of
from steelyard.decide.projection.result import (
    ErrorSummary,
    GroupError,
    ProjectedMachine,
    Projection,
    SiblingError,
    SuiteError,
    plural,
)
from steelyard.decide.projection.siblings import Siblings, siblings_of
from steelyard.decide.tables.model import MachineTable

FOLDS = 12
_SUITE_FOLDS = 5
GROUPS_AT_LEAST = 4
"""Fewest groups with a known target from which a model is learned."""
MACHINES_AT_LEAST = 8
_NEAR = np.log(1.25)
"""A machine no further than this outside of the known range is as good as inside."""
_FAR = np.log(1.5)
"""A machine further than this outside of the known range is flagged."""


@dataclass(frozen=True)
class _Spans:
    """Half-widths of intervals, in logarithms, NaN where there is none."""

    of_new: Floats
    """Of machines as if their group were unknown."""
    siblings: Siblings | None
    """How residuals follow from those of siblings."""


def project(table: MachineTable, question: Question) -> Projection:
    """Return the projection. Raises UsageError for what cannot be projected, with the reason."""
    problem = problem_of(table, question)
    groups = len(np.unique(problem.groups[problem.known]))
    machines = int(problem.known.sum())
    enough = machines >= MACHINES_AT_LEAST and groups >= GROUPS_AT_LEAST
    method = question.method or (MODEL if enough else GEOMEAN)
    needs = _needs(problem, machines, groups)
    if method == MODEL and not enough:
        raise UsageError(needs, hint=f"--method {GEOMEAN} needs one machine")
    if method == MODEL:
        return _by_model(problem)
    asked = next((option for option, is_asked in _of_model(question).items() if is_asked), None)
    if asked is not None:
        raise UsageError(f"{asked}: {needs}" if not enough else f"{asked} needs --method {MODEL}",
                         hint=f"leave {asked} out")  # fmt: skip
    return _by_geomean(problem, "" if question.method else f"{needs[0].upper()}{needs[1:]}.")


def _needs(problem: Problem, machines: int, groups: int) -> str:
    """Return what a model needs, and what there is."""
    kinds = f" of {GROUPS_AT_LEAST} {plural(problem.group_attribute)}"
    there = f"{machines} of {groups}"
    if problem.group_attribute == "machine":
        kinds, there = "", str(machines)
    return f"a model needs {MACHINES_AT_LEAST} machines{kinds} with a known {problem.name}; there are {there}"


def _of_model(question: Question) -> dict[str, bool]:
    """Return the options that only a model answers, and whether they were given."""
    return {
        "--forward": question.forward,
        "--each-group": question.every_group,
        "--explain": question.explain,
        "--learning-curve": question.learning,
        "--wanted-error": question.wanted_error_ratio is not None,
    }


def _by_geomean(problem: Problem, why: str) -> Projection:
    """Return the projection by geometric means; ``why`` says why no model was learned."""
    table = problem.table
    if not problem.results:
        raise UsageError(
            "no result to project from",
            hint=why.rstrip(".") or "give other results than the target, or project with --method model",
        )
    sign = 1.0 if problem.is_higher_better else -1.0
    scores = sign * log_scores(table, problem.results)
    at = problem.calibration
    if not np.isfinite(scores[at]):
        lacking = [name for name in problem.results if name not in table.machines[at].results]
        raise UsageError(
            f"{table.machines[at].name} lacks {', '.join(lacking[:4])}: it cannot calibrate",
            hint="name another machine with --calibration, or leave results out with --without",
        )
    logs = problem.target[at] + scores - scores[at]
    nothing = np.full(len(logs), np.nan)
    no_flags: list[tuple[str, ...]] = [()] * len(logs)
    machines = _machines(problem, logs, nothing, no_flags)
    suites = []
    for name, results in _suites(problem).items():
        mean = sign * log_scores(table, results)
        errors = explain.errors_of(problem.target[at] + mean - mean[at], _without(problem.target, at))
        suites.append(explain.suite_error(name, results, errors))
    suites.sort(key=lambda one: np.inf if one.scaled_median_error_ratio is None else
                one.scaled_median_error_ratio)  # fmt: skip
    error = _summary(problem, logs, _without(problem.target, at), None)
    notes = [*problem.notes, *([why] if why else [])]
    return _projection(problem, GEOMEAN, machines, error=error, suites=suites, notes=notes)


def _without(values: Floats, at: int) -> Floats:
    found = values.copy()
    found[at] = np.nan
    return found


def _by_model(problem: Problem) -> Projection:
    question, target, groups, known = problem.question, problem.target, problem.groups, problem.known
    features = features_of(problem.table, problem.results, problem.group_attribute)
    if not features.matrix.shape[1]:
        raise UsageError(
            "no result and no attribute differs from machine to machine: there is nothing to project from",
            hint="give columns beside the target",
        )
    folds = _folds(problem)
    outside, models = left_out(features, target, groups, folds)
    judged = np.isfinite(outside)
    spans = _spans(problem, features, outside, folds)
    logs, half = outside.copy(), np.where(judged, spans.of_new, np.nan)
    flags: list[tuple[str, ...]] = [()] * len(target)
    if (~known).any():
        final = fit(features, target, groups, known, Learner())
        logs, half, flags = _project_new(problem, features, final, (folds, models), spans, (logs, half))
    machines = _machines(problem, logs, half, flags)
    inside = np.abs(outside - target)[judged] <= spans.of_new[judged]
    coverage = float(inside.mean()) if judged.any() and np.isfinite(spans.of_new[judged]).all() else None
    error = _summary(problem, outside, target, coverage)
    worths = []
    if question.explain:
        worths = explain.worths(
            problem.table, features, target, folds, models, problem.results, higher=problem.is_higher_better
        )
    learning, needed = [], None
    if question.learning or question.wanted_error_ratio is not None:
        learning = plan.learning_curve(features, target, groups, known)
        if question.wanted_error_ratio is not None and error is not None:
            now = (error.groups, error.median_error_ratio)
            needed = plan.groups_needed(learning, question.wanted_error_ratio, now)
    following = []
    if spans.siblings is not None and (~known).any():
        following = plan.next_machines(
            problem.table.names, groups, _sizes(features), known, half, spans.siblings
        )
    return _projection(
        problem,
        MODEL,
        machines,
        error=error,
        groups=_group_errors(problem, outside, folds),
        siblings=[]
        if spans.siblings is None
        else [_sibling_error(one) for one, _ in spans.siblings.quantiles],
        suites=_model_suites(problem, features, folds),
        worths=worths,
        learning=learning,
        groups_needed=needed,
        wanted_error_ratio=question.wanted_error_ratio,
        next=following,
        contradictions=explain.contradictions(problem.table, target, groups, problem.results),
    )


def _model_suites(problem: Problem, features: Features, folds: Sequence[Fold]) -> list[SuiteError]:
    question = problem.question
    if not question.compares_suites:
        return []
    # Fewer folds: what counts here is how suites compare.
    fewer = folds if question.forward else folds_of(problem.groups, problem.known, _SUITE_FOLDS)
    return explain.compare_suites(
        problem.table,
        features,
        problem.target,
        problem.groups,
        fewer,
        _suites(problem),
        higher=problem.is_higher_better,
    )


def _folds(problem: Problem) -> list[Fold]:
    if not problem.question.forward:
        most = len(problem.groups) if problem.question.every_group else FOLDS
        return folds_of(problem.groups, problem.known, most)
    years = problem.table.numbers("year")
    if not np.isfinite(years).any():
        raise UsageError("--forward needs a column `year` or `date`", hint="say which in --columns FILE.toml")
    folds = forward_folds(problem.groups, years, problem.known, FOLDS)
    if not folds:
        raise UsageError(
            "--forward: no processor is of a later year than two known machines",
            hint="leave --forward out, or give machines of several years",
        )
    return folds


def _sizes(features: Features) -> Floats:
    middle = np.nanmedian(features.size) if np.isfinite(features.size).any() else 0.0
    found: Floats = np.where(np.isfinite(features.size), features.size, middle)
    return found


def _spans(problem: Problem, features: Features, outside: Floats, folds: Sequence[Fold]) -> _Spans:
    """Return the half-widths of intervals, from residuals of machines whose group was left out."""
    confidence = problem.question.confidence
    judged = np.isfinite(outside)
    residuals = problem.target - outside
    groups, sizes = problem.groups, _sizes(features)
    expected = expected_residuals(features, np.where(judged, residuals, np.nan), groups, folds)
    usable = judged & np.isfinite(expected)
    found = quantile(np.abs(residuals[usable]) / expected[usable], groups[usable], confidence)
    fresh = ~problem.known
    if fresh.any() and usable.any():
        expected[fresh] = difficulty(features, residuals, groups, usable).of(features, fresh)
    widths = np.full(len(expected), np.nan) if found is None else found * expected
    family = siblings_of(features, problem.target, outside, expected, groups, sizes, confidence)
    return _Spans(widths, family)


def _project_new(
    problem: Problem,
    features: Features,
    final: Model,
    learned: tuple[Sequence[Fold], Sequence[Model]],
    spans: _Spans,
    so_far: tuple[Floats, Floats],
) -> tuple[Floats, Floats, list[tuple[str, ...]]]:
    """Return projections, half-widths and flags with those of machines whose target is unknown.

    A machine with known siblings is projected from them: by their law, or by the mean of two, the
    model of all machines and that of other groups with the correction of the siblings.
    """
    logs, half = (one.copy() for one in so_far)
    known, groups, sizes = problem.known, problem.groups, _sizes(features)
    fresh = ~known
    logs[fresh] = final.predict(features, fresh)
    half[fresh] = spans.of_new[fresh]
    family = spans.siblings
    for fold, model in zip(*learned, strict=True) if family is not None else ():
        assert family is not None
        for group in np.unique(groups[fold.projected]):
            mine = fresh & (groups == group)
            siblings = fold.projected & (groups == group) & np.isfinite(family.residuals)
            if not mine.any() or not siblings.any():
                continue
            mean, variance = family.covariance.predict(
                sizes[mine], sizes[siblings], family.residuals[siblings]
            )
            if family.law is not None:
                logs[mine] = family.law[mine] + mean
            else:
                logs[mine] = (logs[mine] + model.predict(features, mine) + mean) / 2
            scores = scores_for([one for one, _ in family.quantiles], int(siblings.sum()))
            if scores is not None:
                value = next(value for one, value in family.quantiles if one is scores)
                width = value * scale_with_siblings(family.expected[mine], variance, family.covariance)
                half[mine] = np.fmin(half[mine], width)
    beyond = np.zeros(len(logs))
    beyond[fresh] = final.beyond(features, fresh)
    half = half * (1.0 + np.maximum(beyond - _NEAR, 0.0) / np.log(2.0))
    flags: list[tuple[str, ...]] = []
    for at in range(len(logs)):
        far = fresh[at] and beyond[at] > _FAR
        said = f"{np.exp(beyond[at]):.1f} times outside of the known machines: the interval is wider"
        flags.append((said,) if far else ())
    return logs, half, flags


def _machines(
    problem: Problem,
    logs: Floats,
    half: Floats,
    flags: Sequence[tuple[str, ...]],
) -> list[ProjectedMachine]:
    calibration = problem.target[problem.calibration]
    base = 0.0 if len(problem.question.targets) == 1 else calibration
    known, names = problem.known, problem.table.names
    _, group = np.unique(problem.groups, return_inverse=True)
    siblings = np.bincount(group, known)[group] - known
    found = []
    for at, machine in enumerate(problem.table.machines):
        log, width, truth = logs[at], half[at], problem.target[at]
        is_known = bool(np.isfinite(log))
        has_span = is_known and bool(np.isfinite(width))
        why = None if is_known else _why(problem, at)
        found.append(
            ProjectedMachine(
                machine.name,
                str(problem.groups[at]),
                float(np.exp(log - base)) if is_known else None,
                float(np.exp(log - base - width)) if has_span else None,
                float(np.exp(log - base + width)) if has_span else None,
                float(np.exp(truth - base)) if np.isfinite(truth) else None,
                float(np.exp(log - calibration)) if is_known else None,
                float(np.expm1(log - truth)) if is_known and np.isfinite(truth) else None,
                int(siblings[at]),
                flags[at],
                why,
                names[problem.twins[at]] if at in problem.twins else None,
            )
        )
    return found


def _why(problem: Problem, at: int) -> str:
    machine = problem.table.machines[at]
    if not problem.question.forward:
        lacking = next((name for name in problem.results if name not in machine.results), "")
        return f"{lacking}: {machine.why_missing(lacking)}"
    mine = problem.groups == problem.groups[at]
    if not np.isfinite(problem.table.numbers("year")[mine & problem.known]).any():
        return "no year is known"
    return "of the earliest years: there is nothing earlier to project it from"


def _summary(problem: Problem, logs: Floats, target: Floats, coverage: float | None) -> ErrorSummary | None:
    known = np.isfinite(logs) & np.isfinite(target)
    if not known.any():
        return None
    errors = np.expm1(logs[known] - target[known])
    return ErrorSummary(
        int(known.sum()),
        len(np.unique(problem.groups[known])),
        float(np.median(np.abs(errors))),
        float(np.quantile(np.abs(errors), 0.9)),
        float(np.median(errors)),
        coverage,
    )


def _group_errors(problem: Problem, outside: Floats, folds: Sequence[Fold]) -> list[GroupError]:
    parts = (
        [(fold.name, fold.projected) for fold in folds]
        if problem.question.forward
        else [(str(name), problem.groups == name) for name in np.unique(problem.groups[problem.known])]
    )
    found = []
    for name, mask in parts:
        at = mask & np.isfinite(outside) & problem.known
        if at.any():
            errors = np.expm1(outside[at] - problem.target[at])
            middle = float(np.median(np.abs(errors)))
            found.append(GroupError(name, int(at.sum()), middle, float(np.median(errors))))
    return found if problem.question.forward else sorted(found, key=lambda one: -one.median_error_ratio)


def _sibling_error(scores: SiblingScores) -> SiblingError:
    errors = np.abs(np.expm1(-scores.errors))
    return SiblingError(scores.count, float(np.median(errors)), float(np.quantile(errors, 0.9)))


def _suites(problem: Problem) -> dict[str, tuple[str, ...]]:
    """Return the suites to compare, and all results together where there are several."""
    suites: dict[str, tuple[str, ...]] = {}
    for name, patterns in problem.question.suites.items():
        fitting = tuple(one for one in problem.results if matches(one, patterns))
        if not fitting:
            raise UsageError(
                f"--suite {name}: no result fits {', '.join(patterns) or 'an empty pattern'}",
                hint=f"results: {', '.join(problem.results[:8]) or 'none'}",
            )
        suites[name] = fitting
    suites = suites or explain.suites_of(problem.results)
    return {**suites, "all": problem.results} if len(suites) > 1 else suites


def _projection(
    problem: Problem, method: str, machines: Sequence[ProjectedMachine], **parts: object
) -> Projection:
    if all(machine.projected is None for machine in machines):
        raise ResultSaysNoError(
            "no machine could be projected", hint=f"{machines[0].name}: {machines[0].missing}"
        )
    made: dict[str, object] = {
        "error": None, "groups": (), "siblings": (), "suites": (), "worths": (), "learning": (),
        "groups_needed": None, "wanted_error_ratio": None, "next": (), "contradictions": (),
        "notes": problem.notes,
    }  # fmt: skip
    made |= {name: tuple(part) if isinstance(part, list) else part for name, part in parts.items()}
    several = len(problem.question.targets) > 1
    return Projection(
        target=problem.name,
        unit="1" if several else problem.unit,
        better=problem.better,
        method=method,
        calibration=problem.table.machines[problem.calibration].name,
        group_attribute=problem.group_attribute,
        is_forward=problem.question.forward,
        confidence=problem.question.confidence,
        results=problem.results,
        left_out_results=problem.left_out_results,
        machines=tuple(machines),
        **made,  # type: ignore[arg-type]
    )
