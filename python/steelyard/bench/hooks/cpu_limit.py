"""Hook ``cpu-limit``: gives the servers a share of their CPUs' time, by a cgroup quota.

In: a number of CPUs. Out: servers in a cgroup of their own for the length of the run. The cgroup stands in
the undo journal before it is made, so that the next run removes one that a killed run left.

Works with cgroup version 1 (cpu controller) and version 2 (cpu controller open to the parent's children).
"""

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from steelyard._base import EnvironmentLacksError
from steelyard.bench import undo
from steelyard.bench.hook import Hook, HookContext
from steelyard.bench.parameters import Parameter, Settings

KIND = "cpu-limit cgroup"
_REMOVE_TIMEOUT_S = 5.0


def parent_cgroup(root: Path = Path("/")) -> tuple[Path, int]:
    """Return the folder of this process's CPU cgroup and the cgroup version.

    Raises EnvironmentLacksError where no CPU controller is open to it.
    """
    # Not at the top: `steelyard list` would load the whole package of machines.
    from steelyard.machine.cgroups import hierarchies
    from steelyard.machine.tree import Tree

    tree = Tree(root)
    for hierarchy in hierarchies(tree):
        version, group = hierarchy.version, hierarchy.groups[0]
        if version == 1 and "cpu" in hierarchy.controllers and tree.exists(f"{group}/cgroup.procs"):
            return tree.path(group), 1
        if version == 2 and "cpu" in (tree.text(f"{group}/cgroup.subtree_control") or "").split():
            return tree.path(group), 2
    raise EnvironmentLacksError(
        "no cgroup with a CPU controller is open to this process",
        hint="run as root, or under systemd-run --user --scope -p Delegate=cpu",
    )


def _descendants(pid: int, proc: Path = Path("/proc")) -> list[int]:
    """Return ``pid`` and all processes below it."""
    pids = [pid]
    for known in pids:
        for children in sorted(proc.glob(f"{known}/task/*/children")):
            with contextlib.suppress(OSError):
                pids += [int(child) for child in children.read_text().split()]
    return pids


def _remove(details: Mapping[str, str]) -> None:
    """Remove the cgroup, moving whatever still lives in it to the one above."""
    folder = Path(details["path"])
    until = time.monotonic() + _REMOVE_TIMEOUT_S
    while folder.exists():
        with contextlib.suppress(OSError):
            for pid in (folder / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    (folder.parent / "cgroup.procs").write_text(pid)
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            # Exiting processes leave a cgroup a moment after their parent saw them end.
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


undo.register(KIND, _remove)


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
        self._change: undo.Change | None = None

    def after_start(self, context: HookContext) -> None:
        """Make the cgroup and move the servers into it."""
        parent, version = parent_cgroup()
        folder = parent / f"steelyard-{context.run_id}"
        self._change = undo.Change.begin(f"cpu-limit-{context.run_id}", KIND, {"path": str(folder)})
        period_us = round(self.options.number("period") * 1e6)
        quota_us = max(1000, round(self.options.number("cpus") * period_us))
        try:
            folder.mkdir()
            if version == 1:
                (folder / "cpu.cfs_period_us").write_text(str(period_us))
                (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
            else:
                (folder / "cpu.max").write_text(f"{quota_us} {period_us}")
            for name, pid in context.processes.items():
                if name.startswith("server"):
                    for member in _descendants(pid):
                        with contextlib.suppress(ProcessLookupError):
                            (folder / "cgroup.procs").write_text(str(member))
        except OSError as error:
            raise EnvironmentLacksError(
                f"{folder}: the CPU limit cannot be set: {os.strerror(error.errno or 0)}",
                hint="run as root, or with a cgroup delegated to you",
            ) from error
        context.record("cpus", self.options.number("cpus"))
        context.record("cgroup", str(folder))

    def after_run(self, context: HookContext) -> None:
        """Remove the cgroup."""
        if self._change is not None:
            self._change.undo()
