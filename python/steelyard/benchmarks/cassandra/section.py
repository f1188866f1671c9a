"""Cassandra's part of a report: operations, the profile's settings, garbage collection.

In: `ReportData` of a run of ``cassandra``. Out: `Section`s; what cannot be read is left out.

Not here: metrics of the run (``bench.cassandra.metrics``).
"""

from steelyard.benchmarks.cassandra.stack.garbage import Pause, pauses_of
from steelyard.benchmarks.cassandra.stack.node import GC_LOG
from steelyard.benchmarks.cassandra.stack.profile import ProfileSetting, load_profile
from steelyard.report.answer import Cell, Section, grid, measured
from steelyard.report.bench.operation_table import operation_section
from steelyard.report.model import ReportData
from steelyard.report.sections import load_sections

_PLACES = {"java": "Java", "yaml": "cassandra.yaml", "limit": "ulimit", "load": "load"}


def sections(data: ReportData) -> list[Section]:
    """Return the sections of Cassandra, then those of the load."""
    shown = [operation_section(data), _profile(data), _garbage(data)]
    return [*(section for section in shown if section is not None), *load_sections(data)]


def _profile(data: ReportData) -> Section | None:
    chosen = {name: parameter.value for name, parameter in data.run.parameters.items()}
    try:
        profile = load_profile(str(chosen["profile"]))
        settings = profile.resolved(int(str(chosen["heap"])), int(str(chosen["memtable"])))
    except (OSError, KeyError, ValueError):
        return None
    allowed = {check.id: check.value for check in data.run.verdict.checks} if data.run.verdict else {}
    rows = tuple(_row(setting, allowed.get("open-files")) for setting in settings)
    intro = f"Profile {profile.name}: {profile.description}. Everything else has Cassandra's default."
    return Section("profile", "Configuration", (grid(("setting", "of", "value", "why"), rows),), intro)


def _row(setting: ProfileSetting, open_files: float | None) -> tuple[Cell, ...]:
    value = setting.value
    if setting.name == "open_files" and open_files is not None and open_files < int(value):
        value = f"{open_files:.0f}, the hard limit, instead of {value}"
    return (
        Cell(setting.name.replace("_", " "), is_text=True),
        Cell(_PLACES[setting.where], is_text=True),
        Cell(value, is_text=True),
        Cell(setting.reason, is_text=True),
    )


def _garbage(data: ReportData) -> Section | None:
    phase = next((phase for phase in data.run.phases if phase.name == "measure" and phase.end_ns), None)
    if phase is None or phase.end_ns is None:
        return None
    pauses = pauses_of(data.folder / GC_LOG, phase.begin_ns, phase.end_ns)
    if not pauses:
        return None
    kinds: dict[str, list[Pause]] = {}
    for pause in pauses:
        kinds.setdefault(pause.kind, []).append(pause)
    rows = tuple(
        (
            Cell(kind),
            measured(len(of_kind), "1"),
            measured(sum(pause.duration_ns for pause in of_kind), "ns"),
            measured(max(pause.duration_ns for pause in of_kind), "ns"),
            measured(max(pause.used_bytes for pause in of_kind), "bytes"),
        )
        for kind, of_kind in sorted(kinds.items())
    )
    columns = ("pause", "number", "time in all", "longest", "most heap in use after it")
    return Section("gc", "Garbage collection", (grid(columns, rows),), "In the measure phase.")
