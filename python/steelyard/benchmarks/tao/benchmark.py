"""TaoBench: a read-through cache tier under get requests, after DCPerf's benchmark of Meta's TAO.

In: settings that follow from the machine. Out: requests per second by fast and slow path, hit ratio, latency,
CPU and network use.

Several servers share a large machine, as in production; each has CPUs, memory, keys and a load process of its
own. Keys are so many that a full cache answers about 0.9 of the requests. The server fills itself: warming up
is nothing but load, and lasts until the hit ratio has settled.

Not here: the arithmetic of the key space (``analyze.cache_model``), metrics from records (``metrics``).
"""

import math
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from steelyard._base import EnvironmentLacksError, UsageError, WorkloadFailedError, data_dir, executable
from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.footprint import Footprint, load_span_s
from steelyard.bench.limits.memory import available_memory_bytes
from steelyard.bench.load.settings import check_load
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import InstancePlace, Placement
from steelyard.bench.ports import HOST, check_port, free_port, wait_for_port
from steelyard.benchmarks.tao.parameters import MOST_CONNECTIONS, PARAMETERS

if TYPE_CHECKING:
    from steelyard.analyze.verdict import WarmUp
    from steelyard.bench.executor import Process
    from steelyard.bench.load.watch import LoadWatch
    from steelyard.records import CacheStats, Machine

PORT_MAX = 65_535
CPUS_PER_SERVER = 72
"""One server per 72 logical CPUs, and the thread counts below, as in DCPerf's TaoBench of 2025."""
FAST_THREADS_PER_CPU = 0.75
SLOW_THREADS_PER_FAST = 3
CONNECTIONS_PER_THREAD = 380
MEMORY_RATIO = 0.75
"""Share of the memory that there is."""
OTHER_FILES = 256
"""File descriptors that a process of ours needs besides its connections, amply."""
READY_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class _Lengths:
    """What a tier means here."""

    memory_per_cpu_bytes: int | None
    warmup_min_s: float
    warmup_max_s: float
    measure_s: float
    window_s: float


_TIERS = {
    "smoke": _Lengths(32 << 20, 2.0, 30.0, 8.0, 0.25),
    # A share of the suite's 3 and 30 minutes: the others have theirs.
    "quick": _Lengths(256 << 20, 10.0, 60.0, 45.0, 1.0),
    "standard": _Lengths(1 << 30, 60.0, 300.0, 480.0, 1.0),
    # As published: at least 20 minutes or 5 s per GB of warming up, then 12 minutes.
    "full": _Lengths(None, 1200.0, 7200.0, 720.0, 5.0),
}


@dataclass(slots=True)
class _Instance:
    """One server with its load."""

    number: int
    suffix: str
    place: InstancePlace
    server: "Process | None" = None
    target: str = ""
    load: "LoadWatch | None" = None
    stats: "list[CacheStats]" = field(default_factory=list)

    def name(self, role: str) -> str:
        """Return the name of a process of this instance."""
        return role if self.number == 1 else f"{role}-{self.number}"


def _exponent(key_distribution: str) -> float:
    """Return the Zipf exponent of a popularity, 0 for uniform. Raises UsageError for anything else."""
    if key_distribution == "uniform":
        return 0.0
    kind, _, exponent = key_distribution.partition(":")
    try:
        value = float(exponent)
    except ValueError:
        value = math.nan
    if kind != "zipf" or not 0 <= value <= 10:
        raise UsageError(f"key_distribution={key_distribution}: allowed is uniform|zipf:0..10")
    return value


class TaoBench(Benchmark):
    """Read-through cache tier."""

    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    # Measured: 172k requests per CPU-second of the load, 149k of the server. With half of the CPUs the load's
    # threads stay below 0.9 of theirs while the servers saturate the others (docs/journal/0030).
    load_ratio = 0.5
    cpus_per_instance = CPUS_PER_SERVER

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the machine, the tier and what was asked."""
        from steelyard.stats import distribution

        lengths = _TIERS[tier]
        cpus = len(placement.server)
        popularity = distribution.load_popularity(data_dir() / "tao" / "popularity.json")
        instances = len(placement.instances)
        fast = int(chosen.get("fast_threads", max(1, math.ceil(FAST_THREADS_PER_CPU * cpus / instances))))
        threads = int(chosen.get("load_threads", max(1, len(placement.load) // instances)))
        available = available_memory_bytes(machine)
        memory = int(MEMORY_RATIO * available)
        if lengths.memory_per_cpu_bytes is not None:
            memory = min(memory, lengths.memory_per_cpu_bytes * cpus)
        if placement.memory_bytes_min is not None:
            _check_bound(chosen, placement.memory_bytes_min, instances)
            memory = min(memory, int(MEMORY_RATIO * placement.memory_bytes_min) * instances)
        values: dict[str, Setting] = {
            "memory": memory,
            "instances": instances,
            "fast_threads": fast,
            "slow_threads": SLOW_THREADS_PER_FAST * fast,
            "load_threads": threads,
            "connections": max(1, min(CONNECTIONS_PER_THREAD * threads, MOST_CONNECTIONS // instances)),
            "key_distribution": popularity.choice().key_distribution,
            "warmup_min": lengths.warmup_min_s,
            "warmup_max": lengths.warmup_max_s,
            "measure": lengths.measure_s,
            "window": lengths.window_s,
        }
        values["keys"] = _keys({**cls._defaults(), **values, **chosen})
        return values

    @classmethod
    def _defaults(cls) -> dict[str, Setting]:
        return {known.name: known.default for known in PARAMETERS if known.default is not None}

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise UsageError or EnvironmentLacksError when ``settings`` cannot work on ``machine``."""
        _exponent(str(settings["key_distribution"]))
        check_load(settings)
        available = available_memory_bytes(machine)
        if int(settings["memory"]) > available:
            raise EnvironmentLacksError(
                f"memory={int(settings['memory']) >> 20}MiB is more than the {available >> 20} MiB that this"
                " machine or its cgroup has",
                hint=f"--set memory={int(MEMORY_RATIO * available) >> 20}MiB",
            )
        needed = int(settings["connections"]) + OTHER_FILES
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard not in (resource.RLIM_INFINITY, -1) and hard < needed:
            raise EnvironmentLacksError(
                f"connections={settings['connections']} need {needed} open files, and the limit is {hard}",
                hint=f"raise it (ulimit -n), or --set connections={max(1, hard - OTHER_FILES)}",
            )
        if soft not in (resource.RLIM_INFINITY, -1) and soft < needed:
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        _check_ports(int(settings["port"]), int(settings["instances"]))
        from steelyard.benchmarks.tao.server import check_programs

        check_programs(settings, data_dir() / "tao")

    @classmethod
    def footprint(cls, settings: Mapping[str, Setting], *, placement: Placement) -> Footprint:
        """Return what a run takes: the memory of its servers."""
        least_s, most_s = load_span_s(settings)
        return Footprint(least_s, most_s, memory_bytes=int(settings["memory"]))

    def install(self) -> None:
        """See that the executables and the distributions are there."""
        for name in ("steelyard-load", "steelyard-exec", *(() if self._foreign else ("steelyard-cache",))):
            executable(name)
        for name in ("object-sizes", "key-sizes"):
            if not self._data(name):
                raise EnvironmentLacksError(
                    f"data/tao/{name}.json is not there", hint="install Steelyard again"
                )
        places = self.session.placement.instances
        self._instances = [
            _Instance(place.number, "" if len(places) == 1 else f"-{place.number}", place) for place in places
        ]
        self._warmup: WarmUp | None = None
        self._span: tuple[int, int] | None = None

    @property
    def _foreign(self) -> bool:
        return bool(self.settings.text("server_command"))

    @staticmethod
    def _data(name: str) -> str:
        return str(data_dir() / "tao" / f"{name}.json")

    # Start

    def start(self) -> None:
        """Start the servers and wait until each answers."""
        from steelyard.benchmarks.tao.server import foreign_server, our_server, wait_until_ready

        for instance in self._instances:
            port = self.settings.count("port")
            port = port + instance.number - 1 if port else 0
            if self._foreign:
                port = port or free_port()
                command = foreign_server(self.settings, port=port)
            else:
                stats = self._stats_path(instance)
                command = our_server(self.settings, port=port, stats=stats, sizes=self._data("object-sizes"))
            check_port(port)
            instance.server = self.session.start_process(
                instance.name("server"),
                command,
                cpus=instance.place.server,
                memory_nodes=instance.place.memory_nodes,
            )
            instance.target = f"{HOST}:{port}"
        for instance in self._instances:
            if instance.server is None:
                raise AssertionError("started above")
            if self._foreign:
                wait_for_port(self.session, instance.server, instance.target, READY_TIMEOUT_S)
            else:
                instance.target = wait_until_ready(self.session, instance.server, READY_TIMEOUT_S)

    # Load

    def warm_up(self) -> None:
        """Start the load, and wait until the hit ratio has settled or the time for it is over."""
        from steelyard.benchmarks.tao.load import start_load, wait_until_settled

        for instance in self._instances:
            instance.load = start_load(
                self.session,
                name=instance.name("load"),
                suffix=instance.suffix,
                target=instance.target,
                cpus=instance.place.load,
                key_sizes=self._data("key-sizes"),
                value_sizes=self._data("object-sizes"),
                seed=self.settings.count("seed") + instance.number - 1,
                fill=self._foreign,
            )
        self._warmup = wait_until_settled(self.session, self._loads(), self._stats())

    def _stats(self) -> list[Path]:
        """Return the files in which the servers tell their counters."""
        return [] if self._foreign else [self._stats_path(instance) for instance in self._instances]

    def _loads(self) -> "list[LoadWatch]":
        return [instance.load for instance in self._instances if instance.load is not None]

    def _stats_path(self, instance: _Instance) -> "Path":
        return self.session.directory / f"cache-stats{instance.suffix}.jsonl"

    def measure(self) -> int:
        """Measure; return when the phase ended."""
        from steelyard.benchmarks.tao.load import measure

        self._span = measure(self.session, self._loads(), self._stats(), self.settings.number("measure"))
        return self._span[1]

    def drain(self) -> None:
        """Let the load finish, then stop the servers."""
        for instance in self._instances:
            if instance.load is not None:
                instance.load.finish(self.session, DRAIN_TIMEOUT_S)
        for instance in self._instances:
            if instance.server is not None:
                self.session.stop_process(instance.server)

    def collect(self) -> Outcome:
        """Return metrics over the measure phase."""
        from steelyard.benchmarks.tao.metrics import outcome

        if self._span is None:
            raise WorkloadFailedError("there was no measure phase")
        return outcome(
            self.session,
            self._span,
            self._warmup,
            suffixes=[instance.suffix for instance in self._instances],
            foreign=self._foreign,
        )


def _keys(settings: Mapping[str, Setting]) -> int:
    """Return how many keys give a full cache of one server the hit ratio that is aimed at."""
    from steelyard.analyze.cache_model import items_in, keys_for
    from steelyard.benchmarks.tao.server import mean_item_bytes

    memory = int(settings["memory"]) / int(settings["instances"])
    capacity = max(1, items_in(memory, mean_item_bytes=mean_item_bytes(data_dir() / "tao")))
    target, exponent = float(settings["target_hit_ratio"]), _exponent(str(settings["key_distribution"]))
    keys = keys_for(capacity, hit_ratio_target=target, exponent=exponent)
    if keys is None:
        raise UsageError(
            f"with key_distribution={settings['key_distribution']} any number of keys hits more than"
            f" target_hit_ratio={target}",
            hint="choose the number with --set keys=..., or a higher target_hit_ratio",
        )
    return keys


def _check_bound(chosen: Mapping[str, Setting], node_bytes: int, instances: int) -> None:
    """Raise UsageError when a server was asked to hold more than the nodes have that it is bound to."""
    if int(chosen.get("memory", 0)) > node_bytes * instances:
        raise UsageError(
            f"memory={int(chosen['memory']) >> 20}MiB: a server's share is more than the"
            f" {node_bytes >> 20} MiB that its NUMA node has for it",
            hint="--set memory_binding=none takes memory from every node",
        )


def _check_ports(first: int, count: int) -> None:
    """Raise UsageError or EnvironmentLacksError when the servers cannot have ``first`` and those after it."""
    last = first + count - 1
    if first and last > PORT_MAX:
        raise UsageError(f"port={first}: {count} servers need ports up to {last}, above {PORT_MAX}")
    for port in range(first, last + 1) if first else ():
        check_port(port)
