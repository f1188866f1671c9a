"""Small values that the analyses share: a quantity that may be missing, and sets of CPUs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Quantity:
    """A value in its base unit; None with the reason in ``missing`` when it could not be measured."""

    value: float | None
    """In its base unit, None where ``missing`` says why."""
    unit: str
    """The base unit."""
    missing: str | None = None
    """Why there is no value."""

    @classmethod
    def of(cls, value: float | None, unit: str, missing: str | None) -> "Quantity":
        """Return a quantity that keeps its reason only when there is no value."""
        return cls(value, unit, None if value is not None else (missing or "not recorded"))


_ENDINGS = {"_per_s": "1/s", "_ns": "ns", "_s": "s", "_bytes": "bytes", "_ratio": "ratio"}


def declared_unit(name: str) -> str:
    """Return the unit that who names a column or reading declares by how it ends; "" without one.

    >>> [declared_unit(name) for name in ("p99_ns", "requests_per_s", "took_s", "depth")]
    ['ns', '1/s', 's', '']
    """
    return next((unit for ending, unit in _ENDINGS.items() if name.endswith(ending)), "")


def cpus_in(notation: str | None) -> frozenset[int]:
    """Return the CPUs of a list in the kernel's notation; the empty set for None.

    >>> sorted(cpus_in("0-2,5"))
    [0, 1, 2, 5]
    """
    if not notation:
        return frozenset()
    cpus: set[int] = set()
    for part in notation.split(","):
        first, _, last = part.strip().partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)
