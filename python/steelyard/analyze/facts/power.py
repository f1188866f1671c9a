"""What clocks, heat and watts were (sources ``cpufreq``, ``throttle`` and ``power``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steelyard.analyze.facts.reader import Reader, not_recorded
from steelyard.analyze.values import Quantity

if TYPE_CHECKING:
    from steelyard.telemetry import Rates


@dataclass(frozen=True)
class Power:
    """Frequency and power over the phase."""

    frequency_hz: Quantity = field(default_factory=lambda: not_recorded("hz"))
    """Mean of the CPUs."""
    throttles: Quantity = field(default_factory=lambda: not_recorded("1"))
    """Times that a core or its package was slowed for heat."""
    watts: dict[str, Quantity] = field(default_factory=dict)
    """Power by domain, as the probe names domains."""
    watts_missing: str | None = None
    """Why no domain was read, where the recording says it."""


def observe_power(reader: Reader) -> Power:
    """Return frequency, throttling and power."""
    frequency, throttles = _frequency(reader.read("cpufreq")), _throttles(reader.read("throttle"))
    watts = _watts(reader)
    return Power(frequency, throttles, watts, reader.missing.get("power"))


def _throttles(rates: Rates) -> Quantity:
    gains = [
        rate.increment
        for entity in rates.entities
        for name, rate in entity.rates.items()
        if name.endswith("throttles") and rate.increment is not None
    ]
    return Quantity(float(sum(gains)), "1") if gains else Quantity.of(None, "1", rates.missing)


def _frequency(rates: Rates) -> Quantity:
    means = [
        entity.gauges["frequency_hz"].mean for entity in rates.entities if "frequency_hz" in entity.gauges
    ]
    known = [mean for mean in means if mean is not None]
    return Quantity(sum(known) / len(known), "hz") if known else Quantity.of(None, "hz", rates.missing)


def _watts(reader: Reader) -> dict[str, Quantity]:
    by_domain = {}
    for entity in reader.read("power").entities:
        counted = reader.rate(entity, "power", "energy_uj", "w", 1e-6)
        read = reader.gauge(entity, "power", "power_uw", "w")
        gauge = Quantity.of(None if read.value is None else read.value / 1e6, "w", read.missing)
        by_domain[str(entity.entity["domain"])] = counted if counted.value is not None else gauge
    return by_domain
