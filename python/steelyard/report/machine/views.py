"""The answers of ``steelyard machine show|diff|check``.

In: machines, a comparison, answers of rules. Out: `Answer`s.

Not here: taking inventories, comparing, judging (``machine``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from steelyard.machine.checks.rule import Outcome, RuleAnswer, Severity
from steelyard.machine.compare import Difference, MachineComparison, NotComparable
from steelyard.machine.features import Effect, Scalar
from steelyard.records import Machine
from steelyard.report import format as fmt
from steelyard.report.answer import Answer, Cell, Column, Remark, Remarks, Section, Table, table, written
from steelyard.report.machine.table import machine_groups, machine_line

_LONG = 48
"""Letters from which on two texts of words are shown by the words in which they differ."""

_LEVELS = {Severity.HIGH: "invalid", Severity.MEDIUM: "suspect", Severity.LOW: "incomplete"}
_EFFECTS = {
    Effect.DECISIVE: ("Decisive", "sets the machine's capacity"),
    Effect.LARGE: ("Large", "10 % or more for many programs"),
    Effect.SOME: ("Some", "a few percent for many programs"),
    Effect.LITTLE: ("Little", "below the noise for most programs"),
    Effect.IDENTITY: ("Identity", "identifies the machine or the time"),
}


def machine_answer(machine: Machine) -> Answer:
    """Return the inventory, a table for each group, and missing values by reason."""
    columns = (Column("what", is_text=True), Column("value", is_text=True, is_answer=True))
    sections = [
        Section(title.lower().replace(" ", "-"), title, (table(columns, rows),))
        for title, rows in machine_groups(machine)
    ]
    if machine.missing:
        sections.append(Section("missing", "Missing values, and why", (_by_reason(machine.missing),)))
    most = max((len(section.tables[0].rows) for section in sections), default=0)
    return Answer(
        "Machine", machine_line(machine) or "", sections, rows=most, eyebrow="machine", source="the inventory"
    )


def diff_answer(comparison: MachineComparison, a: str, b: str) -> Answer:
    """Return the differences by effect, largest first, and values that could not be compared."""
    columns = (
        Column("what", is_text=True),
        Column("A", is_text=True, is_answer=True),
        Column("B", is_text=True, is_answer=True),
        Column("change"),
        Column("why it matters", is_text=True, rank=1),
    )
    sections = []
    for effect, members in groupby(comparison.differences, key=lambda difference: difference.effect):
        title, meaning = _EFFECTS[effect]
        rows = [_difference(one) for one in members]
        sections.append(Section(title.lower(), f"{title}: {meaning}", (table(columns, rows),)))
    if comparison.not_comparable:
        sides = {one.noun: _side(one) for one in comparison.not_comparable}
        sections.append(Section("not-comparable", "Not comparable", (_by_reason(sides),)))
    return Answer(
        "Machines",
        f"{_summary(comparison)}.",
        sections,
        lines=(f"A  {a}", f"B  {b}"),
        says_no=not comparison.is_same,
        rows=len(comparison.differences) + len(comparison.not_comparable),
        eyebrow="machine",
        source="two inventories",
    )


def _difference(one: Difference) -> tuple[object, ...]:
    left, right = apart(value_text(one.a, one.unit), value_text(one.b, one.unit))
    change = "" if one.ratio is None else written(change_text(one.ratio), one.ratio)
    return one.noun, left, right, change, one.why


def _side(one: NotComparable) -> str:
    side = "both" if one.a is None and one.b is None else ("A" if one.a is None else "B")
    return f"{side}: {one.reason}"


def _by_reason(missing: Mapping[str, str]) -> Table:
    """Return each reason once, with what it holds for."""
    by_reason: dict[str, list[str]] = {}
    for path, reason in missing.items():
        by_reason.setdefault(reason, []).append(path)
    rows = []
    for reason, paths in by_reason.items():
        shown = ", ".join(paths if len(paths) <= 4 else [*paths[:3], f"{len(paths) - 3} more"])
        rows.append((Cell(shown, ", ".join(paths), is_text=True), reason))
    return table((Column("missing", is_text=True), Column("reason", is_text=True, is_answer=True)), rows)


def check_answer(answers: Sequence[RuleAnswer], *, everything: bool = False, strict: bool = False) -> Answer:
    """Return failed checks with advice, with ``everything`` those that passed, and checks without data."""
    passed = [answer for answer in answers if answer.finding.outcome is Outcome.PASSES]
    unknown = {
        answer.rule.id: answer.finding.claim
        for answer in answers
        if answer.finding.outcome is Outcome.UNKNOWN
    }
    shown = [answer for answer in answers if answer.objects] + (passed if everything else [])
    remarks = Remarks(tuple(_remark(answer) for answer in shown), columns=("severity", "claim"))
    sections = [Section("checks", "Checks", (remarks,))] if shown else []
    if unknown:
        sections.append(Section("unknown", "Not measured", (_by_reason(unknown),)))
    no = [answer for answer in answers if answer.says_no(strict=strict)]
    return Answer(
        "Machine check",
        _verdict(answers, no, len(passed), len(unknown)),
        sections,
        says_no=bool(no),
        rows=max(1, len(unknown)),
        eyebrow="machine",
        source="the inventory",
    )


def _remark(answer: RuleAnswer) -> Remark:
    if not answer.objects:
        return Remark(answer.finding.claim, "ok", "valid", (("id", answer.rule.id),))
    rule = answer.rule
    details = (("do", rule.advice), ("limit", rule.threshold), ("id", rule.id))
    return Remark(answer.finding.claim, str(answer.severity), _LEVELS[answer.severity], details)


def _verdict(answers: Sequence[RuleAnswer], no: Sequence[RuleAnswer], passed: int, unknown: int) -> str:
    notes = sum(answer.objects for answer in answers) - len(no)
    counts = [f"{sum(answer.severity is level for answer in no)} {level}" for level in Severity]
    severe = ", ".join(count for count in counts if not count.startswith("0 "))
    tail = f"{fmt.several(notes, 'note')}, {passed} passed, {unknown} not measured"
    return f"no: {len(no)} failed ({severe}), {tail}" if no else f"yes: none failed, {tail}"


def value_text(value: Scalar, unit: str | None) -> str:
    """Return a value as people write it.

    >>> value_text(True, None), value_text(2 << 30, "bytes"), value_text("tsc", None), value_text(None, None)
    ('yes', '2.00 GiB', 'tsc', '–')
    """
    if value is None:
        return fmt.MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value or "none"
    return fmt.plain(fmt.quantity(value, unit))


def change_text(ratio: float | None) -> str:
    """Return a ratio as a factor, or near 1 as a difference in per cent.

    >>> change_text(2.0), change_text(0.95), change_text(1.5), change_text(0.1), change_text(None)
    ('× 2.00', '-5.0 %', '+50.0 %', '× 0.100', '')
    """
    if ratio is None:
        return ""
    if 0.5 < ratio < 2:
        return f"{(ratio - 1) * 100:+.1f} %"
    return f"× {fmt.significant(ratio)}"


def apart(a: str, b: str) -> tuple[str, str]:
    """Return the words that only one of two long texts has; short texts as they are.

    >>> apart("tsc", "hpet")
    ('tsc', 'hpet')
    >>> apart("ro quiet " + "x" * 48, "ro mitigations=off " + "x" * 48)
    ('… quiet', '… mitigations=off')
    """
    if len(a) < _LONG and len(b) < _LONG:
        return a, b
    of_a, of_b = a.split(), b.split()
    only_a = [word for word in of_a if word not in set(of_b)]
    only_b = [word for word in of_b if word not in set(of_a)]
    if not only_a and not only_b:
        return a, b
    kept = len(only_a) < len(of_a) or len(only_b) < len(of_b)
    mark = "… " if kept else ""
    return (f"{mark}{' '.join(only_a) or 'nothing else'}", f"{mark}{' '.join(only_b) or 'nothing else'}")


def _summary(comparison: MachineComparison) -> str:
    counts = [
        f"{len(list(members))} {_EFFECTS[effect][0].lower()}"
        for effect, members in groupby(comparison.differences, key=lambda difference: difference.effect)
    ]
    verb = "differs" if len(comparison.differences) == 1 else "differ"
    differing = f"{len(comparison.differences)} {verb} ({', '.join(counts)})" if counts else "nothing differs"
    rest = f", {len(comparison.not_comparable)} not comparable" if comparison.not_comparable else ""
    return f"{differing}, {comparison.same} are the same{rest}"
