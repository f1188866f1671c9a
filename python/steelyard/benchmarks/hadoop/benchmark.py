"""A benchmark of Hadoop's jobs, on a cluster that the run starts or on one that is there.

In: settings that follow from the machine; what a benchmark says of its data and results. Out: documents per
second, figures of the jobs' phases, and whether the results were right.

Map and reduce tasks of each job are steps of the measure phase. Server and load are one: the cluster has
every CPU.

Not here: the cluster (``cluster``), reports of jobs (``jobs``), metrics (``metrics``); the jobs themselves
are in ``workloads/hadoop``.
"""

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.footprint import Disk, Footprint, work_span_s
from steelyard.bench.parameters import Setting
from steelyard.bench.placement import Placement
from steelyard.bench.ports import check_port
from steelyard.bench.stack.driver import Driver
from steelyard.bench.stack.java import find_java
from steelyard.bench.stack.recipe import require
from steelyard.bench.stack.space import Demand, require_space
from steelyard.benchmarks.hadoop import parameters
from steelyard.benchmarks.hadoop.recipe import JAVA, RECIPE

if TYPE_CHECKING:
    from steelyard.bench.declaration import Declaration
    from steelyard.bench.executor import Process
    from steelyard.bench.stack.processor import CpuTime
    from steelyard.benchmarks.hadoop.jobs import Round
    from steelyard.records import Check, Machine, Metric

ROUNDS = "rounds.json"
LATE_S = 600.0
SLOWEST_BYTES_PER_S = 50_000
"""Of the data, far below what any machine does: for timeouts only."""
END_TIMEOUT_S = 60.0
START_S = 15.0
"""From the start of the cluster to the first job, and from the last one to the end of all processes."""
JOB_S = 8.0
"""What a job takes beside its work: its application master, and a Java virtual machine for each task."""


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU time of a benchmark's work, as measured once: for the estimate before its first run only."""

    data_s_per_mb: float
    """Of making the data."""
    round_s_per_mb: float
    """Of all jobs of a round."""
    jobs: int
    """Jobs of a round, one after the other."""


class HadoopBench(Benchmark):
    """What benchmarks of Hadoop share."""

    declaration: ClassVar["Declaration"]
    cost: ClassVar[Cost]

    @classmethod
    @abstractmethod
    def data_bytes(cls, settings: Mapping[str, Setting]) -> int:
        """Return the size of the data, about."""

    @classmethod
    @abstractmethod
    def data_name(cls, settings: Mapping[str, Setting]) -> str:
        """Return the name of the folder of data with these settings."""

    @classmethod
    @abstractmethod
    def scratch_bytes(cls, settings: Mapping[str, Setting]) -> int:
        """Return the size of what the jobs write, about."""

    @classmethod
    @abstractmethod
    def size(cls, settings: Mapping[str, Setting]) -> tuple[str, str]:
        """Return what makes a run large, as people write it, and the parameter that makes it smaller."""

    @abstractmethod
    def options(self) -> dict[str, object]:
        """Return options of the driver."""

    def offer_data(self) -> None:
        """Begin to offer what the driver makes the data of, where that is not its own; here nothing."""

    def end_offer(self, facts: Mapping[str, Any]) -> None:
        """End that, when the data are there; ``facts["made"]`` says whether the driver made them now."""

    @abstractmethod
    def documents(self, facts: Mapping[str, Any]) -> int:
        """Return the documents that a round handles."""

    @abstractmethod
    def found(
        self, facts: Mapping[str, Any], results: Mapping[str, Any]
    ) -> tuple["dict[str, Metric]", "list[Check]"]:
        """Return metrics and checks of the results."""

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the machine and the tier."""
        return parameters.suggest(
            chosen, cls.declaration.name, machine=machine, tier=tier, placement=placement
        )

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise where Java or Hadoop is missing, memory or disk too small, or the cluster unreachable."""
        find_java(JAVA, benchmark=cls.declaration.name)
        require(RECIPE, cls.declaration.name)
        parameters.check_memory(settings, machine)
        data = parameters.local_data(settings, cls.declaration.name)
        parameters.check_parents(settings, data)
        cls.check_space(settings)
        if settings["cluster"]:
            parameters.check_cluster(str(settings["cluster"]))
        elif settings["port"]:
            check_port(int(settings["port"]))

    @classmethod
    def check_space(cls, settings: Mapping[str, Setting]) -> None:
        """Raise EnvironmentLacksError where data and results do not fit."""
        size, parameter = cls.size(settings)
        require_space(cls.disk_demands(settings), size=size, size_parameter=parameter)

    @classmethod
    def disk_demands(cls, settings: Mapping[str, Setting]) -> list[Demand]:
        """Return folders of this machine with the space, about, that a run takes there."""
        data = parameters.local_data(settings, cls.declaration.name)
        have_data = data is not None and (data / cls.data_name(settings) / "facts.json").is_file()
        return parameters.disk_demands(
            settings,
            data,
            data_bytes=0 if have_data else cls.data_bytes(settings),
            scratch_bytes=cls.scratch_bytes(settings),
        )

    @classmethod
    def time_span_s(cls, settings: Mapping[str, Setting]) -> tuple[float | None, float | None]:
        """Return the least and most time of a run, from measured CPU time; None on another cluster."""
        if settings["cluster"]:
            return None, None
        data = parameters.local_data(settings, cls.declaration.name)
        makes = data is None or not (data / cls.data_name(settings) / "facts.json").is_file()
        rounds = int(settings["rounds"]) + int(settings["warmups"])
        cost = cls.cost
        cpu_s = cls.data_bytes(settings) / 1e6 * (makes * cost.data_s_per_mb + rounds * cost.round_s_per_mb)
        return work_span_s(START_S + rounds * cost.jobs * JOB_S, cpu_s, int(settings["slots"]))

    @classmethod
    def footprint(cls, settings: Mapping[str, Setting], *, placement: Placement) -> Footprint:
        """Return what a run takes: memory of its processes, data, and what the jobs write."""
        size, parameter = cls.size(settings)
        least_s, most_s = cls.time_span_s(settings)
        return Footprint(
            least_s,
            most_s,
            "" if least_s is not None else f"{size}, {settings['rounds']} rounds",
            memory_bytes=parameters.memory_needed_bytes(settings),
            disks=tuple(
                Disk(
                    demand.needed_bytes,
                    demand.folder,
                    f"--set {parameter}=..., or --set {demand.parameter}=... on another disk",
                    stays=demand.parameter == "data" and bool(cls.data_name(settings)),
                )
                for demand in cls.disk_demands(settings)
            ),
        )

    def install(self) -> None:
        """Make the run's folders."""
        from steelyard.benchmarks.hadoop.cluster import place_folders

        name = self.declaration.name
        self._java = find_java(JAVA, benchmark=name)
        self._folders = place_folders(self.session, name, self.data_name(self.settings))
        self._cluster: Process | None = None
        self._rounds: list[Round] = []

    def start(self) -> None:
        """Start the cluster and the driver; return when the data are there."""
        from steelyard.benchmarks.hadoop import cluster

        begin_ns = self.session.clock.monotonic_ns()
        size = self.data_bytes(self.settings)
        there = self.settings.text("cluster")
        if there:
            of_jobs = parameters.hadoop_settings(self.settings, size, ("job",))
            written = cluster.settings_for_jobs(self._folders, of_jobs)
        else:
            of_both = parameters.hadoop_settings(self.settings, size, ("job", "cluster"))
            self._cluster, written = cluster.start_cluster(self.session, self._java, self._folders, of_both)
        self._cluster_s = (self.session.clock.monotonic_ns() - begin_ns) / 1e9
        self.offer_data()
        common = {
            "data-seed": self.settings.count("data_seed"),
            "files": self.settings.count("slots"),
            "warmups": self.settings.count("warmups"),
            "runs": self.settings.count("rounds"),
        }
        command = cluster.driver_command(
            self._java, self._folders, written, there, self.declaration.name, {**common, **self.options()}
        )
        process = self.session.start_process(
            "driver", command, cpus=self.session.placement.server, comm="java"
        )
        self._driver = Driver(self.session, process, self.session.check)
        self._driver.wait("ready", cluster.READY_TIMEOUT_S, "the start of the driver")
        self._ready_s = (self.session.clock.monotonic_ns() - begin_ns) / 1e9
        self.session.progress.status({"step": "data"})
        self._facts = self._driver.wait("data", self._patience_s(), "making the data")
        self.end_offer(self._facts)

    def warm_up(self) -> None:
        """Wait until the rounds before those that count are over."""
        self.session.progress.status({"step": "warm-up"})
        self._driver.wait("warm", self._patience_s() * max(1, self.settings.count("warmups")), "the warm-up")

    def measure(self) -> int:
        """Let the driver run the rounds; return when the last one ended."""
        from steelyard.bench.stack.processor import cpu_time
        from steelyard.benchmarks.hadoop.jobs import round_of

        pids = [process.pid for process in (self._cluster, self._driver.process) if process is not None]
        before = cpu_time(pids)
        begin_ns = self.session.clock.monotonic_ns()
        self.session.begin_phase("measure", begin_ns)
        self._driver.process.write("go\n")
        rounds = self.settings.count("rounds")
        events = []
        for number in range(1, rounds + 1):
            self.session.progress.status({"round": f"{number} of {rounds}"})
            events.append(
                self._driver.wait("run", self._patience_s(), f"round {number}", name=f"run-{number}")
            )
        self._used: CpuTime = cpu_time(pids) - before
        self._wall_s = (self.session.clock.monotonic_ns() - begin_ns) / 1e9
        clocks = self._driver.wait("measured", LATE_S, "the end of the rounds")
        offset_ns = int(clocks["monotonic_ns"]) - int(clocks["realtime_ns"])
        self._rounds = [round_of(each, offset_ns) for each in events]
        for number, each in enumerate(self._rounds, 1):
            suffix = f"-{number}" if rounds > 1 else ""
            for name, phase in each.phases():
                self.session.manifest.put_step(name + suffix, phase.begin_ns, phase.end_ns)
        return self._rounds[-1].end_ns

    def drain(self) -> None:
        """Check the results, and stop the driver and the cluster."""
        from steelyard.benchmarks.hadoop.cluster import STOP_TIMEOUT_S

        self.session.progress.status({"step": "check of the results"})
        self._results = self._driver.wait("results", self._patience_s(), "the check of the results")
        self.session.join(self._driver.process, END_TIMEOUT_S, what="the end of the driver")
        if self._cluster is not None:
            self.session.stop_process(self._cluster, STOP_TIMEOUT_S, dies_of_sigterm=True)

    def collect(self) -> Outcome:
        """Return the metrics of the rounds."""
        from steelyard.bench.stack.alike import times_alike
        from steelyard.benchmarks.hadoop.metrics import result_check, round_metrics, tasks_check
        from steelyard.records import Metric

        metrics = round_metrics(self._rounds, self.settings.count("slots"), self.documents(self._facts))
        own_metrics, own_checks = self.found(self._facts, self._results)
        checks = [
            result_check(self._results),
            *own_checks,
            tasks_check(self._rounds),
            times_alike([each.seconds for each in self._rounds], "rounds"),
        ]
        used_s = None
        if self._cluster is not None:
            used_s = self._used.total_s
            used_ratio = used_s / self._wall_s / len(self.session.placement.server)
            metrics["server_cpu_ratio"] = Metric(value=used_ratio, unit="ratio")
        else:
            missing = "the cluster is not this machine: see task_cpu_ratio"
            metrics["server_cpu_ratio"] = Metric(value=None, unit="ratio", missing=missing)
        metrics |= {
            **own_metrics,
            "result_bytes": Metric(value=float(self._results["found"][0]["bytes"]), unit="bytes"),
            "cluster_start_s": Metric(value=self._cluster_s, unit="s", better="lower"),
            "ready_s": Metric(value=self._ready_s, unit="s", better="lower"),
        }
        document = {
            "slots": self.settings.count("slots"),
            "rounds": [each.as_document() for each in self._rounds],
            "data": self._facts,
            "results": self._results,
        }
        (self.session.directory / ROUNDS).write_text(json.dumps(document), encoding="utf-8")
        return Outcome(
            metrics=metrics,
            loads=None,
            memory_needed_bytes=parameters.memory_needed_bytes(self.settings),
            own_cpu_s=used_s,
            saturates=self._cluster is not None,
            checks=checks,
            artifacts={"rounds": ROUNDS, "hadoop": self._folders.configuration.name},
            own_commands=("java", "bash"),
        )

    def _patience_s(self) -> float:
        return LATE_S + self.data_bytes(self.settings) / SLOWEST_BYTES_PER_S
