"""What ``steelyard run --preflight --json`` prints."""

from typing import ClassVar

from pydantic import Field

from steelyard.records import Record
from steelyard.records.values import Count, Value


class PreflightMember(Value):
    """What one run of a member will take."""

    benchmark: str = Field(description="Which benchmark")
    time_least_s: float | None = Field(description="Time at the least, null where it is not known")
    time_most_s: float | None = Field(description="Time at the most, null where it is not known")
    past_runs: Count = Field(
        description="Runs with the same settings on this machine whose median the time is; 0: by the settings"
    )
    untimed: str = Field(description="What comes on top of the time; empty for little")
    memory_bytes: Count | None = Field(description="Memory, null where the benchmark does not state it")
    disk_bytes: Count | None = Field(description="Disk space, null where the benchmark does not state it")
    stays_bytes: Count = Field(description="Disk space of what is kept for later runs, part of disk_bytes")
    not_installed: list[str] = Field(description="Software that is not here")
    misfit: str | None = Field(description="Why it will not be run, null where it will")
    hint: str | None = Field(description="What to do about that, null for nothing")
    advice: str = Field(description="What this machine has that the settings leave unused; empty for nothing")


class PreflightDocument(Record):
    """What a suite or benchmark will take."""

    KIND: ClassVar[str] = "preflight"

    name: str = Field(description="Suite or benchmark")
    tier: str = Field(description="How long its runs are")
    repeats: Count = Field(description="Runs of each member")
    memory_bytes: Count = Field(description="Memory that this machine, or its cgroup, has")
    memory_is_limited: bool = Field(description="Whether that is a cgroup's limit")
    free_disk_bytes: Count = Field(description="Free disk space for runs")
    folder: str = Field(description="Folder of runs")
    time_least_s: float | None = Field(description="All runs at the least, null where it is not known")
    time_most_s: float | None = Field(description="All runs at the most, null where it is not known")
    disk_most_bytes: Count = Field(description="Disk space that is taken at once at the most")
    stays_bytes: Count = Field(description="Disk space of what all members keep for later runs")
    members: list[PreflightMember] = Field(description="Members in the order in which they run")
