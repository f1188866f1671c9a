"""Whether disks have room for what a run will write.

In: folders with what each will hold. Out: nothing, or the disk that is too small; folders on one disk count
together.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import EnvironmentLacksError


@dataclass(frozen=True, slots=True)
class Demand:
    """What a folder will hold, and the parameter that chooses it."""

    folder: Path
    needed_bytes: int
    parameter: str


def require_space(demands: Sequence[Demand], *, size: str, size_parameter: str) -> None:
    """Raise EnvironmentLacksError where a disk has too little space for ``size``, which names the amount."""
    by_disk: dict[int, list[Demand]] = {}
    for demand in demands:
        path = demand.folder.absolute()
        there = next(each for each in (path, *path.parents) if each.exists())
        on_disk = Demand(there, demand.needed_bytes, demand.parameter)
        by_disk.setdefault(there.stat().st_dev, []).append(on_disk)
    for found in by_disk.values():
        needed = sum(demand.needed_bytes for demand in found)
        free = shutil.disk_usage(found[0].folder).free
        if free < needed:
            names = " or ".join(f"--set {demand.parameter}=..." for demand in found)
            raise EnvironmentLacksError(
                f"{size} needs about {needed >> 20} MiB of disk space, and"
                f" {found[0].folder} has {free >> 20} MiB",
                hint=f"choose less with --set {size_parameter}=..., or another disk with {names}",
            )
