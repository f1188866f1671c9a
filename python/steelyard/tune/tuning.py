"""A tuning from search to confirmation.

In: the record of a tuning, its knobs, and what makes an experiment. Out: the record with its evidence and the
levels that were chosen, none where no knob helps.

1. Search. A race for each knob: its levels beside the machine as it is (``one-at-a-time``, the SoftSKU
   paper's), or beside the best so far, in passes until nothing changes (``hill-climb``), or one race of all
   combinations (``exhaustive``), or races of combinations that Optuna proposes (``optuna``).
2. Compose and ablate. All winners together beside the same with one of them left out; what loses nothing is
   left out for good, one at a time, since two knobs may stand in for each other.
3. Confirm. What is left beside the machine as found, over all blocks, for one look.

A search only chooses what is confirmed: each of its comparisons has the whole confidence (``race``). What it
says of levels in the end, such as "no knob helps by more than 1 %", holds for all of them together
(Bonferroni: races, and within a race every pair of levels, since the one with which the others are compared
is itself chosen by the values). The ablation's confidence is shared by all of its rounds. Ablation and
confirmation decide on new values, so that the choice does not flatter the chosen.

Invariant: everything here follows from the record and its experiments, so that a tuning that was killed goes
on where it was: experiments that are complete are read, not made.

Not here: trials (``trials``), verdicts of one experiment (``race``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from steelyard._base import UsageError
from steelyard.experiment.answers import answers
from steelyard.experiment.engine import StillOpen
from steelyard.experiment.outcomes import ArmAnswer, Outcome
from steelyard.records import RunStatus
from steelyard.records.experiment import Experiment, ExperimentArm, ExperimentPlan
from steelyard.records.tuning import Tuning, TuningEvidence
from steelyard.tune.knobs import Knob
from steelyard.tune.proposals import Proposals
from steelyard.tune.race import (
    answer_of,
    gain,
    gain_ends,
    most_dispensable,
    reasons,
    standing,
    still_racing,
    undecided_arms,
)

Levels = Mapping[str, str]
AS_FOUND, WHOLE = "as-found", "soft-sku"
BETTER, NONE, UNDECIDED = "better", "none", "undecided"
"""Outcome of a tuning: a soft SKU, no knob that helps, or none that is shown to while some are open."""
STRATEGIES = ("one-at-a-time", "hill-climb", "exhaustive", "optuna")
_PASSES = 4
_ROUNDS, _PROPOSALS = 16, 8
"""Races of proposed combinations, and how many of these each has."""
_MOST_COMBINATIONS = 512
NEGLIGIBLE = 5.0
"""A tuning whose levels all help by less than so many times the smallest effect that matters says that none
helps by more than that; one that leaves more open is undecided."""
_SEARCH_SHARE, _ABLATE_SHARE = 0.6, 0.75
"""Of the time: until the end of the search, and of the ablation."""
_FEWEST_BLOCKS = 5
"""A race with fewer says nothing."""
_NO_TIME = "the time for the search was used up"

Make = Callable[[str, Experiment, StillOpen | None], Experiment]
"""Makes an experiment in the folder of this name, or goes on with it, and returns it complete."""
Keep = Callable[[Tuning], None]


class StoppedError(Exception):
    """An experiment was interrupted; its record says why."""


@dataclass
class Tuner:
    """A tuning under way."""

    tuning: Tuning
    knobs: Mapping[str, Knob]
    """Those to try, by name, in their order."""
    make: Make
    keep: Keep = lambda tuning: None

    def __post_init__(self) -> None:
        self._count = itertools.count(1)
        self._spent_s = 0.0
        self._search_share = _SEARCH_SHARE

    def run(self) -> Tuning:
        """Make what is missing; return the record. Raises StoppedError after an interrupt."""
        self._change(evidence=[], chosen={}, outcome=None, trials=0)
        self._search_share = _SEARCH_SHARE
        winners = self._search()
        kept = self._ablate(winners)
        chosen, outcome = self._confirm(kept)
        self._change(chosen=dict(chosen), outcome=outcome)
        return self.tuning

    def _search(self) -> dict[str, str]:
        match self.tuning.plan.strategy:
            case "one-at-a-time":
                return self._each_alone()
            case "hill-climb":
                return self._climb()
            case "optuna":
                return self._propose()
            case _:
                return self._exhaust()

    def _each_alone(self) -> dict[str, str]:
        """Race each knob beside the machine as found.

        Where fewer than two have won there is nothing to ablate, and its time goes to those that are left.
        """
        won: dict[str, str] = {}
        left = list(self.knobs)
        for share in (_SEARCH_SHARE, _ABLATE_SHARE):
            self._search_share = share
            names, left = left, []
            for name in names:
                is_for_ablation = share > _SEARCH_SHARE and len(won) > 1
                if is_for_ablation or self._lacks_time(1 + len(self.tuning_knob(name))):
                    left.append(name)
                elif (level := self._race(name, {}, len(self.knobs))) is not None:
                    won[name] = level
        for name in left:
            self._skip(name, _NO_TIME)
        return won

    def _climb(self) -> dict[str, str]:
        """Race each knob beside the best so far, again and again until a pass changes nothing.

        Each pass spends half of what the passes before it left of the chance of an error.
        """
        best: dict[str, str] = {}
        settled: dict[str, Levels] = {}
        for turn in range(_PASSES):
            before = dict(best)
            for name in self.knobs:
                others = {other: level for other, level in best.items() if other != name}
                if settled.get(name) == others:
                    continue
                level = self._race(name, best, 2 ** (turn + 1) * len(self.knobs))
                if level is not None:
                    best = {**best, name: level} if level != AS_FOUND else others
                settled[name] = {other: level for other, level in best.items() if other != name}
            if best == before:
                break
        return best

    def _race(self, name: str, best: Levels, races: int) -> str | None:
        """Return the level of a knob that is better than the one in ``best``, None where none is."""
        knob = self.tuning_knob(name)
        if self._lacks_time(1 + len(knob)):
            self._skip(name, _NO_TIME)
            return None
        present = best.get(name, AS_FOUND)
        levels = [level for level in (AS_FOUND, *knob) if level != present]
        arms = [self._arm(present, best)]
        for level in levels:
            others = {other: one for other, one in best.items() if other != name}
            arms.append(self._arm(level, others if level == AS_FOUND else {**others, name: level}))
        made = self._experiment(
            "search",
            name,
            arms,
            self.tuning.plan.confidence,
            self._racing(len(self.knobs) - len(self._raced())),
        )
        self._tell(made, "search", name, comparisons=_pairs(races, len(levels)))
        return standing(made).leader

    def tuning_knob(self, name: str) -> list[str]:
        """Return the levels of a knob that are tried."""
        return next(knob.levels for knob in self.tuning.knobs if knob.name == name)

    def _exhaust(self) -> dict[str, str]:
        """Race all combinations at once."""
        levels = [[(name, level) for level in (None, *self.tuning_knob(name))] for name in self.knobs]
        count = math.prod(len(one) for one in levels)
        if count > _MOST_COMBINATIONS:
            raise UsageError(
                f"--strategy exhaustive: {count} combinations, at most {_MOST_COMBINATIONS} are tried",
                hint="name fewer knobs or levels with --knob NAME=LEVEL,...",
            )
        combinations = [
            {name: level for name, level in combination if level is not None}
            for combination in itertools.product(*levels)
        ]
        named = {AS_FOUND if not one else _text(one): one for one in combinations}
        arms = [self._arm(name, one) for name, one in named.items()]
        made = self._experiment("search", "all", arms, self.tuning.plan.confidence, still_racing)
        self._tell(made, "search", None, comparisons=_pairs(1, len(arms) - 1))
        leader = standing(made).leader
        return {} if leader is None else dict(named[leader])

    def _propose(self) -> dict[str, str]:
        """Race what Optuna proposes beside the best so far, and report back how good that was."""
        found = {one.name: one.found for one in self.tuning.knobs}
        levels = {name: (found[name], *self.tuning_knob(name)) for name in self.knobs}
        proposals = Proposals(levels, self.tuning.plan.seed)
        best: dict[str, str] = {}
        best_gain = 0.0
        for turn in range(_ROUNDS):
            if self._lacks_time(1 + _PROPOSALS):
                self._skip(None, f"the time for the search was used up after {turn} of {_ROUNDS} races")
                break
            named = {_text(one): one for one in proposals.ask(_PROPOSALS)}
            if not named:
                break
            arms = [self._arm(_text(best) or AS_FOUND, best)]
            arms += [self._arm(name, one) for name, one in named.items()]
            rule = self._racing(_ROUNDS - turn)
            made = self._experiment("search", "proposed", arms, self.tuning.plan.confidence, rule)
            self._tell(made, "search", None, comparisons=_pairs(_ROUNDS, len(named)))
            gains = {}
            for answer in answers(made, is_over=False):
                gains[answer.arm] = best_gain + math.log(gain(answer, made)) if answer.blocks else None
                proposals.tell(named[answer.arm], gains[answer.arm])
            leader = standing(made).leader
            if leader is not None:
                best, best_gain = dict(named[leader]), gains[leader] or best_gain
        return best

    def _ablate(self, winners: Levels) -> dict[str, str]:
        """Leave out, one at a time, what loses nothing by it."""
        kept = dict(winners)
        while len(kept) > 1:
            arms = [self._arm(WHOLE, kept)]
            for name in kept:
                rest = {other: level for other, level in kept.items() if other != name}
                arms.append(self._arm(name, rest))
            made = self._experiment(
                "ablate", "-".join(kept), arms, self._split(len(winners) - 1), undecided_arms, _ABLATE_SHARE
            )
            self._tell(made, "ablate", None, without=kept)
            idle = most_dispensable(made)
            if idle is None:
                break
            del kept[idle]
        return kept

    def _confirm(self, kept: Levels) -> tuple[Levels, str]:
        """Compare the whole with the machine as found; return what is kept, and the outcome."""
        if not kept:
            return {}, UNDECIDED if self._is_open() else NONE
        arms = [self._arm(AS_FOUND, {}), self._arm(WHOLE, kept)]
        made = self._experiment("confirm", "whole", arms, self.tuning.plan.confidence, None, 1.0)
        self._tell(made, "confirm", None)
        outcome = answer_of(made, WHOLE).outcome
        if outcome is Outcome.BETTER:
            return kept, BETTER
        return {}, UNDECIDED if self._is_open() else NONE

    def _is_open(self) -> bool:
        """Return whether a knob that was to be tried may still help by more than is negligible."""
        most = most_gain(self.tuning)
        negligible = 1 + NEGLIGIBLE * self.tuning.plan.least_effect_ratio
        return bool(open_knobs(self.tuning)) or (most is not None and most > negligible)

    def _split(self, rounds: int) -> float:
        """Return the confidence of one round of the ablation such that all hold together."""
        return 1 - (1 - self.tuning.plan.confidence) / max(rounds, 1)

    def _arm(self, name: str, levels: Levels) -> ExperimentArm:
        """Return an arm with these levels; knobs that are not named stay as they are."""
        record = self.tuning
        arm = ExperimentArm(name=name, settings=dict(record.settings), command=list(record.template))
        for knob, level in levels.items():
            arm = self.knobs[knob].dress(arm, level)
        # Places that nobody set have what they have otherwise.
        for other in self.knobs.values():
            if any(f"{{{other.name}}}" in word for word in arm.command):
                arm = other.dress(arm, other.read())
        return arm

    def _experiment(
        self,
        purpose: str,
        what: str,
        arms: list[ExperimentArm],
        confidence: float,
        rule: StillOpen | None,
        until: float | None = None,
    ) -> Experiment:
        record, number = self.tuning, next(self._count)
        plan = record.plan
        is_confirmation = rule is None
        folder = f"{number:03}-{purpose}-{what[:40].replace('/', '_').replace(':', '-')}"
        made = self.make(
            folder,
            Experiment(
                experiment_id=folder,
                benchmark=record.benchmark,
                tier=record.tier,
                hooks=record.hooks,
                live=record.live,
                factor=what,
                arms=arms,
                metric=record.metric,
                plan=ExperimentPlan(
                    seed=plan.seed + number,
                    blocks=plan.confirm_blocks if is_confirmation else plan.blocks,
                    budget_s=self._time(self._search_share if until is None else until),
                    least_effect_ratio=plan.least_effect_ratio,
                    confidence=confidence,
                    stop_early=not is_confirmation,
                    timeout_s=plan.timeout_s,
                ),
                status=RunStatus.RUNNING,
                steelyard_version=record.steelyard_version,
                command=record.command,
                clock=record.clock,
                orchestrator=record.orchestrator,
                trials=[],
            ),
            rule,
        )
        self._spent_s += sum(trial.end_ns - trial.begin_ns for trial in made.trials) / 1e9
        self._change(trials=record.trials + len(made.trials), metric=made.metric)
        if made.status is not RunStatus.COMPLETE:
            raise StoppedError(made.status_reason or "an experiment is not complete")
        return made

    def _time(self, until: float) -> float | None:
        """Return the time that the next experiment has at most."""
        budget = self.tuning.plan.budget_s
        if budget is None:
            return None
        return max(budget * until - self._spent_s, 0.0)

    def _raced(self) -> set[str | None]:
        return {one.knob for one in self.tuning.evidence if one.purpose == "search"}

    def _racing(self, races: int) -> StillOpen:
        """Return the rule of the next of ``races``: it ends when it is decided, or had its share of the time.

        The length of a trial is not known before: a race has the blocks that an answer needs, or all of the
        time.
        """
        budget = self.tuning.plan.budget_s
        if budget is None:
            return still_racing
        share_s = max(budget * self._search_share - self._spent_s, 0.0) / max(races, 1)

        def rule(experiment: Experiment) -> tuple[str, ...]:
            blocks = len({trial.block for trial in experiment.trials})
            spent_s = sum(trial.end_ns - trial.begin_ns for trial in experiment.trials) / 1e9
            if blocks >= _FEWEST_BLOCKS and spent_s >= share_s:
                return ()
            return still_racing(experiment)

        return rule

    def _lacks_time(self, arms: int) -> bool:
        """Return whether the time that is left is too short for any answer of a race of so many arms."""
        budget, trials = self.tuning.plan.budget_s, self.tuning.trials
        if budget is None or not trials:
            return False
        return budget * self._search_share - self._spent_s < _FEWEST_BLOCKS * arms * self._spent_s / trials

    def _skip(self, name: str | None, reason: str) -> None:
        """Write down that a knob, or what is left of the combinations, is not tried."""
        skipped = TuningEvidence(
            experiment="",
            purpose="search",
            knob=name,
            outcome="not-tried",
            blocks=0,
            reason=reason,
        )
        self._change(evidence=[*self.tuning.evidence, skipped])

    def _tell(
        self,
        made: Experiment,
        purpose: str,
        knob: str | None,
        *,
        without: Levels | None = None,
        comparisons: int | None = None,
    ) -> None:
        """Write down what an experiment says of each arm, with intervals that hold together with as many."""
        # Of an experiment that may have stopped early, the interval for every look.
        is_over = not made.plan.stop_early
        dropped = reasons(made, (arm.name for arm in made.arms))
        found = [
            self._evidence(made, answer, purpose, knob, dropped.get(answer.arm), without)
            for answer in answers(made, is_over=is_over, comparisons=comparisons)
        ]
        self._change(evidence=[*self.tuning.evidence, *found])

    def _evidence(
        self,
        made: Experiment,
        answer: ArmAnswer,
        purpose: str,
        knob: str | None,
        dropped: str | None,
        without: Levels | None,
    ) -> TuningEvidence:
        low, high = gain_ends(answer, made)
        ratio = None if answer.ratio is None else gain(answer, made)
        # An ablation's arms leave a knob out: what the knob brings is the other way round.
        outcome = answer.outcome
        if without is not None:
            ratio, low, high = (None if one is None else 1 / one for one in (ratio, high, low))
            turned = {Outcome.BETTER: Outcome.WORSE, Outcome.WORSE: Outcome.BETTER}
            outcome = turned.get(outcome, outcome)
        return TuningEvidence(
            experiment=made.experiment_id,
            purpose=purpose,
            knob=knob if without is None else answer.arm,
            level=answer.arm if without is None else without[answer.arm],
            outcome="dropped" if dropped is not None else str(outcome),
            gain_ratio=ratio,
            low=low,
            high=high,
            confidence=answer.confidence,
            blocks=answer.blocks,
            reason=dropped or answer.reason,
        )

    def _change(self, **update: object) -> None:
        self.tuning = self.tuning.model_copy(update=update)
        self.keep(self.tuning)


def _pairs(races: int, levels: int) -> int:
    """Return how many comparisons a search has: in each race, each pair of its levels and what was found."""
    return max(races, 1) * levels * (levels + 1) // 2


def _text(levels: Levels) -> str:
    return " ".join(f"{name}={level}" for name, level in levels.items())


def _last_races(tuning: Tuning) -> list[TuningEvidence]:
    """Return what the search says of each level; of a knob that was raced several times, the last race."""
    search = [one for one in tuning.evidence if one.purpose == "search"]
    last = {one.knob: one.experiment for one in search}
    return [one for one in search if one.knob is None or one.experiment == last[one.knob]]


def open_knobs(tuning: Tuning) -> list[str]:
    """Return the knobs that may help by more than is negligible, or were not tried.

    Combinations have no knob: "".
    """
    negligible = 1 + NEGLIGIBLE * tuning.plan.least_effect_ratio
    still = (
        one.knob or ""
        for one in _last_races(tuning)
        if one.outcome == "not-tried"
        or (one.outcome == "undecided" and (one.high is None or one.high > negligible))
    )
    return list(dict.fromkeys(still))


def most_gain(tuning: Tuning) -> float | None:
    """Return the most by which any level that was tried can help, above 1; None where one has no interval.

    What won alone and was not confirmed can help by what the confirmation leaves.
    """
    confirmed = next((one for one in tuning.evidence if one.purpose == "confirm"), None)
    ends = [
        confirmed.high if confirmed is not None and one.outcome == "better" else one.high
        for one in _last_races(tuning)
        if one.outcome != "dropped"
    ]
    known = [end for end in ends if end is not None]
    return max([1.0, *known]) if ends and len(known) == len(ends) else None
