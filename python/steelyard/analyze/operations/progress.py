"""What the application finished over the phase, what of the telemetry moves with it, and when it stalled.

In: a run's folder and its recording. Out: `Progress`, None where no source of operations was given.

Not here: what an operation costs (``efficiency``), and what stalls mean (``rules.operations``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from steelyard._base import SteelyardError
from steelyard.analyze.operations.files import read_sources
from steelyard.analyze.operations.operations import FOLDER, Operations, OperationSource, load_series
from steelyard.analyze.operations.stalls import Stalls, stalls_of
from steelyard.analyze.operations.telemetry_correlation import Correlates, correlates_of, cpu_use
from steelyard.records import LoadResult, Run, read

if TYPE_CHECKING:
    # For types only: it loads the query engine.
    from steelyard.telemetry import Recording

_READINGS_LEAST = 5
_NOTHING = "no source of operations was given (--ops), and no load generator ran"


@dataclass(frozen=True)
class Progress:
    """What the application finished."""

    operations: Operations
    correlates: Correlates | None = None
    """What of the telemetry moves with the operations."""
    stalls: Stalls | None = None
    """Stretches with much fewer operations than usual."""
    stall_cpus: tuple[float, float] | None = None
    """CPUs that the machine used in these stretches, and outside of them."""


def observe_progress(
    folder: Path, run: Run, recording: Recording | None, *, whole: bool = True
) -> Progress | None:
    """Return what the application finished; with ``whole`` what of the telemetry goes with it, too."""
    if not (folder / FOLDER).is_dir():
        return None
    operations = operations_of_run(folder, run)
    main = operations.main
    if not whole or main is None or main.total is None:
        return Progress(operations)
    begin_ns, end_ns = operations.begin_ns, operations.end_ns
    stalls = stalls_of(main.total, begin_ns, end_ns)
    return Progress(
        operations,
        correlates_of(operations.timeline, recording, begin_ns, end_ns),
        stalls,
        _stall_cpus(recording, stalls, begin_ns, end_ns),
    )


def _stall_cpus(
    recording: Recording | None, stalls: Stalls | None, begin_ns: int, end_ns: int
) -> tuple[float, float] | None:
    if recording is None or stalls is None:
        return None
    use = cpu_use(recording, begin_ns, end_ns)
    if use is None:
        return None
    inside = stalls.contains(use.time_ns)
    known = np.isfinite(use.value)
    if min(int((inside & known).sum()), int((~inside & known).sum())) < _READINGS_LEAST:
        return None
    return float(use.value[inside & known].mean()), float(use.value[~inside & known].mean())


def operations_of_run(folder: Path, run: Run) -> Operations:
    """Return what the application of the run in ``folder`` finished. Raises nothing: reasons stand in it."""
    measure = next((phase for phase in run.phases if phase.name == "measure"), None)
    begin_ns = measure.begin_ns if measure else run.clock.monotonic_ns
    end_ns = measure.end_ns if measure and measure.end_ns else begin_ns + 1
    sources = read_sources(folder / FOLDER, run)
    if not any(source.counts for source in sources):
        sources = (*sources, *_generators(folder))
    reasons = [source.missing for source in sources if source.missing]
    missing = None if any(source.counts for source in sources) else "; ".join(reasons) or _why_none(sources)
    # The load cuts its measure phase at its own second: the rows that it calls so are the phase.
    begin_ns, end_ns = _own_phase(sources, folder) or (begin_ns, end_ns)
    operations = Operations(begin_ns, end_ns, sources, missing)
    phases = tuple(
        (phase, operations.per_s if phase is measure else operations.between(phase.begin_ns, phase.end_ns))
        for phase in run.phases
        if phase.end_ns is not None and operations.main is not None
    )
    return Operations(begin_ns, end_ns, sources, missing, phases)


def _why_none(sources: Sequence[OperationSource]) -> str:
    return "the sources give gauges, which count no operations" if sources else _NOTHING


def _generators(folder: Path) -> tuple[OperationSource, ...]:
    loads = _loads(folder)
    if not loads or not loads[0].series:
        return ()
    total = load_series(loads)
    files = "load.json" if len(loads) == 1 else f"{len(loads)} load results"
    return (OperationSource("requests completed", "load", files, "count", (total,), total),)


def _loads(folder: Path) -> list[LoadResult]:
    parts = sorted(folder.glob("load-*.json"))
    loads = []
    for path in [folder / "load.json"] if (folder / "load.json").is_file() or not parts else parts:
        try:
            loads.append(read(LoadResult, path))
        except SteelyardError:
            continue
    return loads


def _own_phase(sources: Sequence[OperationSource], folder: Path) -> tuple[int, int] | None:
    main = next((source for source in sources if source.counts), None)
    if main is None or main.kind != "load" or len(sources) != 1:
        return None
    loads = _loads(folder)
    return (loads[0].begin_ns, loads[0].end_ns) if loads else None
