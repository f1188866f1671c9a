"""What the run of a benchmark tells beside its metric: latency, errors, and counts of its measure phase.

In: a finished run. Out: readings under the names of a scaling curve (``analyze.scaling.curve``), and why
others are not known. Counts and CPU time are of servers and load together: on one CPU they share it, on more
they do not, and a part of them would not compare. CPI and misses of the last cache are of the servers.

Not here: running (``workload``).
"""

from steelyard._base import SteelyardError
from steelyard.bench import declaration
from steelyard.bench.launch import Attempt
from steelyard.experiment.counting import METRICS
from steelyard.records import Machine, Run, read


def readings_of_run(attempt: Attempt) -> tuple[dict[str, float], dict[str, str]]:
    """Return readings of a run, and the reasons of those that it has not."""
    # Not at the top: it loads the query engine, and trials of commands do without.
    from steelyard.analyze.scaling import curve
    from steelyard.analyze.workload import observe_run

    run = attempt.run
    readings, missing = _reported(run)
    try:
        machine = read(Machine, attempt.directory / "machine.json")
        conditions = observe_run(attempt.directory, run, machine)
    except SteelyardError as error:
        return readings, {**missing, **dict.fromkeys((curve.INSTRUCTIONS, curve.CYCLES), error.message)}
    counts = conditions.counters.counts if conditions.counters is not None else None
    operations = counts.of("operations").value if counts is not None else None
    if counts is None or operations is None or not counts.duration_s:
        # Without operations, counts of the phase are of something else than the metric.
        reason = "the benchmark does not count the operations of its measure phase"
        return readings, {
            **missing,
            **dict.fromkeys((curve.INSTRUCTIONS, curve.CYCLES, curve.CPU_TIME), reason),
        }
    readings |= {curve.OPERATIONS: operations, curve.ELAPSED: counts.duration_s}
    foreign = _checked(run, "foreign-load") or 0.0
    cpus = {*conditions.cpus.server.cpus, *conditions.cpus.load.cpus}
    uses = [conditions.cpus.by_cpu[cpu] for cpu in cpus if cpu in conditions.cpus.by_cpu]
    if uses:
        used = sum(use.own_ratio for use in uses) - foreign * len(uses)
        readings[curve.CPU_TIME] = max(0.0, used) * counts.duration_s
        readings[curve.IDLE] = max(0.0, 1 - sum(use.busy_ratio for use in uses) / len(uses))
    sides = [use.counts for use in (conditions.counters, conditions.load_counters) if use is not None]
    for name in (curve.INSTRUCTIONS, curve.CYCLES):
        quantities = [side.of(name) for side in sides]
        lacking = [quantity.missing for quantity in quantities if quantity.value is None]
        if lacking:
            missing[name] = lacking[0] or "not known"
        else:
            readings[name] = sum(quantity.value or 0.0 for quantity in quantities)
    assert conditions.counters is not None
    for name in METRICS:
        found = conditions.counters.metrics.get(name)
        if found is not None and found.value is not None:
            readings[name] = found.value
        else:
            missing[name] = (found and found.missing) or "it was not counted"
    return readings, missing


def _reported(run: Run) -> tuple[dict[str, float], dict[str, str]]:
    """Return what the run's own metrics and checks tell."""
    from steelyard.analyze.scaling import curve

    readings, missing = {}, {}
    for name, end in ((curve.LATENCY_P50, "_p50_ns"), (curve.LATENCY_P99, "_p99_ns")):
        metric = run.metrics.get(_latency(run, end) or "")
        if metric is None or metric.value is None:
            reason = None if metric is None else metric.missing
            missing[name] = reason or "the benchmark does not report it"
        else:
            readings[name] = metric.value
    errors = _checked(run, "errors")
    if errors is not None:
        readings[curve.ERRORS] = errors
    used = run.metrics.get("server_cpu_ratio")
    # Of a benchmark of several parts it is that of all of them, and the metric may be of one.
    if used is not None and used.value is not None and not declaration.find(run.benchmark).parts:
        readings[curve.BUSY] = used.value
    return readings, missing


def _checked(run: Run, check_id: str) -> float | None:
    """Return the value of a check of the verdict."""
    checks = () if run.verdict is None else run.verdict.checks
    return next((check.value for check in checks if check.id == check_id), None)


def _latency(run: Run, end: str) -> str | None:
    """Return the metric of latency: of the responses, else of what the benchmark is scored by."""
    headline = declaration.find(run.benchmark).headline
    wanted = [f"response{end}", *(name for name in headline if name.endswith(end))]
    stem = headline[0].removesuffix("_per_s")
    return next((name for name in (*wanted, f"{stem}{end}") if name in run.metrics), None)
