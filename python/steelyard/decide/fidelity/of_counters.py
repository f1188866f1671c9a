"""Metrics of hardware counters: of a run's counters, and of a file of ``perf stat`` by itself.

In: `CounterUse`, or the path of a file. Out: measurements by name, with a value of each window where counts
are by window (``perf stat -I``). Formulas are those of ``analyze.counters``.

Not here: metrics of software (``of_run``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from steelyard._base import UsageError
from steelyard.analyze.counters.events import counts_of, whole_of
from steelyard.analyze.counters.figures import memory_traffic
from steelyard.analyze.counters.perf_files import counts_in
from steelyard.analyze.counters.topdown import TopDown, top_down
from steelyard.analyze.counters.topdown_choice import choose_model
from steelyard.analyze.counters.use import CounterUse, metrics_of_series
from steelyard.decide.fidelity.workload import Measurement, WorkloadProfile, measurement
from steelyard.records import Machine
from steelyard.telemetry.counters import CounterSeries
from steelyard.telemetry.perf_stat.output import PerfStat, read_perf_stat

MOST_WINDOWS = 60
PERF_STAT = "perf stat"
_NAMES = (
    "ipc", "core_ipc", "l1i_mpki", "l1d_mpki", "l2_mpki", "llc_mpki", "itlb_mpki", "dtlb_mpki",
    "branch_mpki", "memory_bytes_per_s", "frequency_hz", "package_power_w", "dram_power_w",
    "context_switches_per_s", "page_faults_per_s",
)  # fmt: skip
"""Metrics that the definitions of processors and the catalogue call alike."""
_SLOTS = {
    "retiring": "retiring_ratio",
    "bad_speculation": "bad_speculation_ratio",
    "frontend_bound": "frontend_ratio",
    "backend_bound": "backend_ratio",
}
_SPELT = {"bad speculation": "bad_speculation", "bad spec": "bad_speculation", "fe bound": "frontend_bound",
          "be bound": "backend_bound", "frontend bound": "frontend_bound",
          "backend bound": "backend_bound"}  # fmt: skip


def of_use(use: CounterUse | None, machine: Machine | None) -> dict[str, Measurement]:
    """Return what the counters of a run say; every metric with a value or the reason why it has none."""
    if use is None or use.series is None:
        why = (use.missing if use is not None else None) or "no counters were read"
        names = (*_NAMES, *_SLOTS.values(), "instructions_per_request")
        return {name: measurement(name, None, missing=why) for name in names}
    whole = _of_metrics(use.series, machine, use.duration_s)
    found = _with_windows(whole, use.series, machine)
    found |= _of_tree(use.top_down, use.top_down_missing)
    traffic = memory_traffic(use)
    if found["memory_bytes_per_s"].value is None and traffic is not None:
        found["memory_bytes_per_s"] = measurement(
            "memory_bytes_per_s", traffic.value, missing=traffic.missing
        )
    core = use.law.core_ipc
    if found["core_ipc"].value is None and core.low is not None and core.low == core.high:
        found["core_ipc"] = measurement("core_ipc", core.low)
    path = use.law.path_length
    found["instructions_per_request"] = measurement(
        "instructions_per_request", path.value, missing=path.missing
    )
    return found


def of_perf_stat(path: Path) -> WorkloadProfile:
    """Return the profile of a file of ``perf stat``. Raises RecordError, and UsageError without counts."""
    read, counts = read_perf_stat(path), counts_in(path)
    series = whole_of(read.series)
    if isinstance(series, str):
        raise UsageError(f"{path}: {series}")
    found = _of_metrics(series, None, read.duration_s)
    found = _with_windows(found, series, None)
    found |= _of_file_tree(series, read)
    for each in counts.events:
        name = {"context-switches": "context_switches_per_s", "page-faults": "page_faults_per_s"}.get(
            each.name.partition(":")[0]
        )
        if name is not None and found[name].value is None and each.per_s is not None:
            found[name] = measurement(name, each.per_s)
    why = "perf stat counts no requests"
    found["throughput_per_s"] = measurement("throughput_per_s", None, missing=why)
    return WorkloadProfile(
        path.name, PERF_STAT, found, notes=counts.cautions, lacks="perf stat does not count it"
    )


def _of_metrics(
    series: CounterSeries, machine: Machine | None, duration_s: float | None
) -> dict[str, Measurement]:
    values, _ = metrics_of_series(series, machine, duration_s)
    found = {}
    for name in _NAMES:
        known = values.get(name)
        value, why = (None, None) if known is None else (known.value, known.missing)
        found[name] = measurement(name, value, missing=why or "not defined for this processor")
    return found


def _with_windows(
    whole: Mapping[str, Measurement], series: CounterSeries, machine: Machine | None
) -> dict[str, Measurement]:
    """Return the same with the values of each window, where a metric has one in every window."""
    by_window = [_of_metrics(part, machine, None) for part in _windows(series)]
    found = dict(whole)
    for name, measured in whole.items():
        values = [one[name].value for one in by_window]
        known = [value for value in values if value is not None]
        if measured.value is not None and len(known) == len(values) > 1:
            found[name] = replace(measured, values=tuple(known))
    return found


def _windows(series: CounterSeries) -> Iterator[CounterSeries]:
    """Yield at most `MOST_WINDOWS` parts of a series, each of as many of its windows."""
    ends = list(series.time_ns)
    if len(ends) < 2:
        return
    step = -(-len(ends) // MOST_WINDOWS)
    begins = [series.begin_ns or 0, *ends]
    for first in range(0, len(ends) - step + 1, step):
        yield series.within(begins[first], begins[first + step])


def _of_tree(tree: TopDown | None, why: str | None) -> dict[str, Measurement]:
    if tree is None:
        return {
            name: measurement(name, None, missing=why or "no top-down events") for name in _SLOTS.values()
        }
    nodes = {_key(node.name): node for node in tree.level_1}
    found = {}
    for node, name in _SLOTS.items():
        known = nodes.get(node)
        value, lack = (None, None) if known is None else (known.ratio, known.missing)
        found[name] = measurement(name, value, missing=lack or "not in the processor's model")
    return found


def _of_file_tree(series: CounterSeries, read: PerfStat) -> dict[str, Measurement]:
    """Return the slots of a file: by the model that its events tell, else as perf worked them out."""
    events = counts_of(series)
    model = choose_model(None, [*events.values, *events.missing])
    if isinstance(model, str):
        found = _of_tree(None, model)
        for metric in read.metrics:
            name = _SLOTS.get(_key(metric.name.removeprefix("tma_")))
            if name is not None and metric.unit == "%" and not metric.summary and metric.time_s is None:
                found[name] = measurement(name, metric.value / 100)
        return found
    return _of_tree(top_down(model, dict(events.values), missing=events.missing), None)


def _key(name: str) -> str:
    plain = name.casefold().replace("%", "").strip()
    plain = plain.removeprefix("tma_").removeprefix("topdown_").replace("-", " ").replace("_", " ").strip()
    return _SPELT.get(plain, plain.replace(" ", "_"))
