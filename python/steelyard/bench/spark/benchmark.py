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
from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.bench.spark import parameters
from steelyard.bench.spark.declaration import DECLARATION
from steelyard.bench.spark.events import Tail, log_of, read_stages
from steelyard.bench.stack.java import find_java, java_home
from steelyard.bench.stack.recipe import require

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.spark.metrics import Query
    from steelyard.bench.stack.processor import CpuTime
    from steelyard.records import Machine

JAVA_MAJOR = 17
STAGES = "stages.json"
CPU_AT_LEAST_RATIO = 0.55
"""Share of the CPUs that DCPerf's SparkBench reaches at least."""
LOOK_S = 0.2
"""How often the driver is looked at."""
SLOWEST_BYTES_PER_S = 100_000
"""Of the fact table, far below what any machine does: for timeouts only."""
LATE_S = 600.0
END_TIMEOUT_S = 60.0


class SparkBench(Benchmark):
    """SparkBench."""

    parameters: ClassVar[tuple[Parameter, ...]] = parameters.PARAMETERS

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the machine and the tier."""
        return parameters.suggest(chosen, machine=machine, tier=tier, placement=placement)

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise where Java 17 or Spark is missing, memory or disk too small, or the cluster unreachable."""
        find_java(JAVA_MAJOR, needed_by="Spark 4.0", benchmark=DECLARATION.name)
        if DECLARATION.recipe is not None:
            require(DECLARATION.recipe, DECLARATION.name)
        parameters.check(settings, machine)

    def install(self) -> None:
        """Make the run's folders."""
        from steelyard.bench.spark.cluster import environment, place_folders

        self._folders = place_folders(self.session)
        self._master = self.settings.text("master")
        self._is_here = self._master == parameters.STANDALONE or self._master.startswith("local")
        java = find_java(JAVA_MAJOR, needed_by="Spark 4.0", benchmark=DECLARATION.name)
        self._variables = environment(java_home(java), self._folders.scratch, is_local=self._is_here)
        self._tail = Tail(self._folders.events)
        self._processes: list[Process] = []
        self._told: list[dict[str, Any]] = []

    def start(self) -> None:
        """Start the cluster and the driver; return when the tables are there."""
        from steelyard.bench.spark.cluster import START_TIMEOUT_S, driver_command, start_cluster

        begin_ns = self.session.clock.monotonic_ns()
        master = self._master
        if master == parameters.STANDALONE:
            master, self._processes = start_cluster(self.session, self._variables, self._folders.scratch)
        self._cluster_s = (self.session.clock.monotonic_ns() - begin_ns) / 1e9
        command = driver_command(self.settings, master, self._folders, self._variables)
        self._driver = self.session.start_process(
            "driver", command, cpus=self.session.placement.server, comm="python"
        )
        self._processes.append(self._driver)
        self.session.expect_end(self._driver)
        self._slots = int(self._wait("ready", START_TIMEOUT_S, "the start of the driver")["slots"])
        self._ready_s = (self.session.clock.monotonic_ns() - begin_ns) / 1e9
        self.session.progress.status({"step": "tables"})
        self._tables = self._wait("tables", self._patience_s(), "making the tables")

    def warm_up(self) -> None:
        """Wait until the queries before those that count are over."""
        self.session.progress.status({"step": "warm-up"})
        self._wait("warm", self._patience_s() * max(1, self.settings.count("warmups")), "the warm-up")

    def measure(self) -> int:
        """Let the driver run the queries; return when the last one ended."""
        from steelyard.bench.spark.metrics import query_of
        from steelyard.bench.stack.processor import cpu_time

        pids = [process.pid for process in self._processes]
        before = cpu_time(pids)
        begin_ns = self.session.clock.monotonic_ns()
        self.session.begin_phase("measure", begin_ns)
        self._driver.write("go\n")
        times = []
        for number in range(1, self.settings.count("queries") + 1):
            self.session.progress.status({"query": f"{number} of {self.settings.count('queries')}"})
            told = self._wait("query", self._patience_s(), f"query {number}", name=f"query-{number}")
            times.append((str(told["name"]), int(told["begin_ns"]), int(told["end_ns"])))
        self._used: CpuTime = cpu_time(pids) - before
        self._wall_s = (self.session.clock.monotonic_ns() - begin_ns) / 1e9
        told = self._wait("measured", self._patience_s(), "the end of the queries")
        path = log_of(self._folders.events)
        if path is None:
            raise WorkloadFailedError(f"Spark wrote no event log to {self._folders.events}")
        stages = read_stages(path, told["monotonic_ns"] - told["realtime_ns"])
        self._queries: list[Query] = [query_of(*each, stages) for each in times]
        for query in self._queries:
            suffix = f"-{query.name.rpartition('-')[2]}" if len(self._queries) > 1 else ""
            for step, stage in query.steps.items():
                self.session.manifest.put_step(step + suffix, stage.begin_ns, stage.end_ns)
        return times[-1][2]

    def drain(self) -> None:
        """Compare the results, and stop the driver and the cluster."""
        self.session.progress.status({"step": "checksum of the results"})
        self._checksums = self._wait("checksums", self._patience_s(), "the checksum of the results")
        self.session.join(self._driver, END_TIMEOUT_S, what="the end of the driver")
        for process in reversed(self._processes[:-1]):
            self.session.stop_process(process, dies_of_sigterm=True)

    def collect(self) -> Outcome:
        """Return the metrics of the queries."""
        from steelyard.bench.spark.metrics import query_metrics, result_check, spread_check, tasks_check
        from steelyard.bench.stack.reached import cpu_reached
        from steelyard.records import Metric

        metrics = query_metrics(self._queries, self._slots)
        checks = [result_check(self._checksums), tasks_check(self._queries), spread_check(self._queries)]
        used_s = None
        if self._is_here:
            used_s = self._used.total_s
            used_ratio = used_s / self._wall_s / len(self.session.placement.server)
            metrics["server_cpu_ratio"] = Metric(value=used_ratio, unit="1")
            checks.append(cpu_reached(used_ratio, CPU_AT_LEAST_RATIO))
        else:
            missing = "the cluster is not this machine: see executor_cpu_ratio"
            metrics["server_cpu_ratio"] = Metric(value=None, unit="1", missing=missing)
        metrics |= {
            "tables_bytes": Metric(value=float(self._tables["events_bytes"]), unit="bytes"),
            "result_rows": Metric(value=float(self._checksums["expected"]["rows"]), unit="1"),
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
        }
        (self.session.directory / STAGES).write_text(json.dumps(document), encoding="utf-8")
        return Outcome(
            metrics=metrics,
            loads=None,
            memory_needed_bytes=parameters.memory_needed_bytes(self.settings),
            own_cpu_s=used_s,
            checks=checks,
            artifacts={"stages": STAGES, "spark_events": self._folders.events.name},
            own_commands=("java", "python", "python3"),
        )

    def _patience_s(self) -> float:
        return LATE_S + self.settings.count("scale") / SLOWEST_BYTES_PER_S

    def _wait(self, event: str, timeout_s: float, what: str, **fields: str) -> dict[str, Any]:
        """Return the driver's line of ``event`` with ``fields``. Raises WorkloadFailedError without it."""
        deadline_ns = self.session.clock.monotonic_ns() + int(timeout_s * 1e9)

        def matches(line: Mapping[str, Any]) -> bool:
            return line["event"] == event and all(line.get(name) == word for name, word in fields.items())

        while (found := next((line for line in self._told if matches(line)), None)) is None:
            self._check_executors()
            ended = self._driver.poll() is not None
            if ended:
                # Its last lines are read when this returns.
                self._driver.stop(0.0)
            self._take()
            if ended and not any(matches(line) for line in self._told):
                self._blame()
            if self.session.clock.monotonic_ns() > deadline_ns:
                raise WorkloadFailedError(
                    f"{what} took longer than {timeout_s:.0f} s", hint=f"see {self._driver.log}"
                )
            self.session.wait(LOOK_S)
        return found

    def _take(self) -> None:
        """Read what the driver printed."""
        for stream, line in self._driver.lines():
            if stream == "stdout" and line.startswith('{"event"'):
                self._told.append(json.loads(line))

    def _check_executors(self) -> None:
        for lost in self._tail.lost():
            phase = self.session.manifest.phase
            raise WorkloadFailedError(
                f"executor {lost.executor} was lost in phase {phase}: {lost.reason}",
                hint=f"see {self._driver.log}",
            )

    def _blame(self) -> None:
        """Raise for a driver that has ended: a lost executor is the cause where there was one."""
        self.session.check()
        self._check_executors()
        self.session.join(self._driver, 1.0, what="the driver")
        raise WorkloadFailedError("the driver ended early", hint=f"see {self._driver.log}")
