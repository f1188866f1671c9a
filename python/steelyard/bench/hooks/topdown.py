"""Hook ``topdown``: counts where the issue slots of servers and load go in the measure phase.

In: the top-down model of the machine's processor. Out: ``topdown/`` in the run's directory.

A hook of its own, because its events take turns on the counters with those of ``counters``, and may be turned
off alone.
"""

from collections.abc import Collection
from typing import ClassVar

from steelyard.analyze.run_files import TOP_DOWN_HOOK
from steelyard.bench.hooks.counting import CountingHook


class TopDownHook(CountingHook):
    """Counts the events of top-down levels 1 and 2."""

    doc = "counts where issue slots of servers and load go (always on)"
    name: ClassVar[str] = TOP_DOWN_HOOK

    def metrics(self, known: Collection[str]) -> Collection[str]:
        """Return the tree alone."""
        return [name for name in known if name == "topdown"]
