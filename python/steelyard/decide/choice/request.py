"""What may be asked of ``steelyard choose``, and what money, power and room cost.

In: what was typed. Out: `ChooseRequest`, and from it `Economics` and `Limits`. It imports nothing heavy: the
help is made of it.

Not here: the answer (``making``, ``savings``).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from steelyard._base import UsageError
from steelyard._base.request import Option
from steelyard.decide.choice.economics import Economics
from steelyard.decide.request import TableRequest

FLEETS = ("1000", "10000", "100000", "1000000")
"""Sizes of fleets that an improvement is shown for."""

Years = Annotated[float, Option("Years a machine is used.", least=0.1, most=30)]
PowerPrice = Annotated[
    float | None,
    Option("Price of a kilowatt-hour, in the currency of the machines.", metavar="MONEY", least=0, most=100),
]
Pue = Annotated[float, Option("Power of the site over that of its machines (PUE).", least=1, most=10)]
Maintenance = Annotated[
    float | None,
    Option(
        "Maintenance of a machine per year, where no column has it.",
        flag="--maintenance-per-year",
        metavar="MONEY",
        least=0,
        most=1e8,
    ),
]
Noise = Annotated[
    str | None,
    Option(
        "Relative standard deviation of a result, for machines without repeats, such as 2%.", metavar="SHARE"
    ),
]


@dataclass(frozen=True, kw_only=True)
class ChooseRequest(TableRequest):
    """Which machines are weighed, by what, at what prices."""

    baseline: Annotated[str | None, Option("Machine that others are compared with.", metavar="MACHINE")] = (
        None
    )
    workloads: Annotated[
        Sequence[str],
        Option("Result that counts (default: all); repeatable.", flag="--workload", metavar="NAME"),
    ] = ()
    weights: Annotated[
        Mapping[str, str],
        Option("Weight of a workload in the overall score.", flag="--weight", metavar="WORKLOAD=NUMBER"),
    ] = field(default_factory=dict)
    suites: Annotated[
        Mapping[str, str],
        Option(
            "A suite of results; the first one decides, others are shown beside it; repeatable.",
            flag="--suite",
            metavar="NAME=RESULT,...",
        ),
    ] = field(default_factory=dict)
    aggregates: Annotated[
        Mapping[str, str],
        Option(
            "A result that sums up others: refused where all of them say the opposite.",
            flag="--aggregate",
            metavar="RESULT=MEMBER,...",
        ),
    ] = field(default_factory=dict)
    by: Annotated[
        str | None,
        Option(
            "What the order is by: perf, perf-per-watt or perf-per-cost (default: the last that is known).",
            flag="--order-by",
            metavar="WHAT",
        ),
    ] = None
    years: Years = 4.0
    power_price: PowerPrice = None
    pue: Pue = 1.3
    maintenance: Maintenance = None
    demands: Annotated[
        Mapping[str, str],
        Option("Rate that is to be served; repeatable.", flag="--demand", metavar="WORKLOAD=PER_SECOND"),
    ] = field(default_factory=dict)
    headroom: Annotated[
        str, Option("Share of the demand that is kept free on top of it.", metavar="SHARE")
    ] = "0%"
    rack_units: Annotated[
        float, Option("Units of height in a rack that servers may take.", least=1, most=100)
    ] = 42.0
    rack_kw: Annotated[
        float | None, Option("Power limit of a rack, in kW.", metavar="KW", least=0.1, most=1000)
    ] = None
    site_mw: Annotated[
        float | None, Option("Power limit of the site, in MW.", metavar="MW", least=0.001, most=10_000)
    ] = None
    floor: Annotated[
        str,
        Option(
            "Name machines that are this much below the baseline in one workload.",
            flag="--shortfall",
            metavar="SHARE",
        ),
    ] = "20%"
    noise: Noise = None
    improvement: Annotated[
        str | None,
        Option("Show what an improvement of throughput is worth, by fleet size.", metavar="SHARE"),
    ] = None
    interval: Annotated[str | None, Option("With --improvement: its interval.", metavar="LOW..HIGH")] = None
    fleets: Annotated[
        Sequence[str],
        Option(
            "With --improvement: servers of a fleet (1000, 10000 ...); repeatable.",
            flag="--fleet",
            metavar="SERVERS",
        ),
    ] = ()
    save: Annotated[
        int, Option("With --improvement: servers to save, as a goal.", metavar="SERVERS", least=1)
    ] = 1000

    @property
    def economics(self) -> Economics:
        """Return what money and power cost."""
        return Economics(self.years, self.power_price, self.pue, self.maintenance)


def share_in(text: str, flag: str, *, least: float = 0.0, most: float = 1.0) -> float:
    """Return a share: ``1%``, ``1 %`` or ``0.01``. Raises UsageError outside the bounds.

    >>> share_in("1%", "--improvement"), share_in("0.25", "--shortfall")
    (0.01, 0.25)
    """
    word = text.strip()
    try:
        value = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise UsageError(
            f"{flag} {text!r}: not a share from {least * 100:g}% to {most * 100:g}%",
            hint="as 1% or 0.01",
        )
    return value


def span_in(text: str, flag: str, *, least: float = -0.9, most: float = 100.0) -> tuple[float, float]:
    """Return both ends of an interval of shares: ``0.4%..1.6%``.

    >>> span_in("0.4%..1.6%", "--interval")
    (0.004, 0.016)
    """
    low, dots, high = text.partition("..")
    if not dots:
        raise UsageError(f"{flag} {text!r}: no interval", hint="as 0.4%..1.6%")
    ends = share_in(low, flag, least=least, most=most), share_in(high, flag, least=least, most=most)
    if ends[0] > ends[1]:
        raise UsageError(f"{flag} {text!r}: the lower end is above the upper one")
    return ends


def number_of(text: str, flag: str, *, least: float, most: float = 1e15) -> float:
    """Return a number above ``least``. Raises UsageError.

    >>> number_of("1e6", "--demand", least=0)
    1000000.0
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (least < value <= most):
        bound = "from 0" if least < 0 else f"above {least:g}"
        raise UsageError(
            f"{flag} {text!r}: not a number {bound} and up to {most:g}",
            hint="as 1000 or 1e6",
        )
    return value
