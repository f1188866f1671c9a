"""How much of the machine's memory was in use (source ``memory``)."""

from dataclasses import dataclass

from steelyard.analyze.facts.reader import Reader
from steelyard.analyze.values import Quantity


@dataclass(frozen=True)
class MemoryUse:
    """The machine's memory over the phase."""

    total_bytes: Quantity
    available_low_bytes: Quantity
    used_high_bytes: Quantity
    swap_used_bytes: Quantity


def observe_memory(reader: Reader) -> MemoryUse | None:
    """Return the use of memory, None where it was not recorded."""
    entity = reader.only("memory")
    if entity is None:
        return None
    total = reader.gauge(entity, "memory", "total_bytes", "bytes", "last")
    available = reader.gauge(entity, "memory", "available_bytes", "bytes", "low")
    swap = reader.gauge(entity, "memory", "swap_total_bytes", "bytes", "last")
    free = reader.gauge(entity, "memory", "swap_free_bytes", "bytes", "low")
    return MemoryUse(total, available, _less(total, available), _less(swap, free))


def _less(whole: Quantity, part: Quantity) -> Quantity:
    if whole.value is None or part.value is None:
        return Quantity.of(None, whole.unit, whole.missing or part.missing)
    return Quantity(whole.value - part.value, whole.unit)
