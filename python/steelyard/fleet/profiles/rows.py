"""Selected rows of ``profiles`` made small: numbers for stacks and machines, kept by the engine.

In: selected rows (``profiles.select``). Out: `Numbered`. ``top`` asks a dozen questions of the same rows, and
each would read and compare the texts of all stacks again; numbers take a tenth of the room.

Invariants: numbers follow the order of names, so that what is drawn by lot (``shares.grouped``) is the
same with and without them. Where an engine keeps nothing, the rows are computed at each question.

Not here: what is asked (``top``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import keep

_WHO = ("machine", "platform", "cluster", "job")


@dataclass(frozen=True)
class Numbered:
    """The rows, with numbers as ``machine`` and ``stack``, and ``stacks``: the text of each ``number``, with
    its samples and its fleet weight.
    """

    rows: Any
    stacks: Any


def numbered(rows: Any) -> Numbered:
    """Return ``rows`` in numbers."""
    added = rows.group_by("stack").agg(samples=rows.samples.sum(), fleet=rows.fleet.sum())
    place = ibis.row_number().over(ibis.window(order_by=["stack"]))
    stacks = keep(added.mutate(number=place.cast("int32")))
    who = rows.group_by(*_WHO).agg(rows=rows.count())
    who = keep(
        who.mutate(
            who=ibis.row_number().over(ibis.window(order_by=list(_WHO))).cast("int32"),
            machine_number=ibis.dense_rank().over(ibis.window(order_by=["machine"])).cast("int32"),
        )
    )
    joined = rows.join(stacks.select("stack", "number"), "stack")
    joined = joined.join(who.select(*_WHO, "who", "machine_number"), list(_WHO))
    small = keep(
        joined.select(
            "who",
            "window_start_unix_s",
            "fleet",
            "samples",
            machine=joined.machine_number,
            stack=joined.number,
        )
    )
    return Numbered(small.join(who.select("who", "platform", "cluster", "job"), "who"), stacks)
