"""What may be asked of ``steelyard size``.

In: what was typed. Out: `SizeRequest`. It imports nothing heavy: the help is made of it.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from steelyard._base import UsageError
from steelyard._base.request import Option
from steelyard.decide.choice.economics import Economics
from steelyard.decide.choice.request import Maintenance, Noise, PowerPrice, Pue, Years
from steelyard.decide.request import TableRequest


@dataclass(frozen=True, kw_only=True)
class SizeRequest(TableRequest):
    """For which workload and demand machines are sized, at what prices."""

    curves: Annotated[
        Sequence[str],
        Option(
            "Curve or sweep: CSV file, or folder of `scale` or `experiment`; repeatable.",
            flag="--curve",
            metavar="[MACHINE=]PATH",
        ),
    ] = ()
    workload: Annotated[str | None, Option("Result of the table that is the throughput.", metavar="NAME")] = (
        None
    )
    demand: Annotated[
        str | None, Option("Rate that is to be served, per second.", flag="--rate", metavar="PER_SECOND")
    ] = None
    latency_limit: Annotated[
        str | None, Option("Latency that must not be exceeded, such as 5ms.", metavar="TIME")
    ] = None
    latency: Annotated[str, Option("Which latency: p99, p50 or mean.", metavar="NAME")] = "p99"
    memory: Annotated[
        str | None, Option("Memory that the workload needs in each machine, such as 24GiB.", metavar="SIZE")
    ] = None
    headroom: Annotated[
        str, Option("Share of the demand that is kept free on top of it.", metavar="SHARE")
    ] = "0%"
    sibling_worth: Annotated[
        float | None,
        Option(
            "What second threads of cores add where no step has any, as 0.3.",
            metavar="RATIO",
            least=0,
            most=1,
            is_share=True,
        ),
    ] = None
    most_machines: Annotated[
        int | None, Option("Most machines that may be used.", flag="--most", metavar="N", least=1)
    ] = None
    whole: Annotated[bool, Option("Consider whole machines only, not a part of their CPUs.")] = False
    noise: Noise = None
    years: Years = 4.0
    power_price: PowerPrice = None
    pue: Pue = 1.3
    maintenance: Maintenance = None

    @property
    def economics(self) -> Economics:
        """Return what money and power cost."""
        return Economics(self.years, self.power_price, self.pue, self.maintenance)


def quantity_in(text: str, flag: str, unit: str, example: str) -> float:
    """Return a time in s or a size in bytes. Raises UsageError.

    >>> quantity_in("5ms", "--latency-limit", "s", "5ms"), quantity_in("2 GiB", "--memory", "bytes", "2GiB")
    (0.005, 2147483648.0)
    """
    from steelyard.decide.tables.columns import unit_of

    match = re.fullmatch(r"([0-9.eE+-]+)\s*([A-Za-z]+)", text.strip())
    found = None if match is None else unit_of(match[2])
    try:
        value = float(match[1]) * found.factor if match and found else math.nan
    except ValueError:
        value = math.nan
    if found is None or found.name != unit or not 0 < value < math.inf:
        raise UsageError(f"{flag} {text!r}: not a {'time' if unit == 's' else 'size'}", hint=f"as {example}")
    return value
