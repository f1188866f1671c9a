"""What a query of a fleet's store answers, with where it is from: the result that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from steelyard._base.documents import INLINE, OPTIONAL
from steelyard.fleet.store.listing import Problem

T = TypeVar("T")


@dataclass(frozen=True)
class FleetAnswer(Generic[T]):
    """A result of a store."""

    store: str
    """Where the store is."""
    engine: str
    """The query engine."""
    result: T = field(metadata=INLINE)
    problems: Sequence[Problem]
    """Files of the tables that were read and put aside."""
    report: Path | None = field(default=None, metadata=OPTIONAL)
    """The page, where one was requested."""
