"""The answers of ``steelyard run``: a run, several repeats of one, and the metrics of runs.

In: records and what was derived from them. Out: `Answer`s. Not here: the page of a run (``page``).
"""

from collections.abc import Sequence

from steelyard.analyze import Finding
from steelyard.analyze.checks import advice
from steelyard.bench import declaration
from steelyard.decide.score import Refusal, Score
from steelyard.records import Check, Run, RunStatus
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Cell,
    Column,
    Figure,
    Paragraph,
    Remark,
    Remarks,
    Section,
    table,
)
from steelyard.report.metrics import headline_text, metric_name, metric_text, metric_unit
from steelyard.report.model import headline_of
from steelyard.report.score_text import ratio_text, score_text
from steelyard.stats.intervals import median_interval

_METRICS_AT_MOST = 8
_FINDINGS_AT_MOST = 4


def answer(
    run: Run,
    *,
    score: Score | Refusal | None = None,
    findings: Sequence[Finding] = (),
    headline: Sequence[str] = (),
    recorded: Sequence[tuple[str, str]] = (),
) -> Answer:
    """Return one run: headline, verdict with reasons, score, metrics and findings.

    ``recorded`` are lines on what was counted and sampled beside it. ``headline`` names the metrics to show
    first; by default the first of which more is better leads.
    """
    names = tuple(name for name in headline if name in run.metrics) or headline_of(run)
    is_complete = run.status is RunStatus.COMPLETE
    sections = [Section("metrics", "Metrics", _metrics(run, names))] if run.metrics else []
    if recorded and is_complete:
        remarks = tuple(Remark(text, name) for name, text in recorded)
        sections.append(Section("recorded", "Beside it", (Remarks(remarks),)))
    if findings and is_complete:
        remarks = tuple(finding_remark(finding) for finding in findings[:_FINDINGS_AT_MOST])
        sections.append(Section("findings", "Findings", (Remarks(remarks),)))
    return Answer(
        title(run),
        _heading(run, names),
        sections,
        lines=[title(run), *(score_lines(score) if score is not None and is_complete else [])],
        remarks=Remarks(tuple(reasons(run))),
        level=level_of(run),
        verdict=word_of(run),
        eyebrow="run",
    )


def metrics_answer(runs: Sequence[Run]) -> Answer:
    """Return all metrics of runs, with why those that are missing are: for CSV and its like."""
    columns = (
        *(Column(name, is_text=True) for name in ("run", "benchmark", "metric")),
        Column("value"),
        *(Column(name, is_text=True) for name in ("better", "missing")),
    )
    rows = [
        (
            run.run_id,
            run.benchmark,
            name,
            Figure(metric.value, missing=metric.missing or "", unit=metric.unit),
            metric.better or "",
            metric.missing or "",
        )
        for run in runs
        for name, metric in run.metrics.items()
    ]
    return Answer(
        "Metrics", "", [Section("metrics", "Metrics", (table(columns, rows),))], rows=len(rows) or 1
    )


def repeats_answer(
    runs: Sequence[Run], *, headline: Sequence[str] = (), score: Score | Refusal | None = None
) -> Answer:
    """Return several repeats: each one's value and verdict, and the median with what is known about it.

    ``score`` is that of the median.
    """
    first = next((run for run in runs if run.metrics), runs[0])
    names = tuple(name for name in headline if name in first.metrics) or headline_of(first)
    name = names[0] if names else None
    columns = (
        Column("repeat", "1"),
        Column(metric_name(name, first.benchmark) if name else "result", is_answer=True),
        Column("verdict", is_text=True),
        Column("why", is_text=True, rank=1),
    )
    values, rows = [], []
    for run in runs:
        metric = run.metrics.get(name) if name else None
        if metric is not None and metric.value is not None:
            values.append(metric.value)
        text = fmt.plain(metric_text(name, metric)) if name and metric else fmt.MISSING
        figure = Figure(
            None if metric is None else metric.value, unit=None if metric is None else metric.unit
        )
        verdict = Cell(word_of(run), level=level_of(run))
        rows.append((run.series.index, Cell(text, figure=figure), verdict, _why(run)))
    unit = metric_unit(name, first.metrics[name]) if name else None
    median, note = median_text(values, unit)
    return Answer(
        "Repeats",
        median,
        [Section("repeats", "Repeats", (table(columns, rows),))],
        lines=[
            f"{first.benchmark} · {first.tier} · {len(runs)} repeats",
            note,
            *(score_lines(score) if score is not None else []),
        ],
        rows=len(rows),
        eyebrow="run",
    )


def title(run: Run) -> str:
    """Return benchmark, tier and id of a run in one line."""
    repeat = f" · repeat {run.series.index} of {run.series.count}" if run.series.count > 1 else ""
    return f"{run.benchmark} · {run.tier}{repeat} · {run.run_id}"


def reasons(run: Run) -> list[Remark]:
    """Return the checks that object to a run."""
    describes = declaration.of_run(run.benchmark).describes
    found = run.verdict.reasons if run.verdict is not None else []
    return [_reason(check, describes=describes) for check in found]


def word_of(run: Run) -> str:
    """Return the verdict of a run in a word."""
    if run.verdict is None:
        return "running" if run.status is RunStatus.RUNNING else "incomplete"
    return run.verdict.level.value


def _reason(check: Check, *, describes: bool) -> Remark:
    todo = advice(check, describes=describes)
    return Remark(check.claim, check.id, check.level.value, () if todo is None else (("→", todo),))


def _heading(run: Run, names: Sequence[str]) -> str:
    if run.status is RunStatus.RUNNING:
        return f"under way: {run.status_reason or 'no result yet'}"
    if run.status is not RunStatus.COMPLETE:
        return f"incomplete, no result: {run.status_reason or 'the record gives no reason'}"
    if not names:
        return "no metric was measured"
    return fmt.plain(headline_text(names[0], run.metrics[names[0]], run.benchmark))


def level_of(run: Run) -> str:
    """Return the level of a run's verdict, ``incomplete`` without one."""
    return "incomplete" if run.verdict is None else run.verdict.level.value


def score_lines(score: Score | Refusal) -> list[str]:
    """Return the score and the notes that qualify it, or why there is none."""
    if isinstance(score, Refusal):
        return [f"no score: {score.reason}"]
    of = f"{ratio_text(score.ratio)} the {metric_name(score.metric, score.benchmark)} of {score.baseline}"
    return [of, *(f"score: {note}" for note in score_text(score).notes)]


def _why(run: Run) -> str:
    if run.verdict is None:
        return run.status_reason or ""
    return ", ".join(check.id for check in run.verdict.reasons)


def _metrics(run: Run, names: Sequence[str]) -> tuple[Remarks | Paragraph, ...]:
    order = [*names, *(name for name in run.metrics if name not in names)]
    shown = order[1 if names else 0 :][:_METRICS_AT_MOST]
    remarks = []
    for name in shown:
        metric = run.metrics[name]
        note = f"  {metric.missing}" if metric.value is None and metric.missing else ""
        remarks.append(Remark(f"{metric_text(name, metric)}{note}", metric_name(name, run.benchmark)))
    hidden = len(order) - len(shown) - (1 if names else 0)
    more = (Paragraph(f"and {hidden} more in the report"),) if hidden > 0 else ()
    return (Remarks(tuple(remarks)), *more)


def claim_with_share(finding: Finding) -> str:
    """Return a finding's claim after the share of the headline's time that it explains."""
    if finding.explained_ratio is None:
        return f"note: {finding.claim}"
    return f"{fmt.plain(fmt.quantity(finding.explained_ratio, 'ratio'))}: {finding.claim}"


def finding_remark(finding: Finding, gain: str = "") -> Remark:
    """Return a finding with claims of the same cause, what to do next, and what that may gain."""
    details = [("same cause:", claim) for claim in finding.also]
    details += [("next:", finding.next_step)]
    details += [("gain:", gain)] if gain else []
    return Remark(claim_with_share(finding), "•", details=tuple(details))


def median_text(values: Sequence[float], unit: str | None) -> tuple[str, str]:
    """Return the median with its interval, and what is not known of it."""
    if len(values) < 2:
        return "fewer than two repeats have a result", "the spread is unknown"
    interval = median_interval(values, in_order=True)

    def text(value: float) -> str:
        return fmt.plain(fmt.quantity(value, unit))

    median = f"median {text(interval.median)}"
    if interval.low is None or interval.high is None:
        return f"{median} [{text(interval.lowest)}, {text(interval.highest)}]", interval.reason or ""
    share = fmt.plain(fmt.quantity(interval.confidence, "ratio"))
    note = f"if one run does not resemble the next: {interval.count} cannot show it"
    return (
        f"{median} [{text(interval.low)}, {text(interval.high)}], an interval of {share}",
        note if interval.is_order_open else "",
    )
