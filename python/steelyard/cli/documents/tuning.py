"""What ``steelyard tune list``, ``apply``, ``verify`` and ``restore`` print. ``tune run`` prints a record."""

from typing import ClassVar

from pydantic import Field

from steelyard.records import Record
from steelyard.records.tuning import TuningKnob, TuningLack
from steelyard.records.values import Value


class KnobListDocument(Record):
    """Knobs of a machine."""

    KIND: ClassVar[str] = "knob_list"

    root: str = Field(description="Root of its files")
    knobs: list[TuningKnob] = Field(description="In the order in which they are tried")
    lacking: list[TuningLack] = Field(description="Knobs that are not there")


class Difference(Value):
    """A place where the machine differs from a soft SKU."""

    place: str = Field(description="A file, a register, or a command")
    wanted: str = Field(description="What the soft SKU writes")
    found: str | None = Field(description="What is there, null where it cannot be read")


class SoftSkuStateDocument(Record):
    """Whether a machine has the values of a soft SKU."""

    KIND: ClassVar[str] = "softsku_state"

    softsku: str = Field(description="File of the soft SKU")
    differences: list[Difference] = Field(description="Places that differ")
    programs_own: list[str] = Field(description="Levels of the program or its service, not of the machine")
    other_machine: list[str] = Field(
        default_factory=list, description="By what this is another kind of machine than it was found on"
    )


class RestorationDocument(Record):
    """What was put back."""

    KIND: ClassVar[str] = "restoration"

    undone: list[str] = Field(description="Changes that were undone")
    failed: list[str] = Field(description="Changes that could not be undone, with the reasons")
    in_use: list[str] = Field(description="Changes of living processes, which were left alone")
