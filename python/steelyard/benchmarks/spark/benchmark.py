"""SparkBench: a query over a generated warehouse, on a cluster that the run starts or on one that is there.

In: settings that follow from the machine. Out: queries per hour, figures of the query's three stages, and
whether its result was right.

The stages are steps of the measure phase; the scans may overlap, as Spark starts the second when the first
leaves CPUs idle. Server and load are one: the cluster has every CPU.

Not here: the cluster (``cluster``), the event log (``events``), metrics (``metrics``); the query itself is in
``workloads/spark``.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from steelyard._base import WorkloadFailedError
from steelyard.bench.benchmark import Outcome
from steelyard.bench.footprint import Disk, Footprint, work_span_s
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.bench.stack.java import find_java
from steelyard.bench.stack.recipe import require
from steelyard.benchmarks.spark import parameters
from steelyard.benchmarks.spark.declaration import DECLARATION
from steelyard.benchmarks.spark.stack import far
from steelyard.benchmarks.spark.stack.events import log_of, read_stages
from steelyard.benchmarks.spark.stack.executors import by_host, read_executors, skew
from steelyard.benchmarks.spark.stack.job import SparkJob
from steelyard.benchmarks.spark.stack.recipe import JAVA, RECIPE
from steelyard.benchmarks.spark.stack.settings import START_S, is_here, memory_needed_bytes, slots_of

if TYPE_CHECKING:
    from steelyard.benchmarks.spark.metrics import Query
    from steelyard.benchmarks.spark.stack.cluster import Folders
    from steelyard.benchmarks.spark.stack.executors import Executor
    from steelyard.records import Check, Machine, Metric

STAGES = "stages.json"
TABLES_S_PER_MB, QUERY_S_PER_MB = 0.04, 0.06
"""CPU time of making the fact table and of a query over it, as measured once: for the estimate before the
first run only."""
QUERY_S = 3.0
"""What a query takes beside its work: planning, the starts of its stages, its check."""
SLOWEST_BYTES_PER_S = 100_000
"""Of the fact table, far below what any machine does: for timeouts only."""
LATE_S = 600.0


class SparkBench(SparkJob):
    """SparkBench."""

    name = DECLARATION.name

    parameters: ClassVar[tuple[Parameter, ...]] = parameters.PARAMETERS

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the machine and the tier."""
        return parameters.suggest(chosen, machine=machine, tier=tier, placement=placement)

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise where Java or Spark is missing, memory or disk too small, or the cluster unreachable."""
        find_java(JAVA, benchmark=DECLARATION.name)
        require(RECIPE, DECLARATION.name)
        parameters.check(settings, machine)

    @classmethod
    def footprint(cls, settings: Mapping[str, Setting], *, placement: Placement) -> Footprint:
        """Return what a run takes: memory of its processes, tables, shuffled data and results."""
        queries = int(settings["queries"]) + int(settings["warmups"])
        least_s, most_s = _time_span_s(settings, queries)
        return Footprint(
            least_s,
            most_s,
            "" if least_s is not None else f"the tables and {queries} queries",
            memory_bytes=memory_needed_bytes(settings),
            disks=_disks(settings),
        )

    def place(self) -> "Folders":
        """Make the run's folders."""
        from steelyard.benchmarks.spark.driver import place_folders

        return place_folders(self.session)

    def driver(self, master: str, folders: "Folders", variables: Mapping[str, str]) -> list[str]:
        """Return the command of the driver."""
        from steelyard.benchmarks.spark.driver import driver_command

        return driver_command(self.settings, master, folders, variables)

    def patience_s(self) -> float:
        """Return how long a query may take."""
        return LATE_S + self.settings.count("scale") / SLOWEST_BYTES_PER_S

    def warm_up(self) -> None:
        """Begin to record the hosts that were named, and wait until the warm-up is over."""
        self._recorded = far.FarHosts.of(self.settings).start(self.session)
        super().warm_up()

    def measure(self) -> int:
        """Let the driver run the queries; return when the last one ended."""
        from steelyard.benchmarks.spark.metrics import query_of

        times = self.run_jobs(self.settings.count("queries"))
        self._recordings = far.stop(self._recorded, self.session)
        path = log_of(self._folders.events)
        if path is None:
            raise WorkloadFailedError(f"Spark wrote no event log to {self._folders.events}")
        self._executors = read_executors(path, {name for name, _, _ in times})
        stages = read_stages(path, self._measured["monotonic_ns"] - self._measured["realtime_ns"])
        self._queries: list[Query] = [query_of(*each, stages) for each in times]
        for query in self._queries:
            suffix = f"-{query.name.rpartition('-')[2]}" if len(self._queries) > 1 else ""
            for step, stage in query.steps.items():
                self.session.manifest.put_step(step + suffix, stage.begin_ns, stage.end_ns)
        return times[-1][2]

    def collect(self) -> Outcome:
        """Return the metrics of the queries."""
        from steelyard.bench.load.metrics import value
        from steelyard.bench.stack.alike import times_alike
        from steelyard.benchmarks.spark.metrics import query_metrics, result_check, tasks_check
        from steelyard.records import Metric

        metrics = query_metrics(self._queries, self._slots)
        times = [query.seconds for query in self._queries]
        checks = [result_check(self._checksums), tasks_check(self._queries), times_alike(times, "queries")]
        used_s = None
        if self._is_here:
            used_s = self._used.total_s
            used_ratio = used_s / self._wall_s / len(self.session.placement.server)
            metrics["server_cpu_ratio"] = Metric(value=used_ratio, unit="ratio")
        else:
            missing = "the cluster is not this machine: see executor_cpu_ratio"
            metrics["server_cpu_ratio"] = Metric(value=None, unit="ratio", missing=missing)
        hosts = by_host(self._executors)
        metrics |= {
            "executor_hosts": Metric(value=float(len(hosts)), unit="count"),
            "host_cpu_skew_ratio": value(
                skew(list(hosts.values())), "ratio", "lower", "the tasks took less than 1 ms"
            ),
            "tables_bytes": Metric(value=float(self._tables["events_bytes"]), unit="bytes"),
            "result_rows": Metric(value=float(self._checksums["expected"]["rows"]), unit="count"),
            "result_bytes": Metric(value=float(self._checksums["output_bytes"]), unit="bytes"),
            "cluster_start_s": Metric(value=self._cluster_s, unit="s", better="lower"),
            "ready_s": Metric(value=self._ready_s, unit="s", better="lower"),
        }
        document = {
            "slots": self._slots,
            "queries": [
                {
                    "name": query.name,
                    "begin_ns": query.begin_ns,
                    "end_ns": query.end_ns,
                    "steps": {step: stage.as_document() for step, stage in query.steps.items()},
                    "others": [stage.as_document() for stage in query.others],
                }
                for query in self._queries
            ],
            "tables": self._tables,
            "result": self._checksums,
            "executors": [each.as_document() for each in self._executors],
            "hosts": self._hosts(hosts),
        }
        (self.session.directory / STAGES).write_text(json.dumps(document), encoding="utf-8")
        return self._outcome(metrics, used_s, checks)

    def _hosts(self, hosts: "Mapping[str, Executor]") -> list[dict[str, Any]]:
        """Return what each host did, for JSON; also those that were named and had no executor."""
        from steelyard.records import Clock

        span = (self._queries[0].begin_ns, self._queries[-1].end_ns)
        clock = Clock(monotonic_ns=self._measured["monotonic_ns"], realtime_ns=self._measured["realtime_ns"])
        found = []
        for name in (*hosts, *(name for name in self._recordings if name not in hosts)):
            telemetry = far.telemetry_of(name, self._recordings, self.session.directory, span, clock)
            row = {"host": name, "did": hosts[name].as_document() if name in hosts else None}
            found.append({**row, ("missing" if isinstance(telemetry, str) else "telemetry"): telemetry})
        return found

    def _outcome(self, metrics: "dict[str, Metric]", used_s: float | None, checks: "list[Check]") -> Outcome:
        return Outcome(
            metrics=metrics,
            loads=None,
            memory_needed_bytes=memory_needed_bytes(self.settings),
            own_cpu_s=used_s,
            saturates=self._is_here,
            checks=checks,
            artifacts={"stages": STAGES, "spark_events": self._folders.events.name},
            own_commands=("java", "python", "python3"),
        )


def _time_span_s(settings: Mapping[str, Setting], queries: int) -> tuple[float | None, float | None]:
    """Return the least and most time of a run, from CPU time that was measured; None on another cluster."""
    if not is_here(str(settings["master"])):
        return None, None
    makes = not parameters.have_tables(settings)
    cpu_s = int(settings["scale"]) / 1e6 * (makes * TABLES_S_PER_MB + queries * QUERY_S_PER_MB)
    return work_span_s(START_S + queries * QUERY_S, cpu_s, slots_of(settings))


def _disks(settings: Mapping[str, Setting]) -> tuple[Disk, ...]:
    """Return what a run writes, of which the tables stay for later runs."""
    tables_bytes = parameters.new_tables_bytes(settings)
    disks = []
    for demand in parameters.disk_demands(settings):
        smaller = f"--set scale=..., or --set {demand.parameter}=... on another disk"
        size_bytes = demand.needed_bytes
        if demand.parameter == "tables" and tables_bytes:
            size_bytes -= tables_bytes
            disks.append(Disk(tables_bytes, demand.folder, smaller, stays=True))
        disks.append(Disk(size_bytes, demand.folder, smaller))
    return tuple(disks)
