"""Cassandra under YCSB's core workloads, after the Characterization paper.

In: settings that follow from the machine, the tier and the profile. Out: requests per second by operation,
what the disk and the garbage collector did.

One node stores the records; the load then does the operations of one workload in a closed loop, and is
measured once its throughput has settled.

Not here: the node (``node``), profiles (``profile``), the operations (``data/mixes``), metrics (``metrics``).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from steelyard._base import EnvironmentLacksError, WorkloadFailedError, data_dir, executable
from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.footprint import Disk, Footprint, load_span_s
from steelyard.bench.limits.memory import available_memory_bytes
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.load.settings import check_load
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.bench.ports import check_port
from steelyard.bench.scratch import check_parent, scratch_folder
from steelyard.bench.stack.recipe import require
from steelyard.benchmarks.cassandra.declaration import DECLARATION
from steelyard.benchmarks.cassandra.parameters import PARAMETERS
from steelyard.benchmarks.cassandra.place import AUTO, RECORD_BYTES, place_of
from steelyard.benchmarks.cassandra.stack.node import (
    check_disk,
    find_java,
    open_files,
    start_node,
    stop_node,
    wait_until_ready,
)
from steelyard.benchmarks.cassandra.stack.profile import load_profile
from steelyard.benchmarks.cassandra.stack.recipe import RECIPE

if TYPE_CHECKING:
    from steelyard.analyze.verdict import WarmUp
    from steelyard.bench.load.watch import LoadWatch
    from steelyard.bench.stack.processor import CpuTime
    from steelyard.benchmarks.cassandra.stack.node import Node
    from steelyard.benchmarks.cassandra.stack.profile import ProfileSetting
    from steelyard.records import Machine

RECORDS_PER_S_AT_LEAST = 50
"""Slowest prefill that is waited for."""
DRAIN_TIMEOUT_S = 60.0
SETTLED_TOLERANCE_RATIO = 0.05
"""Merging of tables makes throughput of a second differ by several percent for ever."""


@dataclass(frozen=True, slots=True)
class _Lengths:
    """What a tier means here."""

    records: int | None
    heap_bytes: int | None
    warmup_min_s: float
    warmup_max_s: float
    measure_s: float


_TIERS = {
    "smoke": _Lengths(10_000, 1 << 30, 2.0, 10.0, 8.0),
    "quick": _Lengths(100_000, 2 << 30, 10.0, 45.0, 45.0),
    "standard": _Lengths(2_000_000, None, 60.0, 300.0, 480.0),
    # Records of twice the memory, so that most reads need the disk.
    "full": _Lengths(None, None, 300.0, 1800.0, 1800.0),
}


class CassandraBench(Benchmark):
    """Cassandra."""

    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    # A scan of 50 records costs the load a tenth of what it costs the node.
    load_ratio = 0.1

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the machine, the tier and the profile."""
        lengths = _TIERS[tier]
        profile = load_profile(str(chosen.get("profile", "tuned")))
        memory = available_memory_bytes(machine)
        hosts = LoadHosts.of(chosen).hosts
        # Of other hosts nothing is known: each gets the share of threads that the load would have had here.
        beside = len(placement.load) or math.ceil(cls.load_ratio * len(placement.server))
        threads = int(chosen.get("load_threads", max(1, beside)))
        return {
            "records": lengths.records or 2 * memory // RECORD_BYTES,
            "heap": profile.heap_bytes(memory, lengths.heap_bytes),
            "memtable": profile.memtable_bytes(memory, lengths.heap_bytes),
            "load_threads": threads,
            "connections": max(threads * max(1, len(hosts)), int(profile.load_setting("connections"))),
            "warmup_min": lengths.warmup_min_s,
            "warmup_max": lengths.warmup_max_s,
            "measure": lengths.measure_s,
        }

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise UsageError or EnvironmentLacksError when ``settings`` cannot work on ``machine``."""
        check_load(settings)
        find_java(DECLARATION.name)
        require(RECIPE, DECLARATION.name)
        asked = _memory_bytes(settings)
        there = available_memory_bytes(machine)
        if asked > there:
            raise EnvironmentLacksError(
                f"heap and memtable ask for {asked >> 20} MiB, and there are {there >> 20} MiB",
                hint="--set heap=..., --set memtable=...",
            )
        for name in ("data", "commit_log"):
            if str(settings[name]) != AUTO:
                check_parent(str(settings[name]), name)
        check_port(int(settings["port"]), LoadHosts.of(settings).address)
        if settings["data"]:
            hint = "--set records=..., or another folder as data"
            check_disk(Path(str(settings["data"])), place_of(settings).data_bytes, hint)

    @classmethod
    def footprint(cls, settings: Mapping[str, Setting], *, placement: Placement) -> Footprint:
        """Return what a run takes: heap, memtables, records and their commit log."""
        least_s, most_s = load_span_s(settings)
        place = place_of(settings)
        return Footprint(
            least_s,
            most_s,
            f"writing {settings['records']} records",
            memory_bytes=_memory_bytes(settings),
            disks=(
                Disk(place.data_bytes, place.data, "--set records=..., or --set data=... on another disk"),
                Disk(
                    place.commit_log_bytes,
                    place.commit_log or place.data,
                    "--set records=..., or --set commit_log=... on another disk",
                ),
            ),
            advice=place.advice,
        )

    def install(self) -> None:
        """See that the executables and the mix are there, and room for the records."""
        executable("steelyard-load")
        if not self.mix.is_file():
            raise EnvironmentLacksError(f"{self.mix} is not there", hint="install Steelyard again")
        self._java = find_java(DECLARATION.name)
        self._node: Node | None = None
        self._load: LoadWatch | None = None
        self._warmup: WarmUp | None = None
        self._span: tuple[int, int] | None = None
        self._used: CpuTime | None = None
        self._stop_s: float | None = None
        self._place = place = place_of(self.settings, self.session.directory)
        parent = place.data or self.session.directory
        hint = "--set records=..., or --set data=FOLDER"
        check_disk(parent, place.data_bytes + (0 if place.commit_log else place.commit_log_bytes), hint)
        self._data = scratch_folder(self.session, self.settings.text("data"), "data")
        self._commit_log = None
        if place.commit_log is not None:
            check_disk(place.commit_log, place.commit_log_bytes, "--set commit_log=FOLDER")
            self._commit_log = scratch_folder(self.session, str(place.commit_log), "commit-log")

    @property
    def mix(self) -> Path:
        """Return the operations of the workload."""
        return data_dir() / "mixes" / f"ycsb-{self.settings.text('workload')}.toml"

    def _profile_settings(self) -> "list[ProfileSetting]":
        profile = load_profile(self.settings.text("profile"))
        return profile.resolved(self.settings.count("heap"), self.settings.count("memtable"))

    def start(self) -> None:
        """Start the node and wait until it answers."""
        begin_ns = self.session.clock.monotonic_ns()
        self._node = start_node(
            self.session,
            self.session.placement.server,
            name="server",
            java=self._java,
            heap_bytes=self.settings.count("heap"),
            settings=self._profile_settings(),
            data=self._data,
            commit_log=self._commit_log,
            port=self.settings.count("port"),
            address=LoadHosts.of(self.settings).address,
        )
        wait_until_ready(self.session, self._node, begin_ns)

    def warm_up(self) -> None:
        """Store the records, then wait until throughput has settled or the time for it is over."""
        from steelyard.bench.load.settled import wait_until_settled
        from steelyard.benchmarks.cassandra.load import fill, start_load

        self._load = start_load(self.session, self._started().target, self.mix)
        patience_s = 120.0 + self.settings.count("records") / RECORDS_PER_S_AT_LEAST
        self._fill_span = fill(self.session, self._load, patience_s)
        self._warmup = wait_until_settled(
            self.session,
            [self._load],
            least_s=self.settings.number("warmup_min"),
            most_s=self.settings.number("warmup_max"),
            tolerance_ratio=SETTLED_TOLERANCE_RATIO,
        )

    def _started(self) -> "Node":
        if self._node is None:
            raise AssertionError("started before")
        return self._node

    def _begun(self) -> "LoadWatch":
        if self._load is None:
            raise AssertionError("begun before")
        return self._load

    def measure(self) -> int:
        """Measure; return when the phase ended."""
        from steelyard.bench.load.watch import measure
        from steelyard.bench.stack.processor import cpu_time

        supervisor = self._started().process.pid
        begun: list[CpuTime] = []

        def mark(begin_ns: int) -> None:
            begun.append(cpu_time([supervisor]))
            self.session.begin_phase("measure", begin_ns)

        self._span = measure(self.session, [self._begun()], self.settings.number("measure"), mark=mark)
        self._used = cpu_time([supervisor]) - begun[0]
        return self._span[1]

    def drain(self) -> None:
        """Let the load finish, then stop the node."""
        self._begun().finish(self.session, DRAIN_TIMEOUT_S)
        self._stop_s = stop_node(self.session, self._started())

    def collect(self) -> Outcome:
        """Return metrics over the measure phase."""
        from steelyard.benchmarks.cassandra.metrics import Facts, outcome

        if self._span is None or self._used is None:
            raise WorkloadFailedError("there was no measure phase")
        facts = Facts(
            span=self._span,
            warmup=self._warmup,
            used=self._used,
            ready_s=self._started().ready_s,
            stop_s=self._stop_s,
            open_files=open_files(self._profile_settings()),
            fill_s=(self._fill_span[1] - self._fill_span[0]) / 1e9,
            place=self._place,
        )
        return outcome(self.session, facts)


def _memory_bytes(settings: Mapping[str, Setting]) -> int:
    """Return the memory that the node asks for."""
    memtable = int(settings["memtable"]) if settings["profile"] == "tuned" else 0
    return int(settings["heap"]) + memtable
