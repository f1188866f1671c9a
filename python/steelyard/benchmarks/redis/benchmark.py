"""Redis under five commands, after the Characterization paper.

In: settings that follow from the machine. Out: requests per second by command, and their geometric mean.

Redis answers with one thread, so that a machine needs several instances; each has its own CPU, port, keys and
load. The commands are steps of the measure phase. Every step begins with empty servers, of which data that
the command reads is written before it.

Not here: the commands (``data/redis``), configurations (``workloads/redis``), metrics (``metrics``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from steelyard._base import (
    EnvironmentLacksError,
    UsageError,
    WorkloadFailedError,
    data_dir,
    executable,
    workloads_dir,
)
from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.footprint import Disk, Footprint
from steelyard.bench.limits.memory import available_memory_bytes
from steelyard.bench.load.hosts import HOST_PARAMETERS, LoadHosts
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import InstancePlace, Placement
from steelyard.bench.placement.parameters import PLACEMENT_PARAMETERS
from steelyard.bench.ports import check_port, free_port, wait_for_port
from steelyard.bench.scratch import scratch_folder
from steelyard.bench.stack.recipe import program, require
from steelyard.benchmarks.redis.client import ask, peak_bytes
from steelyard.benchmarks.redis.declaration import DECLARATION
from steelyard.benchmarks.redis.memory import longest_step_s, needed_bytes

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.benchmarks.redis.steps import Step
    from steelyard.records import Machine

COMMANDS = ("lpush", "lpop", "zadd", "zrange", "sadd")
CPUS_PER_INSTANCE = 1
READY_TIMEOUT_S = 20.0
WARMUP_RATIO = 0.2
"""Length of a warm-up over that of its step."""
CONNECTIONS = 50
"""Clients of one instance, as redis-benchmark has."""
_MEASURE_S = {"smoke": 4.0, "quick": 25.0, "standard": 150.0, "full": 600.0}
_DAY_S = 86_400.0

PARAMETERS = (
    Parameter(
        "profile",
        "choice",
        "configuration: workloads/redis/stock.conf or tuned.conf",
        default="tuned",
        choices=("stock", "tuned"),
    ),
    Parameter(
        "instances", "count", "number of servers", derived="one per server CPU", minimum=1, maximum=4096
    ),
    Parameter(
        "connections", "count", "connections per server", default=CONNECTIONS, minimum=1, maximum=10_000
    ),
    Parameter("depth", "count", "requests in flight per connection", default=1, minimum=1, maximum=1024),
    Parameter(
        "measure",
        "seconds",
        "length of all steps together",
        derived="per tier: 4 s, 25 s, 150 s, 10 min; as the memory allows",
        minimum=1.0,
        maximum=_DAY_S,
    ),
    Parameter(
        "warmup", "seconds", "load before each step", derived="a fifth of the step", minimum=0.0, maximum=60.0
    ),
    *PLACEMENT_PARAMETERS,
    *HOST_PARAMETERS,
    Parameter("seed", "count", "seed of keys and values", derived="random", minimum=0, maximum=2**53),
)


@dataclass(slots=True)
class Instance:
    """One server with its place."""

    number: int
    suffix: str
    place: InstancePlace
    server: "Process | None" = None
    target: str = ""
    loads: "list[Path]" = field(default_factory=list)
    """Results of its loads, in the order of the steps."""

    def name(self, role: str) -> str:
        """Return the name of a process of this instance."""
        return f"{role}{self.suffix}"


class RedisBench(Benchmark):
    """Redis."""

    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    # A request costs the load somewhat less than the server, which does nothing else with its one thread.
    load_ratio = 0.5
    cpus_per_instance = CPUS_PER_INSTANCE

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the machine and the tier."""
        known = {"profile": "tuned", "depth": 1, **chosen, "instances": len(placement.instances)}
        held_s = longest_step_s(known, available_memory_bytes(machine)) / (1 + WARMUP_RATIO)
        measure_s = float(chosen.get("measure", min(_MEASURE_S[tier], max(1.0, len(COMMANDS) * held_s))))
        return {
            "instances": len(placement.instances),
            "measure": measure_s,
            "warmup": measure_s / len(COMMANDS) * WARMUP_RATIO,
        }

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise EnvironmentLacksError where Redis is not installed, UsageError for what is no host."""
        hosts = LoadHosts.of(settings)
        hosts.check()
        if int(settings["connections"]) < len(hosts.hosts):
            raise UsageError(
                f"connections={settings['connections']} is below {len(hosts.hosts)} hosts: each needs one"
            )
        if DECLARATION.recipe is not None:
            require(DECLARATION.recipe, DECLARATION.name)

    @classmethod
    def footprint(cls, settings: Mapping[str, Setting], *, placement: Placement) -> Footprint:
        """Return what a run takes: five steps with a warm-up each, what the longest of them stores."""
        time_s = float(settings["measure"]) + len(COMMANDS) * float(settings["warmup"])
        memory_bytes = needed_bytes(settings, time_s / len(COMMANDS))
        # A snapshot is smaller than the data in memory.
        snapshots = Disk(memory_bytes // 2, smaller="--set measure=..., or --set profile=tuned")
        disks = (snapshots,) if settings["profile"] == "stock" else ()
        return Footprint(time_s, time_s, memory_bytes=memory_bytes, disks=disks)

    def install(self) -> None:
        """See that executables, mixes and the configuration are there."""
        executable("steelyard-load")
        for path in (self.configuration, *(mix(command) for command in COMMANDS)):
            if not path.is_file():
                raise EnvironmentLacksError(f"{path} is not there", hint="install Steelyard again")
        places = self.session.placement.instances
        self._instances = [
            Instance(place.number, "" if len(places) == 1 else f"-{place.number}", place) for place in places
        ]
        self._steps: list[Step] = []

    @property
    def configuration(self) -> Path:
        """Return the configuration of the profile."""
        return workloads_dir() / "redis" / f"{self.settings.text('profile')}.conf"

    def start(self) -> None:
        """Start the servers and wait until each answers."""
        hosts = LoadHosts.of(self.settings)
        address = hosts.address
        # Redis protects servers without a password by refusing every other host.
        protected = "no" if hosts.hosts else "yes"
        shared = hosts.shared(self.session, *(mix(command) for command in COMMANDS))
        self._mixes = dict(zip(COMMANDS, shared, strict=True))
        for instance in self._instances:
            folder = self.session.directory / instance.name("redis")
            folder.mkdir()
            data = scratch_folder(self.session, "", instance.name("data"))
            port = free_port(address)
            check_port(port, address)
            configuration = folder / "redis.conf"
            own = f"bind {address}\nport {port}\ndir {data}\n"
            own += f"daemonize no\nprotected-mode {protected}\n"
            configuration.write_text(self.configuration.read_text() + own)
            instance.target = f"{address}:{port}"
            instance.server = self.session.start_process(
                instance.name("server"),
                [program("redis-server", DECLARATION.name), str(configuration)],
                cpus=instance.place.server,
                memory_nodes=instance.place.memory_nodes,
            )
        for instance in self._instances:
            wait_for_port(self.session, self._server(instance), instance.target, READY_TIMEOUT_S)

    @staticmethod
    def _server(instance: Instance) -> "Process":
        if instance.server is None:
            raise AssertionError("started before")
        return instance.server

    def measure(self) -> int:
        """Run the steps; return when the last one ended."""
        from steelyard.benchmarks.redis.steps import run_step

        servers = [self._server(instance) for instance in self._instances]
        for command in COMMANDS:
            if self._steps:
                self._each("FLUSHALL", "SYNC")
            pushed = self._steps[0].completed if self._steps else 0
            step = run_step(
                self.session, self._instances, servers, command, self._mixes[command], pushed=pushed
            )
            self._steps.append(step)
        self._peak_bytes = sum(peak_bytes(instance.target) for instance in self._instances)
        return self._steps[-1].end_ns

    def _each(self, *command: str) -> None:
        """Have every server do a command."""
        for instance in self._instances:
            ask(instance.target, *command)

    def drain(self) -> None:
        """Stop the servers; their data goes with the run."""
        # Else a server with snapshots writes one more before it ends.
        self._each("CONFIG", "SET", "save", "")
        for instance in self._instances:
            self.session.stop_process(self._server(instance))

    def collect(self) -> Outcome:
        """Return metrics of the steps."""
        from steelyard.benchmarks.redis.metrics import outcome

        if not self._steps:
            raise WorkloadFailedError("there was no measure phase")
        return outcome(self.session, self._steps, self._peak_bytes)


def mix(command: str) -> Path:
    """Return the mix of a command."""
    return data_dir() / "redis" / f"{command}.toml"
