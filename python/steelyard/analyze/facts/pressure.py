"""How long tasks waited for a resource (source ``pressure``): PSI's totals over the covered time."""

from dataclasses import dataclass

from steelyard.analyze.facts.reader import Reader
from steelyard.analyze.values import Quantity


@dataclass(frozen=True)
class PressureUse:
    """Share of the phase in which some, or all, tasks waited for a resource."""

    some_ratio: Quantity
    full_ratio: Quantity


def observe_pressure(reader: Reader) -> dict[str, PressureUse]:
    """Return the pressure by resource: ``cpu``, ``memory``, ``io``."""
    return {
        str(entity.entity["resource"]): PressureUse(
            reader.rate(entity, "pressure", "some_ns", "ratio", 1e-9),
            reader.rate(entity, "pressure", "full_ns", "ratio", 1e-9),
        )
        for entity in reader.read("pressure").entities
    }
