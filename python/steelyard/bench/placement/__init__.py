"""Which CPUs and which memory the servers and the load get.

In: the usable CPUs of a machine by core, cache and NUMA node (``machine.layout``), what a benchmark needs,
what was asked. Out: a `Placement`, instance by instance.

Not here: pinning and binding, which ``steelyard-exec`` does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from steelyard.bench.placement.model import InstancePlace, Placement

if TYPE_CHECKING:
    from steelyard.bench.placement.choose import Needs, place, within_quota, without_binding

__all__ = [
    "InstancePlace",
    "Needs",
    "Placement",
    "place",
    "within_quota",
    "without_binding",
]

_CHOICE = ("Needs", "place", "within_quota", "without_binding")


def __getattr__(name: str) -> Any:
    """Load the choice when it is asked for (PEP 562): it needs a machine, a declaration does not."""
    if name not in _CHOICE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.choose"), name)
