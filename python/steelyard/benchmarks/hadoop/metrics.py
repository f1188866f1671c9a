"""Metrics of rounds of Hadoop's jobs, and what they have to say of themselves.

In: rounds from the history of jobs, results that the driver checked. Out: metrics, checks.

Not here: CPU time of processes (``processor``), judging (``analyze.verdict``).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.analyze import checks
from steelyard.bench.load.metrics import value
from steelyard.benchmarks.hadoop.jobs import Phase, Round
from steelyard.records import Check, Metric

_SHORT = "the tasks took less than 1 ms"


def round_metrics(rounds: Sequence[Round], slots: int, documents: int) -> dict[str, Metric]:
    """Return metrics of all measured rounds together, and of each phase; a round handles ``documents``."""
    seconds = sum(each.seconds for each in rounds)
    count = len(rounds)

    def total(figure: str, phase: str | None = None) -> float:
        return sum(each.total(figure, phase) for each in rounds)

    metrics = {
        "documents_per_s": Metric(value=count * documents / seconds, unit="1/s", better="higher"),
        "input_bytes_per_s": Metric(
            value=total("input_bytes", "map") / seconds, unit="bytes/s", better="higher"
        ),
        "jobs_per_hour": Metric(
            value=3600.0 * sum(len(each.jobs) for each in rounds) / seconds, unit="1/h", better="higher"
        ),
        "round_s": Metric(value=seconds / count, unit="s", better="lower"),
        "shuffle_bytes": Metric(value=total("shuffled_bytes") / count, unit="bytes"),
        "spilled_records": Metric(value=total("spilled_records") / count, unit="count", better="lower"),
        "spilled_ratio": value(
            total("spilled_records") / records if (records := total("output_records", "map")) else None,
            "ratio",
            "lower",
            "no record left a map task",
        ),
        "gc_ratio": _ratio(total("gc_s"), total("run_s"), "lower"),
        "task_cpu_ratio": _ratio(total("cpu_s"), seconds * slots, None),
    }
    for name, _ in rounds[0].phases():
        metrics |= _of_phase(name, [dict(each.phases())[name] for each in rounds], slots)
    return metrics


def _of_phase(name: str, phases: Sequence[Phase], slots: int) -> dict[str, Metric]:
    seconds = sum(phase.seconds for phase in phases)

    def total(figure: str) -> float:
        return float(sum(getattr(phase, figure) for phase in phases))

    return {
        f"{name}_s": Metric(value=seconds / len(phases), unit="s", better="lower"),
        f"{name}_tasks": Metric(value=total("tasks") / len(phases), unit="count"),
        f"{name}_cpu_ratio": _ratio(total("cpu_s"), seconds * slots, None),
        f"{name}_gc_ratio": _ratio(total("gc_s"), total("run_s"), "lower"),
    }


def _ratio(part: float, whole: float, better: str | None) -> Metric:
    return value(part / whole if whole else None, "ratio", better, _SHORT)


def result_check(results: Mapping[str, Any]) -> Check:
    """Return whether every round had the result of the first run with these data."""
    wrong = [each for each in results["found"] if each["checksum"] != results["expected"]]
    if wrong:
        claim = (
            f"{wrong[0]['name']} has checksum {wrong[0]['checksum']}, and the first result of these data"
            f" {results['expected']}"
        )
    else:
        against = "with each other" if results["first_run"] else "with the first run of these data"
        claim = f"results agree {against}: checksum {results['expected']}"
    return checks.measured("result", len(wrong) / len(results["found"]), claim)


def documents_check(results: Mapping[str, Any], documents: int, verb: str) -> Check:
    """Return whether every round handled every document."""
    wrong = [each for each in results["found"] if each["documents"] != documents]
    claim = (
        f"{wrong[0]['name']} {verb} {wrong[0]['documents']} of {documents} documents"
        if wrong
        else f"all {documents} documents were {verb}"
    )
    return checks.measured("documents", len(wrong) / len(results["found"]), claim)


def tasks_check(rounds: Sequence[Round]) -> Check:
    """Return whether every task succeeded at once; a failed one was repeated in the time that counts."""
    failed = sum(job.failed_attempts for each in rounds for job in each.jobs)
    tasks = int(sum(each.total("tasks") for each in rounds))
    claim = f"{failed} of {tasks} tasks failed" if failed else f"all {tasks} tasks succeeded"
    return checks.measured("failed-tasks", failed / tasks, claim)
