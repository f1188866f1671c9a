"""Hook ``rendezvous``: begins the measure phases of several runs at the same time.

In: a folder that the runs share, and how many they are. Out: a file of each run in it; the measure phase
begins when all are there. The load goes on while a run waits.
"""

from pathlib import Path
from typing import ClassVar

from steelyard._base import WorkloadFailedError
from steelyard.bench.hook import Hook, HookContext
from steelyard.bench.parameters import Parameter

_LOOK_S = 0.01


class RendezvousHook(Hook):
    """Waits for other runs before the measure phase."""

    doc = "begins the measure phases of several runs at the same time"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("folder", "text", "where the runs meet"),
        Parameter("runs", "count", "how many meet", default=2, minimum=2, maximum=1000),
        Parameter("timeout", "seconds", "how long to wait", default=600.0, minimum=0.1, maximum=86_400.0),
    )

    def before_measure(self, context: HookContext) -> None:
        """Say that this run is ready, and wait until all are."""
        folder = Path(self.options.text("folder"))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / context.run_id).touch()
        waited_s, timeout_s = 0.0, self.options.number("timeout")
        while (there := len(list(folder.iterdir()))) < self.options.count("runs"):
            if waited_s >= timeout_s:
                raise WorkloadFailedError(
                    f"{there} of {self.options.count('runs')} runs were ready after {timeout_s:g} s"
                )
            context.wait(_LOOK_S)
            waited_s += _LOOK_S
        context.record("runs", there)
