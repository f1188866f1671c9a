"""The manifest of one execution."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field, JsonValue

from steelyard.records.io import Record
from steelyard.records.values import Clock, Count, Value, Verdict


class RunStatus(StrEnum):
    """How far a run came."""

    RUNNING = "running"
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"


class Series(Value):
    """Repeats of the same thing: the run is the replicate."""

    id: str = Field(description="Common to all runs of one command")
    index: Count = Field(description="Number of this repeat, from 1")
    count: Count = Field(description="Requested number of repeats")


class Orchestrator(Value):
    """The process that drives a run."""

    pid: Count = Field(description="Process id")
    start_ticks: Count = Field(
        description="Start time in clock ticks since boot (field 22 of /proc/PID/stat): tells a reused id"
    )
    boot_id: str | None = Field(default=None, description="Boot that the process belongs to")
    hostname: str | None = Field(default=None, description="Host that it runs on")


class Parameter(Value):
    """One setting."""

    value: JsonValue = Field(description="Value: a number, a string or a truth value")
    unit: str | None = Field(default=None, description="Unit, null for none")
    source: str = Field(description="Who chose it: `default`, `machine` or `set`")


class CpuInstance(Value):
    """Where one instance runs: lists in the kernel's notation."""

    number: Count = Field(description="From 1")
    server: str = Field(description="CPUs of its servers")
    load: str | None = Field(default=None, description="CPUs of the load on it, null without a load")
    nodes: str | None = Field(
        default=None, description="NUMA nodes of its servers' CPUs, null where the kernel reports none"
    )
    memory_nodes: str | None = Field(
        default=None, description="NUMA nodes that its servers' memory is bound to, null when it is not bound"
    )


class Cpus(Value):
    """CPU lists in the kernel's notation, null where not pinned."""

    server: str | None = Field(default=None, description="Of the servers")
    load: str | None = Field(default=None, description="Of the load")
    instances: list[CpuInstance] = Field(
        default_factory=list, description="Instance by instance; empty where a benchmark has none (from 1.1)"
    )
    notes: list[str] = Field(
        default_factory=list,
        description="Limits that were respected, choices, and why memory is not bound (from 1.1)",
    )


class Phase(Value):
    """A named interval of a run."""

    name: str = Field(description="`install`, `start`, `warmup`, `measure` or `drain`")
    begin_ns: Count = Field(description="Start")
    end_ns: Count | None = Field(default=None, description="End, null while it lasts")


class Process(Value):
    """A process of a run."""

    name: str = Field(description="Role, such as `server`")
    command: list[str] = Field(description="Command line")
    pid: Count = Field(description="Process id")
    exit_code: int | None = Field(
        default=None, description="Exit code, null when it was killed or still runs"
    )
    signal: int | None = Field(default=None, description="Signal that ended it, null when none did")
    log: str | None = Field(default=None, description="Log file, relative to the run's directory")


class Metric(Value):
    """One result."""

    value: float | None = Field(
        default=None, description="Value in base units, null when it could not be measured"
    )
    unit: str = Field(description="Unit, of `data/units.json`")
    better: str | None = Field(default=None, description="`higher`, `lower`, or null when neither is better")
    missing: str | None = Field(default=None, description="Why the value is null")


class Run(Record):
    """The manifest of one execution: ``run.json``."""

    KIND: ClassVar[str] = "run"
    VERSION: ClassVar[str] = "1.3"

    schema_version: str = Field(default=VERSION, pattern=r"^\d+\.\d+$")
    run_id: str = Field(description="Unique name, also of the directory")
    benchmark: str = Field(description="Which benchmark")
    suite: str | None = Field(default=None, description="The suite it ran in, null when it ran alone")
    tier: str = Field(description="`smoke`, `quick`, `standard` or `full`")
    series: Series = Field(description="The repeats it belongs to")
    tags: list[str] = Field(
        default_factory=list, description="Words that it is found by, such as `commit=ab12` (from 1.3)"
    )
    status: RunStatus = Field(description="Status")
    status_reason: str | None = Field(default=None, description="Why it is incomplete, null otherwise")
    steelyard_version: str = Field(description="Version of Steelyard")
    command: list[str] = Field(description="The exact command")
    clock: Clock = Field(description="Both clocks at the start")
    orchestrator: Orchestrator = Field(
        description="The process that drives the run: a `running` run whose process is gone was killed"
    )
    parameters: dict[str, Parameter] = Field(description="Settings by name")
    cpus: Cpus = Field(description="Who runs where")
    phases: list[Phase] = Field(description="Phases in order")
    steps: list[Phase] = Field(
        default_factory=list,
        description="Parts of the measure phase, in order; empty where it is one (from 1.2)",
    )
    processes: list[Process] = Field(description="Processes that were started")
    metrics: dict[str, Metric] = Field(description="Results by name; empty while running")
    verdict: Verdict | None = Field(
        default=None, description="Whether the result may be believed, null while running or incomplete"
    )
    hooks: dict[str, JsonValue] = Field(description="What hooks added, by hook")
    artifacts: dict[str, str] = Field(description="Files of the run by role, relative to its directory")
