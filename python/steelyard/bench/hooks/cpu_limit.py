"""Hook ``cpu-limit``: gives the servers a share of their CPUs' time, by a cgroup quota.

In: a number of CPUs. Out: servers in a cgroup of their own for the length of the run.
"""

from pathlib import Path
from typing import ClassVar

from steelyard.bench.hook import Hook, HookContext
from steelyard.bench.limits.control_group import ControlGroup, parent_group
from steelyard.bench.parameters import Parameter, Settings


def parent_cgroup(root: Path = Path("/")) -> tuple[Path, int]:
    """Return the folder of this process's CPU cgroup and the cgroup version.

    Raises EnvironmentLacksError where no CPU controller is open to it.
    """
    return parent_group("cpu", "cpu", noun="CPU", root=root)


class CpuLimitHook(Hook):
    """Limits the CPU time of the servers, all together."""

    doc = "limits the CPU time of the servers by a cgroup quota"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "cpus", "ratio", "CPU time for all servers together, in CPUs", minimum=0.01, maximum=65536.0
        ),
        Parameter("period", "seconds", "period of the quota", default=0.1, minimum=0.001, maximum=1.0),
    )

    def __init__(self, options: Settings) -> None:
        super().__init__(options)
        self._group: ControlGroup | None = None

    def after_start(self, context: HookContext) -> None:
        """Make the cgroup and move the servers into it."""
        parent, version = parent_cgroup()
        period_us = round(self.options.number("period") * 1e6)
        quota_us = max(1000, round(self.options.number("cpus") * period_us))

        def set_limit(folder: Path) -> None:
            if version == 1:
                (folder / "cpu.cfs_period_us").write_text(str(period_us))
                (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
            else:
                (folder / "cpu.max").write_text(f"{quota_us} {period_us}")

        self._group = ControlGroup.make(parent, context.run_id, "cpu")
        self._group.limit(set_limit)
        self._group.add(pid for name, pid in context.processes.items() if name.startswith("server"))
        context.record("cpus", self.options.number("cpus"))
        context.record("cgroup", str(self._group.folder))

    def after_run(self, context: HookContext) -> None:
        """Remove the cgroup."""
        if self._group is not None:
            self._group.remove()
