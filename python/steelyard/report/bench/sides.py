"""What was counted and sampled of servers and load in any benchmark, beside each other.

In: `ReportData` of a run with the hooks `counters`, `topdown` and `profile`. Out: `Section`s: one with the
iron law, CPU time, misses, memory, power and top-down, a column a side, and one with the tax map and hot
functions; and the same in a few lines for a terminal. What is missing is one line with its reasons.

Not here: what the figures mean (``analyze.counters``, ``analyze.profiles``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from steelyard.analyze.counters.sides import OF_MACHINE
from steelyard.analyze.counters.use import CounterUse
from steelyard.analyze.operations.power import package_power
from steelyard.analyze.profiles.figures import ReadProfile
from steelyard.analyze.profiles.names import short_function
from steelyard.analyze.run_files import COUNTERS, PROFILE, TOP_DOWN_HOOK
from steelyard.report import format as fmt
from steelyard.report.answer import Cell, Chart, Fragment, Section, Timeline, grid
from steelyard.report.counters.sections import equation, icicle
from steelyard.report.counters.words import (
    Line,
    is_empty,
    law_lines,
    law_sentence,
    metric_text,
    node_text,
    node_words,
    tree_sentence,
)
from steelyard.report.model import ReportData
from steelyard.report.profiles.flame import flame_html
from steelyard.report.profiles.functions import functions_table
from steelyard.report.profiles.tax_chart import tax_chart
from steelyard.report.profiles.time_chart import run_time_charts

FUNCTIONS = 15
_NAMED = 3
"""Functions that a terminal's line names."""
_IN_THE_LAW = ("ipc", "cpi", "core_ipc", "core_cpi", "frequency_hz", "cpus_used")
"""Metrics that are terms of the law, which stands above them."""
_HOOKS = (COUNTERS, TOP_DOWN_HOOK, PROFILE)
_UPPER = ("mpki", "l1i", "l1d", "l2", "llc", "dtlb", "itlb", "cpu", "fp", "dram", "smt")
_COMMON = ("operations", "operations per joule")
"""Lines of the law that servers and load have in common."""


def _counts_cpus(data: ReportData) -> bool:
    about = data.run.hooks.get(COUNTERS)
    return isinstance(about, dict) and about.get("scope") == "cpu"


def side_sections(data: ReportData) -> list[Section]:
    """Return the sections; none for a run whose hooks recorded no sides."""
    if not any(hook in data.run.hooks for hook in _HOOKS):
        return []
    return [*_counted(data), _profiled(data)]


def _uses(data: ReportData) -> dict[str, CounterUse]:
    sides = {"server": data.conditions.counters, "load": data.conditions.load_counters}
    return {side: use for side, use in sides.items() if use is not None}


def _profiles(data: ReportData) -> dict[str, ReadProfile]:
    sides = {"server": data.profile}
    return sides if data.load_profile is None else {**sides, "load": data.load_profile}


def _counted(data: ReportData) -> list[Section]:
    uses = _uses(data)
    if not uses:
        return []
    lines = {side: dict(_lines(data, use)) for side, use in uses.items()}
    names = dict.fromkeys(name for of_side in lines.values() for name in of_side)
    rows = tuple(_row(name, lines) for name in names)
    server = next(iter(uses.values()))
    return [
        Section(
            "counted",
            "Server and load" if "load" in uses else "Counters",
            (
                *([Fragment(lambda _: _lead(server))] if _lead(server) else []),
                grid(("figure", *uses, "meaning, or why it is missing"), rows),
            ),
            _intro(data, uses),
        )
    ]


def _lead(use: CounterUse) -> str:
    law, tree = use.law, use.top_down
    parts = [equation(use)] if law.ipc.value is not None else []
    parts += [icicle(tree)] if tree is not None and not is_empty(tree) else []
    return "".join(parts)


def _intro(data: ReportData, uses: Mapping[str, CounterUse]) -> str:
    about = data.run.hooks.get(COUNTERS)
    of = about.get("scope") if isinstance(about, dict) else None
    whose = {"cpu": "of the CPUs of each side", "process": "of the processes of each side"}.get(str(of), "")
    parts = [f"Counts of the measure phase, {whose}." if whose else "CPU time of the measure phase."]
    cautions = dict.fromkeys(caution for use in uses.values() for caution in use.cautions)
    parts += [f"{caution[:1].upper()}{caution[1:]}." for caution in cautions]
    cost, reasons = cost_ratio(data), _cost_missing(data)
    if reasons:
        parts.append(f"What recording took is not known: {'; '.join(reasons)}.")
    elif cost is not None:
        parts.append(f"Recording took {fmt.quantity(cost, 'ratio')} of the machine's CPU time.")
    return " ".join(parts)


def cost_ratio(data: ReportData) -> float | None:
    """Return the share of the machine's CPU time that the three hooks' processes used, None where unknown."""
    known = []
    for hook in _HOOKS:
        about = data.run.hooks.get(hook)
        ratio = about.get("cpu_ratio") if isinstance(about, dict) else None
        if isinstance(ratio, int | float):
            known.append(float(ratio))
    return sum(known) if known else None


def _cost_missing(data: ReportData) -> list[str]:
    """Return why the hooks' CPU time is not known, each reason once."""
    found = [about.get("cpu_missing") for about in map(data.run.hooks.get, _HOOKS) if isinstance(about, dict)]
    return list(dict.fromkeys(str(reason) for reason in found if reason is not None))


def _row(name: str, lines: Mapping[str, Mapping[str, Line]]) -> tuple[Cell, ...]:
    found = [of_side.get(name) for of_side in lines.values()]
    known = [line for line in found if line is not None and not line.is_missing]
    note = next((line.note for line in (known or found) if line is not None), "")
    cells = (Cell(fmt.MISSING) if line is None else line.cell for line in found)
    return (Cell(name), *cells, Cell(note, is_text=True))


def _lines(data: ReportData, use: CounterUse) -> Iterator[tuple[str, Line]]:
    """Yield every figure of one side by its name."""
    watts = package_power(data.conditions.power)
    whole = _counts_cpus(data)
    for line in law_lines(use, watts):
        if line.name not in _COMMON:
            yield line.name, line
    split = use.split
    shares = (
        (None,) * 4
        if split is None
        else (split.user_ratio, split.system_ratio, split.idle_ratio, split.steal_ratio)
    )
    for word, share in zip(("user", "kernel", "idle", "stolen"), shares, strict=True):
        name = f"CPUs, {word}" if whole else f"CPU time, {word}"
        note = "of its CPUs' time, other processes included" if whole else "of its CPUs"
        yield name, _figure(name, share, "ratio", note, use.split_missing)
    yield "power", _figure("power", watts.value, "w", OF_MACHINE, watts.missing)
    for metric in use.metrics.values():
        if metric.name not in _IN_THE_LAW:
            name = _words(metric.name)
            text = metric_text(metric.value, metric.unit)
            raw = fmt.raw(metric.value, metric.unit)
            lacking = metric.value is None
            note = (metric.missing or "withheld") if lacking else metric.meaning
            yield name, Line(name, text, raw, note, lacking, metric.value, metric.unit)
    yield from _tree_lines(use)


def _words(name: str) -> str:
    """Return a metric's name as people write it.

    >>> _words("l1i_mpki"), _words("context_switches_per_s"), _words("memory_bytes_per_s")
    ('L1I MPKI', 'context switches', 'memory traffic')
    """
    if name == "memory_bytes_per_s":
        return "memory traffic"
    words = name.removesuffix("_ratio").removesuffix("_per_s").removesuffix("_w").split("_")
    return " ".join(word.upper() if word in _UPPER else word for word in words)


def _figure(name: str, value: float | None, unit: str, note: str, missing: str | None) -> Line:
    lacking = value is None
    why = (missing or "not recorded") if lacking else note
    return Line(name, fmt.quantity(value, unit), fmt.raw(value, unit), why, lacking, value, unit)


def _tree_lines(use: CounterUse) -> Iterator[tuple[str, Line]]:
    tree = use.top_down
    if tree is None or is_empty(tree):
        reason = use.top_down_missing or "nothing was counted"
        yield "top-down", Line("top-down", fmt.MISSING, "not measured", reason, is_missing=True)
        return
    for node in tree.level_1:
        for each, indent in ((node, ""), *((child, "\u00a0\u00a0") for child in node.children)):
            name = f"{indent}{node_words(each.name)}"
            lacking = each.ratio is None and each.low == 0 and each.high == 1
            note = (each.missing or "withheld") if lacking else each.meaning
            ends = (None, None) if lacking else (each.low, each.high)
            text, raw = node_text(each), repr(each.ratio)
            yield name, Line(name, text, raw, note, lacking, each.ratio, "ratio", *ends)


def _profiled(data: ReportData) -> Section:
    found = {side: read.found for side, read in _profiles(data).items() if read.found is not None}
    missing = tuple(
        (f"profile of the {side}", read.missing or "no profile was recorded")
        for side, read in _profiles(data).items()
        if read.found is None
    )
    if not found:
        return Section("profile", "Profile", (), missing=missing)
    parts = []
    for side, (profile, _) in found.items():
        parts.append(f"{side} {fmt.count(profile.busy().total)} busy samples")
    facts = next(iter(found.values()))[0].facts
    parts += [f"event {facts['event']}"] if "event" in facts else []
    parts += [f"{facts['hz']} a second and CPU"] if "hz" in facts else []
    parts += [facts["reason"]] if "reason" in facts else []
    tables = [
        functions_table(use, FUNCTIONS, f"Hot functions of the {side}")
        for side, read in _profiles(data).items()
        if (use := read.use) is not None
    ]
    first = next(iter(found))
    title = f"Samples of the {first} over time"
    charts: tuple[Chart | Timeline, ...] = (
        tax_chart([(side, tax) for side, (_, tax) in found.items()]),
        *run_time_charts(_profiles(data)[first], data.zero_ns, title),
    )
    return Section(
        "profile",
        "Profile",
        (
            *(replace(chart, wide=True) for chart in charts),
            *tables,
            Fragment(
                lambda assets: flame_html(found[first][0], f"Flame graph of the {first}", assets=assets)
            ),
        ),
        "; ".join(parts) + ".",
        missing=missing,
    )


def side_lines(data: ReportData) -> list[tuple[str, str]]:
    """Return what a terminal shows: a line a side and subject, and one of what was not recorded."""
    if not any(hook in data.run.hooks for hook in _HOOKS):
        return []
    lines = []
    for side, use in _uses(data).items():
        if use.split is not None:
            split = f"user {_share(use.split.user_ratio)}, kernel {_share(use.split.system_ratio)}"
            split += " (whatever ran on them)" if _counts_cpus(data) else ""
            law = "" if use.law.ipc.value is None else law_sentence(use)
            lines.append((f"{side} CPUs", "; ".join(part for part in (split, law) if part)))
        if use.top_down is not None and not is_empty(use.top_down):
            lines.append((f"{side} top-down", tree_sentence(use.top_down)))
    for side, read in _profiles(data).items():
        profiled = read.use
        if profiled is not None:
            own = list(profiled.own.items())[:_NAMED]
            words = ", ".join(f"{short_function(name)} {_share(share)}" for name, share in own)
            lines.append((f"{side} hot", words))
    missing = _missing(data)
    return [*lines, ("not recorded", missing)] if missing else lines


def _share(value: float) -> str:
    return fmt.plain(fmt.quantity(value, "ratio"))


def _missing(data: ReportData) -> str:
    """Return what the hooks could not record, names of one reason together."""
    names: dict[str, list[str]] = {}
    for hook in _HOOKS:
        about = data.run.hooks.get(hook)
        for key, what in (
            ("missing", hook),
            ("machine_missing", f"{hook} of the whole machine"),
            ("reduced", f"hardware {hook}"),
        ):
            reason = about.get(key) if isinstance(about, dict) else None
            if isinstance(reason, str):
                reason = reason.partition(": ")[2] if key == "reduced" else reason
                names.setdefault(reason, []).append(what)
    return "; ".join(f"{', '.join(hooks)} ({reason})" for reason, hooks in names.items())
