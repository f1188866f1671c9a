"""A benchmark that is one Spark application: its cluster, its driver, and what the driver tells.

In: a session, settings, a driver that prints a JSON line for every step (``workloads/spark``): ``ready``,
``tables``, ``warm``; after the line ``go`` a ``query`` for each measured job, ``measured``, ``checksums``.
Out: processes that end with the run, times of the jobs, CPU time, lost executors as errors.

Not here: what a job computes and which metrics follow.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from steelyard._base import WorkloadFailedError
from steelyard.bench.benchmark import Benchmark
from steelyard.bench.stack.driver import Driver
from steelyard.bench.stack.java import find_java, java_home
from steelyard.benchmarks.spark.stack.events import Tail
from steelyard.benchmarks.spark.stack.recipe import JAVA
from steelyard.benchmarks.spark.stack.settings import STANDALONE, is_here

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.stack.processor import CpuTime
    from steelyard.benchmarks.spark.stack.cluster import Folders

END_TIMEOUT_S = 60.0


class SparkJob(Benchmark):
    """One Spark application."""

    name: ClassVar[str]
    """How users name the benchmark."""

    @abstractmethod
    def place(self) -> "Folders":
        """Make the run's folders."""

    @abstractmethod
    def driver(self, master: str, folders: "Folders", variables: Mapping[str, str]) -> list[str]:
        """Return the command of the driver."""

    @abstractmethod
    def patience_s(self) -> float:
        """Return how long a step may take."""

    def install(self) -> None:
        """Make the run's folders."""
        from steelyard.benchmarks.spark.stack.cluster import configuration, environment
        from steelyard.benchmarks.spark.stack.settings import user_configuration

        self._folders = self.place()
        self._master = self.settings.text("master")
        self._is_here = is_here(self._master)
        java = find_java(JAVA, benchmark=self.name)
        configured = configuration(self._folders.scratch / "conf", user_configuration(self.settings))
        self._variables = environment(
            java_home(java), self._folders.scratch, configured, is_local=self._is_here
        )
        self._tail = Tail(self._folders.events)
        self._processes: list[Process] = []

    def start(self) -> None:
        """Start the cluster and the driver; return when the tables are there."""
        from steelyard.benchmarks.spark.stack.cluster import START_TIMEOUT_S, start_cluster

        begin_ns = self.session.clock.monotonic_ns()
        master = self._master
        if master == STANDALONE:
            master, self._processes = start_cluster(self.session, self._variables, self._folders.scratch)
        self._cluster_s = (self.session.clock.monotonic_ns() - begin_ns) / 1e9
        command = self.driver(master, self._folders, self._variables)
        process = self.session.start_process(
            "driver", command, cpus=self.session.placement.server, comm="python"
        )
        self._processes.append(process)
        self._driver = Driver(self.session, process, self._check_executors)
        self._slots = int(self._driver.wait("ready", START_TIMEOUT_S, "the start of the driver")["slots"])
        self._ready_s = (self.session.clock.monotonic_ns() - begin_ns) / 1e9
        self.session.progress.status({"step": "tables"})
        self._tables = self._driver.wait("tables", self.patience_s(), "making the tables")

    def warm_up(self) -> None:
        """Wait until the queries before those that count are over."""
        self.session.progress.status({"step": "warm-up"})
        self._driver.wait("warm", self.patience_s() * max(1, self.settings.count("warmups")), "the warm-up")

    def run_jobs(self, jobs: int) -> list[tuple[str, int, int]]:
        """Let the driver run the measured jobs; return the name of each, its begin and end, monotonic ns."""
        from steelyard.bench.stack.processor import cpu_time

        pids = [process.pid for process in self._processes]
        before = cpu_time(pids)
        begin_ns = self.session.clock.monotonic_ns()
        self.session.begin_phase("measure", begin_ns)
        self._driver.process.write("go\n")
        times = []
        for number in range(1, jobs + 1):
            self.session.progress.status({"query": f"{number} of {jobs}"})
            event = self._driver.wait("query", self.patience_s(), f"query {number}", name=f"query-{number}")
            times.append((str(event["name"]), int(event["begin_ns"]), int(event["end_ns"])))
        self._used: CpuTime = cpu_time(pids) - before
        self._wall_s = (self.session.clock.monotonic_ns() - begin_ns) / 1e9
        self._measured = self._driver.wait("measured", self.patience_s(), "the end of the queries")
        return times

    def drain(self) -> None:
        """Compare the results, and stop the driver and the cluster."""
        self.session.progress.status({"step": "checksum of the results"})
        self._checksums = self._driver.wait("checksums", self.patience_s(), "the checksum of the results")
        self.session.join(self._driver.process, END_TIMEOUT_S, what="the end of the driver")
        for process in reversed(self._processes[:-1]):
            self.session.stop_process(process, dies_of_sigterm=True)

    def _check_executors(self) -> None:
        for lost in self._tail.lost():
            phase = self.session.manifest.phase
            raise WorkloadFailedError(
                f"executor {lost.executor} was lost in phase {phase}: {lost.reason}",
                hint=f"see {self._driver.process.log}",
            )
