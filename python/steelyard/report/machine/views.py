"""``steelyard machine show|diff|check`` in a terminal.

In: machines, a comparison, answers of rules. Out: `Answer`s, and renderables. Every text from outside
(names of devices, firmware, command lines) is a `Text`, never markup, and loses its control characters.

Not here: taking inventories, comparing, judging (``machine``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.machine.checks.rule import Outcome, RuleAnswer, Severity
from steelyard.machine.compare import Difference, MachineComparison, NotComparable
from steelyard.machine.features import Effect, Scalar
from steelyard.records import Machine
from steelyard.report import format as fmt
from steelyard.report.answer import Answer, Cell, Column, Section, table, written
from steelyard.report.answer import Table as AnswerTable
from steelyard.report.machine.table import machine_groups, machine_line
from steelyard.report.terminal import safe

_LONG = 48
"""Letters from which on two texts of words are shown by the words in which they differ."""

_SEVERITY_STYLES = {Severity.HIGH: "bold red", Severity.MEDIUM: "yellow", Severity.LOW: "cyan"}
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


def _by_reason(missing: Mapping[str, str]) -> AnswerTable:
    """Return each reason once, with what it holds for."""
    by_reason: dict[str, list[str]] = {}
    for path, reason in missing.items():
        by_reason.setdefault(reason, []).append(path)
    rows = []
    for reason, paths in by_reason.items():
        shown = ", ".join(paths if len(paths) <= 4 else [*paths[:3], f"{len(paths) - 3} more"])
        rows.append((Cell(shown, ", ".join(paths), is_text=True), reason))
    return table((Column("missing", is_text=True), Column("reason", is_text=True, is_answer=True)), rows)


def render_answers(
    answers: Sequence[RuleAnswer], *, everything: bool = False, strict: bool = False
) -> RenderableType:
    """Return failed checks with advice, then checks that passed and checks without data."""
    parts: list[RenderableType] = []
    table = _grid()
    for answer in answers:
        if answer.objects:
            table.add_row(Text(answer.severity, style=_SEVERITY_STYLES[answer.severity]), _objection(answer))
    if any(answer.objects for answer in answers):
        parts += [table, Text()]
    passed = [answer for answer in answers if answer.finding.outcome is Outcome.PASSES]
    unknown = [answer for answer in answers if answer.finding.outcome is Outcome.UNKNOWN]
    if everything and passed:
        listing = _grid()
        for answer in passed:
            listing.add_row(Text("ok", style="green"), safe(f"{answer.rule.id}: {answer.finding.claim}"))
        parts += [listing, Text()]
    if unknown:
        parts.append(Text("Not measured", style="bold"))
        parts.append(_reasons({answer.rule.id: answer.finding.claim for answer in unknown}))
        parts.append(Text())
    parts.append(_verdict(answers, len(passed), len(unknown), strict=strict))
    return Group(*parts)


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


def answers_table(answers: Sequence[RuleAnswer], *, everything: bool = False) -> Table:
    """Return failed checks, with ``everything`` all, one fact in a cell: for CSV and Markdown."""
    table = Table(box=None)
    for name in ("severity", "id", "outcome", "claim", "do", "threshold"):
        table.add_column(name)
    for answer in answers:
        if answer.objects or everything:
            rule = answer.rule
            cells = (str(answer.severity), rule.id, str(answer.finding.outcome), answer.finding.claim)
            table.add_row(*map(safe, (*cells, rule.advice if answer.objects else "", rule.threshold)))
    return table


def _grid() -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(width=7, no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    return table


def _reasons(missing: Mapping[str, str]) -> Table:
    """Return each reason once, with the paths that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for path, reason in missing.items():
        by_reason.setdefault(reason, []).append(path)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(ratio=1, overflow="fold", style="dim")
    table.add_column(ratio=1, overflow="fold")
    for reason, paths in by_reason.items():
        shown = paths if len(paths) <= 4 else [*paths[:3], f"{len(paths) - 3} more"]
        table.add_row(safe("\n".join(shown)) if len(shown) == 1 else _lines(shown), safe(reason))
    return table


def _lines(texts: Sequence[str]) -> Text:
    return Text("\n").join(safe(text) for text in texts)


def _summary(comparison: MachineComparison) -> str:
    counts = [
        f"{len(list(members))} {_EFFECTS[effect][0].lower()}"
        for effect, members in groupby(comparison.differences, key=lambda difference: difference.effect)
    ]
    verb = "differs" if len(comparison.differences) == 1 else "differ"
    differing = f"{len(comparison.differences)} {verb} ({', '.join(counts)})" if counts else "nothing differs"
    rest = f", {len(comparison.not_comparable)} not comparable" if comparison.not_comparable else ""
    return f"{differing}, {comparison.same} are the same{rest}"


def _objection(answer: RuleAnswer) -> Text:
    text = safe(answer.finding.claim)
    text.append("\ndo    ", style="dim")
    text.append_text(safe(answer.rule.advice))
    text.append("\nlimit ", style="dim")
    text.append_text(safe(answer.rule.threshold))
    text.append(f"\nid    {answer.rule.id}", style="dim")
    return text


def _verdict(answers: Sequence[RuleAnswer], passed: int, unknown: int, *, strict: bool) -> Text:
    no = [answer for answer in answers if answer.says_no(strict=strict)]
    notes = sum(answer.objects for answer in answers) - len(no)
    counts = [f"{sum(answer.severity is level for answer in no)} {level}" for level in Severity]
    severe = ", ".join(count for count in counts if not count.startswith("0 "))
    tail = f"{notes} {'note' if notes == 1 else 'notes'}, {passed} passed, {unknown} not measured"
    if no:
        return Text(f"no: {len(no)} failed ({severe}), {tail}", style="bold red")
    return Text(f"yes: none failed, {tail}", style="bold green")
