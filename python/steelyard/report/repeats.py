"""The repeats of a run beside it: each one's value and verdict, and their median.

In: `ReportData`. Out: plain values for the page's template.
"""

from typing import Any
from urllib.parse import quote

from steelyard.records import Level, Run
from steelyard.report import format as fmt
from steelyard.report.metrics import metric_name, metric_text, metric_unit
from steelyard.report.model import ReportData
from steelyard.stats.intervals import median_interval

LEVEL_WORDS = {Level.VALID: "Valid", Level.SUSPECT: "Suspect", Level.INVALID: "Invalid"}


def repeats(data: ReportData) -> dict[str, Any] | None:
    """Return the repeats of the run; None where it has none."""
    if len(data.siblings) < 2 and data.run.series.count < 2:
        return None
    name = data.headline[0] if data.headline else None
    rows: list[dict[str, Any]] = []
    values: list[float] = []
    for sibling in data.siblings:
        metric = sibling.run.metrics.get(name) if name else None
        verdict = sibling.run.verdict
        if metric is not None and metric.value is not None:
            values.append(metric.value)
        rows.append(
            {
                "index": sibling.run.series.index,
                "run_id": sibling.run.run_id,
                "text": metric_text(name, metric) if name and metric else fmt.MISSING,
                "raw": fmt.raw(metric.value, metric.unit) if metric else "no result",
                "value": metric.value if metric else None,
                "level": verdict.level.value if verdict else "incomplete",
                "word": LEVEL_WORDS[verdict.level] if verdict else "Incomplete",
                "here": sibling.run.run_id == data.run.run_id,
                "link": f"../{quote(sibling.folder.name)}/report.html",
            }
        )
    most = max((value for value in values), default=0.0)
    for row in rows:
        row["width"] = 0 if not most or row["value"] is None else max(0.0, 100 * float(row["value"]) / most)
    return {
        "rows": rows,
        "count": data.run.series.count,
        "metric": metric_name(name, data.run.benchmark) if name else "",
        "summary": _repeats_summary(data.run, name, values),
    }


def _repeats_summary(run: Run, name: str | None, values: list[float]) -> str:
    if name is None or len(values) < 2:
        return "Fewer than two repeats have a result: the spread is unknown."
    unit = metric_unit(name, run.metrics[name]) if name in run.metrics else None
    interval = median_interval(values, in_order=True)
    text = f"Median {fmt.quantity(interval.median, unit)}"
    if interval.low is not None and interval.high is not None:
        return (
            f"{text}, {fmt.quantity(interval.confidence, 'ratio')} interval"
            f" {fmt.quantity(interval.low, unit)} to {fmt.quantity(interval.high, unit)}"
            + (
                f", if one run does not resemble the next: {interval.count} cannot show it"
                if interval.is_order_open
                else ""
            )
        )
    extremes = f"{fmt.quantity(interval.lowest, unit)} to {fmt.quantity(interval.highest, unit)}"
    return f"{text}, runs from {extremes} ({interval.reason})"
