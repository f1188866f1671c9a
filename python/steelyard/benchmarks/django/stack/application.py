"""Benchmarks of the Django application: a closed loop of its views.

In: settings that follow from the machine and the tier. Out: requests per second with the servers' CPUs busy,
latency of each view, what each server took of the CPU time.

uWSGI runs a process on each CPU; a request reads Cassandra and memcached and calls generated functions, each
request others of thousands.

Not here: the servers (``servers``), the application (``workloads/django``), metrics (``metrics``).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from steelyard._base import WorkloadFailedError, executable
from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.footprint import Disk, Footprint, load_span_s
from steelyard.bench.limits.memory import available_memory_bytes
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.load.settings import check_load
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.bench.ports import backlog_of, check_port
from steelyard.bench.scratch import check_parent, scratch_folder
from steelyard.bench.stack.recipe import require
from steelyard.benchmarks.cassandra.stack.node import check_disk, find_java
from steelyard.benchmarks.cassandra.stack.profile import load_profile
from steelyard.benchmarks.django.stack.parameters import PARAMETERS
from steelyard.benchmarks.django.stack.recipe import RECIPE, View

if TYPE_CHECKING:
    from steelyard.analyze.verdict import WarmUp
    from steelyard.bench.load.watch import LoadWatch
    from steelyard.bench.stack.processor import CpuTime
    from steelyard.benchmarks.django.stack.servers import Servers
    from steelyard.records import Machine

USER_DISK_BYTES = 40_000
"""Disk that a user's rows take, with the commit log and merges."""
USER_CACHE_BYTES = 8_000
"""Memory of memcached for what is cached of a user."""
CONNECTIONS_PER_THREAD = 1.2
"""DCPerf keeps 1.2 requests in flight for each process."""
DRAIN_TIMEOUT_S = 60.0
SETTLED_TOLERANCE_RATIO = 0.03


@dataclass(frozen=True, slots=True)
class _Lengths:
    """What a tier means here."""

    users: int
    heap_bytes: int | None
    warmup_min_s: float
    warmup_max_s: float
    measure_s: float


_TIERS = {
    "smoke": _Lengths(300, 512 << 20, 2.0, 8.0, 8.0),
    # On one CPU Cassandra compiles for a minute: the throughput doubles meanwhile.
    "quick": _Lengths(5_000, 2 << 30, 10.0, 90.0, 60.0),
    "standard": _Lengths(50_000, None, 60.0, 300.0, 480.0),
    # As published: rounds of 5 minutes, seven of them.
    "full": _Lengths(500_000, None, 300.0, 1200.0, 2100.0),
}


class Application(Benchmark):
    """A benchmark of the application."""

    name: ClassVar[str]
    views: ClassVar[tuple[View, ...]]
    """What the load asks for."""
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    # A request costs the load a fiftieth of what it costs the servers.
    load_ratio = 0.02

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the machine and the tier."""
        lengths = _TIERS[tier]
        processes = int(chosen.get("processes", len(placement.server)))
        in_flight = math.ceil(CONNECTIONS_PER_THREAD * processes * int(chosen.get("threads", 2)))
        hosts = LoadHosts.of(chosen).hosts
        beside = len(placement.server if hosts else placement.load)
        threads = int(chosen.get("load_threads", max(1, min(4, beside))))
        users = int(chosen.get("users", lengths.users))
        memory = available_memory_bytes(machine)
        return {
            "processes": processes,
            "connections": max(threads * max(1, len(hosts)), in_flight),
            "load_threads": threads,
            "users": users,
            "heap": load_profile("stock").heap_bytes(memory, lengths.heap_bytes),
            "memory": max(64 << 20, min(memory // 8, USER_CACHE_BYTES * users)),
            "warmup_min": lengths.warmup_min_s,
            "warmup_max": lengths.warmup_max_s,
            "measure": lengths.measure_s,
        }

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise UsageError or EnvironmentLacksError when ``settings`` cannot work on ``machine``."""
        check_load(settings)
        find_java(cls.name)
        require(RECIPE, cls.name)
        backlog_of(int(settings["connections"]))
        check_parent(str(settings["data"]), "data")
        check_port(int(settings["port"]), LoadHosts.of(settings).address)

    @classmethod
    def footprint(cls, settings: Mapping[str, Setting], *, placement: Placement) -> Footprint:
        """Return what a run takes: heap, cache and the users' rows."""
        least_s, most_s = load_span_s(settings)
        return Footprint(
            least_s,
            most_s,
            f"writing {settings['users']} users",
            memory_bytes=int(settings["heap"]) + int(settings["memory"]),
            disks=(
                Disk(
                    USER_DISK_BYTES * int(settings["users"]),
                    Path(str(settings["data"])) if settings["data"] else None,
                    "--set users=..., or --set data=... on another disk",
                ),
            ),
        )

    def install(self) -> None:
        """See that the executables are there, and room for the data."""
        executable("steelyard-load")
        self._java = find_java(self.name)
        self._servers: Servers | None = None
        self._load: LoadWatch | None = None
        self._warmup: WarmUp | None = None
        self._span: tuple[int, int] | None = None
        self._used: dict[str, CpuTime] = {}
        self._stats: list[dict[str, str]] = []
        parent = self.settings.text("data")
        needed = USER_DISK_BYTES * self.settings.count("users")
        check_disk(Path(parent or self.session.directory), needed, "--set users=..., or --set data=FOLDER")
        self._data = scratch_folder(self.session, parent, "data")

    def start(self) -> None:
        """Start the stores, fill them, start the application, and wait until it answers."""
        from steelyard.benchmarks.django.stack import servers

        self._servers = servers.start_stores(self.session, self._java, self._data)
        servers.fill(self.session, self._servers)
        servers.start_application(self.session, self._servers)

    def _started(self) -> "Servers":
        if self._servers is None:
            raise AssertionError("started before")
        return self._servers

    def _begun(self) -> "LoadWatch":
        if self._load is None:
            raise AssertionError("begun before")
        return self._load

    def warm_up(self) -> None:
        """Start the load, and wait until throughput has settled or the time for it is over."""
        from steelyard.bench.load.settled import wait_until_settled
        from steelyard.benchmarks.django.stack.load import start_load

        self._load = start_load(self.session, self._started().target, self.views)
        self._warmup = wait_until_settled(
            self.session,
            [self._load],
            least_s=self.settings.number("warmup_min"),
            most_s=self.settings.number("warmup_max"),
            tolerance_ratio=SETTLED_TOLERANCE_RATIO,
        )

    def measure(self) -> int:
        """Measure; return when the phase ended."""
        from steelyard.bench.load.watch import measure
        from steelyard.bench.stack.processor import cpu_time
        from steelyard.benchmarks.memcached.stack.stats import read_stats

        servers = self._started()
        supervisors = servers.processes()
        begun: dict[str, CpuTime] = {}

        def mark(begin_ns: int) -> None:
            begun.update({name: cpu_time([pid]) for name, pid in supervisors.items()})
            self._stats.append(read_stats(servers.memcached_target))
            self.session.begin_phase("measure", begin_ns)

        self._span = measure(self.session, [self._begun()], self.settings.number("measure"), mark=mark)
        self._used = {name: cpu_time([pid]) - begun[name] for name, pid in supervisors.items()}
        self._stats.append(read_stats(servers.memcached_target))
        return self._span[1]

    def drain(self) -> None:
        """Let the load finish, then stop the servers, the application first."""
        from steelyard.benchmarks.django.stack.servers import stop

        self._begun().finish(self.session, DRAIN_TIMEOUT_S)
        stop(self.session, self._started())

    def collect(self) -> Outcome:
        """Return metrics over the measure phase."""
        from steelyard.benchmarks.django.stack.metrics import Facts, outcome

        if self._span is None:
            raise WorkloadFailedError("there was no measure phase")
        facts = Facts(self._span, self._warmup, self._used, self._stats, self._started())
        return outcome(self.session, facts)
