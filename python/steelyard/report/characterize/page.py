"""What the page of a characterization shows beside what every run's page has.

In: `ReportData`. Out: `Section`s: how hard each resource was pressed, the application's operations, what
counters say, where the program's threads spent their time, vmstat's columns as histograms, the profile with
its tax map and flame graph, and the limits on interfaces.
"""

from dataclasses import replace

from steelyard.analyze.pressure.intensities import THRESHOLDS
from steelyard.analyze.profiles.figures import ProfileUse
from steelyard.analyze.workload import measured_intensities
from steelyard.report import format as fmt
from steelyard.report.answer import Cell, Chart, Fragment, Section, Table, Timeline, grid, measured
from steelyard.report.characterize.table import PART_WORDS, cost_line, time_split
from steelyard.report.characterize.vmstat import vmstat_sections
from steelyard.report.counters.sections import sections as counter_sections
from steelyard.report.model import ReportData
from steelyard.report.operations import operations_section
from steelyard.report.profiles.flame import flame_html
from steelyard.report.profiles.functions import functions_table
from steelyard.report.profiles.tax_chart import tax_chart
from steelyard.report.profiles.time_chart import run_time_charts
from steelyard.report.unmeasured import zeros_together

_FUNCTIONS = 20
_KERNEL_APART = 0.1
"""Difference of two shares of the kernel from which it is said."""
_PLACES = 10
_COVERED = 0.95
"""Share of the CPU time that samples stand for from which nothing is said: 99 a second tell no more."""


def sections(data: ReportData) -> list[Section]:
    """Return the sections in reading order."""
    return [
        _pressure(data),
        *operations_section(data),
        *counter_sections(data),
        *_program(data),
        *vmstat_sections(data),
        _profile(data),
    ]


def _ratio(value: float | None) -> Cell:
    return measured(value, "ratio")


def _pressure(data: ReportData) -> Section:
    by_part = {point.part: point for point in data.pressure}
    rows = []
    for part, each in measured_intensities(data.conditions).items():
        point = by_part.pop(part, None)
        word = "" if point is None else "pressure point" if point.sure else "likely"
        why = each.evidence or ""
        if each.reason:
            why = f"{why}; {each.reason}" if why else each.reason
        if each.ratio is None and each.limit:
            # Without a ratio the row becomes a line of what is missing, which has no column of limits.
            why = f"{why}; its limit is {each.limit}" if why else f"its limit is {each.limit}"
        level = None if point is None else "suspect"
        rows.append(
            (
                Cell(PART_WORDS[part]),
                Cell(word, level=level) if word else Cell(""),
                _ratio(each.ratio),
                Cell(each.limit or fmt.MISSING, is_text=True),
                Cell(why, is_text=True),
            )
        )
    rows += [
        (
            Cell(PART_WORDS.get(part, part)),
            Cell("pressure point" if point.sure else "likely", level="suspect"),
            _ratio(point.ratio),
            Cell(fmt.MISSING, is_text=True),
            Cell(point.why, is_text=True),
        )
        for part, point in by_part.items()
    ]
    points = [PART_WORDS.get(point.part, point.part) for point in data.pressure]
    intro = f"Pressure points: {', '.join(points)}." if points else "No pressure point found."
    if data.conditions.target is not None:
        intro += " The CPU's intensity is the program's own, the others the machine's, whoever caused them."
        use = data.conditions.cpus.all.use
        if use is not None and use.busy_ratio >= THRESHOLDS["cpu"]:
            busy = fmt.quantity(use.busy_ratio, "ratio")
            intro += f" The machine's CPUs were {busy} busy, the work of others included."
    columns = ("part", "verdict", "of its limit", "limit", "evidence")
    return Section("pressure", "Pressure points", (grid(columns, tuple(rows)),), intro)


def _program(data: ReportData) -> list[Section]:
    target = data.conditions.target
    if target is None:
        return []
    rows = tuple((Cell(name), _ratio(share), Cell("", bar=share)) for name, share in time_split(data))
    split = grid(("threads' time", "share", "of all"), rows, "Time of the threads")
    places = tuple(
        (Cell(name), _ratio(share), Cell("", bar=share))
        for name, share in list(target.places.items())[:_PLACES]
    )
    tables = [split] if rows else []
    if places:
        tables.append(
            grid(("kernel function", "share", "of all"), places, "Kernel functions of sleeping threads")
        )
    tables.append(_figures(data))
    threads = fmt.several(round(target.threads), "thread")
    looks = f"{fmt.count(target.looks)} looks at {threads} on average"
    commands = ", ".join(target.commands[:5])
    intro = f"{commands}: {looks}. Running and waiting for a CPU are counted, kinds of sleep are sampled."
    if target.cpus_source:
        intro += f" CPUs used: {target.cpus_source}."
    if target.mostly_unseen:
        intro += f" The shares leave out {target.unseen_cpus:.2f} CPUs of"
        intro += " processes that ended before a second look."
    cost = cost_line(data)
    if cost:
        intro += f" Measuring used {cost}."
    if target.unread:
        intro += " It had more threads than were sampled."
    return [Section("program", "The program's threads", (*tables,), intro)]


_NOTES = {
    "resident memory, highest": "of the looks; it may have had more between two, or at its end",
    "written for disks": "pages made dirty: the kernel stores them later, unless the file is deleted",
}
_TITLES = {
    False: "Its figures, from the first look to the last",
    True: "Its figures; CPU time, page faults and disk bytes as the kernel had counted them at its end",
}


def _figures(data: ReportData) -> Table:
    target = data.conditions.target
    if target is None:
        raise AssertionError("needs a watched program")
    named = {
        "CPUs used": target.cpus,
        "threads waiting for a CPU": target.cpu_wait,
        "busiest thread, running or waiting for a CPU": target.busiest_wanted_ratio,
        "kernel share of its CPU time": target.kernel_ratio,
        "times put on a CPU": target.switches_per_s,
        "resident memory, highest": target.rss_high_bytes,
        "page faults": target.minor_faults_per_s,
        "page faults that read from a disk": target.major_faults_per_s,
        "read from disks": target.read_bytes_per_s,
        "written for disks": target.written_bytes_per_s,
    }
    rows = tuple(
        (
            Cell(name),
            measured(each.value, each.unit),
            Cell(each.missing or _NOTES.get(name, ""), is_text=True),
        )
        for name, each in named.items()
    )
    return zeros_together(grid(("figure", "value", "note"), rows, _TITLES[target.is_counted]), names=2)


def _coverage(data: ReportData, use: ProfileUse, hz: str) -> str:
    """Return how much of a command's CPU time its samples stand for, where that is clearly not all of it."""
    spent = data.run.metrics.get("cpu_time_s")
    try:
        sampled_s = use.samples / float(hz)
    except (ValueError, ZeroDivisionError):
        return ""
    if spent is None or not spent.value or sampled_s > _COVERED * spent.value:
        return ""
    return (
        f"they stand for {fmt.quantity(sampled_s, 's')} of {fmt.quantity(spent.value, 's')} of CPU time:"
        " shares leave out what runs too briefly to be sampled, as switches between threads"
    )


def _kernel_apart(data: ReportData, use: ProfileUse) -> str:
    """Return what to say where the profile and the kernel's accounting differ about the kernel's share."""
    target = data.conditions.target
    accounted = None if target is None else target.kernel_ratio.value
    sampled = sum(share for name, share in use.own.items() if use.modules.get(name) == "kernel")
    if accounted is None or abs(sampled - accounted) < _KERNEL_APART:
        return ""
    return (
        f"the kernel has {fmt.quantity(sampled, 'ratio')} of these samples, and by its own accounting"
        f" {fmt.quantity(accounted, 'ratio')} of the program's CPU time: where threads switch often neither"
        " is exact"
    )


def _profile(data: ReportData) -> Section:
    read = data.profile
    use = read.use
    if read.found is None or use is None:
        reason = read.missing or "no profile was recorded"
        return Section("profile", "Profile", (), missing=(("profile", reason),))
    profile, tax = read.found
    facts = profile.facts
    about = [
        f"{fmt.count(use.samples)} busy samples",
        f"event {facts['event']}" if "event" in facts else "",
        f"{facts['hz']} a second" if "hz" in facts else "",
        f"{fmt.quantity(use.unclassified_ratio, 'ratio')} unclassified",
        facts.get("reason", ""),
        _kernel_apart(data, use),
        _coverage(data, use, facts.get("hz", "")),
    ]
    charts: tuple[Chart | Timeline, ...] = (
        tax_chart([("this run", tax)]),
        *run_time_charts(read, data.zero_ns),
    )
    return Section(
        "profile",
        "Profile",
        (
            *(replace(chart, wide=True) for chart in charts),
            functions_table(use, _FUNCTIONS, "Functions"),
            Fragment(lambda assets: flame_html(profile, "Flame graph", assets=assets)),
        ),
        "; ".join(part for part in about if part) + ".",
    )
