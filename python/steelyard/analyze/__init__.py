"""What a run's records say about why it came out as it did.

In: records and a recording. Out: `Conditions` (what the machine did during a phase, every quantity with the
reason where it is missing) and `Finding`s (claim, evidence, next step).

Invariants: functions of their arguments only; a ratio is 0..1 and named so; what is missing stays missing.

Not here: running anything, deciding between machines, drawing.
"""

from steelyard.analyze.conditions import Conditions, CpuSetUse, CpuUse, observe
from steelyard.analyze.findings import Evidence, Finding, explain

__all__ = ["Conditions", "CpuSetUse", "CpuUse", "Evidence", "Finding", "explain", "observe"]
