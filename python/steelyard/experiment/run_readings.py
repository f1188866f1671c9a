"""What the run of a benchmark tells beside its metric: latency, errors, and counts of its measure phase.

In: a finished run. Out: readings under the names of a scaling curve (``analyze.scaling.curve``), and why
others are not known.

Not here: running (``workload``).
"""

from steelyard._base import SteelyardError
from steelyard.bench import declaration
from steelyard.bench.launch import Attempt
from steelyard.records import Machine, Run, read


def readings_of_run(attempt: Attempt) -> tuple[dict[str, float], dict[str, str]]:
    """Return readings of a run, and the reasons of those that it has not."""
    # Not at the top: it loads the query engine, and trials of commands do without.
    from steelyard.analyze.scaling import curve
    from steelyard.analyze.workload import observe_run

    run = attempt.run
    readings, missing = {}, {}
    for name, end in ((curve.LATENCY_P50, "_p50_ns"), (curve.LATENCY_P99, "_p99_ns")):
        metric = run.metrics.get(_latency(run, end) or "")
        if metric is None or metric.value is None:
            missing[name] = (
                "the benchmark has no such metric" if metric is None else metric.missing or "not known"
            )
        else:
            readings[name] = metric.value
    for check in () if run.verdict is None else run.verdict.checks:
        if check.id == "errors" and check.value is not None:
            readings[curve.ERRORS] = check.value
    used = run.metrics.get("server_cpu_ratio")
    # Of a benchmark of several parts it is that of all of them, and the metric may be of one.
    if used is not None and used.value is not None and not declaration.find(run.benchmark).parts:
        readings[curve.BUSY] = used.value
    try:
        machine = read(Machine, attempt.directory / "machine.json")
        conditions = observe_run(attempt.directory, run, machine)
    except SteelyardError as error:
        return readings, {**missing, **dict.fromkeys((curve.INSTRUCTIONS, curve.CYCLES), error.message)}
    use, cpus = conditions.counters, conditions.server_cpus.use
    if cpus is not None:
        readings[curve.IDLE] = max(0.0, 1 - cpus.busy_ratio)
    if use is None:
        return readings, missing
    counts = use.counts
    names = {
        curve.INSTRUCTIONS: "instructions",
        curve.CYCLES: "cycles",
        curve.OPERATIONS: "operations",
        curve.ELAPSED: "duration_s",
        curve.CPU_TIME: "cpu_s",
    }
    operations = counts.of("operations")
    for name, field in names.items():
        quantity = counts.of(field)
        if quantity.value is not None and operations.value is not None:
            readings[name] = quantity.value
        elif name not in readings:
            # Without operations, counts of the phase are of something else than the metric.
            missing[name] = quantity.missing or operations.missing or "not known"
    return readings, missing


def _latency(run: Run, end: str) -> str | None:
    """Return the metric of latency: of the responses, else of what the benchmark is scored by."""
    headline = declaration.find(run.benchmark).headline
    wanted = [f"response{end}", *(name for name in headline if name.endswith(end))]
    stem = headline[0].removesuffix("_per_s")
    return next((name for name in (*wanted, f"{stem}{end}") if name in run.metrics), None)
