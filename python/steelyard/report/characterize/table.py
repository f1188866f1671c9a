"""A characterization in the terminal and as JSON.

In: `ReportData`. Out: a renderable for a `rich` console, and plain values. Every text from outside is a
`Text`, never markup, and loses its control characters.

Not here: printing.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.analyze.operations.power import package_power
from steelyard.analyze.rules.findings import Finding
from steelyard.report import format as fmt
from steelyard.report.characterize.vmstat import vmstat_document
from steelyard.report.counters.document import counters_document
from steelyard.report.counters.words import is_empty, law_sentence, tree_sentence
from steelyard.report.model import ReportData
from steelyard.report.operations import operations_document, operations_lines
from steelyard.report.table import claim_with_share, run_summary
from steelyard.report.terminal import report_line, safe

CUT = "cut"
"""The check that says that a command was ended before its own end."""
_FINDINGS_AT_MOST = 8
_UNSEEN_SHOWN_CPUS = 0.05
PART_WORDS = {
    "cpu": "CPU",
    "dram_capacity": "memory capacity",
    "dram_bandwidth": "memory bandwidth",
    "disk_latency": "disk latency",
    "disk_bandwidth": "disk bandwidth",
    "network": "network",
    "locks": "locks",
    "scheduler": "scheduler",
}


def summary(data: ReportData, path: Path | None) -> RenderableType:
    """Return the run, what holds it back, where its time goes, and the findings with their next steps."""
    parts: list[RenderableType] = [run_summary(data.run, headline=data.headline), Text()]
    parts.append(_pressure(data))
    parts += _counters(data)
    split = time_split(data)
    if split:
        line = Text("threads' time   ", style="dim")
        line.append(
            ", ".join(f"{name} {fmt.plain(fmt.quantity(share, 'ratio'))}" for name, share in split[:6])
        )
        target = data.conditions.target
        if target is not None and target.mostly_unseen and target.unseen_cpus > _UNSEEN_SHOWN_CPUS:
            line.append(f"; not in it: {target.unseen_cpus:.2f} CPUs of short-lived processes")
        parts.append(line)
    parts += [_line(name, text) for name, text in operations_lines(data.conditions)]
    checks = data.run.verdict.checks if data.run.verdict else []
    parts += [_line("command", check.claim) for check in checks if check.id == CUT]
    if data.findings:
        parts.append(Text("\nFindings", style="bold"))
        parts += [_finding(finding) for finding in data.findings[:_FINDINGS_AT_MOST]]
        hidden = len(data.findings) - _FINDINGS_AT_MOST
        if hidden > 0:
            parts.append(Text(f"and {hidden} more in the report", style="dim"))
    else:
        parts.append(Text("No findings; the report lists what was not measured.", style="dim"))
    cost = cost_line(data)
    if cost:
        parts.append(Text("\n").append_text(Text("measuring used  ", style="dim")).append(cost))
    if path is not None:
        parts += [Text(), report_line(path)]
    return Group(*parts)


def cost_line(data: ReportData) -> str:
    """Return what the tools took of the CPUs while the workload ran, empty where the run does not say."""
    cost = data.run.hooks.get("cost")
    if not isinstance(cost, dict):
        return ""
    used, parts = cost.get("cpus"), cost.get("cpu_s")
    known = {
        name: float(value)
        for name, value in (parts.items() if isinstance(parts, dict) else ())
        if isinstance(value, int | float)
    }
    times = [f"{name} {value:.2f} s" for name, value in sorted(known.items(), key=lambda item: -item[1])]
    whole = ""
    elapsed = data.run.metrics.get("elapsed_s")
    # Of a moment the share is that of starting and ending it all.
    if isinstance(used, float) and elapsed is not None and (elapsed.value or 0.0) >= 1.0:
        whole = f"{fmt.plain(fmt.quantity(used, 'ratio'))} of a CPU while it ran"
    return ": ".join(part for part in (whole, ", ".join(times)) if part)


def _pressure(data: ReportData) -> Text:
    line = Text("pressure points ", style="dim")
    if not data.pressure:
        return line.append("none found", style="not dim")
    for index, point in enumerate(data.pressure):
        line.append(", " if index else "", style="not dim")
        line.append(PART_WORDS.get(point.part, point.part), style="bold not dim")
        notes = [] if point.ratio is None else [fmt.plain(fmt.quantity(point.ratio, "ratio"))]
        notes += [] if point.sure else ["likely"]
        line.append(f" ({', '.join(notes)})" if notes else "", style="not dim")
    return line


def _counters(data: ReportData) -> list[RenderableType]:
    use = data.conditions.counters
    if use is None or (use.source is None and use.law.ops_per_s.value is None):
        return []
    lines = []
    sentence = law_sentence(use)
    if sentence:
        lines.append(("iron law        ", sentence))
    tree = use.top_down
    if tree is not None and not is_empty(tree):
        lines.append(("top-down        ", tree_sentence(tree)))
        lines.append(("  next          ", tree.next_step))
    lines += [("!               ", caution) for caution in use.cautions]
    parts: list[RenderableType] = []
    for name, text in lines:
        line = Text(name, style="dim", overflow="fold")
        parts.append(line.append(safe(text).plain, style="not dim"))
    return parts


def _line(name: str, text: str) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True, style="dim", width=15)
    row.add_column(overflow="fold")
    row.add_row(name, safe(text))
    return row


def _finding(finding: Finding) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row("•", safe(claim_with_share(finding)))
    for claim in finding.also:
        row.add_row("", safe(f"same cause: {claim}"), style="dim")
    for word, text in (("next", finding.next_step), ("gain", finding.gain)):
        if text:
            row.add_row("", safe(f"{word}: {text}"), style="dim")
    return row


def time_split(data: ReportData) -> list[tuple[str, float]]:
    """Return how the program's threads spent their time, the largest share first."""
    target = data.conditions.target
    if target is None or target.running_ratio is None:
        return []
    named = {"running": target.running_ratio, "waiting for a CPU": target.waiting_ratio or 0.0}
    named |= {f"{kind} wait": share for kind, share in target.waits.items()}
    return sorted(
        ((name, share) for name, share in named.items() if share > 0.0005), key=lambda item: -item[1]
    )


def document(data: ReportData) -> dict[str, Any]:
    """Return pressure points, findings and the program's figures as ``--json`` shows them."""
    target = data.conditions.target
    use = data.conditions.counters
    return {
        "counters": None if use is None else counters_document(use, package_power(data.conditions.power)),
        "pressure_points": [asdict(point) for point in data.pressure],
        "findings": [asdict(finding) for finding in data.findings],
        "operations": operations_document(data.conditions),
        "program": None if target is None else asdict(target),
        "histograms": vmstat_document(data),
        "limits": [asdict(shaper) for shaper in data.conditions.shapers],
        "missing": {lack.name: lack.reason for lack in data.lacking},
    }
