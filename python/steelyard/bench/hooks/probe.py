"""Hook ``probe``: records telemetry of the machine beside the run.

In: sources and an interval. Out: ``telemetry/`` in the run's directory. It runs on the load's CPUs, always,
unless ``--hook probe:enabled=false``; a run without telemetry is suspect.
"""

from typing import ClassVar

from steelyard._base import WorkloadFailedError, executable
from steelyard.bench.hook import Hook, HookContext, ProcessHandle
from steelyard.bench.parameters import Parameter, Settings

FOLDER = "telemetry"
_READY_TIMEOUT_S = 5.0
_TIER_INTERVAL_S = {"smoke": 0.1, "quick": 0.5, "standard": 1.0, "full": 1.0}
"""At least 50 ticks fall in the shortest measure phase of each tier, at below 1 % of one CPU."""


INTERVAL = Parameter(
    "interval",
    "seconds",
    "time between two readings; 0 lets the tier choose",
    default=0.0,
    minimum=0.0,
    maximum=3600.0,
)


def interval_of(options: Settings, tier: str) -> float:
    """Return the time between two readings, s: as it was set, else the tier's."""
    return options.number("interval") or _TIER_INTERVAL_S.get(tier, 1.0)


class ProbeHook(Hook):
    """Runs ``steelyard-probe record`` from the start of the servers to the end of the run."""

    doc = "records CPU, memory, disk, network and more beside the run (always on)"
    always: ClassVar[bool] = True
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("enabled", "flag", "whether to record at all", default=True),
        INTERVAL,
        Parameter(
            "sources", "text", "sources to read, comma-separated and quoted; empty for all", default=""
        ),
    )

    def __init__(self, options: Settings) -> None:
        super().__init__(options)
        self._process: ProcessHandle | None = None

    def after_start(self, context: HookContext) -> None:
        """Start recording and wait until it has begun."""
        context.record("enabled", self.options.flag("enabled"))
        if not self.options.flag("enabled"):
            return
        interval_s = interval_of(self.options, context.tier)
        context.record("interval_s", interval_s)
        folder = context.directory / FOLDER
        command = [str(executable("steelyard-probe")), "record", "--interval", f"{interval_s * 1e3:.0f}ms"]
        command += ["--out", str(folder)]
        if self.options.text("sources"):
            command += ["--sources", self.options.text("sources")]
        self._process = context.start_process("probe", command)
        context.add_artifact("telemetry", folder)
        waited_s = 0.0
        while not (folder / "telemetry.json").exists():
            if waited_s > _READY_TIMEOUT_S:
                raise WorkloadFailedError(f"the probe recorded nothing within {_READY_TIMEOUT_S:g} s")
            context.wait(0.05)
            waited_s += 0.05

    def after_run(self, context: HookContext) -> None:
        """Stop recording; the files are complete afterwards."""
        if self._process is not None:
            context.stop_process(self._process)
