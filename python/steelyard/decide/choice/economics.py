"""What a machine costs over its years, and how much power it takes.

In: a machine's attributes and the prices of a site. Out: `Power` and `Cost`, each with a reason where it is
not known.

Power is measured (``<result>_power_w``, ``power_w``) or stated as budgeted (``budgeted_power_w``, the power
under high practical load); TDP stands in with a caution. What is planned for racks, sites and bills is the
budgeted power, else the largest measured one.

A rented machine's price per hour holds its power, so that no energy is added to it.

Not here: scores (``scores``), racks and sites (``demand``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from steelyard._base import UsageError
from steelyard._base.documents import printed

if TYPE_CHECKING:
    from steelyard.decide.tables.model import MeasuredMachine

HOURS_PER_YEAR = 8766.0
"""365.25 days."""
BOUNDS: Mapping[str, tuple[float, float, str]] = {
    "price": (1.0, 1e8, "a machine's price"),
    "price_per_hour": (1e-5, 1e5, "a price per hour"),
    "maintenance_per_year": (0.0, 1e8, "maintenance per year"),
    "power_w": (0.1, 1e6, "a power in W"),
    "rack_units": (0.1, 100.0, "a height in rack units"),
}
"""Smallest and largest figure that is believed, and what it is of."""
MEASURED, BUDGETED, DESIGN = "measured", "budgeted", "TDP"


@dataclass(frozen=True, slots=True)
class Economics:
    """What money and power cost."""

    years: float
    """How long a machine is used."""
    power_price: float | None
    """Of a kilowatt-hour; None where it was not stated."""
    pue: float
    """Power of the site over that of its machines."""
    maintenance_per_year: float | None = None
    """Of a machine without a figure of its own; None where it was not stated."""


@dataclass(frozen=True, slots=True)
class Power:
    """A machine's power."""

    watts: float | None
    """In W; None where ``missing`` says why."""
    source: str = ""
    """``measured``, ``budgeted`` or ``TDP``."""
    missing: str | None = None
    """Why it is not known."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Total cost of one machine over its years (TCO), by part."""

    capex: float
    """Purchase; 0 for a rented machine."""
    rent: float
    """Hours that are paid for; 0 for a bought machine."""
    energy: float
    """Power, with what the site adds to it; 0 for a rented machine, whose price holds it."""
    maintenance: float
    """Maintenance; 0 where none was stated."""

    @property
    @printed
    def total(self) -> float:
        """All parts together."""
        return self.capex + self.rent + self.energy + self.maintenance


def check_bounds(machines: Iterable[MeasuredMachine]) -> None:
    """Raise UsageError for a price, power or height that cannot be one."""
    for machine in machines:
        for name, value in machine.attributes.items():
            kind = "power_w" if name.endswith("_w") else name
            if kind not in BOUNDS or isinstance(value, str):
                if kind in BOUNDS:
                    raise UsageError(f"{machine.name}: {name} is {value!r}, no number")
                continue
            least, most, what = BOUNDS[kind]
            if not least <= value <= most:
                raise UsageError(
                    f"{machine.name}: {name} is {value:g}",
                    hint=f"{what} is from {least:g} to {most:,.0f}; an empty cell is one that is not known",
                )


def currency_of(machines: Iterable[MeasuredMachine]) -> str:
    """Return the currency of all prices, empty where none is named. Raises UsageError for several."""
    named: dict[str, str] = {}
    for machine in machines:
        if any(machine.number(name) is not None for name in ("price", "price_per_hour")):
            named.setdefault((machine.text("currency") or "").upper(), machine.name)
    known = {code: name for code, name in named.items() if code}
    if len(known) > 1:
        said = " and ".join(f"{code} ({name})" for code, name in known.items())
        raise UsageError(f"prices are in {said}", hint="convert them to one currency")
    return next(iter(known), "")


def power_under(machine: MeasuredMachine, workload: str) -> Power:
    """Return the power of a machine under a workload: measured there, else of the machine."""
    for name in _columns(workload):
        if (measured := machine.number(name)) is not None:
            return Power(measured, MEASURED)
    return _stated(machine)


def planned_power(machine: MeasuredMachine, workloads: Iterable[str]) -> Power:
    """Return the power that is planned for a machine: budgeted, else the largest measured one."""
    if (budgeted := machine.number("budgeted_power_w")) is not None:
        return Power(budgeted, BUDGETED)
    measured = [
        power.watts
        for workload in workloads
        if (power := power_under(machine, workload)).source == MEASURED and power.watts is not None
    ]
    return Power(max(measured), MEASURED) if measured else _stated(machine)


def _stated(machine: MeasuredMachine) -> Power:
    if (budgeted := machine.number("budgeted_power_w")) is not None:
        return Power(budgeted, BUDGETED)
    if (design := machine.number("tdp_w")) is not None:
        return Power(design, DESIGN)
    empty = next((name for name in machine.missing if name.endswith("power_w")), None)
    if empty is not None:
        return Power(None, "", f"{empty}: {machine.missing[empty]}")
    return Power(None, "", "no column power_w, <result>_power_w or budgeted_power_w")


@cache
def _columns(workload: str) -> tuple[str, ...]:
    """Return the attributes that may have the power under a workload, the most exact first."""
    return f"{_word(workload)}_power_w", f"{_stem(workload)}_power_w", "power_w"


def _word(name: str) -> str:
    """Return a result's name as names of attributes are written."""
    return re.sub(r"[^a-z0-9%]+", "_", name.lower()).strip("_")


def _stem(name: str) -> str:
    return _word(name).removesuffix("_per_s").removesuffix("_per_sec")


def cost_of(machine: MeasuredMachine, power: Power, economics: Economics) -> tuple[Cost | None, str]:
    """Return what a machine costs over its years, or why that is not known."""
    maintenance = machine.number("maintenance_per_year")
    kept = economics.years * (maintenance if maintenance is not None else economics.maintenance_per_year or 0)
    price, hourly = machine.number("price"), machine.number("price_per_hour")
    if price is None and hourly is None:
        empty = next((name for name in ("price", "price_per_hour") if name in machine.missing), None)
        why = "no column price or price_per_hour" if empty is None else f"{empty}: {machine.missing[empty]}"
        return None, why
    if price is None and hourly is not None:
        return Cost(0.0, hourly * HOURS_PER_YEAR * economics.years, 0.0, kept), ""
    assert price is not None
    if power.watts is None:
        return None, f"no energy: {power.missing}"
    if economics.power_price is None:
        return None, "no energy: --power-price is not stated"
    return Cost(price, 0.0, energy_of(power.watts, economics), kept), ""


def energy_of(watts: float, economics: Economics) -> float:
    """Return the price of a machine's energy over its years.

    >>> round(energy_of(1000.0, Economics(1.0, 0.1, 1.5)), 1)
    1314.9
    """
    kwh = watts / 1000 * economics.pue * HOURS_PER_YEAR * economics.years
    return kwh * (economics.power_price or 0.0)
