"""Where the rules of ``steelyard machine check`` come from, and how they are applied.

Rules come from this package, and from other packages by entry point:

    [project.entry-points."steelyard.machine_rules"]
    mine = "my_package.rules:RULES"          # a Rule, or several

Invariants: a package cannot take the id of a built-in rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.machine.checks import devices, kernel, memory, processor
from steelyard.machine.checks.rule import Finding, Outcome, Rule, RuleAnswer
from steelyard.records import Machine

GROUP = "steelyard.machine_rules"


def built_in() -> tuple[Rule, ...]:
    """Return this package's rules, in the order in which reports show them."""
    return (*processor.RULES, *memory.RULES, *devices.RULES, *kernel.RULES)


def all_rules() -> list[Rule]:
    """Return the built-in rules and those of installed packages.

    Raises EnvironmentLacksError for a package whose rules cannot be had.
    """
    rules = {rule.id: rule for rule in built_in()}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        for rule in _of_package(point):
            if rule.id in rules:
                raise EnvironmentLacksError(
                    f"the entry point {point.name} ({point.value}) has a rule {rule.id!r},"
                    " which exists already",
                    hint="give it another id",
                )
            rules[rule.id] = rule
    return list(rules.values())


def _of_package(point: EntryPoint) -> Iterator[Rule]:
    try:
        loaded = point.load()
    except Exception as error:
        raise EnvironmentLacksError(
            f"the rules {point.name} ({point.value}) cannot be imported: {error}",
            hint="install their package again, or remove it",
        ) from error
    members = [loaded] if isinstance(loaded, Rule) else loaded
    if not isinstance(members, Iterable) or isinstance(members, str):
        members = [None]
    for rule in members:
        if not isinstance(rule, Rule):
            raise EnvironmentLacksError(
                f"{point.value} is not a steelyard.machine.checks.rule.Rule or a list of them",
                hint="see docs/guides/extend.md",
            )
        yield rule


def check(machine: Machine, rules: Sequence[Rule], *, ignore: Iterable[str] = ()) -> list[RuleAnswer]:
    """Return what ``rules`` say of ``machine``: objections first, the most severe first.

    Raises UsageError for an id in ``ignore`` that no rule has.
    """
    ignored = set(ignore)
    unknown = ignored - {rule.id for rule in rules}
    if unknown:
        raise UsageError(
            f"unknown check {sorted(unknown)[0]!r}", hint="steelyard machine check --json lists them"
        )
    answers = [RuleAnswer(rule, _examine(rule, machine)) for rule in rules if rule.id not in ignored]
    return sorted(
        answers,
        key=lambda answer: (
            list(Outcome).index(answer.finding.outcome),
            answer.objects and answer.severity.order,
        ),
    )


def _examine(rule: Rule, machine: Machine) -> Finding:
    try:
        return rule.examine(machine)
    except Exception as error:
        if any(rule is mine for mine in built_in()):
            raise
        # A package's rule is not ours to crash by.
        return Finding(Outcome.UNKNOWN, f"the rule failed: {type(error).__name__}: {error}", {})
