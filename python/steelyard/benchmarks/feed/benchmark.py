"""FeedSim: a feed's ranking service within a latency objective, after DCPerf's benchmark.

In: settings that follow from the machine. Out: the highest rate at which the objective holds, as an interval
with its confidence; the curve behind it; time by stage; what the machine did at that rate.

A root ranks one user's feed: feature extraction over megabytes of code, calls of a leaf, embeddings, a
network, a walk through a graph, composition, compression. Both speak Thrift over TLS. The search comes first;
then fresh load at the lower end of its interval is what the measure phase is about.

Not here: the service (``crates/rank``), the search (``steelyard-load capacity``), metrics (``metrics``).
"""

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from steelyard._base import (
    EnvironmentLacksError,
    UsageError,
    WorkloadFailedError,
    data_dir,
    executable,
    format_cpu_list,
)
from steelyard.bench.arguments import NOWHERE, check_arguments
from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.footprint import Footprint
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import InstancePlace, Placement
from steelyard.benchmarks.feed.parameters import PARAMETERS

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.load.watch import LoadWatch
    from steelyard.benchmarks.feed.load import Capacity
    from steelyard.records import Machine

CPUS_PER_INSTANCE = 100
"""One instance per 100 logical CPUs, as in DCPerf's FeedSim of 2025."""
CONNECTIONS_PER_CPU = 32
READY_TIMEOUT_S = 60.0
DRAIN_TIMEOUT_S = 60.0
SERVICE_SEED = 1
"""Of tables and stories: the work is the same in every run, so that its checksums can be compared."""
SERVER_NAME = "localhost"


@dataclass(frozen=True, slots=True)
class _Lengths:
    """What a tier means here; probes last at least so long, and longer where the queue needs it."""

    probes: int
    search_s: float
    probe_s: float
    probe_warmup_s: float
    measure_s: float
    sweep_points: int
    sweep_s: float


_TIERS = {
    "smoke": _Lengths(5, 6.5, 1.0, 0.3, 2.0, 0, 1.0),
    "quick": _Lengths(13, 52.0, 2.5, 0.5, 10.0, 0, 2.0),
    "standard": _Lengths(25, 280.0, 5.0, 1.0, 60.0, 10, 10.0),
    "full": _Lengths(40, 1700.0, 10.0, 2.0, 300.0, 16, 60.0),
}


@dataclass(slots=True)
class Instance:
    """A root with its leaf and its load."""

    number: int
    suffix: str
    place: InstancePlace
    leaf: "Process | None" = None
    root: "Process | None" = None
    target: str = ""
    code_bytes: int | None = None
    work: dict[str, str] | None = None
    leaf_work: dict[str, str] | None = None
    checksums: dict[int, int] | None = None
    load: "LoadWatch | None" = None

    def name(self, role: str) -> str:
        """Return the name of a process of this instance."""
        return role if self.number == 1 else f"{role}-{self.number}"


class FeedSim(Benchmark):
    """Ranking service."""

    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    # A request costs the load a ten-thousandth of what it costs the servers; one core is ample for a hundred.
    load_ratio = 0.02
    cpus_per_instance = CPUS_PER_INSTANCE

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the machine, the tier and what was asked."""
        lengths = _TIERS[tier]
        cpus = len(placement.server)
        instances = len(placement.instances)
        return {
            "instances": instances,
            "probes": lengths.probes,
            "search": lengths.search_s,
            "probe": lengths.probe_s,
            "probe_warmup": lengths.probe_warmup_s,
            "measure": lengths.measure_s,
            "sweep_points": lengths.sweep_points,
            "sweep": lengths.sweep_s,
            "connections": max(1, CONNECTIONS_PER_CPU * cpus // instances),
            "load_threads": max(1, min(4, len(placement.load) // instances)),
        }

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise UsageError when ``settings`` cannot work."""
        if int(settings["connections"]) < int(settings["load_threads"]):
            raise UsageError(
                f"connections={settings['connections']} is below load_threads={settings['load_threads']}:"
                " every load thread needs one"
            )
        for name in ("root_flags", "leaf_flags"):
            try:
                shlex.split(str(settings[name]))
            except ValueError as error:
                raise UsageError(f"{name}={settings[name]!r}: {error}") from error
        for role in ("leaf", "root"):
            # Without TLS and CPUs, which a run chooses and nobody sets.
            command = service_command(settings, role, ["--no-tls"], NOWHERE)
            check_arguments(command, settings, {"--delay": "leaf_delay"}, flags=f"{role}_flags")
        from steelyard.benchmarks.feed.load import check_loads

        check_loads(settings)

    @classmethod
    def footprint(cls, settings: Mapping[str, Setting], *, placement: Placement) -> Footprint:
        """Return what a run takes: the search, the measure phase and the latency curve."""
        curve_s = int(settings["sweep_points"]) * (float(settings["sweep"]) + float(settings["probe_warmup"]))
        time_s = float(settings["search"]) + float(settings["measure"]) + curve_s
        return Footprint(time_s, time_s)

    def install(self) -> None:
        """See that the executables and the mix are there."""
        for name in ("steelyard-rank", "steelyard-load", "steelyard-exec"):
            executable(name)
        if not (data_dir() / "feed" / "checksums.json").is_file():
            raise EnvironmentLacksError(
                "data/feed/checksums.json is not there", hint="install Steelyard again"
            )
        places = self.session.placement.instances
        self._instances = [
            Instance(place.number, "" if len(places) == 1 else f"-{place.number}", place) for place in places
        ]
        self._capacity: Capacity | None = None
        self._span: tuple[int, int] | None = None
        (self.session.directory / "tls").mkdir(mode=0o700)

    # Start

    def start(self) -> None:
        """Start leaves and roots, wait until each answers, and see that all do the same work."""
        from steelyard.benchmarks.feed.load import wait_until_ready, write_mix
        from steelyard.benchmarks.feed.rank_client import checksums

        for instance in self._instances:
            instance.leaf = self._serve(instance, "leaf")
        for instance in self._instances:
            leaf = self._ready(instance.leaf)
            instance.leaf_work = leaf["work"]
            instance.root = self._serve(instance, "root", str(leaf["listen"]))
        for instance in self._instances:
            ready = wait_until_ready(self.session, self._process(instance.root), READY_TIMEOUT_S)
            instance.target = str(ready["listen"])
            instance.code_bytes, instance.work = ready["feature_code_bytes"], ready["work"]
            instance.checksums = checksums(
                instance.target, self._authority(), SERVER_NAME, timeout_s=READY_TIMEOUT_S
            )
            write_mix(
                self.session.directory / f"mix{instance.suffix}.toml",
                self.settings.text("compression"),
                instance.checksums,
            )

    def _ready(self, process: "Process | None") -> dict[str, Any]:
        from steelyard.benchmarks.feed.load import wait_until_ready

        return wait_until_ready(self.session, self._process(process), READY_TIMEOUT_S)

    @staticmethod
    def _process(process: "Process | None") -> "Process":
        if process is None:
            raise AssertionError("started before")
        return process

    def _authority(self) -> str | None:
        return str(self.session.directory / "tls" / "ca.pem") if self.settings.flag("tls") else None

    def _serve(self, instance: Instance, role: str, leaf: str = "") -> "Process":
        folder = self.session.directory
        tls = ["--tls-dir", str(folder / "tls")] if self.settings.flag("tls") else ["--no-tls"]
        place = [
            *("--cpus", format_cpu_list(instance.place.server)),
            *("--instance", f"{instance.number - 1}/{len(self._instances)}"),
            *("--stats-out", str(folder / f"{role}-stats{instance.suffix}.jsonl")),
            *tls,
        ]
        command = service_command(self.settings, role, place, leaf)
        return self.session.start_process(
            instance.name(role),
            command,
            cpus=instance.place.server,
            memory_nodes=instance.place.memory_nodes,
        )

    # Load

    def warm_up(self) -> None:
        """Search for the rate that meets the objective; every probe has a warm-up of its own."""
        from steelyard.benchmarks.feed import load as feed_load

        self._capacity = feed_load.search(self.session, self._instances, self._authority())
        if self.settings.count("sweep_points"):
            feed_load.sweep(self.session, self._instances, self._authority())
        for instance, rate in zip(self._instances, self._capacity.rates_per_s, strict=True):
            instance.load = feed_load.start_hold(self.session, instance, self._authority(), rate)
        self.session.wait(max(1.0, self.settings.number("probe_warmup")))

    def measure(self) -> int:
        """Measure fresh load at the rate found; return when the phase ended."""
        from steelyard.bench.load.watch import measure

        loads = [instance.load for instance in self._instances if instance.load is not None]
        self._span = measure(self.session, loads, self.settings.number("measure"))
        return self._span[1]

    def drain(self) -> None:
        """Let the load finish, then stop the servers, roots first."""
        for instance in self._instances:
            if instance.load is not None:
                instance.load.finish(self.session, DRAIN_TIMEOUT_S)
        for role in ("root", "leaf"):
            for instance in self._instances:
                self.session.stop_process(self._process(getattr(instance, role)))
        # Keys are of no use to anybody after the run.
        shutil.rmtree(self.session.directory / "tls", ignore_errors=True)

    def collect(self) -> Outcome:
        """Return metrics of the search, and of the measure phase."""
        from steelyard.benchmarks.feed.metrics import outcome

        if self._span is None or self._capacity is None:
            raise WorkloadFailedError("there was no measure phase")
        return outcome(self.session, self._span, self._instances, self._capacity)


def service_command(settings: Mapping[str, Setting], role: str, place: list[str], leaf: str) -> list[str]:
    """Return the command line of a root or a leaf; ``place`` is where it runs, ``leaf`` whom a root calls."""
    own = ["--delay", str(settings["leaf_delay"])] if role == "leaf" else ["--leaf", leaf]
    return [
        *(str(executable("steelyard-rank")), role),
        *("--listen", "127.0.0.1:0"),
        *("--seed", str(SERVICE_SEED)),
        *("--stats-interval", "250ms"),
        *place,
        *(["--pin-threads"] if settings["thread_placement"] == "pinned" else []),
        *own,
        *shlex.split(str(settings[f"{role}_flags"])),
    ]
