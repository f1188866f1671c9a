"""A load that other hosts make: the link to them is held against its line rate."""

import pytest

from steelyard.analyze.facts.network import NetworkUse
from steelyard.analyze.load_hosts import link_check, load_hosts
from steelyard.analyze.values import Quantity
from steelyard.records import Level, Parameter
from tests.decide.test_score import run


def _card(name: str, sent: float, line: float | None) -> NetworkUse:
    def rate(value: float | None, missing: str = "the driver reports no line rate") -> Quantity:
        return Quantity.of(value, "bytes/s", missing)

    none = Quantity(0.0, "1/s")
    ratio = Quantity.of(None if line is None else sent / line, "ratio", "the driver reports no line rate")
    return NetworkUse(name, rate(sent), rate(0.0), none, none, none, rate(line), ratio)


@pytest.mark.parametrize(
    ("sent", "line", "level"),
    [
        (0.5e9, 1.25e9, Level.VALID),
        (0.9e9, 1.25e9, Level.SUSPECT),
        (1.2e9, 1.25e9, Level.INVALID),
        (0.5e9, None, Level.SUSPECT),
    ],
)
def test_a_full_link_is_no_result_of_the_servers(sent: float, line: float | None, level: Level) -> None:
    check = link_check([_card("lo", 9e9, None), _card("eth1", 1.0, 1e9), _card("eth0", sent, line)], ["far"])
    assert (check.id, check.level) == ("link", level)
    assert "eth0" in check.claim
    assert check.value == (None if line is None else pytest.approx(sent / line))


def test_a_link_that_was_not_recorded_is_not_called_free() -> None:
    check = link_check([], ["a", "b", "c", "d"])
    assert check.level is Level.SUSPECT
    assert check.claim.startswith("the link to a, b, c and others was not held against its line rate")


def test_this_machine_is_no_other_host() -> None:
    hosts = Parameter(value="localhost user@far", unit=None, source="user")
    assert load_hosts(run(parameters={"hosts": hosts})) == ("user@far",)
    assert load_hosts(run(parameters={"hosts": hosts.model_copy(update={"value": ""})})) == ()
    assert load_hosts(run()) == ()
