"""Metrics of SparkBench, and what its runs have to say of themselves.

In: the driver's times of queries, stages of the event log, CPU time of the processes. Out: metrics, checks.

Not here: reading the event log (``events``), judging (``analyze.verdict``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard._base import WorkloadFailedError
from steelyard.analyze import checks
from steelyard.bench.load.metrics import value
from steelyard.benchmarks.spark.stack.events import Stage
from steelyard.records import Check, Metric

STEPS = ("first_scan", "second_scan", "compare")
"""The stages of the query, by start; that of the two scans comes first which Spark chose to."""


@dataclass(frozen=True, slots=True)
class Query:
    """One measured query."""

    name: str
    begin_ns: int
    end_ns: int
    steps: Mapping[str, Stage]
    others: Sequence[Stage]
    """Stages that read the dimension tables."""

    @property
    def seconds(self) -> float:
        """Return its time, planning and the commit of its table included."""
        return (self.end_ns - self.begin_ns) / 1e9

    @property
    def stages(self) -> list[Stage]:
        """Return all its stages."""
        return [*self.steps.values(), *self.others]

    def total(self, figure: str) -> float:
        """Return the sum of a figure over its stages."""
        return float(sum(getattr(stage, figure) for stage in self.stages))


def query_of(name: str, begin_ns: int, end_ns: int, stages: Sequence[Stage]) -> Query:
    """Return a query with its stages by what they do.

    Raises WorkloadFailedError where Spark ran it in other stages: their times would be of something else.
    """
    mine = [stage for stage in stages if stage.query == name]
    scans = [stage for stage in mine if stage.shuffle_written_bytes and not stage.shuffle_read_bytes]
    last = [stage for stage in mine if stage.shuffle_read_bytes]
    if len(scans) != 2 or len(last) != 1:
        raise WorkloadFailedError(
            f"Spark ran {name} with {len(scans)} scanning and {len(last)} shuffled stages, not 2 and 1",
            hint="see the event log, and what --set conf=... changes",
        )
    steps = dict(zip(STEPS, (*scans, *last), strict=True))
    return Query(name, begin_ns, end_ns, steps, [each for each in mine if each not in (*scans, *last)])


def query_metrics(queries: Sequence[Query], slots: int) -> dict[str, Metric]:
    """Return metrics of all measured queries together, and of each step."""
    seconds = sum(query.seconds for query in queries)
    count = len(queries)

    def total(figure: str) -> float:
        return sum(query.total(figure) for query in queries)

    metrics = {
        "queries_per_hour": Metric(value=3600.0 * count / seconds, unit="1/h", better="higher"),
        "query_s": Metric(value=seconds / count, unit="s", better="lower"),
        "rows_per_s": Metric(value=total("read_rows") / seconds, unit="1/s", better="higher"),
        "read_bytes_per_s": Metric(value=total("read_bytes") / seconds, unit="bytes/s", better="higher"),
        "shuffle_bytes": Metric(value=total("shuffle_written_bytes") / count, unit="bytes"),
        "spill_bytes": Metric(value=total("spilled_disk_bytes") / count, unit="bytes", better="lower"),
        "gc_ratio": _ratio(total("gc_s"), total("run_s"), "lower"),
        "executor_cpu_ratio": _ratio(total("cpu_s"), seconds * slots, None),
    }
    for step in STEPS:
        metrics |= _of_step(step, [query.steps[step] for query in queries], slots)
    return metrics


def _of_step(step: str, stages: Sequence[Stage], slots: int) -> dict[str, Metric]:
    seconds = sum(stage.seconds for stage in stages)

    def total(figure: str) -> float:
        return float(sum(getattr(stage, figure) for stage in stages))

    moved = total("shuffle_read_bytes") if step == "compare" else total("read_bytes")
    return {
        f"{step}_s": Metric(value=seconds / len(stages), unit="s", better="lower"),
        f"{step}_bytes_per_s": value(
            moved / seconds if seconds else None, "bytes/s", "higher", "the stage took less than 1 ms"
        ),
        f"{step}_cpu_ratio": _ratio(total("cpu_s"), seconds * slots, None),
        f"{step}_gc_ratio": _ratio(total("gc_s"), total("run_s"), "lower"),
        f"{step}_spill_bytes": Metric(
            value=total("spilled_disk_bytes") / len(stages), unit="bytes", better="lower"
        ),
    }


def _ratio(part: float, whole: float, better: str | None) -> Metric:
    return value(part / whole if whole else None, "ratio", better, "the tasks took less than 1 ms")


def result_check(results: Mapping[str, Any]) -> Check:
    """Return whether every query had the result of the first run with these tables."""
    expected = results["expected"]
    wrong = [
        each
        for each in results["found"]
        if (each["sum"], each["rows"]) != (expected["sum"], expected["rows"])
    ]
    if wrong:
        claim = (
            f"{wrong[0]['name']} has {wrong[0]['rows']} rows with checksum {wrong[0]['sum']}, and the first"
            f" result of these tables {expected['rows']} with {expected['sum']}"
        )
    else:
        against = "with each other" if results["first_run"] else "with the first run of these tables"
        claim = f"results agree {against}: {expected['rows']} rows, checksum {expected['sum']}"
    return checks.measured("result", len(wrong) / len(results["found"]), claim)


def tasks_check(queries: Sequence[Query]) -> Check:
    """Return whether every task succeeded at once; a failed one was repeated in the time that counts."""
    failed = sum(stage.failed_tasks for query in queries for stage in query.stages)
    tasks = sum(stage.tasks for query in queries for stage in query.stages)
    claim = f"{failed} of {tasks} tasks failed" if failed else f"all {tasks} tasks succeeded"
    return checks.measured("failed-tasks", failed / tasks, claim)
