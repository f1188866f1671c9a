"""Control groups of a test's own, made and removed, in whichever version has the CPU controller."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

MOUNTS = Path("/sys/fs/cgroup")
_V1 = ("cpu", "cpuacct")


class Groups:
    """The groups below one folder, which is the test's own."""

    def __init__(self, roots: list[Path], name: str) -> None:
        self.name = name
        self.roots = roots
        self.made: list[str] = []

    @property
    def is_v1(self) -> bool:
        return not (MOUNTS / "cgroup.controllers").exists()

    def _folders(self, path: str) -> list[Path]:
        return [root / self.name / path for root in self.roots]

    def make(self, path: str) -> None:
        """Make the group ``path`` below the test's folder."""
        for root in self.roots:
            folder = root / self.name
            for part in path.split("/"):
                if not self.is_v1:
                    (folder / "cgroup.subtree_control").write_text("+cpu")
                folder = folder / part
                folder.mkdir(exist_ok=True)
        self.made.append(path)

    def join(self, path: str) -> None:
        """Move this process into the group: to be called between fork and exec."""
        for folder in self._folders(path):
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def quota(self, path: str) -> str:
        """Return what the group is left, as the kernel says it: ``-1`` or ``max`` for everything."""
        file = "cpu.cfs_quota_us" if self.is_v1 else "cpu.max"
        return (self._folders(path)[0] / file).read_text().split()[0]

    def cpu_s(self, path: str) -> float:
        """Return the CPU time of the group so far, in seconds."""
        if self.is_v1:
            return int((self._folders(path)[1] / "cpuacct.usage").read_text()) / 1e9
        return int((self._folders(path)[0] / "cpu.stat").read_text().split()[1]) / 1e6

    def is_capped(self, path: str) -> bool:
        return self.quota(path) not in ("-1", "max")

    def remove(self) -> None:
        """End whatever is in the groups, and remove them."""
        for path in self.made:
            for folder in self._folders(path):
                end_all(folder)
        for root in self.roots:
            for below, _, _ in os.walk(root / self.name, topdown=False):
                remove(Path(below))


def end_all(folder: Path) -> None:
    """Kill the processes of one group, which were started by the test, until there are none."""
    deadline = time.monotonic() + 10
    while folder.exists() and (ids := (folder / "cgroup.procs").read_text().split()):
        assert time.monotonic() < deadline, f"{folder} is not empty"
        for one in ids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(one), 9)
        time.sleep(0.01)


def remove(folder: Path) -> None:
    """Remove a group that the last process may be leaving just now."""
    deadline = time.monotonic() + 10
    while folder.exists():
        try:
            folder.rmdir()
        except OSError:
            assert time.monotonic() < deadline, f"{folder} cannot be removed"
            time.sleep(0.01)


@contextlib.contextmanager
def own_groups(name: str) -> Iterator[Groups]:
    """Make a folder of groups; skip the test where none can be made."""
    v2 = MOUNTS / "cgroup.controllers"
    if v2.exists():
        roots = [MOUNTS]
        if "cpu" not in v2.read_text().split():
            pytest.skip("the CPU controller of control groups is not available")
    else:
        roots = [MOUNTS / controller for controller in _V1]
    try:
        for root in roots:
            if v2.exists():
                (root / "cgroup.subtree_control").write_text("+cpu")
            (root / name).mkdir()
    except OSError as error:
        pytest.skip(f"control groups cannot be made here: {error}")
    groups = Groups(roots, name)
    try:
        yield groups
    finally:
        groups.remove()
