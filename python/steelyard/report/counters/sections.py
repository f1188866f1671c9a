"""The sections of a page about counters: the iron law, where issue slots go, how CPUs were used, events.

In: `ReportData`. Out: `Section`s; pieces of HTML are escaped by Markup. Names of events come from files of
others and are never trusted.

Not here: what the figures mean (``analyze.counters.use``).
"""

from __future__ import annotations

from markupsafe import Markup

from steelyard.analyze.counters.figures import series_of_ipc
from steelyard.analyze.counters.topdown import Node, TopDown
from steelyard.analyze.counters.use import CounterUse
from steelyard.analyze.operations.power import package_power
from steelyard.records import Level
from steelyard.report import format as fmt
from steelyard.report.answer import Cell, Chart, Fragment, Section, Series, Table, grid, measured
from steelyard.report.counters.words import (
    Line,
    bounds_text,
    figure,
    is_empty,
    law_lines,
    metric_text,
    node_text,
    node_words,
)
from steelyard.report.model import ReportData
from steelyard.report.unmeasured import zeros_together

_EVENTS = 200
_SHOWN_ELSEWHERE = ("cpus_used", "page_faults_per_s")
"""Metrics whose figure has another source on the page of a program: its CPU time and page faults are known
from its first instruction on, where counters begin a few milliseconds later."""
_NARROWEST = 0.004
"""A part of less than this share of the bar has no box."""


def sections(data: ReportData) -> list[Section]:
    """Return the section on counters; without counters, only CPU time against capacity."""
    use = data.conditions.counters
    if use is None:
        return []
    return [_law(data, use), *_tree(use), *_events(use)]


def _law(data: ReportData, use: CounterUse) -> Section:
    lines = law_lines(use, package_power(data.conditions.power))
    intro = "Operations per second = cycles per second × instructions per cycle ÷ instructions per operation."
    if use.source is None:
        intro += f" It has no counts: {use.missing}."
    else:
        lasted = f", over {fmt.duration(use.duration_s * 1e9)}" if use.duration_s else ""
        of = {"system": "of the whole machine", "cgroup": "of a cgroup", "cpu": "of the CPUs"}.get(
            use.scope or "", "of the program"
        )
        intro += f" Counts {of} from {use.source}{lasted}."
    if use.cautions:
        intro += " " + " ".join(f"{caution[:1].upper()}{caution[1:]}." for caution in use.cautions)
    tables = [_capacity(data, use)]
    if use.source is not None or use.law.ops_per_s.value is not None:
        tables.insert(0, _lines(("term", "value", "meaning, or why it is missing"), lines, "Its terms"))
    points = series_of_ipc(use)
    charts = (_ipc(points),) if len(points) > 1 else ()
    law = use.law
    terms = (law.ops_per_s, law.cycles_per_s, law.ipc, law.path_length)
    has_any = use.source is not None and any(term.value is not None for term in terms)
    return Section(
        "law",
        "Iron law",
        (
            *([Fragment(lambda _: equation(use))] if has_any else []),
            *charts,
            *tables,
        ),
        intro,
    )


def _lines(columns: tuple[str, str, str], lines: list[Line], caption: str) -> Table:
    rows = tuple((Cell(line.name), line.cell, Cell(line.note, is_text=True)) for line in lines)
    return grid(columns, rows, caption)


def _capacity(data: ReportData, use: CounterUse) -> Table:
    """How CPU time was used, and what that is of the machine."""
    rows: list[tuple[Cell, ...]] = []
    split = use.split
    if split is None:
        reason = use.split_missing or "not recorded"
        return grid(
            ("CPU time", "share", "note"), ((Cell("all"), Cell(fmt.MISSING), Cell(reason, is_text=True)),)
        )
    shares = {
        "user": split.user_ratio,
        "system": split.system_ratio,
        "waiting for a disk": split.wait_ratio,
        "idle": split.idle_ratio,
        "stolen": split.steal_ratio,
    }
    for name, share in shares.items():
        rows.append((Cell(name), _share(share), Cell("", bar=share), Cell("", is_text=True)))
    total = split.total_ratio
    rows.append(
        (Cell("utilisation"), _share(total), Cell("", bar=total), Cell("user and system", is_text=True))
    )
    capacity = use.capacity
    threads = data.machine.cpu.threads_per_core if data.machine is not None else None
    placement_words = {
        1: "one thread per core: utilisation is capacity, at the measured frequency",
        2: "two threads share a core: the second adds 0 to 100 % of a core's throughput (not measured), so"
        " capacity is not linear in utilisation",
    }.get(threads or 0, "")
    rows.append(
        (
            Cell("used capacity"),
            measured(
                capacity.quantity.value,
                capacity.unit,
                text=bounds_text(capacity),
                raw=f"{capacity.low!r} to {capacity.high!r}",
                low=capacity.low,
                high=capacity.high,
            ),
            Cell("", bar=capacity.low if capacity.low is not None else 0.0),
            Cell(capacity.missing or placement_words, is_text=True),
        )
    )
    frequency = data.conditions.power.frequency_hz
    hz = use.law.frequency_hz if use.law.frequency_hz.value is not None else frequency
    source = "clocks over CPU time" if hz is use.law.frequency_hz else "as cpufreq reports it"
    rows.append(
        (
            Cell("effective frequency"),
            measured(hz.value, "hz"),
            Cell("", is_text=True),
            Cell(hz.missing or source, is_text=True),
        )
    )
    columns = ("CPU time", "share", "of all", "note")
    return grid(columns, tuple(rows), "CPU time of the machine")


def _share(value: float) -> Cell:
    return measured(value, "ratio")


def equation(use: CounterUse) -> str:
    """Return the law as HTML."""
    law = use.law
    cpus = ""
    if law.used_cpus.value is not None and law.frequency_hz.value is not None:
        cpus = f"{figure(law.used_cpus)} CPUs × {fmt.quantity(law.frequency_hz.value, 'hz')}"
    core = bounds_text(law.core_ipc)
    terms = (
        ("", law.ops_per_s, "operations", ""),
        ("=", law.cycles_per_s, "clocks", cpus),
        ("×", law.ipc, "instructions per cycle", f"{core} per core" if law.core_ipc.low else ""),
        ("÷", law.path_length, "instructions per operation", ""),
    )
    parts = []
    for sign, quantity, name, note in terms:
        if sign:
            parts.append(Markup('<span class="sign">{}</span>').format(sign))
        missing = Markup("")
        if quantity.value is None:
            missing = Markup('<span class="why">{}</span>').format(quantity.missing or "not known")
        parts.append(
            Markup(
                '<div class="term" title="{raw}"><strong>{text}</strong><span>{name}</span>'
                "{note}{missing}</div>"
            ).format(
                raw=fmt.raw(quantity.value, quantity.unit),
                text=figure(quantity),
                name=name,
                note=Markup('<span class="why">{}</span>').format(note) if note else "",
                missing=missing,
            )
        )
    return Markup('<div class="law card">{}</div>').format(Markup("").join(parts))


def _ipc(points: list[tuple[float, float]]) -> Chart:
    times, values = zip(*points, strict=True)
    return Chart(
        "ipc",
        "Instructions per cycle over time",
        (Series("IPC", times, values),),
        x_title="seconds since perf began",
        y_title="IPC per thread",
    )


def _tree(use: CounterUse) -> list[Section]:
    tree = use.top_down
    if use.source is None:
        return []
    if tree is None or is_empty(tree):
        reason = use.top_down_missing or (tree.next_step if tree is not None else "nothing was counted")
        return [Section("topdown", "Top-down", (), missing=(("where issue slots go", reason),))]
    step = tree.next_step
    objections = [check.claim for check in tree.checks if check.level is not Level.VALID]
    intro = f"Where the issue slots go, by the formulas of {tree.model}. Next: {step}."
    if objections:
        intro += f" Not reliable: {'; '.join(objections)}."
    rows = []
    for node in tree.level_1:
        rows.append(_node_row(node, ""))
        rows += [_node_row(child, "    ") for child in node.children]
    columns = ("slots", "share", "meaning, or why it is withheld", "sample next")
    return [
        Section(
            "topdown",
            "Top-down",
            (
                Fragment(lambda _: icicle(tree)),
                grid(columns, tuple(rows), caption=f"Source of the formulas: {tree.source}"),
            ),
            intro,
        )
    ]


def _node_row(node: Node, indent: str) -> tuple[Cell, ...]:
    raw = (
        fmt.raw(node.ratio, "ratio") if node.ratio is not None else f"between {node.low!r} and {node.high!r}"
    )
    note = node.meaning if node.ratio is not None else (node.missing or "withheld")
    return (
        Cell(f"{indent}{node_words(node.name)}".replace(" ", "\u00a0")),
        measured(node.ratio, "ratio", text=node_text(node), raw=raw, low=node.low, high=node.high),
        Cell(note, is_text=True),
        Cell(", ".join(node.next_events) if node.notable else "", is_text=True),
    )


def icicle(tree: TopDown) -> str:
    """Draw level 1, and below each its parts; what is not known is hatched."""
    boxes = []
    left = 0.0
    for node in tree.level_1:
        if node.ratio is None:
            continue
        boxes.append(_box(left, node.ratio, 0, f"td-{_hue(node.name)}", node_words(node.name), node))
        inner = left
        for index, child in enumerate(child for child in node.children if child.ratio is not None):
            shade = f"td-{_hue(node.name)} td-child{index % 2}"
            boxes.append(_box(inner, child.ratio or 0.0, 1, shade, node_words(child.name), child))
            inner += child.ratio or 0.0
        left += node.ratio
    if left < 1 - _NARROWEST:
        boxes.append(_box(left, 1 - left, 0, "td-unknown", "not known", None))
    named = "; ".join(
        f"{node_words(node.name)} {fmt.plain(node_text(node))}"
        for node in tree.level_1
        if node.ratio is not None
    )
    return Markup(
        '<figure class="chart topdown card"><svg role="img" aria-label="{label}" width="100%" height="128">'
        "{boxes}</svg></figure>"
    ).format(label=f"Shares of issue slots: {named}", boxes=Markup("").join(boxes))


def _hue(name: str) -> str:
    for part in ("frontend", "bad", "backend", "retiring", "smt"):
        if name.startswith(part):
            return part
    return "unknown"


def _box(left: float, width: float, row: int, style: str, name: str, node: Node | None) -> Markup:
    if width < _NARROWEST:
        return Markup("")
    # A label that its box would cut is left to the title: the bar is about a thousand pixels wide.
    room = int((width * 1000 - 12) / 7.2)
    shown = name if len(name) <= room else f"{name[: room - 1]}…" if room >= 7 else ""
    text = node_text(node) if node is not None else fmt.quantity(width, "ratio")
    title = f"{name}: {fmt.plain(text)}" + (f", {node.meaning}" if node is not None else "")
    return Markup(
        '<svg x="{x:.3f}%" y="{y}" width="{w:.3f}%" height="62">'
        '<rect class="{style}" width="100%" height="62"/>'
        "<title>{title}</title>"
        '<text x="8" y="25">{name}</text><text x="8" y="47" class="share">{text}</text></svg>'
    ).format(
        x=left * 100,
        y=row * 64,
        w=width * 100,
        style=style,
        title=title,
        name=shown,
        text=text if room >= 8 else "",
    )


def _events(use: CounterUse) -> list[Section]:
    series = use.series
    if series is None:
        return []
    rows = []
    for event, counted in list(series.events.items())[:_EVENTS]:
        known = [value for value in counted.count if value is not None]
        total = sum(known)
        ratios = [ratio for ratio in counted.coverage_ratio if ratio is not None]
        share = sum(ratios) / len(ratios) if ratios else None
        lost = len(counted.count) - len(known)
        unit = {"ns": "ns", "": "1"}.get(counted.unit, counted.unit)
        per_s = total / use.duration_s if use.duration_s and unit == "1" and not lost else None
        note = f"missing in {lost} of {len(counted.count)} windows" if lost else ""
        rows.append(
            (
                Cell(event),
                measured(total, unit),
                measured(per_s, "1/s"),
                measured(share, "ratio"),
                Cell(note, is_text=True),
            )
        )
    rows += [
        (Cell(event), Cell(fmt.MISSING), Cell(fmt.MISSING), Cell(fmt.MISSING), Cell(reason, is_text=True))
        for event, reason in list(series.missing.items())[:_EVENTS]
    ]
    columns = ("event", "count", "a second", "counted in", "note")
    tables = [*_metrics(use), grid(columns, tuple(rows), "Events", closed=True)]
    metrics = [
        metric
        for metric in use.perf_metrics
        if metric.name and "/sec" not in metric.name and not metric.entity
    ]
    if metrics:
        cells = tuple(
            (
                Cell(metric.name),
                Cell(
                    fmt.quantity(metric.value, "%") if metric.unit == "%" else fmt.significant(metric.value),
                    repr(metric.value),
                ),
                Cell(metric.event, is_text=True),
            )
            for metric in metrics[:_EVENTS]
        )
        tables.append(grid(("metric", "value", "beside"), cells, "As computed by perf"))
    withheld = tuple(
        (metric.name, metric.missing or "withheld") for metric in use.metrics.values() if metric.value is None
    )
    intro = f"Metrics by the definition of {use.definition}." if use.definition else ""
    return [Section("counters", "Counters", (*tables,), intro, missing=withheld)]


def _metrics(use: CounterUse) -> list[Table]:
    """Return the metrics that have values."""
    rows = [
        (
            Cell(metric.name),
            Cell(metric_text(metric.value, metric.unit), fmt.raw(metric.value, metric.unit)),
            measured(1.0 if metric.coverage_ratio is None else metric.coverage_ratio, "ratio"),
            Cell(metric.meaning, is_text=True),
            Cell((metric.formula or "").replace("\\", ""), is_text=True),
        )
        for metric in use.metrics.values()
        if metric.value is not None
        and not (metric.name in _SHOWN_ELSEWHERE and (use.scope == "process" or metric.name == "cpus_used"))
    ]
    columns = ("metric", "value", "counted in", "description", "formula")
    return [zeros_together(grid(columns, tuple(rows), "Metrics"), names=3)] if rows else []
