"""A run under way: what the files that it writes say of its last seconds.

In: the folder of a run whose program still runs. Out: throughput, latency, lag and errors by second from the
logs of its loads, CPU by second from the telemetry as far as it was flushed, its phase.

What the logs show is held against the bounds of the checks that they allow; the verdict comes with the end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steelyard._base import SteelyardError
from steelyard.analyze import checks
from steelyard.bench import runs
from steelyard.catalog.roots import NotThereError, check_links, folder_at
from steelyard.records import Level, Run, RunStatus
from steelyard.report import format as fmt
from steelyard.report.answer import Answer, Section, Timeline, Trace, absent
from steelyard.report.runs import title
from steelyard.web.context import Context
from steelyard.web.shell import answer_page
from steelyard.web.watching import Seen, Watched

_SECONDS = 600


def is_running(folder: Path) -> bool:
    """Whether the run in ``folder`` is under way, and the program that makes it lives."""
    try:
        return runs.load(folder).status is RunStatus.RUNNING
    except SteelyardError:
        return False


def page(context: Context, folder: Path, path: str) -> str:
    """Return the page of a run under way, which looks again each second."""
    run = runs.load(folder)
    known = context.watching.look(folder, run)
    return answer_page(answer(run, known), "/runs", live="live.json", so_far=so_far(known))


def state(context: Context, *, path: str, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return what a page of a run under way shows of the moment: a line, and its charts."""
    folder = folder_at(context.settings.root, path)
    check_links(context.settings.root, folder)
    try:
        run = runs.load(folder)
    except SteelyardError as error:
        raise NotThereError(f"there is no run at {path[:200]!r}") from error
    if run.status is not RunStatus.RUNNING:
        return {"status": run.status.value, "line": "The run has ended.", "charts": [], "so_far": []}
    known = context.watching.look(folder, run)
    said = answer(run, known)
    charts = [
        block.spec()
        for section in said.sections
        for block in section.blocks
        if isinstance(block, Timeline) and block.is_drawable
    ]
    return {
        "status": run.status.value,
        "line": said.heading,
        "phase": run.phases[-1].name if run.phases else "",
        "phases": said.time_axis["phases"],
        "charts": charts,
        "so_far": [asdict(one) for one in so_far(known)],
    }


def answer(run: Run, known: Watched) -> Answer:
    """Return what is known so far."""
    seen = known.seen
    zero_ns = _zero_ns(run)
    sections = [
        Section(
            "time",
            "Load",
            tuple(_charts(seen, zero_ns)),
            "Seconds from the start of the measure phase; before that, of the run.",
        ),
        Section("cpu", "CPU", tuple(known.cpu)),
    ]
    return Answer(
        title(run),
        heading(run, seen),
        [section for section in sections if section.blocks],
        level="incomplete",
        verdict="running",
        eyebrow="run under way",
        source="what the run wrote so far",
        time_axis={"zero": _zero_name(run), "phases": _phases(run, zero_ns)},
    )


def heading(run: Run, seen: Seen) -> str:
    """Return phase, elapsed time and the last second in one line."""
    parts = [run.phases[-1].name if run.phases else "preparation"]
    if run.phases:
        passed = f"{max(0, (time.monotonic_ns() - run.phases[-1].begin_ns) / 1e9):.0f}"
        planned = run.parameters.get(run.phases[-1].name)
        whole = planned.value if planned is not None and planned.unit == "s" else None
        known = isinstance(whole, int | float) and not isinstance(whole, bool)
        parts.append(f"{passed} of {whole:g} s" if known else f"{passed} s")
    if seen.seconds:
        last = seen.seconds[max(seen.seconds)]
        parts.append(f"{fmt.quantity(last.completed_per_s, '1/s')} requests")
        if np.isfinite(last.p99_ns):
            parts.append(f"p99 {fmt.quantity(last.p99_ns, 'ns')}")
    if seen.errors:
        parts.append(fmt.several(seen.errors, "error"))
    return " · ".join(parts)


@dataclass(frozen=True)
class SoFar:
    """What one check would say if the run ended now."""

    level: str
    word: str
    text: str


def so_far(known: Watched) -> list[SoFar]:
    """Return what can be checked before the end."""
    seen = known.seen
    finished = seen.measured + seen.measured_errors
    if not finished:
        return [SoFar("", "", "nothing is judged before the measure phase")]
    errors = f"{seen.measured_errors:,} of {finished:,} finished requests failed"
    found = [_judged("errors", seen.measured_errors / finished, errors)]
    if known.steady is not None:
        steady = known.steady
        # Seconds that vary too much leave it open.
        is_open = steady.value is None and steady.level is not Level.VALID
        found.append(_so_far("" if is_open else steady.level.value, steady.claim))
    if known.steal_ratio is not None:
        taken = fmt.quantity(known.steal_ratio, "ratio")
        found.append(_judged("steal", known.steal_ratio, f"the hypervisor took {taken} of the CPU time"))
    lags = [second.lag_p99_ns for second in seen.seconds.values() if np.isfinite(second.lag_p99_ns)]
    if lags:
        lag = fmt.quantity(float(np.median(lags)), "ns")
        found.append(SoFar("", "", f"delay in the load generator: p99 {lag} in most seconds"))
    return found


def _judged(check: str, value: float, claim: str) -> SoFar:
    return _so_far(checks.level(check, value).value, claim)


def _so_far(level: str, claim: str) -> SoFar:
    return SoFar(level, f"{level} so far" if level else "", claim)


def _zero_ns(run: Run) -> int:
    measure = next((phase.begin_ns for phase in run.phases if phase.name == "measure"), None)
    return measure or (run.phases[0].begin_ns if run.phases else run.clock.monotonic_ns)


def _zero_name(run: Run) -> str:
    is_measured = any(phase.name == "measure" for phase in run.phases)
    return f"the start of the {'measure phase' if is_measured else 'run'}"


def _phases(run: Run, zero_ns: int) -> list[dict[str, Any]]:
    now = time.monotonic_ns()
    return [
        {
            "name": phase.name,
            "begin": (phase.begin_ns - zero_ns) / 1e9,
            "end": ((phase.end_ns or now) - zero_ns) / 1e9,
        }
        for phase in run.phases
    ]


def _charts(seen: Seen, zero_ns: int) -> list[Timeline]:
    if not seen.seconds:
        return [absent("throughput", "Throughput", "no load has written a second yet")]
    times = sorted(seen.seconds)[-_SECONDS:]
    x = np.array([second - zero_ns / 1e9 for second in times])

    def of(name: str) -> Any:
        return np.array([getattr(seen.seconds[second], name) for second in times], dtype=np.float64)

    total = (Trace("all requests", "total", of("completed_per_s")),)
    latency = (Trace("response p50", "p50", of("p50_ns")), Trace("response p99", "p99", of("p99_ns")))
    lag, errors = (Trace("lag p99", "service", of("lag_p99_ns")),), (Trace("errors", "slow", of("errors")),)
    charts = [
        Timeline("throughput", "Throughput", unit="1/s", x=x, traces=total),
        Timeline("latency", "Latency, each second", unit="ns", x=x, traces=latency, log=True),
        Timeline("lag", "Delay in the load generator", unit="ns", x=x, traces=lag),
        Timeline("errors", "Errors", unit="count", x=x, traces=errors),
    ]
    return [chart for chart in charts if chart.is_drawable]
