"""The answer of a characterization, and its JSON. In: `ReportData`. Out: an `Answer`, and plain values."""

from dataclasses import asdict, replace
from typing import Any

from steelyard.analyze.operations.power import package_power
from steelyard.report import format as fmt
from steelyard.report import runs
from steelyard.report.answer import Answer, Block, Paragraph, Remark, Remarks, Section
from steelyard.report.characterize.vmstat import vmstat_document
from steelyard.report.counters.document import counters_document
from steelyard.report.counters.words import is_empty, law_sentence, tree_sentence
from steelyard.report.model import ReportData
from steelyard.report.operations import operations_document, operations_lines

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


def answer(data: ReportData) -> Answer:
    """Return the run, what holds it back, where its time goes, and the findings with their next steps."""
    made = runs.answer(data.run, headline=data.headline)
    checks = data.run.verdict.checks if data.run.verdict else []
    lines = [
        Remark(_pressure(data), "pressure points"),
        *_counters(data),
        *_split(data),
        *(Remark(text, name) for name, text in operations_lines(data.conditions)),
        *(Remark(check.claim, "command") for check in checks if check.id == CUT),
        *([Remark(cost, "measuring used")] if (cost := cost_line(data)) else []),
    ]
    shown = [runs.finding_remark(finding, finding.gain) for finding in data.findings[:_FINDINGS_AT_MOST]]
    findings: list[Block] = [Remarks(tuple(shown))] if shown else []
    if not shown:
        findings.append(Paragraph("No findings; the report lists what was not measured."))
    elif len(data.findings) > _FINDINGS_AT_MOST:
        findings.append(Paragraph(f"and {len(data.findings) - _FINDINGS_AT_MOST} more in the report"))
    return replace(
        made,
        sections=[
            *made.sections,
            Section("time", "Where its time goes", (Remarks(tuple(lines)),)),
            Section("findings", "Findings", tuple(findings)),
        ],
        eyebrow="characterization",
    )


def _split(data: ReportData) -> list[Remark]:
    """Return the largest parts of the threads' time."""
    parts = [f"{name} {fmt.quantity(share, 'ratio')}" for name, share in time_split(data)[:6]]
    target = data.conditions.target
    if not parts or target is None:
        return []
    unseen = target.unseen_cpus if target.mostly_unseen else 0.0
    more = f"; not in it: {unseen:.2f} CPUs of short-lived processes" if unseen > _UNSEEN_SHOWN_CPUS else ""
    return [Remark(f"{', '.join(parts)}{more}", "threads' time")]


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


def _pressure(data: ReportData) -> str:
    points = []
    for point in data.pressure:
        notes = [] if point.ratio is None else [fmt.quantity(point.ratio, "ratio")]
        notes += [] if point.sure else ["likely"]
        points.append(PART_WORDS.get(point.part, point.part) + (f" ({', '.join(notes)})" if notes else ""))
    return ", ".join(points) or "none found"


def _counters(data: ReportData) -> list[Remark]:
    use = data.conditions.counters
    if use is None or (use.source is None and use.law.ops_per_s.value is None):
        return []
    lines = []
    sentence = law_sentence(use)
    if sentence:
        lines.append(Remark(sentence, "iron law"))
    tree = use.top_down
    if tree is not None and not is_empty(tree):
        lines.append(Remark(tree_sentence(tree), "top-down", details=(("next:", tree.next_step),)))
    return lines + [Remark(caution, "!", "suspect") for caution in use.cautions]


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
