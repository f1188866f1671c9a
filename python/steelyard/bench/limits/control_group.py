"""A control group for the processes of a run, to limit what they use together.

In: a controller, processes. Out: a group below this process's own that holds them and whatever they start.
The group stands in the undo journal before it is made, so that the next run removes one that a killed run
left. Limits of one run share one group where the kernel has one tree for all controllers (version 2).

Works with cgroup version 1 and with version 2 (the controller open to the parent's children). Not here: the
limits themselves.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from steelyard._base import EnvironmentLacksError
from steelyard.bench import undo
from steelyard.bench.children import descendants_of

KIND = "limit cgroup"
_REMOVE_TIMEOUT_S = 5.0


def parent_group(first: str, second: str, *, noun: str, root: Path = Path("/")) -> tuple[Path, int]:
    """Return the folder of this process's group of a controller, and the cgroup version.

    ``first`` and ``second`` are the controller's names in version 1 and 2. Raises EnvironmentLacksError where
    it is not open to this process.
    """
    # Not at the top: `steelyard list` would load the whole package of machines.
    from steelyard.machine.cgroups import hierarchies
    from steelyard.machine.tree import Tree

    tree = Tree(root)
    for hierarchy in hierarchies(tree):
        version, group = hierarchy.version, hierarchy.groups[0]
        if version == 1 and first in hierarchy.controllers and tree.exists(f"{group}/cgroup.procs"):
            return tree.path(group), 1
        open_to_children = (tree.text(f"{group}/cgroup.subtree_control") or "").split()
        if version == 2 and second in open_to_children:
            return tree.path(group), 2
    raise EnvironmentLacksError(
        f"no cgroup with a {noun} controller is open to this process",
        hint=f"run as root, or under systemd-run --user --scope -p Delegate={second}",
    )


def remove_group(folder: Path) -> None:
    """Remove a group, moving whatever still lives in it to the one above. Raises OSError."""
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


undo.register(KIND, lambda details: remove_group(Path(details["path"])))


class ControlGroup:
    """A group that was made for the processes of a run."""

    def __init__(self, folder: Path, kind: str, change: undo.Change) -> None:
        self.folder = folder
        self._kind = kind
        self._change = change

    @classmethod
    def make(cls, parent: Path, run_id: str, kind: str) -> "ControlGroup":
        """Make the group, as yet without a limit of this ``kind``; raises EnvironmentLacksError."""
        folder = parent / f"steelyard-{run_id}"
        change = undo.Change.begin(f"{kind}-limit-{run_id}", KIND, {"path": str(folder)})
        group = cls(folder, kind, change)
        group.limit(lambda folder: folder.mkdir(exist_ok=True))
        return group

    def limit(self, set_limit: Callable[[Path], None]) -> None:
        """Let ``set_limit`` write into the group's files. Raises EnvironmentLacksError and removes it."""
        try:
            set_limit(self.folder)
        except OSError as error:
            self._change.undo()
            raise EnvironmentLacksError(
                f"{self.folder}: the {self._kind} limit cannot be set: {os.strerror(error.errno or 0)}",
                hint="run as root, or with a cgroup delegated to you",
            ) from error

    def add(self, pids: Iterable[int]) -> None:
        """Move processes and all that they started into the group."""
        for pid in pids:
            for member in (pid, *descendants_of(pid)):
                with contextlib.suppress(ProcessLookupError):
                    (self.folder / "cgroup.procs").write_text(str(member))

    def remove(self) -> None:
        """Remove the group; its processes go back to the one above."""
        self._change.undo()
