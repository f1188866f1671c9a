"""The arms of a NUMA experiment: scenarios alone, then beside each co-runner, and which are compared.

In: scenarios and co-runners. Out: arms, the pairs of a plan, and the clusters of a record: three arms that
differ in placement only, as the clusters of bars in the published figures.

Not here: intervals (``experiment.answers``), what they say (``verdict``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard._base import UsageError
from steelyard.experiment.numa.scenarios import SOLO, Scenario, Scenarios
from steelyard.records.experiment import Experiment, ExperimentArm, ExperimentPlacement

FACTOR = "scenario"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Three arms of one co-runner, by the scenario of `SOLO` that has X's placement."""

    co_runner: str | None
    arms: Mapping[int, ExperimentArm]

    @property
    def title(self) -> str:
        """Return what it is called: ``solo``, or its co-runner."""
        return "solo" if self.co_runner is None else f"beside {self.co_runner}"


def arms_of(
    scenarios: Scenarios, co_runners: Sequence[str], *, settings: Mapping[str, str], command: Sequence[str]
) -> list[ExperimentArm]:
    """Return scenarios 1 to 3, then 4 to 6 beside each co-runner. Raises UsageError for one named twice."""
    if len(set(co_runners)) < len(co_runners):
        raise UsageError("--with names a co-runner twice")
    placements = [_placement(scenarios.numbered(number), None) for number in SOLO]
    for co_runner in co_runners:
        placements += [_placement(scenarios.numbered(number + len(SOLO)), co_runner) for number in SOLO]
    return [
        ExperimentArm(
            name=arm_name(each.scenario, each.co_runner, is_alone=len(co_runners) < 2),
            settings=dict(settings),
            command=list(command),
            placement=each,
        )
        for each in placements
    ]


def arm_name(scenario: int, co_runner: str | None, *, is_alone: bool) -> str:
    """Return the name of an arm: the scenario's number, with the co-runner where there are several."""
    return str(scenario) if co_runner is None or is_alone else f"{scenario} {co_runner}"


def _placement(scenario: Scenario, co_runner: str | None) -> ExperimentPlacement:
    return ExperimentPlacement(
        scenario=scenario.scenario,
        cpus=scenario.cpus,
        memory_nodes=str(scenario.memory_node),
        local_ratio=scenario.local_ratio,
        score=scenario.score,
        caches=scenario.caches,
        co_runner=co_runner,
        co_runner_cpus=None if co_runner is None else scenario.co_runner_cpus,
    )


def pairs_of(arms: Sequence[ExperimentArm]) -> list[tuple[str, str]]:
    """Return the pairs that are compared: within each cluster, every two scenarios."""
    return [
        (cluster.arms[base].name, cluster.arms[other].name)
        for cluster in clusters(arms)
        for base, other in ((1, 2), (1, 3), (2, 3))
        if base in cluster.arms and other in cluster.arms
    ]


def clusters(arms: Sequence[ExperimentArm]) -> list[Cluster]:
    """Return the arms by co-runner, alone first."""
    found: dict[str | None, dict[int, ExperimentArm]] = {}
    for arm in arms:
        if arm.placement is not None:
            base = (arm.placement.scenario - 1) % len(SOLO) + 1
            found.setdefault(arm.placement.co_runner, {})[base] = arm
    return [Cluster(co_runner, arms) for co_runner, arms in found.items()]


def is_numa(experiment: Experiment) -> bool:
    """Return whether the arms of an experiment are scenarios."""
    return all(arm.placement is not None for arm in experiment.arms)
