"""A calibration from the first run to the final check.

In: a benchmark's runs (`Make`), the target, what is searched. Out: `Calibration`.

1. Noise: runs with the settings as they are. By how much a metric differs between them says what a distance
   in it is worth: the search divides by it, lest it follow the metrics that vary most.
2. Search: Optuna proposes settings, in turn with a model of each metric (``surrogate``); a run says how far
   they are from the target by the metrics that the search sees, so weighted. Others are held out: where they
   come nearer too, the settings are right, and not only what is measured of them.
3. Second look: the best few are run once more, and the best by the mean of both is taken, since the best of
   many single runs was also the luckiest.
4. After: fresh runs with it, in turn with fresh runs of the settings before.

Invariants: the run that a setting was chosen by says nothing of it afterwards; the same seed and the same
runs lead to the same settings.

Not here: how a run is made (``cli``), distances (``decide.fidelity``).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from steelyard._base import UsageError, WorkloadFailedError
from steelyard.decide.fidelity.catalogue import CATALOGUE, metric_of
from steelyard.decide.fidelity.comparison import Fidelity, Overall, compare
from steelyard.decide.fidelity.workload import WorkloadProfile, repeated
from steelyard.tune.calibration.results import (
    BeforeAfter,
    CalibratedMetric,
    CalibratedParameter,
    Calibration,
    CalibrationTrial,
)
from steelyard.tune.calibration.space import Proposals, Searched
from steelyard.tune.calibration.surrogate import Surrogate

_CANDIDATES = 3
_NOISE_RUNS = 3
_LEAST_NOISE = 0.02
"""Noise at which a metric counts half as much as one without any."""
_ATTEMPTS, _HOPELESS = 2, 3
"""Attempts at a run that is disturbed, and after how many that were in vain there is only one."""
_EVERY = 3
"""Every third metric is held out."""


@dataclass(frozen=True)
class Tried:
    """A run: its profile and the values of its parameters, or why there is none."""

    profile: WorkloadProfile | None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    run_id: str | None = None
    missing: str | None = None
    is_disturbed: bool = False
    """Whether other processes took so much CPU time that the values may be theirs."""


Make = Callable[[Mapping[str, str], int], Tried]
"""Runs the benchmark with settings; the number seeds it."""


@dataclass(frozen=True)
class Plan:
    """What a calibration does."""

    benchmark: str
    target: WorkloadProfile
    searched: Sequence[Searched]
    trials: int
    repeats: int
    seed: int
    directory: Path
    hold_out: Sequence[str] = ()
    """Metrics that the search does not see; every third where empty."""


def held_out_of(names: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Return the metrics that the search does not see, of those that can be compared.

    By default every third, in the order of the catalogue.

    >>> held_out_of(["latency_p50_ns", "latency_p95_ns", "latency_p99_ns", "ipc"], [])
    ['latency_p95_ns']
    """
    if asked:
        unknown = next((name for name in asked if name not in names), None)
        if unknown is not None:
            raise UsageError(
                f"--hold-out {unknown}: target and benchmark do not both have it",
                hint=f"they have {', '.join(names)}",
            )
        chosen = list(dict.fromkeys(asked))
    else:
        order = list(CATALOGUE)
        ranked = sorted(names, key=lambda each: order.index(each) if each in CATALOGUE else len(order))
        chosen = ranked[_EVERY - 1 :: _EVERY]
    if len(chosen) >= len(names):
        raise UsageError("every metric is held out: nothing is left to search by")
    return chosen


def only(profile: WorkloadProfile, names: Sequence[str]) -> WorkloadProfile:
    """Return a profile of these metrics alone."""
    return replace(
        profile,
        metrics={name: each for name, each in profile.metrics.items() if name in names},
        mixes={name: each for name, each in profile.mixes.items() if name in names},
    )


def weights_of(alike: Sequence[WorkloadProfile]) -> dict[str, float]:
    """Return what a distance in each metric is worth, from runs of one setting: 1 where they agree."""
    found: dict[str, list[float]] = {}
    for a, b in itertools.combinations(alike, 2):
        for each in compare(a, b).metrics:
            if each.distance is not None:
                found.setdefault(each.name, []).append(each.distance)
    return {name: _LEAST_NOISE / (_LEAST_NOISE + statistics.fmean(apart)) for name, apart in found.items()}


@dataclass
class Calibrator:
    """A calibration under way."""

    plan: Plan
    make: Make
    is_over: Callable[[], bool] = lambda: False
    """Whether the time for the search is used up, or somebody asked to stop."""
    note: Callable[[str], None] = lambda text: None

    def __post_init__(self) -> None:
        self._seeds = 0
        self._seen: list[str] = []
        self._disturbed = 0
        self._stopped_after: int | None = None
        self._weights: dict[str, float] = {}
        self._model = Surrogate(self.plan.searched, self._weights)
        self._trials: list[CalibrationTrial] = []
        self._runs: dict[tuple[tuple[str, str], ...], list[float]] = {}

    def run(self) -> Calibration:
        """Search, look again, and check. Raises WorkloadFailedError where no run gives a profile."""
        plan = self.plan
        first, *again = (self._try({}) for _ in range(_NOISE_RUNS))
        if first.profile is None:
            raise WorkloadFailedError(f"{plan.benchmark} gave no profile: {first.missing}")
        alike = weights_of([each.profile for each in (first, *again) if each.profile is not None])
        common = [
            each.name for each in compare(first.profile, plan.target).metrics if each.distance is not None
        ]
        held = held_out_of(common, plan.hold_out)
        self._seen = [name for name in common if name not in held]
        sizes = Counter(metric_of(name).group for name in self._seen)
        self._weights = {name: alike.get(name, 1.0) / sizes[metric_of(name).group] for name in self._seen}
        self._model = Surrogate(plan.searched, self._weights)
        self.note(f"held out of the search: {', '.join(held) or 'none'}")
        self._search(first)
        best = self._second_look()
        before, after = self._check(best)
        return self._result(first, best, before, after, held)

    def _search(self, first: Tried) -> None:
        proposals = Proposals(self.plan.searched, self.plan.seed, self.plan.trials)
        proposals.begin_with(first.parameters)
        random = np.random.default_rng(self.plan.seed)
        for number in range(1, self.plan.trials + 1):
            if number > 1 and self.is_over():
                self._stopped_after = number - 1
                break
            if number % 2 == 0 and self._model.count > 2 * len(self.plan.searched):
                proposals.take(self._model.propose(random))
            settings = proposals.ask()
            distance = self._distance(number, settings)
            proposals.tell(distance)

    def _distance(self, number: int, settings: Mapping[str, str]) -> float | None:
        """Run once; return the distance, and keep the trial."""
        tried = self._try(settings)
        distance, why, found = None, tried.missing, None
        if tried.profile is not None:
            try:
                found = compare(only(tried.profile, self._seen), only(self.plan.target, self._seen))
                lacking = sorted(set(self._seen) - {e.name for e in found.metrics if e.distance is not None})
                # A run that lacks a metric would seem nearer by what it lacks.
                distance, why = (None, f"it lacks {lacking[0]}") if lacking else (self._weighed(found), None)
            except UsageError as error:
                why = error.message
        self._trials.append(CalibrationTrial(number, dict(settings), distance, tried.run_id, why))
        if distance is not None and found is not None:
            self._runs.setdefault(_key(settings), []).append(distance)
            self._model.add(settings, _signed(found), distance)
        words = " ".join(f"{name}={value}" for name, value in settings.items())
        self.note(
            f"trial {number}: {words}: {'failed: ' + str(why) if distance is None else f'{distance:.3f}'}"
        )
        return distance

    def _weighed(self, found: Fidelity) -> float:
        """Return the mean distance over metrics, by what each is worth."""
        known = [each for each in found.metrics if each.distance is not None]
        weights = [self._weights[each.name] for each in known]
        total = math.fsum(
            weight * (each.distance or 0.0) for weight, each in zip(weights, known, strict=True)
        )
        return total / math.fsum(weights)

    def _second_look(self) -> dict[str, str]:
        """Run the best few again; return the settings that are best by all of their runs."""
        ranked = sorted(self._runs, key=lambda key: statistics.fmean(self._runs[key]))[:_CANDIDATES]
        if not ranked:
            why = next((trial.missing for trial in self._trials if trial.missing), "no trial was made")
            raise WorkloadFailedError(f"no trial of {self.plan.benchmark} gave a distance: {why}")
        if len(self._runs) > _CANDIDATES:
            for key in ranked:
                if not self.is_over():
                    self._distance(len(self._trials) + 1, dict(key))
        best: tuple[tuple[str, str], ...] = min(ranked, key=lambda key: statistics.fmean(self._runs[key]))
        return dict(best)

    def _check(self, best: Mapping[str, str]) -> tuple[WorkloadProfile, WorkloadProfile]:
        """Return the profiles of fresh runs before and after, made in turn."""
        made: tuple[list[WorkloadProfile], list[WorkloadProfile]] = ([], [])
        for _ in range(self.plan.repeats):
            for settings, profiles in zip(({}, best), made, strict=True):
                tried = self._try(settings)
                if tried.profile is None:
                    tried = self._try(settings)
                if tried.profile is None:
                    raise WorkloadFailedError(f"a run of the final check failed: {tried.missing}")
                profiles.append(tried.profile)
        before, after = (repeated(profiles) for profiles in made)
        return replace(before, name="before"), replace(after, name="after")

    def _try(self, settings: Mapping[str, str]) -> Tried:
        """Run once, and once more where other processes disturbed the first run and do not always."""
        for _ in range(_ATTEMPTS if self._disturbed < _HOPELESS else 1):
            self._seeds += 1
            tried = self.make(settings, self._seeds)
            if not tried.is_disturbed or self.is_over():
                break
        self._disturbed += tried.is_disturbed
        return tried

    def _result(
        self,
        first: Tried,
        best: Mapping[str, str],
        before: WorkloadProfile,
        after: WorkloadProfile,
        held: Sequence[str],
    ) -> Calibration:
        plan = self.plan
        whole = (compare(before, plan.target), compare(after, plan.target))
        names = [*self._seen, *held]
        return Calibration(
            benchmark=plan.benchmark,
            target=plan.target.name,
            directory=plan.directory,
            parameters=tuple(
                CalibratedParameter(
                    each.name, each.range_text, _value(each, first.parameters), best[each.name]
                )
                for each in plan.searched
            ),
            searched=self._both(before, after, self._seen),
            held_out=self._both(before, after, held),
            metrics=tuple(_metric(name, whole, name in held) for name in _farthest(whole[0], names)),
            trials=tuple(self._trials),
            repeats=plan.repeats,
            cautions=tuple(self._cautions(held)),
        )

    def _both(self, before: WorkloadProfile, after: WorkloadProfile, names: Sequence[str]) -> BeforeAfter:
        return BeforeAfter(
            *(_overall(only(side, names), only(self.plan.target, names)) for side in (before, after))
        )

    def _cautions(self, held: Sequence[str]) -> list[str]:
        said = []
        failed = [trial for trial in self._trials if trial.distance is None]
        if failed:
            said.append(f"{len(failed)} of {len(self._trials)} trials gave no distance: {failed[0].missing}")
        if self._stopped_after is not None:
            said.append(
                f"the search ended after {self._stopped_after} of {self.plan.trials} trials:"
                " its time was used up"
            )
        if self._disturbed:
            said.append(
                f"{self._disturbed} runs were disturbed by other processes and are taken as they are:"
                " calibrate on an idle machine"
            )
        if not held:
            said.append("no metric was held out: the distances after are those that were searched for")
        if self.plan.repeats < 3:
            said.append("fewer than 3 fresh runs before and after: no run-to-run interval (--repeat 3)")
        return said


def _overall(side: WorkloadProfile, target: WorkloadProfile) -> Overall | None:
    if not side.known or not target.known:
        return None
    return compare(side, target).overall


def _signed(found: Fidelity) -> dict[str, float]:
    """Return the signed distance of each metric; of a mix, which has no sign, its distance."""
    signed = {}
    for each in found.metrics:
        if each.distance is not None:
            delta = each.distance if each.a is None or each.b is None or each.a >= each.b else -each.distance
            signed[each.name] = delta
    return signed


def _key(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(settings.items())


def _value(searched: Searched, parameters: Mapping[str, Any]) -> str:
    value = parameters.get(searched.name)
    return "not known" if value is None else searched.text(value)


def _farthest(found: Fidelity, names: Sequence[str]) -> list[str]:
    return [each.name for each in found.metrics if each.name in names and each.distance is not None]


def _metric(name: str, found: tuple[Fidelity, Fidelity], is_held_out: bool) -> CalibratedMetric:
    before, after = (each.metric(name) for each in found)
    return CalibratedMetric(
        name=name,
        title=before.title,
        group=before.group,
        unit=before.unit,
        is_held_out=is_held_out,
        target=before.b,
        before=before.a,
        after=after.a,
        distance_before=before.distance,
        distance_after=after.distance,
        low_after=after.low,
        high_after=after.high,
    )
