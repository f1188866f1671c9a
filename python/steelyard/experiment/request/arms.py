"""The arms of a new experiment, from two that were named, a sweep, or a file.

In: what was typed. Out: the name of the factor and its arms. Raises UsageError for arms that cannot be, and
for two that are the same, whatever the words. Not here: whether a benchmark has their settings (``record``).
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard import machine as machines
from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.bench import launch
from steelyard.bench.parameters import parse_assignments
from steelyard.bench.request import RunRequest
from steelyard.experiment.request.fields import Variant
from steelyard.records.experiment import Experiment, ExperimentArm

_PLACE = re.compile(r"\{([A-Za-z_][\w-]*)\}")


@dataclass(frozen=True)
class Named:
    """What names the arms: two of them, a sweep, or those of a file."""

    a: str | None
    b: str | None
    sweep: str | None
    variants: Sequence[Variant]


def arms_of(named: Named, benchmark: str | None, template: list[str]) -> tuple[str, list[ExperimentArm]]:
    """Return the name of the factor, and its arms."""
    if named.variants:
        return _listed(named.variants, benchmark, template)
    if named.sweep is not None:
        if named.a is not None or named.b is not None:
            raise UsageError("--sweep names all arms: it takes no --a or --b")
        return _levels(named.sweep, benchmark, template)
    if named.a is None or named.b is None:
        raise UsageError(
            "an experiment needs two arms", hint="give --a and --b, or --sweep NAME=VALUE,VALUE,..."
        )
    if template:
        raise UsageError(
            f"{template[0]!r} is no benchmark and no experiment",
            hint="a command is an arm: --a 'COMMAND' --b 'COMMAND'; see `steelyard list`",
        )
    if benchmark is None:
        commands = [_words(flag, text) for flag, text in (("--a", named.a), ("--b", named.b))]
        if commands[0] == commands[1]:
            raise UsageError("--a and --b are the same command")
        arms = [
            ExperimentArm(name=name, settings={}, command=one)
            for name, one in zip("ab", commands, strict=True)
        ]
        return "command", arms
    sides = [_assignments(flag, text) for flag, text in (("--a", named.a), ("--b", named.b))]
    if sides[0] == sides[1]:
        raise UsageError("--a and --b are the same settings")
    factor = ", ".join(dict.fromkeys(name for side in sides for name in side))
    return factor, [
        ExperimentArm(name=name, settings=side, command=[]) for name, side in zip("ab", sides, strict=True)
    ]


def _listed(
    variants: Sequence[Variant], benchmark: str | None, template: list[str]
) -> tuple[str, list[ExperimentArm]]:
    """Return the arms of a file, and the names of what differs between them."""
    if len(variants) < 2:
        raise UsageError(f"arm {variants[0].name}: an experiment needs two arms")
    names = dict.fromkeys(name for variant in variants for name in variant.values)
    arms = []
    for variant in variants:
        command = list(variant.command)
        if benchmark is None and template:
            command = [_filled(word, variant.values) for word in template]
        if benchmark is None and not command:
            raise UsageError(f"arm {variant.name}: no command")
        settings = variant.values if benchmark is not None else {}
        arms.append(
            ExperimentArm(name=variant.name, settings=settings, command=command, levels=variant.factors)
        )
    if template:
        places = {found for word in template for found in _PLACE.findall(word)}
        for name in names:
            if name not in places:
                raise UsageError(f"the command has no place {{{name}}}")
        for variant in variants:
            if missing := sorted(places - variant.values.keys()):
                raise UsageError(f"arm {variant.name}: nothing for the place {{{missing[0]}}}")
    seen: dict[tuple[object, ...], str] = {}
    for arm in arms:
        same = seen.setdefault((*sorted(arm.settings.items()), *arm.command), arm.name)
        if same != arm.name:
            raise UsageError(f"arms {same} and {arm.name} are the same")
    return ", ".join(names) or "command", arms


def _filled(word: str, values: dict[str, str]) -> str:
    """Return a word of a command with its places filled, each once."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), word)


def _assignments(flag: str, text: str) -> dict[str, str]:
    """Return NAME=VALUE,NAME=VALUE; nothing stands for the defaults."""
    return parse_assignments(text.split(",") if text else [], flag=flag)


def _words(flag: str, text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{flag} {text!r}: {error}") from error
    if not words:
        raise UsageError(f"{flag} is empty: without a benchmark it is a command")
    return words


def _levels(text: str, benchmark: str | None, template: list[str]) -> tuple[str, list[ExperimentArm]]:
    name, equals, values = text.partition("=")
    levels = [level for level in values.split(",") if level]
    if not equals or not name or len(set(levels)) < 2 or len(set(levels)) < len(levels):
        raise UsageError(f"--sweep {text}: not NAME=VALUE,VALUE,... with different values")
    if benchmark is not None:
        return name, [ExperimentArm(name=level, settings={name: level}, command=[]) for level in levels]
    places = {found for word in template for found in _PLACE.findall(word)}
    if name not in places:
        raise UsageError(
            f"the command has no place {{{name}}} for the levels of --sweep",
            hint=f"such as: steelyard experiment --sweep {name}=1,2 -- program --option {{{name}}}",
        )
    return name, [
        ExperimentArm(
            name=level, settings={}, command=[word.replace(f"{{{name}}}", level) for word in template]
        )
        for level in levels
    ]


def check_different(experiment: Experiment) -> None:
    """Raise UsageError for two arms with the same settings, as 1MiB and 1024KiB, or a default and its value.

    Words of commands mean what their program makes of them: only the same words are the same.
    """
    if experiment.benchmark is None:
        return
    machine = machines.snapshot()
    seen: dict[tuple[object, ...], ExperimentArm] = {}
    for arm in experiment.arms:
        # One seed: else each would be drawn anew.
        chosen = {launch.SEED: "0", **arm.settings}
        asked = RunRequest(name=experiment.benchmark, tier=experiment.tier, chosen=chosen)
        try:
            (planned,) = launch.plan(asked, machine)
        except EnvironmentLacksError:
            # Then no trial can be made: the first says why.
            return
        same = seen.setdefault(tuple(sorted(planned.settings.items())), arm)
        if same is not arm:
            names = [name for name in {**same.settings, **arm.settings} if _differs(name, same, arm)]
            spelled = [
                f"{name}={each.settings.get(name, 'its default')}" for name in names for each in (same, arm)
            ]
            raise UsageError(
                f"arms {same.name} and {arm.name} are the same: {' is '.join(spelled)}",
                hint="each is a trial of the same settings",
            )


def _differs(name: str, one: ExperimentArm, other: ExperimentArm) -> bool:
    return one.settings.get(name) != other.settings.get(name)
