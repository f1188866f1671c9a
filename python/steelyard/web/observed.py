"""What is calculated of a run under way: charts of its CPUs, steal time, how steady it is so far.

In: the folder of a run, its throughput by second. Out: charts, a `Check`. It takes what a report takes for
the same: ``watching`` says how often it may.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from steelyard import telemetry
from steelyard._base import SteelyardError
from steelyard.analyze.conditions import Conditions
from steelyard.analyze.facts.cpus import observe_cpus
from steelyard.analyze.facts.reader import Reader
from steelyard.analyze.facts.span import Span
from steelyard.analyze.verdict import steady_check
from steelyard.records import Check, Run
from steelyard.report.answer import Timeline
from steelyard.report.machine.charts import cpu_charts
from steelyard.report.model import ReportData
from steelyard.stats.steady import FEWEST_WINDOWS, check

_CPU_SPAN_NS = 600_000_000_000


def steady_of(per_s: Mapping[int, float]) -> Check | None:
    """Return what the throughput of the seconds would say of the result; None where they are too few."""
    # The last second may lack a load that has not written it yet.
    values = [value for _, value in sorted(per_s.items())][:-1]
    return steady_check(check(values)) if len(values) >= FEWEST_WINDOWS else None


def cpus_of(folder: Path, run: Run) -> tuple[list[Timeline], float | None]:
    """Return the charts of the CPUs over the last minutes, and the share of steal time."""
    if not run.phases:
        return [], None
    try:
        with telemetry.open(folder) as recording:
            now_ns = time.monotonic_ns()
            # The phase under way ends now.
            phases = [*run.phases[:-1], run.phases[-1].model_copy(update={"end_ns": now_ns})]
            shown = [one for one in phases if (one.end_ns or now_ns) > now_ns - _CPU_SPAN_NS]
            so_far = run.model_copy(update={"phases": shown})
            span = Span(max(shown[0].begin_ns, now_ns - _CPU_SPAN_NS), now_ns)
            conditions = Conditions(span, cpus=observe_cpus(Reader(recording, span), run))
            measure = next((one for one in phases if one.name == "measure"), None)
            data = ReportData(
                folder, so_far, None, (), (), recording.metadata, recording, measure, conditions, (), (),
                None, (), (),
            )  # fmt: skip
            use = conditions.cpus.all.use
            return cpu_charts(data)[0], None if use is None else use.modes.get("steal")
    except SteelyardError:
        return [], None
