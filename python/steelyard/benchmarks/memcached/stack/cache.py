"""A benchmark of memcached: a server with all server CPUs, filled, then asked by several clients.

In: settings that follow from the machine and the profile. Out: requests per second, latency, hit ratio, CPU
time and bytes moved.

The cache is filled before the load, with as many keys as its memory holds, so that lookups hit unless the
server evicts. What its values are, each benchmark says by `item_bytes` and `content`.

Not here: a cache with a backend (``tao``), settings (``workloads/memcached``), metrics (``metrics``).
"""

import os
import pwd
import tomllib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from steelyard._base import EnvironmentLacksError, UsageError, WorkloadFailedError, executable, workloads_dir
from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.footprint import Footprint, load_span_s
from steelyard.bench.limits.memory import available_memory_bytes
from steelyard.bench.load.hosts import HOST_PARAMETERS, LoadHosts
from steelyard.bench.parameters import Parameter, Setting, Settings
from steelyard.bench.placement import Placement
from steelyard.bench.ports import check_port, free_port, wait_for_port
from steelyard.bench.stack.recipe import program, require
from steelyard.benchmarks.memcached.stack.recipe import RECIPE

if TYPE_CHECKING:
    from steelyard.analyze.verdict import WarmUp
    from steelyard.bench.executor import Process
    from steelyard.bench.load.watch import LoadWatch
    from steelyard.bench.stack.processor import CpuTime
    from steelyard.records import Machine

KEY_BYTES = 32
"""Of the Characterization paper."""
FILL_RATIO = 0.7
"""Share of the memory that keys and values take; slabs of memcached waste up to a fifth of each item."""
MEMORY_RATIO = 0.75
"""Share of the machine's memory that the server gets at most: load and system need some, too."""
RESERVED, RESERVED_PER_THREAD = 32, 8
"""Connections that memcached 1.6 keeps of its limit for itself, amply: it was seen to take 8 and 4 for a
thread, and resets those beyond without a word."""
READY_TIMEOUT_S = 20.0
DRAIN_TIMEOUT_S = 60.0
_DAY_S = 86_400.0
_MEASURE_S = {"smoke": 3.0, "quick": 30.0, "standard": 300.0, "full": 900.0}
_MEMORY_BYTES = {"smoke": 128 << 20, "quick": 1 << 30, "standard": 8 << 30, "full": None}
_WARMUP_S = {"smoke": (1.0, 5.0), "quick": (3.0, 30.0), "standard": (10.0, 120.0), "full": (30.0, 600.0)}

PARAMETERS = (
    Parameter(
        "profile",
        "choice",
        "settings: stock or tuned, in workloads/memcached/profiles.toml",
        default="tuned",
        choices=("stock", "tuned"),
    ),
    Parameter(
        "memory",
        "bytes",
        "memory of the server",
        derived="the profile's, at most 0.75 of the machine's and the tier's",
        minimum=64 << 20,
    ),
    Parameter(
        "server_threads",
        "count",
        "threads of the server",
        derived="the profile's, at most one per server CPU",
        minimum=1,
        maximum=1024,
    ),
    Parameter(
        "clients",
        "count",
        "processes of the load",
        derived="the profile's, at most one per load CPU; one per host",
        minimum=1,
        maximum=256,
    ),
    Parameter(
        "connections",
        "count",
        "connections of all clients together",
        derived="16 per client thread, at most the profile's",
        minimum=1,
        maximum=32_768,
    ),
    Parameter("set_ratio", "ratio", "share of requests that store", default=0.05, minimum=0.0, maximum=1.0),
    Parameter("keys", "count", "number of keys", derived="0.7 of the memory", minimum=1, maximum=10**12),
    Parameter(
        "warmup_max",
        "seconds",
        "maximum length of the warm-up; the verdict reports a throughput that has not settled",
        derived="per tier",
        minimum=0.1,
        maximum=_DAY_S,
    ),
    Parameter(
        "measure", "seconds", "length of the measure phase", derived="per tier", minimum=0.5, maximum=_DAY_S
    ),
    Parameter("port", "count", "port of the server; 0 for a free one", default=0, minimum=0, maximum=65_535),
    *HOST_PARAMETERS,
    Parameter("seed", "count", "seed of keys and values", derived="random", minimum=0, maximum=2**53),
)


@cache
def profile(name: str) -> dict[str, Any]:
    """Return the settings of a profile."""
    return dict(tomllib.loads((workloads_dir() / "memcached" / "profiles.toml").read_text())[name])


class CacheBench(Benchmark):
    """Memcached with content that the benchmark says."""

    name: ClassVar[str]
    """How users name the benchmark."""
    # Values of 25 KB cost both sides mostly the kernel's copying, the reader somewhat more.
    load_ratio = 0.5

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the profile, the machine and the tier."""
        settings = profile(str(chosen.get("profile", "tuned")))
        most = int(MEMORY_RATIO * available_memory_bytes(machine))
        memory = int(chosen.get("memory", min(settings["memory_bytes"], most, _MEMORY_BYTES[tier] or most)))
        hosts = LoadHosts.of(chosen).hosts
        # Of other hosts nothing is known: together they get as many threads as the server.
        load_cpus = max(1, len(placement.server if hosts else placement.load))
        clients = int(chosen.get("clients", len(hosts) or min(settings["clients"], load_cpus)))
        threads = max(1, min(settings["threads_per_client"], load_cpus // clients))
        item_bytes = cls.item_bytes(chosen)
        return {
            "memory": memory,
            "server_threads": min(settings["server_threads"], max(1, len(placement.server))),
            "clients": clients,
            "connections": min(settings["connections_max"], 16 * clients * threads),
            "keys": max(1, int(FILL_RATIO * memory / item_bytes)),
            "warmup_max": _WARMUP_S[tier][1],
            "measure": _MEASURE_S[tier],
        }

    @classmethod
    @abstractmethod
    def item_bytes(cls, chosen: Mapping[str, Setting]) -> float:
        """Return the mean size of key and value."""

    @abstractmethod
    def content(self) -> list[str | Path]:
        """Return the flags of the load that say how large values are and which keys are asked for.

        A `Path` is a file that the load reads, on whichever host it is.
        """

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise UsageError or EnvironmentLacksError when ``settings`` cannot work on ``machine``."""
        require(RECIPE, cls.name)
        if int(settings["connections"]) < int(settings["clients"]):
            raise UsageError(
                f"connections={settings['connections']} is below clients={settings['clients']}:"
                " every client needs one"
            )
        hosts = LoadHosts.of(settings)
        hosts.check()
        if int(settings["clients"]) < len(hosts.hosts):
            raise UsageError(
                f"clients={settings['clients']} is below the {len(hosts.hosts)} hosts: each runs one"
            )
        available = available_memory_bytes(machine)
        if int(settings["memory"]) > available:
            raise EnvironmentLacksError(
                f"memory={int(settings['memory']) >> 20}MiB is more than the {available >> 20} MiB that this"
                " machine or its cgroup has",
                hint=f"--set memory={int(MEMORY_RATIO * available) >> 20}MiB",
            )
        check_port(int(settings["port"]), hosts.address)

    @classmethod
    def footprint(cls, settings: Mapping[str, Setting], *, placement: Placement) -> Footprint:
        """Return what a run takes: the server's memory."""
        least_s, most_s = load_span_s(settings)
        return Footprint(least_s, most_s, "filling the server", memory_bytes=int(settings["memory"]))

    def install(self) -> None:
        """See that the executables are there."""
        executable("steelyard-load")
        self._server: Process | None = None
        self._target = ""
        self._hosts = LoadHosts.of(self.settings)
        self._loads: list[LoadWatch] = []
        self._warmup: WarmUp | None = None
        self._span: tuple[int, int] | None = None
        self._cpu: CpuTime | None = None
        self._stats: list[dict[str, str]] = []

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = self.settings
        address = self._hosts.address
        port = settings.count("port") or free_port(address)
        command = [
            *(program("memcached", self.name), "-l", address, "-p", str(port), "-U", "0"),
            *("-m", str(settings.count("memory") >> 20), "-t", str(settings.count("server_threads"))),
            *("-c", str(_connection_limit(settings)), "-I", profile(settings.text("profile"))["item_max"]),
            # It refuses to run as root without a user to change to; the same user changes nothing.
            *(["-u", pwd.getpwuid(0).pw_name] if os.geteuid() == 0 else []),
        ]
        self._server = self.session.start_process("server", command, cpus=self.session.placement.server)
        self._target = f"{address}:{port}"
        wait_for_port(self.session, self._server, self._target, READY_TIMEOUT_S)

    def warm_up(self) -> None:
        """Fill the cache, start the clients, and wait until throughput has settled."""
        from steelyard.bench.load.settled import wait_until_settled
        from steelyard.bench.load.watch import LoadWatch

        self._fill()
        clients = self.settings.count("clients")
        most_s = self.settings.number("warmup_max")
        least_s = min(most_s, _WARMUP_S[self.session.manifest.run.tier][0])
        far = self._hosts.flags(clients)
        # One process here commands those of the hosts.
        processes = 1 if far else clients
        content = self._content()
        shares = _shares(self.session.placement.load or self.session.placement.server, processes)
        for number, cpus in enumerate(shares, start=1):
            suffix = "" if processes == 1 else f"-{number}"
            connections = _share(self.settings.count("connections"), processes, number)
            most = min(self._far_threads(), connections // clients) if far else min(len(cpus), connections)
            command = [
                *self._command(number, content, threads=max(1, most), connections=connections),
                *far,
                *("--duration", f"{self.settings.number('measure'):g}s"),
                *("--warmup", f"{least_s * 1e9:.0f}ns", "--hold", "--progress", "json"),
                *("--hlog", str(self.session.directory / f"latency{suffix}.hlog")),
                *("--output", str(self.session.directory / f"load{suffix}.json")),
            ]
            self._loads.append(LoadWatch(self.session.start_process(f"load{suffix}", command, cpus=cpus)))
        self._warmup = wait_until_settled(self.session, self._loads, least_s=least_s, most_s=most_s)

    def _far_threads(self) -> int:
        """Return the threads of a client on another host."""
        most: int = profile(self.settings.text("profile"))["threads_per_client"]
        return max(1, min(most, len(self.session.placement.server) // self.settings.count("clients")))

    def _content(self) -> list[str]:
        """Return the flags of the content, with files by the names that every host has them by."""
        words = self.content()
        names = dict.fromkeys(word for word in words if isinstance(word, Path))
        at = dict(zip(names, self._hosts.shared(self.session, *names), strict=True))
        return [str(at[word]) if isinstance(word, Path) else word for word in words]

    def _command(self, number: int, content: Sequence[str], *, threads: int, connections: int) -> list[str]:
        settings = self.settings
        return [
            *(str(executable("steelyard-load")), "--protocol", "memcached", "--target", self._target),
            *("--threads", str(threads), "--connections", str(connections)),
            *("--keys", str(settings.count("keys")), "--key-sizes", str(KEY_BYTES)),
            *content,
            *("--set-ratio", str(settings.number("set_ratio"))),
            *("--seed", str(settings.count("seed") + number - 1)),
        ]

    def _fill(self) -> None:
        """Store every key once."""
        from steelyard.bench.load.watch import LoadWatch

        content = [str(word) for word in self.content()]
        command = [*self._command(1, content, threads=1, connections=8), "--prefill=set", "--duration", "1ms"]
        command += ["--warmup", "0s", "--output", str(self.session.directory / "logs" / "fill.json")]
        cpus = self.session.placement.load or self.session.placement.server
        process = self.session.start_process("fill", command, cpus=cpus)
        # As slow as 10 MB/s would be a disk, not memory.
        seconds = 60 + self.settings.count("keys") * self.item_bytes(self.settings) / 10e6
        LoadWatch(process).finish(self.session, seconds, "filling the cache")

    def measure(self) -> int:
        """Measure; return when the phase ended."""
        from steelyard.bench.load import watch
        from steelyard.bench.stack.processor import cpu_time
        from steelyard.benchmarks.memcached.stack.stats import read_stats

        server = self._process()
        begun: list[CpuTime] = []

        def mark(begin_ns: int) -> None:
            begun.append(cpu_time([server.pid]))
            self._stats.append(read_stats(self._target))
            self.session.begin_phase("measure", begin_ns)

        self._span = watch.measure(self.session, self._loads, self.settings.number("measure"), mark=mark)
        self._cpu = cpu_time([server.pid]) - begun[0]
        self._stats.append(read_stats(self._target))
        return self._span[1]

    def _process(self) -> "Process":
        if self._server is None:
            raise AssertionError("started before")
        return self._server

    def drain(self) -> None:
        """Let the clients finish, then stop the server."""
        for load in self._loads:
            load.finish(self.session, DRAIN_TIMEOUT_S)
        self.session.stop_process(self._process())

    def collect(self) -> Outcome:
        """Return metrics over the measure phase."""
        from steelyard.benchmarks.memcached.stack.metrics import outcome

        if self._span is None or self._cpu is None:
            raise WorkloadFailedError("there was no measure phase")
        return outcome(self.session, self._span, self._warmup, self._cpu, self._stats)


def _connection_limit(settings: Settings) -> int:
    """Return the limit of connections that lets all of the load's in, and those that read counters."""
    return settings.count("connections") + RESERVED + RESERVED_PER_THREAD * settings.count("server_threads")


def _share(total: int, parts: int, number: int) -> int:
    """Return part ``number`` (from 1) of ``total``, shared as evenly as whole numbers allow."""
    return total // parts + (number <= total % parts)


def _shares(cpus: "tuple[int, ...]", parts: int) -> "list[tuple[int, ...]]":
    """Return the CPUs of each client: shares of them, or all where there are fewer CPUs than clients."""
    return [cpus[at::parts] or cpus for at in range(parts)]
