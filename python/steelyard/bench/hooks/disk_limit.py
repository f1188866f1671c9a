"""Hook ``disk-limit``: limits the rate of a disk for the processes of a run, by the block I/O controller.

In: a disk and a rate. Out: the run's processes in a cgroup of their own, those that start later too, from the
begin of the measure phase, or the servers' start, to the end of the measure phase. Servers are filled before
and stopped after it at the disk's own rate by default: stores refuse a load of writes when the disk is slow,
and take longer than they get to write their data back.
"""

import os
from typing import ClassVar

from steelyard.bench.hook import Hook, HookContext
from steelyard.bench.limits.disk import DiskLimit
from steelyard.bench.parameters import Parameter, Settings


class DiskLimitHook(Hook):
    """Limits reads, and writes, of the run's processes, each on its own."""

    doc = "limits the rate of a disk for the run's processes by a cgroup"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("device", "text", "which disk, such as sda"),
        Parameter(
            "rate",
            "bytes_per_second",
            "what they read at most, and write at most, such as 100MB",
            minimum=1e3,
            maximum=1e12,
        ),
        Parameter(
            "since", "choice", "when the limit begins", default="measure", choices=("start", "measure")
        ),
    )

    def __init__(self, options: Settings) -> None:
        super().__init__(options)
        self.limit = DiskLimit(options.text("device"), options.number("rate"))

    def check(self) -> None:
        """Raise UsageError or EnvironmentLacksError where the limit cannot be set."""
        self.limit.check()

    def before_run(self, context: HookContext) -> None:
        """Make the group: what the probe looks at in the first moment it counts from the first moment."""
        self.limit.group(context.run_id)

    def after_start(self, context: HookContext) -> None:
        """Set the limit where it holds from the servers' start on."""
        if self.options.text("since") == "start":
            self._set(context)

    def before_measure(self, context: HookContext) -> None:
        """Set the limit where it is not set yet: what is measured meets it."""
        if self.options.text("since") == "measure":
            self._set(context)

    def _set(self, context: HookContext) -> None:
        group = self.limit.set(context.run_id)
        # This process starts whatever starts later, which is then in its group.
        self.limit.hold(os.getpid(), *context.processes.values())
        context.record("device", self.limit.device)
        context.record("rate_bytes_per_s", self.limit.rate_bytes_per_s)
        context.record("cgroup", str(group))

    def after_measure(self, context: HookContext) -> None:
        """Take the limit back: servers write their data and end."""
        self.limit.undo()

    def after_run(self, context: HookContext) -> None:
        """Take the limit back where the run failed before."""
        self.limit.undo()
