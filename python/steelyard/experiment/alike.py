"""Whether an earlier experiment tells the noise of another: the same work, measured the same way, here.

In: records of experiments, and machines. Out: yes or no.

Alike are experiments of the same benchmark or command, tier, hooks, settings and metric, in which the same
settings or words of the command differ between the arms, whatever their levels. A pilot, in which nothing
differs, is like every experiment that has its arm first.

Not here: what the noise amounts to (``power``).
"""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.records.experiment import Experiment, ExperimentArm

_Parts = Mapping[tuple[str, str], object]


def is_pilot(experiment: Experiment) -> bool:
    """Return whether the arms of an experiment are one and the same."""
    first, *others = (_parts(arm) for arm in experiment.arms)
    return all(first == other for other in others)


def is_alike(earlier: Experiment, experiment: Experiment) -> bool:
    """Return whether the noise of ``earlier`` is that of ``experiment``, on the same machine."""
    if _way(earlier) != _way(experiment):
        return False
    if is_pilot(earlier):
        return _parts(earlier.arms[0]) == _parts(experiment.arms[0])
    return _shape(earlier) == _shape(experiment)


def _way(experiment: Experiment) -> tuple[object, ...]:
    metric = experiment.metric
    # Trials on chosen CPUs are another workload.
    confined = [arm.cpus or arm.placement for arm in experiment.arms if arm.cpus or arm.placement]
    return (
        experiment.benchmark,
        experiment.tier,
        sorted(experiment.hooks),
        (metric.name, metric.pattern, metric.is_series),
        confined,
        experiment.hosts,
        experiment.live,
    )


def _parts(arm: ExperimentArm) -> _Parts:
    """Return what makes an arm, piece by piece."""
    return {
        **{("setting", name): value for name, value in arm.settings.items()},
        **{("knob", name): value for name, value in arm.knobs.items()},
        **{("word", str(index)): word for index, word in enumerate(arm.command)},
    }


def _shape(experiment: Experiment) -> tuple[object, ...]:
    """Return what all arms share, and the names of what differs."""
    commands = [arm.command for arm in experiment.arms]
    if len({(len(command), *command[:1]) for command in commands}) > 1:
        # Different programs, or words in other places: only the same ones compare.
        return tuple(sorted(map(tuple, commands)))
    parts = [_parts(arm) for arm in experiment.arms]
    names = dict.fromkeys(name for each in parts for name in each)
    fixed = {name for name in names if all(each.get(name) == parts[0].get(name) for each in parts)}
    return {name: parts[0][name] for name in fixed}, names.keys() - fixed
