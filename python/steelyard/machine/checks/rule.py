"""What a rule of ``steelyard machine check`` is, and what it answers.

In: a `Machine`. Out: an `RuleAnswer` for every rule. A rule looks at the record only, so that recorded
machines and old runs can be checked as well as this one.

Invariants: a rule never raises for a field that is null: it answers `unknown` with the reason; a package's
rule that fails is reported as such and stops nothing.

Not here: the rules, where they come from and how they are applied (``registry``), differences between
machines (``machine.compare``), what a run's telemetry shows (``analyze``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from steelyard._base.documents import INLINE, NOT_PRINTED, printed
from steelyard.records import Machine

Scalar = str | int | float | bool | None
Evidence = Mapping[str, Scalar]
"""Values that a claim rests on, by their path in the record."""


class Severity(StrEnum):
    """How much an objection matters. Low ones are notes, which fail a check only with ``--strict``."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def order(self) -> int:
        """Return 0 for the most severe."""
        return list(Severity).index(self)


class Outcome(StrEnum):
    """Result of a rule for a machine."""

    OBJECTS = "objects"
    PASSES = "passes"
    UNKNOWN = "untold"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found in one machine."""

    outcome: Outcome
    """Whether the rule objects; unknown where it was not measured."""
    claim: str
    """One sentence; if the outcome is unknown, the reason."""
    evidence: Evidence
    """The values behind it, by path."""
    severity: Severity | None = field(default=None, metadata=NOT_PRINTED)
    """Only if it differs from the rule's."""


def objects(claim: str, evidence: Evidence | None = None, *, severity: Severity | None = None) -> Finding:
    """Return an objection; ``severity`` where it is another than the rule's."""
    return Finding(Outcome.OBJECTS, claim, dict(evidence or {}), severity)


def passes(claim: str, evidence: Evidence | None = None) -> Finding:
    """Return that the machine is as it should be."""
    return Finding(Outcome.PASSES, claim, dict(evidence or {}))


def unknown(machine: Machine, path: str) -> Finding:
    """Return that ``path`` has no value, with the record's reason."""
    reason = machine.missing.get(path)
    if reason is None:
        reason = f"the record (version {machine.schema_version}) has no {path}"
    return unknown_because(path, reason)


def unknown_because(path: str, reason: str) -> Finding:
    """Return that the check was not possible, for ``reason``."""
    return Finding(Outcome.UNKNOWN, reason, {path: None})


def should_be_off(
    machine: Machine, path: str, value: str | int | None, objection: str, otherwise: str
) -> Finding:
    """Return an objection where the value at ``path`` is something else than 0 or empty."""
    if value is None:
        return unknown(machine, path)
    return (
        objects(objection, {path: value}) if value not in (0, "0", "") else passes(otherwise, {path: value})
    )


def sysctl_should_be_off(machine: Machine, name: str, objection: str, otherwise: str) -> Finding:
    """Return an objection where the kernel setting ``name`` is not 0."""
    path, value = f"kernel.sysctl.{name}", machine.kernel.sysctl.get(name)
    return should_be_off(machine, path, value, objection, otherwise)


@dataclass(frozen=True, slots=True)
class Rule:
    """One check of a machine."""

    id: str
    """Stable name, as for --ignore."""
    area: str
    """`processor`, `memory`, `numa`, `disk`, `network`, `system`, or a package's own."""
    severity: Severity = field(metadata=NOT_PRINTED)
    asks: str
    """Desired state, one sentence."""
    threshold: str
    """The threshold, in words and with its unit."""
    source: str
    """Source of the threshold."""
    advice: str
    """What to do."""
    examine: Callable[[Machine], Finding] = field(metadata=NOT_PRINTED)


def rule(
    id: str,  # noqa: A002 - the field's own word
    area: str,
    severity: Severity,
    *,
    asks: str,
    threshold: str,
    source: str,
    advice: str,
) -> Callable[[Callable[[Machine], Finding]], Rule]:
    """Make a `Rule` of a function that examines a machine."""

    def made(examine: Callable[[Machine], Finding]) -> Rule:
        return Rule(id, area, severity, asks, threshold, source, advice, examine)

    return made


@dataclass(frozen=True, slots=True)
class RuleAnswer:
    """Result of one rule for one machine."""

    rule: Rule = field(metadata=INLINE)
    finding: Finding = field(metadata=INLINE)

    @property
    @printed
    def severity(self) -> Severity:
        """Return how much it matters."""
        return self.finding.severity or self.rule.severity

    @property
    def objects(self) -> bool:
        """Return whether the rule objects."""
        return self.finding.outcome is Outcome.OBJECTS

    def says_no(self, *, strict: bool = False) -> bool:
        """Return whether the check fails: low objections count when ``strict``."""
        return self.objects and (strict or self.severity is not Severity.LOW)


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """Answers of the rules: `steelyard machine check --json`."""

    KIND: ClassVar[str] = "machine_check"

    machine: str
    """The machine, as it was named."""
    is_ok: bool
    """Whether no rule objects."""
    answers: list[RuleAnswer]
    """Every rule's answer."""
