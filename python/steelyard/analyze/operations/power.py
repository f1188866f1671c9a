"""What the machine's processors draw: the sum of its packages, by RAPL.

In: power by domain, as the probe names domains. Out: one `Quantity`. A package contains its cores, uncore and
graphics; memory (``package-0/dram``) is beside it and the board (``psys``) around it, so neither is added.

Not here: sensors of boards and power supplies, which the report draws by name.
"""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.analyze.facts.power import Power
from steelyard.analyze.values import Quantity

_NONE = "no processor package counts energy (RAPL)"


def package_power(power: Power) -> Quantity:
    """Return the power of all processor packages, W; missing where one of them was not read."""
    return power_of_packages(power.watts, power.watts_missing or _NONE)


def power_of_packages(power_w: Mapping[str, Quantity], missing: str = _NONE) -> Quantity:
    """Return the sum of the domains that are whole packages (``package-1``, ``package-0-die-1``).

    >>> power_of_packages({"package-0": Quantity(100.0, "w"), "package-0/dram": Quantity(20.0, "w")}).value
    100.0
    """
    packages = [
        power for domain, power in power_w.items() if domain.startswith("package-") and "/" not in domain
    ]
    known = [each.value for each in packages if each.value is not None]
    if not known or len(known) < len(packages):
        return Quantity(None, "w", next((each.missing for each in packages if each.missing), missing))
    return Quantity(sum(known), "w")
