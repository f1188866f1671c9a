"""Which traffic is that of operations."""

import pytest

from steelyard.analyze.conditions import Conditions
from steelyard.analyze.facts.network import NetworkUse
from steelyard.analyze.facts.span import Span
from steelyard.analyze.operations.efficiency import _network
from steelyard.analyze.values import Quantity


def moved(interface: str, received: float, sent: float) -> NetworkUse:
    none = Quantity(None, "1/s")
    rates = (Quantity(received, "bytes/s"), Quantity(sent, "bytes/s"))
    return NetworkUse(interface, *rates, none, none, none, none, none)


@pytest.mark.parametrize(
    ("cards", "bytes_per_s"),
    [
        # Loopback's bytes are sent and received once; a stray packet of an idle card hides none of them.
        ([("lo", 8000.0, 8000.0), ("eth0", 3.0, 0.0)], 8000.0),
        ([("lo", 10.0, 10.0), ("eth0", 500.0, 200.0), ("eth1", 0.0, 100.0)], 800.0),
        ([("eth0", 5.0, 0.0)], 5.0),
    ],
)
def test_the_traffic_of_operations_is_where_most_is(
    cards: list[tuple[str, float, float]], bytes_per_s: float
) -> None:
    conditions = Conditions(Span(0, 1), network=[moved(*card) for card in cards])
    assert _network(conditions).value == bytes_per_s
