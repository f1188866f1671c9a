"""What a recording holds and how it ended. The same shape as ``crates/record/src/telemetry.rs``."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from steelyard.records.io import Record
from steelyard.records.values import Clock, Count, Value

SCHEMA_VERSION = "1.1"
"""1.1 added a source's ``missing_items`` and ``notes``."""


class ColumnKind(StrEnum):
    """How a column's values are to be read."""

    TIME = "time"
    LABEL = "label"
    COUNTER = "counter"
    GAUGE = "gauge"


class Column(Value):
    """One column of a source's table."""

    name: str = Field(description="Name, with its unit where it has one")
    kind: ColumnKind = Field(description="Meaning of the values")
    unit: str | None = Field(default=None, description="Unit, of `data/units.json`; null for a label")
    missing: str | None = Field(
        default=None, description="Why the column is all null on this machine, null when it is not"
    )


class Source(Value):
    """One file of a recording."""

    name: str = Field(description="Name, such as `cpu`")
    available: bool = Field(description="Whether this machine has it")
    reason: str | None = Field(default=None, description="Reason, or a later error")
    file: str | None = Field(
        default=None, description="File name inside the recording, null when there is none"
    )
    rows: Count = Field(description="Rows written")
    failed_reads: Count = Field(description="Reads that failed after the source was opened")
    read_ns_mean: float | None = Field(
        default=None, description="Mean time of one read, null when there was none"
    )
    columns: list[Column] = Field(description="The table's columns")
    missing_items: dict[str, str] = Field(
        default={},
        description="Requested items without rows, or without some, such as an event that the CPU"
        " lacks: the reason by name. Absent before 1.1",
    )
    notes: list[str] = Field(
        default=[],
        description="Notes for readers of the rows, one sentence each, such as that a group of events"
        " had to be split. Absent before 1.1",
    )


class SelfCost(Value):
    """What the recorder itself used."""

    cpu_user_s: float = Field(description="User CPU time, s")
    cpu_system_s: float = Field(description="System CPU time, s")
    cpu_per_tick_ns: float = Field(description="CPU time per tick, ns")
    rss_max_bytes: Count | None = Field(
        default=None, description="Largest resident set, null when it could not be read"
    )


class Telemetry(Record):
    """What a recording holds and how it ended: ``telemetry.json``."""

    KIND: ClassVar[str] = "telemetry"

    schema_version: str = Field(default=SCHEMA_VERSION, pattern=r"^\d+\.\d+$")
    tool_version: str = Field(description="Version of the recorder")
    command: list[str] = Field(description="The command line of the recorder")
    root: str = Field(description="Root of the /proc and /sys trees that were read")
    clock: Clock = Field(description="Both clocks at the start")
    interval_ns: Count = Field(description="Requested time between ticks; 0 means back to back")
    begin_ns: Count = Field(description="First tick")
    end_ns: Count | None = Field(default=None, description="Last tick, null while recording")
    ticks: Count = Field(description="Ticks taken")
    missed_ticks: Count = Field(
        description="Ticks that were due but not taken because the one before had not ended"
    )
    sources: list[Source] = Field(description="One row a source, those that this machine lacks included")
    cost: SelfCost | None = Field(default=None, description="What recording cost, null while recording")
    complete: bool = Field(description="Whether every file was finished")
    end_reason: str | None = Field(
        default=None,
        description="`count`, `duration`, `signal`, `command`, `error: ...`; null while recording",
    )
    command_exit: int | None = Field(
        default=None, description="How the recorded command ended, when there was one"
    )
