"""Power of processor packages: parts, boards and half-read machines are not added."""

import pytest

from steelyard.analyze.operations.power import power_of_packages
from steelyard.analyze.values import Quantity


def _power(**watts: float | None) -> Quantity:
    domains = {
        name.replace("__", "/").replace("_", "-"): Quantity.of(value, "w", "read by root only")
        for name, value in watts.items()
    }
    return power_of_packages(domains)


@pytest.mark.parametrize(
    ("domains", "expected"),
    [
        ({"package_0": 100.0, "psys": 150.0, "package_0__dram": 20.0}, 100.0),
        ({"package_0": 100.0, "package_0__core": 80.0, "package_0__uncore": 5.0}, 100.0),
        ({"package_0": 100.0, "package_1": 90.0, "package_1__dram": 20.0}, 190.0),
        ({"package_0_die_0": 60.0, "package_0_die_1": 70.0}, 130.0),
        ({"package_0": 0.0}, 0.0),
        ({"psys": 150.0}, None),
        ({"package_0": 100.0, "package_1": None}, None),
        ({}, None),
    ],
)
def test_only_whole_packages_are_added(domains: dict[str, float | None], expected: float | None) -> None:
    assert _power(**domains).value == expected


def test_a_missing_package_tells_why() -> None:
    assert _power(package_0=100.0, package_1=None).missing == "read by root only"
    assert _power(psys=150.0).missing == "no processor package counts energy (RAPL)"
