"""What differs between two machines, or between two moments of one, the most important first.

In: two `Machine` records. Out: `MachineComparison`, its differences ordered by likely effect
(``machine.features``); within one effect by how far the values are apart, and decisive ones in that table's
order. A value that one of the two lacks is no difference: it is listed beside them, with the reason. Disks
and interfaces are matched by name.

Not here: what a difference does to a measured result (``analyze``), drawing (``report``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from steelyard._base.documents import printed
from steelyard.machine.features import Effect, Feature, Scalar, features
from steelyard.records import Machine

NEAR = math.log(1.1)
"""Numbers closer than 10 % have one step less effect than the table gives to what they measure."""

_CATEGORY = math.log(2)
"""How far apart two words are taken to be: as far as a number and its double."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs."""

    key: str
    """Stable name of the value."""
    noun: str
    """The value in words."""
    a: Scalar
    """Value of A."""
    b: Scalar
    """Value of B."""
    unit: str | None
    """Unit of both, None for none."""
    ratio: float | None
    """b / a, ``None`` unless both are positive numbers."""
    effect: Effect
    """Likely effect."""
    why: str
    """Why it matters."""

    @property
    def distance(self) -> float:
        """Return how far the values are apart."""
        return _CATEGORY if self.ratio is None else abs(math.log(self.ratio))


@dataclass(frozen=True, slots=True)
class NotComparable:
    """One value that at least one machine lacks."""

    key: str
    """Stable name of the value."""
    noun: str
    """The value in words."""
    a: Scalar
    """Value of A."""
    b: Scalar
    """Value of B."""
    unit: str | None
    """Unit of both, None for none."""
    reason: str
    """Why a value is missing."""


@dataclass(frozen=True, slots=True)
class MachineComparison:
    """What differs between two machines: `steelyard machine diff --json`."""

    KIND: ClassVar[str] = "machine_diff"

    differences: list[Difference]
    """Most telling first."""
    not_comparable: list[NotComparable]
    """Values that at least one of them lacks."""
    same: int
    """Number of values that are the same."""

    @property
    @printed
    def is_same(self) -> bool:
        """Return whether nothing differs that may move a result."""
        return all(difference.effect is Effect.IDENTITY for difference in self.differences)


def compare_machines(a: Machine, b: Machine) -> MachineComparison:
    """Return what differs between ``a`` and ``b``, the most important first."""
    of_a = {feature.key: feature for feature in features(a)}
    of_b = {feature.key: feature for feature in features(b)}
    differences = [*_devices(a, b, "disks"), *_devices(a, b, "interfaces")]
    device_keys = tuple(f"{difference.key}." for difference in differences)
    not_comparable: list[NotComparable] = []
    same = 0
    for key in [*of_a, *(key for key in of_b if key not in of_a)]:
        feature, other = of_a.get(key), of_b.get(key)
        known = feature or other
        assert known is not None
        left, right = feature.value if feature else None, other.value if other else None
        if (left is None and right is None) or key.startswith(device_keys):
            continue
        if left is None or right is None:
            reason = _reason(a if left is None else b, feature if left is None else other, key)
            not_comparable.append(NotComparable(key, known.noun, left, right, known.unit, reason))
        elif _is_same(left, right, known):
            same += 1
        else:
            differences.append(_difference(known, left, right))
    order = {key: place for place, key in enumerate(of_a)}
    ordered = sorted(differences, key=lambda difference: (-difference.effect, *_place(difference, order)))
    return MachineComparison(ordered, not_comparable, same)


_STAYS = ("memory.total_bytes", "memory.limit_bytes", "hypervisor")
"""Values beside the decisive ones that a machine keeps from one boot to the next."""


def other_machine(a: Machine, b: Machine) -> str | None:
    """Return the first value by which ``a`` and ``b`` cannot be one machine, None where they may be.

    Host names count unless both are containers, whose names change with every start.
    """
    if a.hostname and b.hostname and a.hostname != b.hostname and not (a.container and b.container):
        return f"host {a.hostname}, and this is {b.hostname}"
    for difference in compare_machines(a, b).differences:
        if difference.effect is Effect.DECISIVE or difference.key in _STAYS:
            return f"{difference.noun} {difference.a}, and here {difference.b}"
    return None


def _place(difference: Difference, order: Mapping[str, int]) -> tuple[float, int]:
    # More CPUs and another processor cannot be weighed against each other: the table knows what is first.
    distance = 0.0 if difference.effect is Effect.DECISIVE else -difference.distance
    return (distance, order.get(difference.key, len(order)))


def _devices(a: Machine, b: Machine, field: Literal["disks", "interfaces"]) -> Iterator[Difference]:
    """Yield the devices that only one of the machines has; interfaces without a driver come and go."""
    texts = [_described(machine, field) for machine in (a, b)]
    noun = field.removesuffix("s")
    why = "data is on another disk" if field == "disks" else "packets take another route"
    for name in [*texts[0], *(name for name in texts[1] if name not in texts[0])]:
        if name not in texts[0] or name not in texts[1]:
            left, right = (description.get(name, "none") for description in texts)
            yield Difference(f"{field}.{name}", f"{noun} {name}", left, right, None, None, Effect.SOME, why)


def _described(machine: Machine, field: Literal["disks", "interfaces"]) -> dict[str, str]:
    """Return each device with a word for what it is."""
    if field == "disks":
        return {disk.name: disk.model or "present" for disk in machine.disks}
    return {card.name: card.driver or "present" for card in machine.interfaces}


def _is_same(left: Scalar, right: Scalar, feature: Feature) -> bool:
    if left == right and isinstance(left, bool) == isinstance(right, bool):
        return True
    if not _is_number(left) or not _is_number(right) or feature.tolerance == 0:
        return False
    apart = abs(float(left or 0) - float(right or 0))
    if feature.unit == "ratio":
        return apart <= feature.tolerance
    return apart <= feature.tolerance * max(abs(float(left or 0)), abs(float(right or 0)))


def _is_number(value: Scalar) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _difference(feature: Feature, left: Scalar, right: Scalar) -> Difference:
    ratio = None
    if _is_number(left) and _is_number(right) and float(left or 0) > 0 and float(right or 0) > 0:
        ratio = float(right or 0) / float(left or 0)
    difference = Difference(
        feature.key, feature.noun, left, right, feature.unit, ratio, feature.effect, feature.why
    )
    if ratio is not None and difference.distance < NEAR and difference.effect > Effect.LITTLE:
        return replace(difference, effect=Effect(difference.effect - 1))
    return difference


def _reason(machine: Machine, feature: Feature | None, key: str) -> str:
    path = (feature.missing if feature else None) or key
    if path in machine.missing:
        return machine.missing[path]
    head = key.split(".")
    if head[0] in ("disks", "interfaces"):
        disks, cards = [disk.name for disk in machine.disks], [card.name for card in machine.interfaces]
        for index, name in enumerate(disks if head[0] == "disks" else cards):
            if name == head[1]:
                rest = ".".join([head[0], str(index), *head[2:]])
                above = ".".join([head[0], str(index), *head[2:3]])
                return machine.missing.get(rest) or machine.missing.get(above) or "no value"
    if head[:2] == ["cpu", "mitigations"]:
        return machine.missing.get("cpu.mitigations", "unknown to its kernel")
    if machine.schema_version == "1.0":
        return f"its record (version {machine.schema_version}) has no such field"
    return "no value"
