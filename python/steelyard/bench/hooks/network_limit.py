"""Hook ``network-limit``: limits the rate of an interface while a run lasts, by a token bucket.

In: an interface and a rate. Out: the limit in force from the servers' start to the end of the run, and
``shaping.json``: what the bucket let through in the measure phase.
"""

from typing import Any, ClassVar

from steelyard.bench.characterize.traffic_shapers import FILE, read_shaping, write_shaping
from steelyard.bench.hook import Hook, HookContext
from steelyard.bench.limits.network import NetworkLimit
from steelyard.bench.parameters import Parameter, Settings


class NetworkLimitHook(Hook):
    """Limits what an interface sends; both directions together on loopback."""

    doc = "limits the rate of a network interface by a token bucket of tc"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("interface", "text", "which interface", default="lo"),
        Parameter(
            "rate", "bytes_per_second", "what it sends at most, such as 1Gbit", minimum=1e3, maximum=1e12
        ),
    )

    def __init__(self, options: Settings) -> None:
        super().__init__(options)
        self.limit = NetworkLimit(options.text("interface"), options.number("rate"))
        self._before: dict[str, Any] = {}

    def check(self) -> None:
        """Raise UsageError or EnvironmentLacksError where the limit cannot be set."""
        self.limit.check()

    def after_start(self, context: HookContext) -> None:
        """Set the limit: the load has not begun."""
        self.limit.set(context.run_id)
        context.record("interface", self.limit.interface)
        context.record("rate_bytes_per_s", self.limit.rate_bytes_per_s)
        context.record("bucket_bytes", self.limit.bucket_bytes)

    def before_measure(self, context: HookContext) -> None:
        """Read the bucket's counters."""
        from steelyard.bench.clock import SystemClock

        self._before = read_shaping(SystemClock())

    def after_measure(self, context: HookContext) -> None:
        """Read them again."""
        from steelyard.bench.clock import SystemClock

        write_shaping(context.directory, self._before, read_shaping(SystemClock()))
        context.add_artifact("shaping", context.directory / FILE)

    def after_run(self, context: HookContext) -> None:
        """Take the limit back."""
        self.limit.undo()
