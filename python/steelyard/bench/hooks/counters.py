"""Hook ``counters``: counts events of servers and load in the measure phase.

In: the machine's processor, whose definition says which events metrics need. Out: ``counters/`` in the run's
directory, by CPU or process, and ``counters-machine/`` for what CPUs share (memory controllers, power).
Without a processor's counters the kernel's software events are left: switches, migrations, page faults.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

from steelyard._base import SteelyardError
from steelyard.analyze.run_files import RECORDED, SHARED
from steelyard.bench.hook import HookContext
from steelyard.bench.hooks.counting import CountingHook

if TYPE_CHECKING:
    from steelyard.analyze.counters.choice import Choice

_TREE = "topdown"
"""What the tree is called among metrics, which a hook of its own counts."""


class CountersHook(CountingHook):
    """Counts all metrics of the processor but the top-down tree."""

    doc = "counts instructions, clocks, misses and more of servers and load (always on)"
    name: ClassVar[str] = RECORDED

    def metrics(self, known: Collection[str]) -> Collection[str]:
        """Return all but the tree."""
        return [name for name in known if name != _TREE]

    def before_measure(self, context: HookContext) -> None:
        """Begin to count, and to count what only the whole machine has."""
        super().before_measure(context)
        if self._processes and (choice := self._shared(context)) is not None:
            self._start(context, choice, "system", [], SHARED)

    def _shared(self, context: HookContext) -> "Choice | None":
        """Return what can be counted of the whole machine and of no part of it, None without any."""
        from steelyard.analyze.counters.choice import choose, shared_metrics
        from steelyard.machine import attempts

        if attempts.counter_of_all_processes() is not None:
            return None
        try:
            names = shared_metrics(context.machine)
            return choose(context.machine, "system", names) if names else None
        except SteelyardError:
            return None
