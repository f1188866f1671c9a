"""What ``steelyard doctor``, ``machine check``, ``machine diff``, ``health`` and ``numa map`` print."""

from typing import ClassVar

from pydantic import Field, JsonValue

from steelyard.analyze.health.comparison import Alert, Compared
from steelyard.machine.compare import NotComparable
from steelyard.machine.doctor import Capability
from steelyard.records import HealthResult, MemoryAccess, Record, SideCache
from steelyard.records.values import Count, Value

Scalar = float | int | str | bool | None


class ExecutableEntry(Value):
    """One program of the data plane."""

    name: str = Field(description="Its name")
    path: str | None = Field(description="Where it is, null where it is missing")
    hint: str | None = Field(description="How to get it, null where it is there")


class DoctorDocument(Record):
    """What a machine can and cannot measure: `steelyard doctor --json`."""

    KIND: ClassVar[str] = "doctor"

    executables: list[ExecutableEntry] = Field(description="Programs of the data plane")
    capabilities: list[Capability] = Field(
        description="Capabilities of the host, and how to enable missing ones"
    )
    sources: list[dict[str, JsonValue]] | None = Field(
        description="Output of `steelyard-probe sources` for each source, null without the program"
    )


class CheckAnswer(Value):
    """What one rule says of a machine."""

    id: str = Field(description="Stable name of the rule, as for --ignore")
    outcome: str = Field(description="`objects`, `passes` or `untold` (not measured)")
    severity: str = Field(description="How much it matters: `low`, `medium` or `high`")
    claim: str = Field(description="The finding, one sentence")
    evidence: dict[str, JsonValue] = Field(description="The values behind it, by path")
    area: str = Field(description="Subject")
    asks: str = Field(description="The condition that should hold")
    threshold: str = Field(description="The bound, in words")
    source: str = Field(description="Where the bound is from")
    advice: str = Field(description="Advice")


class MachineCheckDocument(Record):
    """Answers of the rules: `steelyard machine check --json`."""

    KIND: ClassVar[str] = "machine_check"

    machine: str = Field(description="The machine, as it was named")
    is_ok: bool = Field(description="Whether no rule objects")
    answers: list[CheckAnswer] = Field(description="Every rule's answer")


class MachineDifference(Value):
    """One value that differs."""

    key: str = Field(description="Stable name of the value")
    noun: str = Field(description="The value in words")
    a: Scalar = Field(description="Value of A")
    b: Scalar = Field(description="Value of B")
    unit: str | None = Field(description="Unit of both, null for none")
    ratio: float | None = Field(description="B over A, null unless both are positive numbers")
    effect: str = Field(description="Likely effect")
    why: str = Field(description="Why it matters")


class MachineDiffDocument(Record):
    """What differs between two machines: `steelyard machine diff --json`."""

    KIND: ClassVar[str] = "machine_diff"

    a: str = Field(description="The one machine, as it was named")
    b: str = Field(description="The other")
    is_same: bool = Field(description="Whether nothing differs that may move a result")
    same: Count = Field(description="Number of values that are the same")
    differences: list[MachineDifference] = Field(description="Differences, the most important first")
    untold: list[NotComparable] = Field(description="Values that at least one of them lacks")


class HealthCheckDocument(Record):
    """A health check beside earlier ones: `steelyard health --json`."""

    KIND: ClassVar[str] = "health_check"

    folder: str = Field(description="Folder of the check")
    report: str = Field(description="Its page")
    against: str = Field(description="Baseline, in words")
    is_ok: bool = Field(description="Whether there is no alert")
    is_quiet: bool = Field(description="Whether the machine was otherwise idle, as far as is known")
    alerts: list[Alert] = Field(description="What to look at")
    notes: list[str] = Field(description="What else a reader should know")
    figures: list[Compared] = Field(description="Every value with its expected value")
    health: HealthResult = Field(description="The record of the measurements")


class NumaMapNode(Value):
    """One NUMA node."""

    id: Count = Field(description="Its number")
    cpus: str = Field(description="Its CPUs as the kernel lists them, empty for memory without CPUs")
    cpu_count: Count = Field(description="Number of its CPUs")
    memory_bytes: Count | None = Field(description="Its memory, null where it is not known")
    access: MemoryAccess | None = Field(description="Properties of its memory by the firmware (HMAT)")
    side_caches: list[SideCache] = Field(description="Caches in front of its memory")
    latency_ns: float | None = Field(description="Load-to-use latency that a health check measured")


class NumaBandwidth(Value):
    """Read bandwidth between two nodes."""

    cpu_node: Count = Field(description="Node of the CPUs")
    memory_node: Count = Field(description="Node of the memory")
    read_bytes_per_s: float = Field(description="Results of a health check")


class NumaMapDocument(Record):
    """The nodes of a machine: `steelyard numa map --json`."""

    KIND: ClassVar[str] = "numa_map"

    machine: str = Field(description="The machine, as it was named")
    nodes: list[NumaMapNode] = Field(description="Nodes in the order of their numbers")
    distances: list[list[float]] | None = Field(
        description="From the CPUs of a node (row) to the memory of a node (column), null with a reason"
    )
    score_min: float | None = Field(description="Lowest locality score that a task can have here")
    score_max: float | None = Field(description="Highest one")
    bandwidth: list[NumaBandwidth] = Field(description="Results of a health check")
    missing: dict[str, str] = Field(description="Why distances, latency or bandwidth are not there")
