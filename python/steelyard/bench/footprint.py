"""What one run takes of a machine, as far as its settings say: time, memory, disk.

In: settings of a benchmark. Out: `Footprint`, and why a machine cannot meet them.

Invariant: what a benchmark does not state is None, never 0.

Not here: what earlier runs took (``suites.preflight``).
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.bench.limits.memory import available_memory_bytes
from steelyard.bench.parameters import Setting

if TYPE_CHECKING:
    from steelyard.records import Machine

SPREAD = 3.0
"""How many times faster or slower than measured a machine may do work whose amount is known, about."""


@dataclass(frozen=True, slots=True)
class Disk:
    """Files that a run writes."""

    size_bytes: int
    folder: Path | None = None
    """Where they lie; None for the run's own directory."""
    smaller: str = ""
    """What makes them smaller or moves them, for people."""
    stays: bool = False
    """Whether they are kept for later runs, so that what runs after it has less room."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one run takes."""

    least_s: float | None = None
    """Time of the phases whose length the settings say, or of work whose amount they say, at the least; None
    where they say neither."""
    most_s: float | None = None
    """The same at the most."""
    untimed: str = ""
    """What the run does besides, whose time only a run shows; empty for little."""
    memory_bytes: int | None = None
    disks: tuple[Disk, ...] = ()
    advice: str = ""
    """What this machine has that the settings leave unused, for people; empty for nothing."""

    @property
    def disk_bytes(self) -> int | None:
        """Return the disk space in all, None where the benchmark states none."""
        return sum(disk.size_bytes for disk in self.disks) if self.disks else None

    @property
    def stays(self) -> tuple[Disk, ...]:
        """Return the files that are kept for later runs."""
        return tuple(disk for disk in self.disks if disk.stays)


def load_span_s(settings: Mapping[str, Setting]) -> tuple[float | None, float | None]:
    """Return the least and most time of warm-up and measure phase by their usual names, None without."""
    if "measure" not in settings:
        return None, None
    measure_s = float(settings["measure"])
    least_s = float(settings.get("warmup_min", 0.0))
    return measure_s + least_s, measure_s + max(least_s, float(settings.get("warmup_max", 0.0)))


def work_span_s(fixed_s: float, cpu_s: float, cpus: int) -> tuple[float, float]:
    """Return the least and most time of work that is done as fast as the machine can.

    ``cpu_s`` is the CPU time that it took where it was measured, and ``cpus`` how many share it; ``fixed_s``
    is what more CPUs do not shorten: starts, single threads. How fast this machine is, its first run shows.
    """
    time_s = fixed_s + cpu_s / max(1, cpus)
    return time_s / SPREAD, time_s * SPREAD


def existing(folder: Path) -> Path:
    """Return the nearest folder above ``folder`` that is there."""
    return next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())


def free_bytes(folder: Path) -> int:
    """Return the free space of the disk that ``folder`` lies on, or will."""
    return shutil.disk_usage(existing(folder)).free


def misfit(
    footprint: Footprint, machine: "Machine", out: Path, *, before: Sequence[Disk] = ()
) -> tuple[str, str | None] | None:
    """Return why ``machine`` cannot meet ``footprint``, and what to do; None where it can.

    ``out`` is the folder of runs, ``before`` what earlier members of its suite will have left. Files on one
    disk are added up.
    """
    there = available_memory_bytes(machine)
    if footprint.memory_bytes is not None and footprint.memory_bytes > there:
        limit = "the cgroup's limit is" if there < machine.memory.total_bytes else "the machine has"
        return (
            f"it needs {footprint.memory_bytes >> 20} MiB of memory, and {limit} {there >> 20} MiB",
            "run it on a larger machine, or in a shorter tier",
        )
    left = _by_disk(before, out)
    for device, disks in _by_disk(footprint.disks, out).items():
        needed, folder = sum(disk.size_bytes for disk in disks), disks[0].folder or out
        kept = sum(disk.size_bytes for disk in left.get(device, ()))
        free = free_bytes(folder)
        if needed + kept > free:
            beside = f" beside {kept >> 20} MiB that members before it leave" if kept else ""
            return (
                f"it needs {needed >> 20} MiB of disk{beside}, and {existing(folder)} has {free >> 20} MiB",
                next((disk.smaller for disk in disks if disk.smaller), "choose another disk with --out"),
            )
    return None


def _by_disk(disks: Sequence[Disk], out: Path) -> dict[int, list[Disk]]:
    """Return files by the number of the device that they lie on, or will."""
    found: dict[int, list[Disk]] = {}
    for disk in disks:
        found.setdefault(existing(disk.folder or out).stat().st_dev, []).append(disk)
    return found
