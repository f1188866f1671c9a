"""Reads sources of one recording over one phase.

In: a recording and a `Span`. Out: rates of counters and figures of gauges as `Quantity`s, and why a source
gave nothing.

Not here: what a source says (the other modules of this folder).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from steelyard.analyze.facts.span import Span
from steelyard.analyze.values import Quantity

if TYPE_CHECKING:
    # For types only: recordings load a query engine, which most users of facts do without.
    from steelyard.telemetry import EntityRates, Rates, Recording


class Reader:
    """Reads sources of one recording over one phase, and keeps why some gave nothing."""

    def __init__(self, recording: Recording, span: Span) -> None:
        self._recording = recording
        self._span = span
        self._known: dict[tuple[str, Sequence[str] | None], Rates] = {}
        self.missing: dict[str, str] = {}
        """Source -> why it gave nothing."""

    def read(self, source: str, columns: Sequence[str] | None = None) -> Rates:
        """Return a source's rates, all or those of some columns."""
        asked = source, None if columns is None else tuple(columns)
        if asked not in self._known:
            rates = self._recording.rates(source, self._span.begin_ns, self._span.end_ns, columns)
            self._known[asked] = rates
            if rates.missing is not None:
                self.missing[source] = rates.missing
        return self._known[asked]

    def only(self, source: str) -> EntityRates | None:
        """Return the one entity of a source, None where it has none or several."""
        return self.read(source).only()

    def rate(
        self, entity: EntityRates | None, source: str, column: str, unit: str, scale: float = 1.0
    ) -> Quantity:
        """Return a counter's rate times ``scale``."""
        if entity is None:
            return Quantity(None, unit, self.missing.get(source, "not recorded"))
        rate = entity.rates.get(column)
        if rate is None or rate.per_s is None:
            return Quantity.of(None, unit, rate.missing if rate else None)
        return Quantity(rate.per_s * scale, unit)

    def gauge(
        self, entity: EntityRates | None, source: str, column: str, unit: str, figure: str = "mean"
    ) -> Quantity:
        """Return a figure (mean, low, high, last) of a gauge."""
        if entity is None:
            return Quantity(None, unit, self.missing.get(source, "not recorded"))
        gauge = entity.gauges.get(column)
        value = getattr(gauge, figure) if gauge else None
        return Quantity.of(value, unit, gauge.missing if gauge else None)


def not_recorded(unit: str) -> Quantity:
    """Return a quantity of ``unit`` that nobody recorded."""
    return Quantity(None, unit, "not recorded")


def total(parts: Iterable[Quantity], unit: str) -> Quantity:
    """Return the sum of the known ``parts``, missing where none is known."""
    listed = list(parts)
    known = [part.value for part in listed if part.value is not None]
    missing = next((part.missing for part in listed if part.missing), None)
    return Quantity(sum(known), unit) if known else Quantity.of(None, unit, missing)
