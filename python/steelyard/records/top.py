"""One look of ``steelyard top``.

The same shape as ``crates/top/src/json.rs``, its columns as in ``column.rs``.
"""

from typing import ClassVar

from pydantic import Field

from steelyard.records.io import Record
from steelyard.records.values import Count, Value


class TopMachine(Value):
    """The machine over the interval; CPU time in CPUs."""

    cpus: Count = Field(description="Logical CPUs online")
    user_cpus: float | None = Field(default=None, description="CPU time in user mode, CPUs")
    system_cpus: float | None = Field(default=None, description="CPU time in the kernel, CPUs")
    stolen_cpus: float | None = Field(default=None, description="CPU time that the hypervisor withheld, CPUs")
    load_1m: float | None = Field(default=None, description="Load average of a minute")
    memory_bytes: Count | None = Field(default=None, description="Memory")
    memory_available_bytes: Count | None = Field(default=None, description="Memory that could be had")


class TopShare(Value):
    """A share of decoded samples and its 95 % interval."""

    ratio: float = Field(ge=0, le=1, description="Share")
    low_ratio: float = Field(ge=0, le=1, description="Lower end of the interval")
    high_ratio: float = Field(ge=0, le=1, description="Upper end of the interval")


class TopMix(Value):
    """What sampled instructions were."""

    samples: Count = Field(description="Samples of the row")
    decoded_samples: Count = Field(description="Of these, in user mode with an instruction that was decoded")
    kernel_samples: Count = Field(description="Of these, in the kernel")
    unknown_samples: Count = Field(description="Of these, whose code could not be read or decoded")
    shares: dict[str, TopShare] = Field(
        description="Instruction set or kind of instruction -> share; empty without a decoded sample"
    )


class TopRow(Value):
    """A process, a thread or a control group. A null figure has its reason in ``missing``."""

    pid: Count | None = Field(default=None, description="Process id; absent of a control group")
    tid: Count | None = Field(default=None, description="Thread id; of a thread only")
    start_ticks: Count | None = Field(default=None, description="When it began, clock ticks since boot")
    name: str = Field(description="Name of the process or thread, or path of the control group")
    command: str | None = Field(default=None, description="Command line, null where there is none")
    user: str | None = Field(default=None, description="Name of its user, null where it has no name")
    uid: Count | None = Field(default=None, description="Effective user id")
    cgroup: str | None = Field(default=None, description="Its control group")
    state: str | None = Field(default=None, description="State, as in /proc/PID/stat")
    is_kernel_thread: bool = Field(description="Whether it is a thread of the kernel")
    used_cpus: float | None = Field(default=None, description="CPU time, CPUs")
    user_cpus: float | None = Field(default=None, description="CPU time in user mode, CPUs")
    system_cpus: float | None = Field(default=None, description="CPU time in the kernel, CPUs")
    wait_ratio: float | None = Field(
        default=None, description="Of the time it wanted a CPU, the share that it waited for one"
    )
    instructions_per_cycle: float | None = Field(default=None, description="Instructions per cycle")
    minor_faults_per_s: float | None = Field(default=None, description="Page faults without a disk")
    major_faults_per_s: float | None = Field(default=None, description="Page faults that read a disk")
    read_bytes_per_s: float | None = Field(default=None, description="Read from storage")
    written_bytes_per_s: float | None = Field(default=None, description="Written to storage")
    rss_bytes: float | None = Field(
        default=None, description="Resident memory; of a control group, memory charged to it"
    )
    threads: float | None = Field(default=None, description="Threads")
    numa_score: float | None = Field(
        default=None, description="NUMA score: how near its memory is to where it ran, 1 when all is local"
    )
    voluntary_switches_per_s: float | None = Field(
        default=None, description="Context switches because it waited"
    )
    involuntary_switches_per_s: float | None = Field(
        default=None, description="Context switches because another had its turn"
    )
    vector_ratio: float | None = Field(
        default=None, description="Share of sampled user instructions that are vector instructions"
    )
    mix: TopMix | None = Field(default=None, description="What sampled instructions were")
    missing: dict[str, str] = Field(description="Why figures are null, by their names")


class Top(Record):
    """What ran in one interval."""

    KIND: ClassVar[str] = "top"

    time_ns: Count = Field(description="When the interval ended, CLOCK_MONOTONIC")
    interval_s: float = Field(gt=0, description="Length of the interval, seconds")
    by: str = Field(description="Kind of a row: `process`, `thread` or `cgroup`")
    sort: str = Field(description="What rows are sorted by")
    machine: TopMachine = Field(description="The machine over the interval")
    processes: Count = Field(description="Processes on the machine")
    threads: Count = Field(description="Threads on the machine")
    own_cpus: float | None = Field(default=None, description="CPU time of this program itself, CPUs")
    mix_event: str | None = Field(default=None, description="Event by which instructions were sampled")
    notes: list[str] = Field(description="Missing values and reasons, in words")
    rows: list[TopRow] = Field(description="Rows, in order")
