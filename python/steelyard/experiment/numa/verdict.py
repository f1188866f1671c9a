"""What the scenarios say: whether locality or cache sharing matters more, and where X should be.

In: an experiment whose arms are scenarios. Out: a `Verdict` for each cluster (alone, and beside each
co-runner).

Why three comparisons decide it. Scenarios 1 and 3 have X's threads on one node, with all of its memory local
or remote: their difference is the whole effect of locality. Scenario 2 has half of each, and twice the
caches. If locality alone mattered, scenario 2 would lie between the others. Scenario 3 is better than 2
only where sharing one cache gains more than the locality of half the memory; scenario 2 is better than 1
only where a second cache gains more than that. Nothing is assumed of how cost grows with distance.

Invariants: a verdict follows from intervals that hold together (`ArmAnswer`); without them it is undecided;
performance is more where it is better, whichever way the metric counts.

Not here: intervals (``experiment.answers``), drawing.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import geometric_mean

from steelyard._base.documents import NOT_PRINTED, printed
from steelyard.experiment.answers import answers, values_by_arm
from steelyard.experiment.numa.design import Cluster, clusters
from steelyard.experiment.numa.scenarios import SOLO
from steelyard.experiment.outcomes import ArmAnswer, Outcome
from steelyard.records.experiment import Experiment, ExperimentArm

_PAIRS = ((1, 2), (1, 3), (2, 3))
_NOT_WORSE = (Outcome.BETTER, Outcome.EQUIVALENT)


class Matters(StrEnum):
    """What decides where X should be."""

    LOCALITY = "locality"
    CACHE = "cache sharing"
    NEITHER = "neither"
    """No placement differs by the smallest effect that matters."""
    OTHER = "something else"
    """Remote memory is better with the same threads on the same caches."""
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Performance:
    """One scenario's performance over another's, above 1 where it is better."""

    base: str
    """The arm that it is compared with."""
    arm: str
    """Which arm."""
    ratio: float | None
    """Performance over the base's, above 1 where it is better."""
    low: float | None
    """Lower end of the interval of ``ratio``, None where ``reason`` says why."""
    high: float | None
    """Upper end of it."""
    outcome: Outcome
    """What is known of it."""
    answer: ArmAnswer = field(metadata=NOT_PRINTED)
    """By the metric, of which less may be better."""
    is_deciding: bool = False
    """Whether the verdict follows from this interval."""

    @property
    @printed
    def confidence(self) -> float:
        """Return that of this interval; that of all pairs together is the plan's."""
        return self.answer.confidence

    @property
    @printed
    def blocks(self) -> int:
        """Return the blocks in which both have a value."""
        return self.answer.blocks

    @property
    @printed
    def blocks_needed(self) -> int | None:
        """Return the blocks that find the smallest effect that matters with a probability of 0.8.

        None where the answer is known or the noise is not.
        """
        return self.answer.blocks_needed

    @property
    @printed
    def reason(self) -> str | None:
        """Return why there is no interval, None where there is one."""
        return self.answer.reason


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of the published figures."""

    arm: str
    """Which arm."""
    scenario: int
    """From 1 to 6."""
    ratio: float | None
    """Performance over that of scenario 1 alone, above 1 where it is better; None without a block that has
    both."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A placement to take over."""

    scenario: int
    """From 1 to 6."""
    where: str
    """Where threads and memory are."""
    command: str | None
    """Command line, ready to be copied; None for figures measured elsewhere."""
    co_runner_command: str | None = None
    """That of the co-runner, None without one."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one cluster of scenarios says: those alone, or beside one co-runner."""

    cluster: Cluster = field(metadata=NOT_PRINTED)
    matters: Matters
    """What matters more."""
    why: str
    """Why, in words."""
    bars: Sequence[Bar]
    """Normalised performance by scenario."""
    pairs: Sequence[Performance]
    """Every two scenarios compared that the experiment has."""
    best: Placed | None
    """Where the workload should be, None while no scenario is known to be as good as both others."""
    without_local: int | None
    """The better scenario where memory cannot all be local, None while that is not known."""

    @property
    @printed
    def co_runner(self) -> str | None:
        """Return the command or benchmark beside them, None when alone."""
        return self.cluster.co_runner

    def bar_of(self, base: int) -> float | None:
        """Return the performance of the scenario with the placement of ``base``, one of `SOLO`."""
        arm = self.cluster.arms.get(base)
        return next((bar.ratio for bar in self.bars if arm is not None and bar.arm == arm.name), None)

    def pair_of(self, base: int, other: int) -> Performance | None:
        """Return ``other`` over ``base``, scenarios of `SOLO`; None where the experiment has not both."""
        arms = [self.cluster.arms.get(number) for number in (base, other)]
        names = [None if arm is None else arm.name for arm in arms]
        return next((pair for pair in self.pairs if [pair.base, pair.arm] == names), None)


def verdicts(experiment: Experiment, *, is_over: bool) -> list[Verdict]:
    """Return the verdict of each cluster, alone first."""
    higher = experiment.metric.better == "higher"
    known = {
        (answer.base, answer.arm): _performance(answer, higher)
        for answer in answers(experiment, is_over=is_over)
    }
    bars = normalised(experiment)
    found = []
    for cluster in clusters(experiment.arms):
        pairs = {
            (base, other): known[cluster.arms[base].name, cluster.arms[other].name]
            for base, other in _PAIRS
            if base in cluster.arms
            and other in cluster.arms
            and (cluster.arms[base].name, cluster.arms[other].name) in known
        }
        matters, why, deciding = _matters(pairs)
        best = _best(pairs)
        found.append(
            Verdict(
                cluster=cluster,
                matters=matters,
                why=why,
                bars=[
                    Bar(arm.name, arm.placement.scenario, bars[arm.name])
                    for _, arm in sorted(cluster.arms.items())
                    if arm.placement is not None
                ],
                pairs=[replace(pair, is_deciding=key == deciding) for key, pair in pairs.items()],
                best=None if best is None else _placed(experiment, cluster.arms[best]),
                without_local=_second_best(cluster, pairs),
            )
        )
    return found


def normalised(experiment: Experiment) -> dict[str, float | None]:
    """Return each arm's performance over that of the first, in the blocks that both have a value in."""
    values = values_by_arm(experiment)
    first = values[experiment.arms[0].name]
    found: dict[str, float | None] = {}
    for name, own in values.items():
        blocks = sorted(own.keys() & first.keys())
        ratios = [own[block] / first[block] for block in blocks if first[block] > 0]
        # What a float cannot hold is no performance.
        usable = [ratio for ratio in ratios if 0 < ratio < math.inf]
        ratio = geometric_mean(usable) if usable else None
        if ratio is not None and experiment.metric.better != "higher":
            ratio = 1 / ratio
        found[name] = ratio
    return found


def _performance(answer: ArmAnswer, higher: bool) -> Performance:
    ends = (answer.ratio, answer.low, answer.high)
    if not higher:
        ends = tuple(None if end is None else 1 / end for end in (answer.ratio, answer.high, answer.low))  # type: ignore[assignment]
    return Performance(answer.base, answer.arm, *ends, answer.outcome, answer)


def _matters(pairs: Mapping[tuple[int, int], Performance]) -> tuple[Matters, str, tuple[int, int] | None]:
    if len(pairs) < len(_PAIRS):
        return Matters.UNDECIDED, "it needs all three scenarios", None
    spread, remote, last = (pairs[pair].outcome for pair in _PAIRS)
    found: tuple[Matters, str, tuple[int, int] | None]
    if remote is Outcome.BETTER:
        why = "remote memory is better with the same threads: look for what else uses the near memory"
        found = Matters.OTHER, why, (1, 3)
    elif last is Outcome.BETTER:
        why = "on one cache with no local memory it is better than on two caches with half of it local"
        found = Matters.CACHE, why, (2, 3)
    elif spread is Outcome.BETTER:
        why = "on two caches with half of its memory local it is better than on one with all of it local"
        found = Matters.CACHE, why, (1, 2)
    elif last is Outcome.WORSE and spread in (Outcome.WORSE, Outcome.EQUIVALENT):
        why = "the less memory is local, the worse, however many caches"
        if spread is Outcome.EQUIVALENT:
            why = "a second cache makes up for half of the memory being remote, and not for all of it"
        found = Matters.LOCALITY, why, (2, 3)
    elif spread is Outcome.WORSE and last is Outcome.EQUIVALENT:
        found = Matters.LOCALITY, "only all memory local is good: half and none are alike", (1, 2)
    elif remote is Outcome.WORSE and spread is last is Outcome.EQUIVALENT:
        found = Matters.LOCALITY, "all memory remote is worse, half of it makes little difference", (1, 3)
    elif spread is last is Outcome.EQUIVALENT:
        found = Matters.NEITHER, "no placement differs by the smallest effect that matters", None
    else:
        found = Matters.UNDECIDED, "the intervals leave more than one answer", None
    return found


def _best(pairs: Mapping[tuple[int, int], Performance]) -> int | None:
    """Return the first scenario that is better than the others, or as good."""
    if len(pairs) < len(_PAIRS):
        return None
    turned = {Outcome.BETTER: Outcome.WORSE, Outcome.WORSE: Outcome.BETTER}
    for number in SOLO:
        against = [
            pair.outcome if other == number else turned.get(pair.outcome, pair.outcome)
            for (base, other), pair in pairs.items()
            if number in (base, other)
        ]
        if all(outcome in _NOT_WORSE for outcome in against):
            return number
    return None


def _second_best(cluster: Cluster, pairs: Mapping[tuple[int, int], Performance]) -> int | None:
    last = pairs.get((2, 3))
    if last is None or last.outcome not in (Outcome.BETTER, Outcome.WORSE):
        return None
    placement = cluster.arms[3 if last.outcome is Outcome.BETTER else 2].placement
    return None if placement is None else placement.scenario


def _placed(experiment: Experiment, arm: ExperimentArm) -> Placed:
    place = arm.placement
    assert place is not None
    if not place.cpus:
        return Placed(place.scenario, _words(place.scenario), None)
    command = arm.command
    if experiment.benchmark is not None:
        command = ["steelyard", "run", experiment.benchmark]
        command += ["--tier", experiment.tier] if experiment.tier is not None else []
        for name, value in arm.settings.items():
            command += ["--set", f"{name}={value}"]
    there = ["steelyard-exec", "--cpus", place.cpus, "--memory-nodes", place.memory_nodes, "--", *command]
    beside = None
    if place.co_runner is not None and place.co_runner_cpus is not None:
        beside = f"steelyard-exec --cpus {place.co_runner_cpus} -- {place.co_runner}"
    where = f"threads on CPUs {place.cpus}, memory on node {place.memory_nodes}"
    return Placed(place.scenario, where, shlex.join(there), beside)


def _words(scenario: int) -> str:
    return (
        "threads and memory on one node",
        "threads on two nodes, memory on one of them",
        "threads on one node, memory on the other",
    )[(scenario - 1) % len(SOLO)]


def is_decided(found: Sequence[Verdict]) -> bool:
    """Return whether every cluster has a verdict and a placement."""
    return all(verdict.matters is not Matters.UNDECIDED and verdict.best is not None for verdict in found)
