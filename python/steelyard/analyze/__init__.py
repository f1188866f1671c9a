"""What a run's records say about why it came out as it did.

In: records and a recording. Out: `Conditions` (what the machine did during a phase, every quantity with the
reason where it is missing) and `Finding`s (claim, evidence, next step).

Invariants: functions of their arguments only; a ratio is 0..1 and named so; what is missing stays missing.

Not here: running anything, deciding between machines, drawing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard.analyze.conditions import Conditions, observe
    from steelyard.analyze.facts.cpus import CpuSetUse, CpuUse
    from steelyard.analyze.rules.explain import explain
    from steelyard.analyze.rules.findings import Evidence, Finding

__all__ = ["Conditions", "CpuSetUse", "CpuUse", "Evidence", "Finding", "explain", "observe"]

_HOMES = {
    **dict.fromkeys(("Conditions", "observe"), "conditions"),
    **dict.fromkeys(("CpuSetUse", "CpuUse"), "facts.cpus"),
    **dict.fromkeys(("Evidence", "Finding"), "rules.findings"),
    "explain": "rules.explain",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is asked for (PEP 562): conditions need a query engine, a verdict does not."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
