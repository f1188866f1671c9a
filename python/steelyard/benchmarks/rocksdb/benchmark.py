"""RocksDB's own benchmark, db_bench: a database is filled in order, then read with one thread and with all.

In: settings that follow from the machine. Out: operations per second of each step, latency, and how reads
scale with threads.

db_bench is server and load in one, and has every CPU. The steps are parts of the measure phase.

Not here: its flags (``workloads/rocksdb``), what it prints (``output``).
"""

import shutil
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from steelyard._base import EnvironmentLacksError, WorkloadFailedError
from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.footprint import Disk, Footprint
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.bench.scratch import check_parent, scratch_folder
from steelyard.bench.stack.recipe import program, require
from steelyard.benchmarks.rocksdb.declaration import DECLARATION
from steelyard.benchmarks.rocksdb.flags import arguments

if TYPE_CHECKING:
    from steelyard.bench.stack.processor import CpuTime
    from steelyard.benchmarks.rocksdb.output import Result
    from steelyard.records import Check, Machine, Metric

KEY_BYTES = 16
ITEM_OVERHEAD_BYTES = 20
"""Index, checksum and log of a key, about: for the estimate of disk space only."""
DISK_SPARE_RATIO = 3.0
"""Times the data: the log, and files that compaction writes before it removes others."""
LATE_S = 120.0
_DAY_S = 86_400.0
_KEYS = {"smoke": 200_000, "quick": 2_000_000, "standard": 20_000_000, "full": 100_000_000}
_STEP_S = {"smoke": 1.5, "quick": 12.0, "standard": 60.0, "full": 300.0}

PARAMETERS = (
    Parameter("keys", "count", "number of keys", derived="per tier", minimum=1000, maximum=10**10),
    Parameter("value_size", "bytes", "size of a value", default=100, minimum=1, maximum=1 << 20),
    Parameter(
        "threads", "count", "threads of the steps with all", derived="one per CPU", minimum=1, maximum=4096
    ),
    Parameter(
        "step", "seconds", "length of each step that reads", derived="per tier", minimum=1.0, maximum=_DAY_S
    ),
    Parameter("directory", "text", "folder of the database; empty for the run's own", default=""),
    Parameter("seed", "count", "seed of keys", derived="random", minimum=0, maximum=2**53),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One invocation of db_bench."""

    name: str
    threads: int
    result: "Result"
    rates: list[float]
    """Operations per second, each second."""
    cpu: "CpuTime"
    wall_s: float


class RocksDbBench(Benchmark):
    """RocksDB."""

    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the machine and the tier."""
        return {"keys": _KEYS[tier], "threads": len(placement.server), "step": _STEP_S[tier]}

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise EnvironmentLacksError where db_bench is missing or the disk is too small."""
        if DECLARATION.recipe is not None:
            require(DECLARATION.recipe, DECLARATION.name)
        check_parent(str(settings["directory"]), "directory")
        folder = Path(str(settings["directory"]) or ".")
        needed = needed_bytes(settings)
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise EnvironmentLacksError(
                f"keys={settings['keys']} need about {needed >> 20} MiB of disk space, and {folder.resolve()}"
                f" has {free >> 20} MiB",
                hint="choose fewer with --set keys=..., or another disk with --set directory=...",
            )

    @classmethod
    def footprint(cls, settings: Mapping[str, Setting], *, placement: Placement) -> Footprint:
        """Return what a run takes: four steps that read, and the database."""
        time_s = 4 * float(settings["step"])
        folder = Path(str(settings["directory"])) if settings["directory"] else None
        disk = Disk(needed_bytes(settings), folder, "--set keys=..., or --set directory=... on another disk")
        return Footprint(time_s, time_s, f"writing {settings['keys']} keys", disks=(disk,))

    def install(self) -> None:
        """Make the folder of the database, which goes with the run, however that ends."""
        self._database = scratch_folder(self.session, self.settings.text("directory"), "database")
        self._steps: list[Step] = []

    def measure(self) -> int:
        """Fill, then read with one thread and with all; return when the last step ended."""
        every = self.settings.count("threads")
        steps = [("fillseq", "fillseq", 1)]
        for name in ("readrandom", "readwhilewriting"):
            steps += [(f"{name}_one", name, 1), (f"{name}_all", name, every)]
        for step, name, threads in steps:
            self._run(step, name, threads)
        return self.session.manifest.run.steps[-1].end_ns or self.session.clock.monotonic_ns()

    def _run(self, step: str, name: str, threads: int) -> None:
        from steelyard.bench.stack.processor import cpu_time
        from steelyard.benchmarks.rocksdb.output import parse, rates

        session, settings = self.session, self.settings
        report = session.directory / f"rates-{step}.csv"
        values = {
            "database": self._database,
            "keys": settings.count("keys"),
            "key_bytes": KEY_BYTES,
            "value_bytes": settings.count("value_size"),
            "threads": threads,
            "seed": settings.count("seed") % 2**31 or 1,
            "report": report,
            "seconds": max(1, round(settings.number("step"))),
        }
        flags = arguments(values, reads=name != "fillseq")
        command = [program("db_bench", DECLARATION.name), f"--benchmarks={name}", *flags]
        begin_ns = session.clock.monotonic_ns()
        if session.manifest.phase != "measure":
            session.begin_phase("measure", begin_ns)
        session.progress.status({"step": step, "threads": str(threads)})
        process = session.start_process(step, command, cpus=session.placement.server)
        used = cpu_time([process.pid])
        lines: list[str] = []
        session.expect_end(process)
        deadline_ns = begin_ns + int((settings.number("step") + LATE_S + self._fill_s(name)) * 1e9)
        while process.poll() is None:
            session.wait(0.05)
            used = max(used, cpu_time([process.pid]), key=lambda time: time.total_s)
            lines += [line for _, line in process.lines()]
            if session.clock.monotonic_ns() > deadline_ns:
                raise WorkloadFailedError(f"{step} took too long", hint="choose fewer --set keys=...")
        end_ns = session.clock.monotonic_ns()
        session.join(process, 1.0, what=step)
        lines += [line for _, line in process.lines()]
        session.manifest.put_step(step, begin_ns, end_ns)
        result = parse("\n".join(lines), name)
        self._steps.append(Step(step, threads, result, rates(report), used, (end_ns - begin_ns) / 1e9))

    def _fill_s(self, name: str) -> float:
        """Return how long filling may take: 5,000 keys a second are those of a very slow disk."""
        return self.settings.count("keys") / 5000 if name == "fillseq" else 0.0

    def collect(self) -> Outcome:
        """Return metrics of the steps."""
        from steelyard.records import Metric
        from steelyard.stats import steady

        by_name = {step.name: step for step in self._steps}
        metrics: dict[str, Metric] = {}
        for step in self._steps:
            metrics |= _of_step(step)
        one, every = by_name["readrandom_one"], by_name["readrandom_all"]
        cpus = len(self.session.placement.server)
        wall_s = sum(step.wall_s for step in self._steps)
        used_s = sum(step.cpu.total_s for step in self._steps)
        metrics["readrandom_scaling_ratio"] = Metric(
            value=every.result.per_s / one.result.per_s / every.threads, unit="ratio", better="higher"
        )
        metrics["server_cpu_ratio"] = Metric(value=used_s / wall_s / cpus, unit="ratio")
        artifacts = {f"rates_{step.name}": f"rates-{step.name}.csv" for step in self._steps}
        return Outcome(
            metrics=metrics,
            loads=None,
            measure=steady.check(_levels(self._steps)),
            own_cpu_s=used_s,
            checks=[_found(self._steps), _build(self._steps[0])],
            artifacts={
                name: path for name, path in artifacts.items() if (self.session.directory / path).exists()
            },
            own_commands=("db_bench",),
        )


def needed_bytes(settings: Mapping[str, Setting]) -> int:
    """Return the disk space of a database, about, with what compaction needs beside it."""
    item = int(settings["value_size"]) + KEY_BYTES + ITEM_OVERHEAD_BYTES
    return int(DISK_SPARE_RATIO * int(settings["keys"]) * item)


def _of_step(step: Step) -> "dict[str, Metric]":
    from steelyard.records import Metric

    missing = "db_bench printed no percentiles"

    def latency(value_ns: float | None) -> "Metric":
        return Metric(
            value=value_ns, unit="ns", better="lower", missing=missing if value_ns is None else None
        )

    return {
        f"{step.name}_per_s": Metric(value=step.result.per_s, unit="1/s", better="higher"),
        f"{step.name}_p50_ns": latency(step.result.p50_ns),
        f"{step.name}_p99_ns": latency(step.result.p99_ns),
        f"{step.name}_cpu_per_operation_ns": Metric(
            value=step.cpu.total_s * 1e9 / step.result.operations, unit="ns", better="lower"
        ),
    }


def _levels(steps: "list[Step]") -> list[float]:
    """Return throughput of each second over its step's median: the steps' own levels differ."""
    levels: list[float] = []
    for step in steps:
        median = statistics.median(step.rates) if step.rates else 0.0
        levels += [rate / median for rate in step.rates] if median else []
    return levels


def _found(steps: "list[Step]") -> "Check":
    """Return whether lookups found their keys: those of a filled database all exist."""
    from steelyard.analyze import checks

    ratios = [step.result.found_ratio for step in steps if step.result.found_ratio is not None]
    lost = 1 - min(ratios, default=0.0)
    claim = f"{1 - lost:.2%} of the keys looked up were found" if ratios else "no key was looked up"
    return checks.measured("keys-found", lost, claim)


def _build(step: Step) -> "Check":
    from steelyard.analyze import checks
    from steelyard.records import Level

    result = step.result
    claim = f"db_bench {result.version or 'of unknown version'}"
    if result.has_assertions:
        claim += " was built with assertions: compare with runs of the same build only"
    return checks.stated("build", Level.VALID, claim)
