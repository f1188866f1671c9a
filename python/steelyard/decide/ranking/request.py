"""What may be asked of ``steelyard score``: it imports nothing heavy, since help is made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from steelyard._base.request import Option
from steelyard.decide.request import TableRequest


@dataclass(frozen=True, kw_only=True)
class ScoreRequest(TableRequest):
    """Scores of machines."""

    baseline: Annotated[
        str | None,
        Option("Machine of the table, or baseline of Steelyard, that scores are over.", metavar="NAME"),
    ] = None
    result: Annotated[
        Sequence[str],
        Option("Result that counts; by default all. Repeatable.", metavar="RESULT"),
    ] = ()
    weight: Annotated[
        Mapping[str, str],
        Option("Weight of a result in the geometric mean; 1 unless given.", metavar="RESULT=NUMBER"),
    ] = field(default_factory=dict)
    noise: Annotated[
        str | None,
        Option("Relative standard deviation of a result, for machines without repeats, such as 2%."),
    ] = None
