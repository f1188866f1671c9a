"""A run, or several repeats of one, in the terminal.

In: records and what was derived from them. Out: renderables for a `rich` console, which minds the width, a
pipe and ``NO_COLOR``. Every text from outside is a `Text`, never markup, and loses its control characters.

Not here: printing.
"""

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.analyze import Finding
from steelyard.analyze.checks import advice
from steelyard.bench import declaration
from steelyard.decide.score import Refusal, Score
from steelyard.records import Check, Level, Run, RunStatus
from steelyard.report import format as fmt
from steelyard.report.metrics import headline_text, metric_name, metric_text, metric_unit
from steelyard.report.model import headline_of
from steelyard.report.score_text import ratio_text, score_text
from steelyard.report.terminal import report_line, safe
from steelyard.stats.intervals import median_interval

_METRICS_AT_MOST = 8
_FINDINGS_AT_MOST = 4
_STYLES = {Level.VALID: "bold green", Level.SUSPECT: "bold yellow", Level.INVALID: "bold red"}


def run_summary(
    run: Run,
    *,
    score: Score | Refusal | None = None,
    findings: Sequence[Finding] = (),
    report_path: Path | None = None,
    headline: Sequence[str] = (),
    recorded: Sequence[tuple[str, str]] = (),
) -> RenderableType:
    """Return one run: headline, verdict with reasons, score, metrics, findings, and where the report is.

    ``recorded`` are lines on what was counted and sampled beside it.

    ``headline`` names the metrics to show first; by default the first of which more is better leads.
    """
    names = tuple(name for name in headline if name in run.metrics) or headline_of(run)
    parts: list[RenderableType] = [_title(run)]
    parts += _state(run) if run.status is not RunStatus.COMPLETE else [_result(run, names, score)]
    if isinstance(score, Score) and run.status is RunStatus.COMPLETE:
        parts += _score_notes(score)
    if run.verdict is not None:
        describes = declaration.of_run(run.benchmark).describes
        parts += [_reason(check, describes=describes) for check in run.verdict.reasons]
    if run.metrics:
        parts += [Text(), _metrics(run, names)]
    if recorded and run.status is RunStatus.COMPLETE:
        parts += [Text(), _recorded(recorded)]
    if isinstance(score, Refusal):
        parts += [Text(), _score(score)]
    if findings and run.status is RunStatus.COMPLETE:
        parts.append(Text("\nFindings", style="bold"))
        parts += [_finding(finding) for finding in findings[:_FINDINGS_AT_MOST]]
    if report_path is not None:
        parts += [Text(), report_line(report_path)]
    return Group(*parts)


def repeats_summary(
    runs: Sequence[Run], *, headline: Sequence[str] = (), score: Score | Refusal | None = None
) -> RenderableType:
    """Return several repeats: each one's value and verdict, and the median with what is known about it.

    ``score`` is that of the median.
    """
    first = next((run for run in runs if run.metrics), runs[0])
    names = tuple(name for name in headline if name in first.metrics) or headline_of(first)
    name = names[0] if names else None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("repeat", justify="right")
    table.add_column(Text(metric_name(name, first.benchmark) if name else "result"), justify="right")
    table.add_column("verdict", no_wrap=True)
    table.add_column("why", overflow="fold", ratio=1)
    values = []
    for run in runs:
        metric = run.metrics.get(name) if name else None
        if metric is not None and metric.value is not None:
            values.append(metric.value)
        text = fmt.plain(metric_text(name, metric)) if name and metric else fmt.MISSING
        table.add_row(str(run.series.index), text, _verdict(run), safe(_why(run)))
    unit = metric_unit(name, first.metrics[name]) if name else None
    title = safe(f"{first.benchmark} · {first.tier} · {len(runs)} repeats")
    title.stylize("dim")
    parts: list[RenderableType] = [title, Text(), table, _median(values, unit, name)]
    if score is not None:
        parts.append(_score(score))
        parts += _score_notes(score) if isinstance(score, Score) else []
    return Group(*parts)


def _title(run: Run) -> Text:
    repeat = f" · repeat {run.series.index} of {run.series.count}" if run.series.count > 1 else ""
    text = safe(f"{run.benchmark} · {run.tier}{repeat} · {run.run_id}")
    text.stylize("dim")
    return text


def _state(run: Run) -> list[RenderableType]:
    word = "under way" if run.status is RunStatus.RUNNING else "incomplete: no result"
    text = Text(word, style="bold red" if run.status is RunStatus.INCOMPLETE else "bold")
    return [text, safe(run.status_reason or "the record gives no reason")]


def _verdict(run: Run) -> Text:
    if run.verdict is None:
        return Text("… incomplete" if run.status is not RunStatus.RUNNING else "… running", style="bold")
    marks = {Level.VALID: "✓", Level.SUSPECT: "!", Level.INVALID: "✗"}
    level = run.verdict.level
    return Text(f"{marks[level]} {level.value}", style=_STYLES[level])


def _result(run: Run, names: Sequence[str], score: Score | Refusal | None) -> Text:
    line = Text()
    if names:
        line.append(
            safe(fmt.plain(headline_text(names[0], run.metrics[names[0]], run.benchmark))).plain, style="bold"
        )
        line.append("   ")
    line.append_text(_verdict(run))
    if isinstance(score, Score):
        line.append("   ")
        line.append_text(_score(score))
    return line


def _score(score: Score | Refusal) -> Text:
    if isinstance(score, Refusal):
        return Text("no score: ", style="dim").append(safe(score.reason).plain)
    text = Text(ratio_text(score.ratio), style="bold")
    return text.append(
        safe(f" the {metric_name(score.metric, score.benchmark)} of {score.baseline}").plain, style="not bold"
    )


def _score_notes(score: Score) -> list[RenderableType]:
    """Return the notes that qualify a score."""
    return [_line("score", fmt.plain(note), "dim") for note in score_text(score).notes]


def _reason(check: Check, *, describes: bool = False) -> Table:
    row = _line(check.id, check.claim, _STYLES[check.level])
    todo = advice(check, describes=describes)
    if todo is not None:
        row.add_row("", Text(f"→ {todo}", style="dim"))
    return row


def _line(name: str, text: str, style: str) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(overflow="fold")
    head = safe(name)
    head.stylize(style)
    row.add_row(head, safe(text))
    return row


def _why(run: Run) -> str:
    if run.verdict is None:
        return run.status_reason or ""
    return ", ".join(check.id for check in run.verdict.reasons)


def _metrics(run: Run, names: Sequence[str]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold", style="dim")
    order = [*names, *(name for name in run.metrics if name not in names)]
    shown = order[1 if names else 0 :][:_METRICS_AT_MOST]
    for name in shown:
        metric = run.metrics[name]
        note = metric.missing or "" if metric.value is None else ""
        table.add_row(
            safe(metric_name(name, run.benchmark)), fmt.plain(metric_text(name, metric)), safe(note)
        )
    hidden = len(order) - len(shown) - (1 if names else 0)
    if hidden > 0:
        table.add_row(Text(f"and {hidden} more in the report", style="dim"), "", "")
    return table


def _recorded(lines: Sequence[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(safe(name), safe(fmt.plain(text)))
    return table


def claim_with_share(finding: Finding) -> str:
    """Return a finding's claim after the share of the headline's time that it explains."""
    if finding.explained_ratio is None:
        return f"note: {finding.claim}"
    return f"{fmt.plain(fmt.quantity(finding.explained_ratio, 'ratio'))}: {finding.claim}"


def _finding(finding: Finding) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row("•", safe(claim_with_share(finding)))
    for claim in finding.also:
        row.add_row("", safe(f"same cause: {claim}"), style="dim")
    next_step = safe(finding.next_step)
    next_step.stylize("dim")
    row.add_row("", next_step)
    return row


def _median(values: Sequence[float], unit: str | None, name: str | None) -> Text:
    if len(values) < 2:
        return Text("fewer than two repeats have a result: the spread is unknown", style="dim")
    interval = median_interval(values, in_order=True)

    def text(value: float) -> str:
        return fmt.plain(fmt.quantity(value, unit))

    line = Text("median ").append(text(interval.median), style="bold")
    if interval.low is not None and interval.high is not None:
        share = fmt.plain(fmt.quantity(interval.confidence, "ratio"))
        return line.append(f" [{text(interval.low)}, {text(interval.high)}], an interval of {share}").append(
            f"\nif one run does not resemble the next: {interval.count} cannot show it"
            if interval.is_order_open
            else "",
            style="dim",
        )
    return line.append(f" [{text(interval.lowest)}, {text(interval.highest)}]").append(
        f"\n{interval.reason}", style="dim"
    )
