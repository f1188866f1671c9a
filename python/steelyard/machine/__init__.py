"""What a machine is, and what can be measured on it.

In: a root below which /proc, /sys and /etc stand (``/``, or a recorded tree). Out: ``snapshot`` gives the
record ``machine.json``; ``diagnose`` gives capabilities, each with a reason and how to enable it;
``compare_machines`` gives what differs between two records, most telling first; ``rules`` hold one record
against what is known to cost performance.

Invariants: nothing is changed; every field that is null has its reason in the record's ``missing``; nothing
that the caller's root does not hold is asked of this machine.

Not here: sampling while something runs (``steelyard-probe``), drawing (``report``).
"""

from steelyard.machine.compare import MachineComparison, compare_machines
from steelyard.machine.doctor import Attempts, Capability, Status, diagnose
from steelyard.machine.snapshot import snapshot

__all__ = [
    "Attempts",
    "Capability",
    "MachineComparison",
    "Status",
    "compare_machines",
    "diagnose",
    "snapshot",
]
