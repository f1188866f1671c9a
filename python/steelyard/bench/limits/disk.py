"""A limit on the rate at which processes read from and write to one disk, by the block I/O controller.

In: a whole disk, bytes per second. Out: a control group whose processes the kernel holds to that rate.

Version 1 counts a write against whoever submits it: direct and synchronous writes are limited, writes that go
through the page cache are not, because the kernel writes them back itself. Version 2 limits them too.
"""

from pathlib import Path

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.bench.limits.control_group import ControlGroup, parent_group


class DiskLimit:
    """A limit on one disk. ``rate_bytes_per_s`` holds for reads and for writes, each on its own."""

    def __init__(self, device: str, rate_bytes_per_s: float, *, root: Path = Path("/")) -> None:
        self.device = device
        self.rate_bytes_per_s = rate_bytes_per_s
        self._root = root
        self._group: ControlGroup | None = None

    def number(self) -> str:
        """Return the kernel's number of the disk. Raises UsageError where it is not a whole disk."""
        disks = sorted(path.name for path in (self._root / "sys/block").glob("*"))
        if self.device in disks:
            return (self._root / "sys/block" / self.device / "dev").read_text().strip()
        partition = self._root / "sys/class/block" / self.device
        if (partition / "partition").exists():
            whole = partition.resolve().parent.name
            raise UsageError(
                f"{self.device} is a partition, and limits are set on whole disks", hint=f"limit {whole}"
            )
        raise UsageError(
            f"there is no disk {self.device}", hint=f"disks: {', '.join(disks)}" if disks else None
        )

    def check(self) -> None:
        """Raise UsageError or EnvironmentLacksError where the limit cannot be set."""
        self.number()
        self._parent()

    def _parent(self) -> tuple[Path, int]:
        return parent_group("blkio", "io", noun="block I/O", root=self._root)

    def group(self, run_id: str) -> ControlGroup:
        """Return the group, made where it was not, without a limit: telemetry sees it before it is used.

        Raises EnvironmentLacksError where the kernel refuses.
        """
        if self._group is None:
            parent, _ = self._parent()
            self._group = ControlGroup.make(parent, run_id, "disk")
        return self._group

    def set(self, run_id: str) -> Path:
        """Set the limit, on a group that is made where it was not, and return the group.

        Raises EnvironmentLacksError where the kernel refuses.
        """
        number, (_, version) = self.number(), self._parent()
        rate = max(1, round(self.rate_bytes_per_s))

        def set_limit(folder: Path) -> None:
            if version == 2:
                (folder / "io.max").write_text(f"{number} rbps={rate} wbps={rate}")
                return
            names = ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device")
            missing = [name for name in names if not (folder / name).exists()]
            if missing:
                raise EnvironmentLacksError(
                    f"{folder}: this kernel cannot limit disks: there is no {missing[0]}",
                    hint="use a kernel built with CONFIG_BLK_DEV_THROTTLING",
                )
            for name in names:
                (folder / name).write_text(f"{number} {rate}")

        group = self.group(run_id)
        group.limit(set_limit)
        return group.folder

    def hold(self, *pids: int) -> None:
        """Hold processes, and whatever they start from now on, to the limit."""
        if self._group is None:
            raise AssertionError("set before")
        self._group.add(pids)

    def undo(self) -> None:
        """Take the limit back. Harmless when called twice, or before it was set."""
        if self._group is not None:
            self._group.remove()
            self._group = None
