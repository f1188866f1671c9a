"""Which performance events to count on a machine. The same shape as ``crates/record/src/counter_plan.rs``."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from steelyard.records.io import Record
from steelyard.records.values import Value

Term = Annotated[int, Field(ge=0, le=2**64 - 1)]
"""What one term of an event is set to: at most the 64 bits of the kernel's words."""


class Modes(StrEnum):
    """In which modes of the CPU an event is counted."""

    ALL = ""
    USER = "u"
    KERNEL = "k"


class PlannedEvent(Value):
    """One event to be counted."""

    name: str = Field(description="Name in the table that counts go to")
    pmu: str = Field(
        description="A folder of `/sys/bus/event_source/devices`; the beginning of the names of several"
        " alike, such as `uncore_imc`; or one of the kernel's own types: `hardware`, `hw-cache`, `software`,"
        " `tracepoint`"
    )
    terms: dict[str, Term] = Field(
        description="Values by term. The folder's `format` says which bits each goes to; `config`, `config1`"
        " and `config2` are whole words, and the kernel's own types know only `config`. Without any, the"
        " event is the one that the folder's `events` has under `name`"
    )
    modifiers: Modes = Field(default=Modes.ALL, description="In which modes it is counted: all, u or k")
    fixed: bool = Field(
        default=False, description="Whether it has a counter of its own, so that it takes no general one"
    )
    group: str | None = Field(
        default=None,
        description="Events of one group are counted at the same time, as far as they fit the counters that"
        " are free; null leaves it to the probe",
    )


class CounterPlan(Record):
    """Which performance events to count on a machine: ``counter-plan.json``."""

    KIND: ClassVar[str] = "counter_plan"

    cpu: str = Field(
        description="Id of the CPU's definition, such as `intel-icelake-server`, or `generic` or `software`"
    )
    events: list[PlannedEvent] = Field(description="The events, each name once for a PMU and its modifiers")
