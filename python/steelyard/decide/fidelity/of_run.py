"""The profile of a run: of a benchmark, or of a program that was characterized.

In: a run's folder with its manifest. Out: a `WorkloadProfile` of its measure phase, with a value for each
second (or more where it was long) from the load's series and the telemetry.

What belongs to the servers alone is taken of them: CPU time of their CPUs, their threads, bytes that they
count. Context switches, page faults and disks are of the machine, and so hold the load's where it ran there.

Not here: finding runs (``cli``), counters (``of_counters``).
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from steelyard._base import SteelyardError
from steelyard.analyze.conditions import Conditions
from steelyard.analyze.facts.cpus import KERNEL_MODES
from steelyard.analyze.profiles.figures import FOLDED, read_profile
from steelyard.analyze.profiles.times import cut
from steelyard.analyze.values import Quantity
from steelyard.analyze.workload import observe_folder
from steelyard.decide.fidelity.catalogue import FUNCTIONS, TAX
from steelyard.decide.fidelity.of_counters import MOST_WINDOWS, of_use
from steelyard.decide.fidelity.workload import Measurement, Mix, WorkloadProfile, measurement, mix
from steelyard.records import (
    CacheStats,
    IntervalRow,
    LoadResult,
    Machine,
    Metric,
    Run,
    RunStatus,
    read,
    read_lines,
)

if TYPE_CHECKING:
    from steelyard.telemetry import Recording

RUN = "run"
_STAMP = re.compile(r"^\d{8}-\d{6}-\d{3}-")
"""Date and time at the head of a run's id, which a name does without."""
_SECOND_NS = 1_000_000_000
_BLOCKS = 8
"""Parts of a profile's time, each with its own shares."""
_COMMAND_LENGTH = 15
"""Letters of a command's name that the kernel keeps (proc_pid_comm(5))."""
_THROUGHPUTS = ("requests_per_s", "operations_per_s")
_CPU = {
    "cpu_user_ratio": ("user", "nice"),
    "cpu_kernel_ratio": KERNEL_MODES,
    "cpu_iowait_ratio": ("iowait",),
    "cpu_steal_ratio": ("steal",),
    "cpu_idle_ratio": ("idle",),
}
_QUANTILES = {
    "latency_p50_ns": "response_p50_ns",
    "latency_p95_ns": "response_p95_ns",
    "latency_p99_ns": "response_p99_ns",
    "latency_p999_ns": "response_p999_ns",
}


@dataclass(frozen=True)
class _Phase:
    """What the measure phase left."""

    run: Run
    folder: Path
    begin_ns: int
    end_ns: int
    recording: Recording | None
    conditions: Conditions
    machine: Machine | None
    load: LoadResult | None

    @property
    def points(self) -> int:
        """Return the number of windows: of a second or more."""
        return max(1, min(MOST_WINDOWS, (self.end_ns - self.begin_ns) // _SECOND_NS))

    def series(self, source: str, column: str) -> list[list[float]]:
        """Return a column over the windows, a list an entity; nothing where it was not recorded."""
        if self.recording is None:
            return []
        read = self.recording.series(source, self.begin_ns, self.end_ns, [column], self.points)
        if not read.entities or column not in read.units:
            return []
        _, values = read.grid(column)
        return [row.tolist() for row in values[:, : self.points]]

    def total(self, source: str, column: str) -> list[float]:
        """Return the sum of a column over entities in each window that has all of them."""
        rows = self.series(source, column)
        sums = np.sum(np.array(rows), axis=0).tolist() if rows else []
        return [each for each in sums if math.isfinite(each)]


def profile_of_run(
    folder: Path, run: Run, machine: Machine | None, headline: str | None = None
) -> WorkloadProfile:
    """Return the profile of the run in ``folder``; ``headline`` is its benchmark's first metric."""
    from steelyard import telemetry

    name = _STAMP.sub("", run.run_id)
    measure = next((phase for phase in run.phases if phase.name == "measure"), None)
    load = _read_load(folder)
    recording: Recording | None = None
    notes = () if run.status is RunStatus.COMPLETE else (f"{name} is {run.status.value}",)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(SteelyardError):
            recording = stack.enter_context(telemetry.open(folder))
        profile = read_profile(folder)
        conditions = observe_folder(
            folder, run, recording, machine=machine, load=load, profile=profile, whole=False
        )
        end_ns = measure.end_ns if measure is not None and measure.end_ns is not None else 0
        begin_ns = measure.begin_ns if measure is not None else 0
        phase = _Phase(run, folder, begin_ns, max(end_ns, begin_ns + 1), recording, conditions, machine, load)
        metrics = {
            **of_use(conditions.counters, machine),
            **_of_load(phase, headline),
            **_of_cpus(phase),
            **_of_machine(phase),
            **_of_io(phase),
        }
        metrics |= _per_request(metrics, phase)
    verdict = run.verdict
    if verdict is not None and verdict.level.value == "invalid":
        notes = (*notes, f"{name} is invalid: {verdict.reasons[0].claim}")
    return WorkloadProfile(name, RUN, metrics, _mixes(folder), run.benchmark, notes=notes)


def _read_load(folder: Path) -> LoadResult | None:
    if not (folder / "load.json").is_file():
        return None
    try:
        return read(LoadResult, folder / "load.json")
    except SteelyardError:
        return None


def _of_load(phase: _Phase, headline: str | None) -> dict[str, Measurement]:
    """Return throughput, latency and sizes of requests, as the load has them."""
    metrics = phase.run.metrics
    rows = [row for row in phase.load.series if row.phase == "measure"] if phase.load is not None else []
    names = [name for name in (*_THROUGHPUTS, headline) if name in metrics and metrics[name].unit == "1/s"]
    throughput = metrics[names[0]] if names else None
    found = {
        "throughput_per_s": _metric(
            "throughput_per_s",
            throughput,
            _rows(rows, lambda row: row.completed / ((row.end_ns - row.begin_ns) / 1e9)),
        )
    }
    for name, own in _QUANTILES.items():
        windows = _rows(rows, lambda row, own=own: getattr(row, own, None))  # type: ignore[misc]
        found[name] = _metric(name, metrics.get(own), windows)
    completed = sum(row.completed for row in rows)
    for name, column in (("request_bytes", "sent_bytes"), ("response_bytes", "received_bytes")):
        total = sum(getattr(row, column) for row in rows)
        found[name] = measurement(
            name,
            total / completed if completed else None,
            values=_rows(rows, lambda row, column=column: getattr(row, column) / row.completed),  # type: ignore[misc]
            missing="no load counted bytes",
        )
    found["hit_ratio"] = _metric("hit_ratio", metrics.get("hit_ratio"), _hits(phase))
    mean = metrics.get("response_mean_ns")
    in_flight = None
    if throughput is not None and throughput.value is not None and mean is not None and mean.value:
        in_flight = throughput.value * mean.value / 1e9
    # Little's law.
    found["requests_in_flight"] = measurement(
        "requests_in_flight", in_flight, missing="throughput or mean latency is not known"
    )
    resident = metrics.get("rss_bytes") or metrics.get("resident_bytes")
    found["resident_bytes"] = _metric("resident_bytes", resident, [])
    return found


def _hits(phase: _Phase) -> list[float]:
    """Return the hit ratio of a read-through cache in each second, by its own counters."""
    path = phase.folder / "cache-stats.jsonl"
    if not path.is_file():
        return []
    lines: list[CacheStats] = []
    with contextlib.suppress(SteelyardError):
        for line in read_lines(CacheStats, path):
            is_next = not lines or line.monotonic_ns - lines[-1].monotonic_ns >= _SECOND_NS
            if phase.begin_ns <= line.monotonic_ns <= phase.end_ns and is_next:
                lines.append(line)
    pairs = [
        (late.fast_requests - early.fast_requests, late.slow_requests - early.slow_requests)
        for early, late in itertools.pairwise(lines)
    ]
    return [fast / (fast + slow) for fast, slow in pairs if fast + slow > 0 <= min(fast, slow)]


def _rows(rows: Sequence[IntervalRow], of: Callable[[IntervalRow], float | None]) -> list[float | None]:
    return [of(row) for row in rows if row.completed and row.end_ns > row.begin_ns]


def _metric(name: str, metric: Metric | None, windows: Sequence[float | None]) -> Measurement:
    if metric is None:
        return measurement(name, None, missing="the run does not measure it")
    return measurement(name, metric.value, values=windows, missing=metric.missing)


def _of_cpus(phase: _Phase) -> dict[str, Measurement]:
    """Return how the servers' CPUs spent their time; a machine without servers of ours has all of them."""
    known = phase.conditions.cpus.server
    if known.use is None:
        why = known.missing or "CPU time was not recorded"
        return {name: measurement(name, None, missing=why) for name in _CPU}
    modes = dict.fromkeys(mode for each in _CPU.values() for mode in each)
    sums = _server_series(phase, list(modes), known.cpus)
    lengths = {len(each) for each in sums.values()}
    windows: dict[str, list[float]] = {name: [] for name in _CPU}
    if len(lengths) == 1:
        for at in range(lengths.pop()):
            whole = sum(each[at] for each in sums.values())
            for name, parts in _CPU.items():
                windows[name].append(sum(sums[mode][at] for mode in parts) / whole if whole else math.nan)
    return {
        name: measurement(
            name,
            min(1.0, sum(known.use.modes.get(mode, 0.0) for mode in parts)),
            values=[min(1.0, each) for each in windows[name] if math.isfinite(each)],
        )
        for name, parts in _CPU.items()
    }


def _server_series(phase: _Phase, modes: Sequence[str], cpus: Sequence[int]) -> dict[str, list[float]]:
    """Return the time of each mode on these CPUs in each window; nothing where that was not recorded."""
    columns = [f"{mode}_ns" for mode in modes]
    if phase.recording is None:
        return {mode: [] for mode in modes}
    read = phase.recording.series("cpu", phase.begin_ns, phase.end_ns, columns, phase.points)
    if any(column not in read.units for column in columns):
        return {mode: [] for mode in modes}
    chosen = [at for at, entity in enumerate(read.entities) if int(entity.entity["cpu"] or 0) in cpus]
    return {
        mode: read.grid(column)[1][chosen, : phase.points].sum(axis=0).tolist()
        for mode, column in zip(modes, columns, strict=True)
    }


def _of_machine(phase: _Phase) -> dict[str, Measurement]:
    """Return what telemetry says of the machine: switches, faults, clocks and watts."""
    conditions = phase.conditions
    found = {
        "context_switches_per_s": _quantity(
            "context_switches_per_s",
            conditions.scheduler.context_switches_per_s,
            phase.total("scheduler", "context_switches"),
        )
    }
    faults = _server_faults(phase) or phase.total("vmstat", "pgfault")
    mean = sum(faults) / len(faults) if faults else None
    found["page_faults_per_s"] = measurement(
        "page_faults_per_s", mean, values=faults, missing="page faults were not recorded"
    )
    clocks = phase.series("cpufreq", "frequency_hz")
    windows = np.mean(np.array(clocks), axis=0).tolist() if clocks else []
    if conditions.power.frequency_hz.value is not None or conditions.counters is None:
        found["frequency_hz"] = _quantity(
            "frequency_hz", conditions.power.frequency_hz, [each for each in windows if math.isfinite(each)]
        )
    watts = conditions.power.watts
    for name, part in (("package_power_w", "package"), ("dram_power_w", "dram")):
        values = [each.value for domain, each in watts.items() if part in domain and each.value is not None]
        if values:
            found[name] = measurement(name, sum(values))
        elif conditions.counters is None or conditions.counters.series is None:
            why = conditions.power.watts_missing or f"no domain of {part} power"
            found[name] = measurement(name, None, missing=why)
    threads = _threads_per_core(phase)
    found["threads_per_core"] = measurement(
        "threads_per_core", threads, missing="threads of the servers were not recorded"
    )
    return found


def _quantity(name: str, known: Quantity, windows: Sequence[float]) -> Measurement:
    return measurement(name, known.value, values=windows, missing=known.missing)


def _server_names(run: Run) -> set[str]:
    """Return the commands of the servers: a supervisor has the recorded id, and the server one of its own."""
    return {
        Path(process.command[0]).name[:_COMMAND_LENGTH]
        for process in run.processes
        if process.name.startswith("server") and process.command
    }


def _server_faults(phase: _Phase) -> list[float]:
    """Return the page faults per second of the servers in each window; nothing where they are not known."""
    servers = _server_names(phase.run)
    if phase.recording is None or not servers:
        return []
    columns = ["minor_faults", "major_faults"]
    read = phase.recording.series("process", phase.begin_ns, phase.end_ns, columns, phase.points)
    chosen = [at for at, entity in enumerate(read.entities) if entity.entity.get("command") in servers]
    if not chosen or any(column not in read.units for column in columns):
        return []
    sums = sum(read.grid(column)[1][chosen, : phase.points].sum(axis=0) for column in columns)
    return [float(each) for each in np.atleast_1d(sums) if math.isfinite(each)]


def _threads_per_core(phase: _Phase) -> float | None:
    """Return the servers' threads over the cores that they may use."""
    servers = _server_names(phase.run)
    if phase.conditions.target is not None:
        threads: float | None = phase.conditions.target.threads
    elif phase.recording is None or not servers:
        return None
    else:
        rates = phase.recording.rates("process", phase.begin_ns, phase.end_ns, ["threads"])
        means = [
            entity.gauges["threads"].mean
            for entity in rates.entities
            if entity.entity.get("command") in servers and "threads" in entity.gauges
        ]
        known = [mean for mean in means if mean is not None]
        threads = sum(known) if known else None
    siblings = (phase.machine.cpu.threads_per_core if phase.machine is not None else None) or 1
    cores = len(phase.conditions.cpus.server.cpus) / siblings
    return threads / cores if threads is not None and cores else None


def _of_io(phase: _Phase) -> dict[str, Measurement]:
    metrics = phase.run.metrics
    found = {}
    is_away = [each for each in phase.conditions.network if each.interface != "lo"]
    for way in ("received", "sent"):
        name = f"network_{way}_bytes_per_s"
        own = metrics.get(name)
        if own is not None:
            column = "sent_bytes" if way == "received" else "received_bytes"
            rows = [row for row in phase.load.series if row.phase == "measure"] if phase.load else []
            # What the load sends, the servers receive.
            windows = _rows(
                rows,
                lambda row, column=column: getattr(row, column) / ((row.end_ns - row.begin_ns) / 1e9),  # type: ignore[misc]
            )
            found[name] = _metric(name, own, windows)
        else:
            rates = [getattr(each, f"{way}_bytes_per_s").value for each in is_away]
            known = [rate for rate in rates if rate is not None]
            found[name] = measurement(
                name, sum(known) if known else None, missing="no interface but loopback was recorded"
            )
    for way in ("read", "written"):
        name = f"disk_{way}_bytes_per_s"
        values = [getattr(disk, f"{way}_bytes_per_s").value for disk in phase.conditions.disks]
        known = [value for value in values if value is not None]
        found[name] = measurement(
            name,
            sum(known) if known else None,
            values=phase.total("disk", f"{way}_bytes"),
            missing="no disk was recorded",
        )
    return found


def _per_request(metrics: Mapping[str, Measurement], phase: _Phase) -> dict[str, Measurement]:
    """Return costs of a request: a rate over the throughput, or CPU time over it."""
    throughput, switches = metrics["throughput_per_s"], metrics["context_switches_per_s"]
    found = {"context_switches_per_request": _over("context_switches_per_request", switches, throughput)}
    per_cpu_s = phase.run.metrics.get("requests_per_server_cpu_s")
    value = 1e9 / per_cpu_s.value if per_cpu_s is not None and per_cpu_s.value else None
    name, idle = "cpu_per_request_ns", metrics["cpu_idle_ratio"]
    own = phase.run.metrics.get("cpu_per_request_ns")
    value = value if own is None or own.value is None else own.value
    if value is None and throughput.value and idle.value is not None and phase.run.cpus.server is not None:
        busy = max(0.0, 1 - idle.value) * len(phase.conditions.cpus.server.cpus)
        value = busy * 1e9 / throughput.value
    found[name] = measurement(name, value, missing="the servers' CPU time is not known")
    return found


def _over(name: str, above: Measurement, below: Measurement) -> Measurement:
    if above.value is None or not below.value:
        return measurement(name, None, missing=above.missing or below.missing or "the throughput is 0")
    windows: list[float | None] = []
    if len(above.values) == len(below.values):
        windows = [a / b if b else None for a, b in zip(above.values, below.values, strict=True)]
    return measurement(name, above.value / below.value, values=windows)


def _mixes(folder: Path) -> dict[str, Mix]:
    """Return shares of functions and of the datacenter tax in busy samples, whole and by part of the time."""
    found = read_profile(folder)
    use = found.use
    if use is None:
        why = found.missing or "no profile was recorded"
        return {name: mix(name, {}, missing=why) for name in (FUNCTIONS, TAX)}
    functions, taxes = [], []
    with contextlib.suppress(SteelyardError), tempfile.TemporaryDirectory() as parts:
        for path in cut(folder / FOLDED, _BLOCKS, Path(parts)):
            part = read_profile(path.parent, name=path.name).use
            if part is not None:
                functions.append(dict(part.own))
                taxes.append(dict(part.categories))
    return {
        FUNCTIONS: mix(FUNCTIONS, use.own, windows=functions, samples=use.samples),
        TAX: mix(TAX, use.categories, windows=taxes, samples=use.samples),
    }
