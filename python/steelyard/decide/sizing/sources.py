"""What sizes are made from: curves, sweeps and a table; and whether they say what a machine does.

In: what was read, and a `SizeRequest`. Out: the table's throughput and latency. Raises UsageError where
nothing says what is asked.

Not here: sizes (``making``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard._base import UsageError
from steelyard.decide.sizing.curves import LoadSweep, MemorySweep, SizeCurve
from steelyard.decide.sizing.request import SizeRequest
from steelyard.decide.tables.model import MachineTable, MeasuredMachine, ResultColumn


@dataclass(frozen=True)
class Measured:
    """What was read of machines beside the table."""

    curves: Sequence[SizeCurve] = ()
    loads: Sequence[LoadSweep] = ()
    memories: Sequence[MemorySweep] = ()


def throughput_column(
    table: MachineTable | None, request: SizeRequest, measured: Measured
) -> ResultColumn | None:
    """Return the table's result that is the throughput, None where the table is of machine types only."""
    if table is None:
        if request.workload is not None:
            raise UsageError(
                f"--workload {request.workload}: no table has it", hint="give a CSV file or runs"
            )
        return None
    rates = [column for column in table.results if column.unit == "1/s"]
    names = ", ".join(column.name for column in rates[:6]) or "none is per second"
    if request.workload is not None:
        column = table.column(request.workload)
        if column.better == "lower" or column.unit == "s":
            raise UsageError(
                f"--workload {column.name}: less of it is better, it is no throughput", hint="name a rate"
            )
        if not column.unit.endswith("/s"):
            unit = f"is in {column.unit}" if column.unit not in ("", "1") else "has no unit"
            raise UsageError(
                f"--workload {column.name}: it {unit}, and is no rate",
                hint=f"--columns FILE.toml with unit = '1/s' says that it is a rate; rates: {names}",
            )
        return column
    if measured.curves or measured.loads:
        return None
    if not table.results:
        lost = [
            f": {name} of {one.name}: {why}" for one in table.machines for name, why in one.missing.items()
        ]
        raise UsageError(
            f"no machine has a result{lost[0] if lost else ''}",
            hint="give valid runs, or a table with numbers, or --curve",
        )
    if len(rates) != 1:
        raise UsageError(
            f"{len(rates)} results of the table may be the throughput", hint=f"--workload NAME: {names}"
        )
    return rates[0]


def check_sources(
    measured: Measured, column: ResultColumn | None, machines: Mapping[str, MeasuredMachine]
) -> None:
    """Raise UsageError where nothing says what a machine does, or nothing of the table's machines."""
    if not measured.curves and not measured.loads and column is None:
        raise UsageError(
            "nothing says what a machine does", hint="give --curve, or a table with --workload NAME"
        )
    if not machines:
        return
    named = named_in(measured) - {""}
    if named and not named & set(machines):
        raise UsageError(
            f"no machine of the table has a curve: {', '.join(sorted(named)[:3])}",
            hint=f"name it as in the table: {', '.join(list(machines)[:3])}",
        )


def check_latency(measured: Measured, table: MachineTable | None, latency: str | None) -> None:
    """Raise UsageError for a limit of a latency that nothing has."""
    if latency is None or measured.curves or measured.loads or table is None:
        return
    if not latency_columns(table, latency):
        raise UsageError(
            f"--latency-limit: the table has no {latency} latency",
            hint=f"call its column latency_{latency}_ms, or choose another with --latency",
        )


def latency_columns(table: MachineTable, latency: str) -> list[str]:
    """Return results that are this latency: ``latency_p99_ms``, ``Latency p99 (ms)`` or ``p99_ms``."""
    return [
        each.name
        for each in table.results
        if each.unit == "s"
        and (words := re.split(r"[^a-z0-9]+", each.name.lower()))
        and latency in words
        and (latency != "mean" or "latency" in words)
    ]


def named_in(measured: Measured) -> set[str]:
    """Return the machines that have a curve or a sweep."""
    return {curve.machine for curve in measured.curves} | {sweep.machine for sweep in measured.loads}
