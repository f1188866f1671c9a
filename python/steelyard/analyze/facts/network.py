"""What each interface moved (source ``network``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.analyze.facts.reader import Reader, total
from steelyard.analyze.facts.span import Span
from steelyard.analyze.pressure.traffic_shaping import Shaper
from steelyard.analyze.values import Quantity
from steelyard.records import Machine

if TYPE_CHECKING:
    from steelyard.telemetry import EntityRates, Recording


@dataclass(frozen=True)
class NetworkUse:
    """One interface. ``line_ratio`` is its busier direction over the line rate, missing without one.

    Where a lower limit was set on what it sends, that is the rate, and sending the direction.
    """

    interface: str
    received_bytes_per_s: Quantity
    sent_bytes_per_s: Quantity
    received_packets_per_s: Quantity
    sent_packets_per_s: Quantity
    lost_per_s: Quantity
    line_bytes_per_s: Quantity
    line_ratio: Quantity


def network_use(
    recording: Recording, begin_ns: int, end_ns: int, machine: Machine | None
) -> list[NetworkUse]:
    """Return what each interface moved between two times."""
    return observe_network(Reader(recording, Span(begin_ns, end_ns)), machine)


def observe_network(
    reader: Reader, machine: Machine | None, shapers: Sequence[Shaper] = ()
) -> list[NetworkUse]:
    """Return what each interface moved, of its line rate and of limits set on it."""
    set_limits: dict[str, float] = {}
    for shaper in shapers:
        known = set_limits.get(shaper.interface)
        set_limits[shaper.interface] = min(shaper.limit_bytes_per_s, known or shaper.limit_bytes_per_s)
    speeds = {card.name: card.speed_bits_per_s for card in machine.interfaces} if machine else {}
    uses = []
    for entity in reader.read("network").entities:
        name = str(entity.entity["interface"])
        uses.append(_one(reader, entity, _line_rate(name, speeds.get(name)), set_limits.get(name)))
    return uses


def _one(reader: Reader, entity: EntityRates, line: Quantity, limit: float | None) -> NetworkUse:
    def rate(column: str, unit: str) -> Quantity:
        return reader.rate(entity, "network", column, unit)

    received, sent = rate("received_bytes", "bytes/s"), rate("sent_bytes", "bytes/s")
    if limit is not None and (line.value is None or limit < line.value):
        # A limit set on an interface is one on what it sends.
        line, busier = Quantity(limit, "bytes/s"), sent.value
    else:
        busier = max((value for value in (received.value, sent.value) if value is not None), default=None)
    lost = [
        rate(column, "1/s") for column in ("received_drops", "received_errors", "sent_drops", "sent_errors")
    ]
    return NetworkUse(
        str(entity.entity["interface"]),
        received,
        sent,
        rate("received_packets", "1/s"),
        rate("sent_packets", "1/s"),
        total(lost, "1/s"),
        line,
        _ratio(busier, line),
    )


def _line_rate(name: str, bits_per_s: int | None) -> Quantity:
    if name == "lo":
        return Quantity(None, "bytes/s", "loopback has no line rate: its bytes never leave the machine")
    if bits_per_s is None:
        return Quantity(None, "bytes/s", "the driver reports no line rate")
    return Quantity(bits_per_s / 8, "bytes/s")


def _ratio(value: float | None, whole: Quantity) -> Quantity:
    if value is None or not whole.value:
        return Quantity.of(None, "ratio", whole.missing or "no bytes were counted")
    return Quantity(value / whole.value, "ratio")
