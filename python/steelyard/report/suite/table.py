"""A suite in the terminal.

In: a suite with its scores, and its members' runs. Out: a renderable for a `rich` console. Every text from
outside is a `Text`, never markup, and loses its control characters.

Not here: printing, and what a single run says (``table``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from steelyard.analyze.advice import advice
from steelyard.records import Run, RunStatus, Suite, SuiteMember
from steelyard.report import format as fmt
from steelyard.report.score_text import member_text, overall_text, short_interval
from steelyard.report.suite.page import (
    cpu_of,
    lasted,
    objecting,
    objections,
    says,
    state_of,
    tiles_of,
    value_of,
    verdict,
)
from steelyard.report.terminal import report_line, safe

_MARKS = {"valid": "✓", "suspect": "!", "invalid": "✗", "incomplete": "…"}
_STYLES = {"valid": "bold green", "suspect": "bold yellow", "invalid": "bold red", "incomplete": "bold"}
_FIGURES_AT_MOST = 3


def suite_summary(
    suite: Suite, runs: Mapping[str, Sequence[Run]], *, report_path: Path | None = None
) -> RenderableType:
    """Return a suite: overall score and verdict, one row a member, why not valid, where the report is."""
    parts: list[RenderableType] = [_title(suite), _overall(suite), safe(says(suite, runs))]
    if suite.status_reason:
        parts.append(safe(suite.status_reason))
    parts += [Text(), _Members(suite, runs)]
    for member in suite.members:
        parts += _details(member, runs.get(member.benchmark, ()))
    if suite.overall is not None and suite.overall.withheld:
        parts += [Text(), Text("overall score ", style="dim").append(safe(suite.overall.withheld).plain)]
    if report_path is not None:
        parts += [Text(), report_line(report_path)]
    return Group(*parts)


def _title(suite: Suite) -> Text:
    repeats = f" · {suite.repeats} runs of each" if suite.repeats > 1 else ""
    tier = f" · {suite.tier}" if suite.tier != suite.suite else ""
    took = f" · {fmt.plain(lasted(suite) or '')}" if suite.end_ns is not None else ""
    text = safe(f"suite {suite.suite}{tier}{repeats} · {suite.suite_id}{took}")
    text.stylize("dim")
    return text


def _mark(level: str, word: str) -> Text:
    return Text(f"{_MARKS[level]} {word.lower()}", style=_STYLES[level])


def _overall(suite: Suite) -> Group:
    worst = verdict(suite)
    score = overall_text(suite.overall) if suite.overall is not None else None
    line = Text(f"{score.ratio} overall" if score is not None else "no overall score", style="bold")
    line.append("   ").append_text(_mark(worst["level"], worst["word"]))
    parts: list[RenderableType] = [line]
    if suite.overall is not None and score is not None:
        parts.append(_line("against", suite.overall.baseline_title or "", "dim"))
        parts += [_line("score", note, "dim") for note in score.notes]
        if suite.overall.suspect:
            parts.append(
                _line("score", f"rests on suspect results of {', '.join(suite.overall.suspect)}", "dim")
            )
    return Group(*parts)


@dataclass(frozen=True)
class _Members:
    """The table of members; a narrow terminal gets the columns that answer, whole."""

    suite: Suite
    runs: Mapping[str, Sequence[Run]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table with as many columns as there is room for."""
        table = _members(self.suite, self.runs)
        lost: list[str] = []
        for header in _NARROW:
            # Columns that do not wrap need all of their width, the verdict its longest word.
            wide = options.update(width=10_000)
            needed = _VERDICT_WIDTH + sum(
                3
                + max(console.measure(cell, options=wide).maximum for cell in (column.header, *column.cells))
                for column in table.columns
                if column.header != "verdict"
            )
            if needed <= options.max_width:
                break
            left_out = next(column for column in table.columns if column.header == header)
            table.columns = [column for column in table.columns if column is not left_out]
            if any(str(cell) not in ("", fmt.MISSING) for cell in left_out.cells):
                lost.insert(0, header)
        yield table
        if lost:
            yield Text(f"no room here for: {'; '.join(lost)}", style="dim")


_VERDICT_WIDTH = 16
_NARROW = ("expected", "CPU", "95 % interval", "score")
"""Columns that a narrow terminal loses, one after another: the verdict and the result stay."""


def _members(suite: Suite, runs: Mapping[str, Sequence[Run]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("member", no_wrap=True)
    table.add_column("result", justify="right", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("95 % interval", no_wrap=True)
    table.add_column("CPU", justify="right", no_wrap=True)
    table.add_column("expected", no_wrap=True)
    table.add_column("verdict", overflow="fold", min_width=_VERDICT_WIDTH)
    for member in suite.members:
        value = value_of(member, runs.get(member.benchmark, ()))
        level, word, _ = state_of(member)
        result = Text(fmt.MISSING) if value is None else safe(fmt.plain(f"{value[0]} {value[1]}"))
        if member.value is None:
            result.stylize("dim")
        score = member_text(member)
        table.add_row(
            safe(member.benchmark),
            result,
            fmt.MISSING if score is None else score.ratio,
            short_interval(member),
            *map(fmt.plain, cpu_of(member, runs.get(member.benchmark, ()))[:2]),
            _mark(level, word).append(f"\n{why}" if (why := objections(member)) else "", style="not bold"),
        )
    return table


def _details(member: SuiteMember, runs: Sequence[Run]) -> list[RenderableType]:
    """Return what lies behind a row: further figures, what bears on the score, why it is not valid."""
    parts: list[RenderableType] = []
    results = [run for run in runs if run.status is RunStatus.COMPLETE]
    if results:
        figures = [f"{name} {fmt.plain(value)}" for name, value, _ in tiles_of(results[0])[:_FIGURES_AT_MOST]]
        first = "run 1: " if len(results) > 1 else ""
        parts += [_line("", first + ", ".join(figures), "dim")] if figures else []
    score = member_text(member)
    parts += [_line("score", fmt.plain(note), "dim") for note in (score.notes if score else [])]
    missing = state_of(member)[2]
    if missing:
        parts.append(_line("", missing, ""))
    for check in objecting(member):
        row = _line(check.id, check.claim, _STYLES[check.level.value])
        todo = advice(check)
        if todo is not None:
            row.add_row("", Text(f"→ {todo}", style="dim"))
        parts.append(row)
    if member.no_score and not missing and member.value is not None:
        parts.append(_line("no score", member.no_score, "dim"))
    head = safe(member.benchmark)
    head.stylize("bold")
    return [Text(), head, *parts] if parts else []


def _line(name: str, text: str, style: str) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(overflow="fold")
    head = safe(name)
    head.stylize(style)
    shown = safe(text)
    if not name:
        shown.stylize(style)
    row.add_row(*([head, shown] if name else [shown]))
    return row
