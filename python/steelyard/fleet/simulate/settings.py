"""What a simulated fleet is asked to be.

In: the options of ``steelyard fleet simulate``. Out: `Settings`, checked, with the sizes that follow from it.

Invariants: the data of a store is a function of these settings alone; the clock and the machine take no part.

Not here: anything that is drawn at random (``plan``).
"""

from __future__ import annotations

import datetime
from dataclasses import asdict, dataclass
from typing import Any

from steelyard._base.errors import UsageError

DAY_S = 86_400
COUNTING_WINDOW_S = 10.0
"""Each minute 10 s are counted per task: CPI2 (EuroSys'13), section 3."""
_BLOCK_ROWS = 800_000
FILES = ("machine", "compact")
COMPRESSIONS = ("zstd", "snappy", "none")
START = "2026-03-02"
"""A Monday, so that a week of days is a week of the fleet."""


@dataclass(frozen=True)
class Settings:
    """A fleet's size and what is in it. ``step_s`` is the time between two windows of a task."""

    machines: int = 50
    jobs: int = 12
    days: int = 2
    seed: int = 1
    files: str = "compact"
    start: str = START
    step_s: int = 60
    tasks_per_machine: int | None = None
    clusters: int | None = None
    platforms: int = 4
    profiled_ratio: float = 0.01
    episodes_per_machine_day: float = 0.3
    self_inflicted_per_machine_day: float = 0.05
    faults: bool = False
    block_machines: int | None = None
    compression: str = "zstd"

    def __post_init__(self) -> None:
        """Refuse what no fleet can be."""
        for name, low in (("machines", 1), ("jobs", 4), ("days", 1), ("seed", 0)):
            if getattr(self, name) < low:
                raise UsageError(f"--{name.replace('_', '-')} {getattr(self, name)}: at least {low}")
        if self.files not in FILES:
            raise UsageError(f"--files {self.files}: one of {', '.join(FILES)}")
        if self.compression not in COMPRESSIONS:
            raise UsageError(f"--compression {self.compression}: one of {', '.join(COMPRESSIONS)}")
        if self.step_s < COUNTING_WINDOW_S or 3600 % self.step_s:
            raise UsageError(f"--step-s {self.step_s}: 10 or more, and a divisor of 3600")
        if not 0 < self.profiled_ratio <= 1:
            raise UsageError(f"--profiled-ratio {self.profiled_ratio}: above 0, at most 1")
        if not 1 <= self.platforms <= 4:
            raise UsageError(f"--platforms {self.platforms}: 1 to 4")
        if self.tasks_per_machine is not None and self.tasks_per_machine < 2:
            raise UsageError(f"--tasks-per-machine {self.tasks_per_machine}: at least 2")
        if self.clusters is not None and not 1 <= self.clusters <= self.machines:
            raise UsageError(f"--clusters {self.clusters}: 1 to the number of machines")
        for name in ("episodes_per_machine_day", "self_inflicted_per_machine_day"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"--{name.replace('_', '-')} {getattr(self, name)}: 0 to 1")
        try:
            datetime.date.fromisoformat(self.start)
        except ValueError:
            raise UsageError(f"--start {self.start}: a date such as {START}") from None

    @property
    def windows(self) -> int:
        """Windows of a task in a day."""
        return DAY_S // self.step_s

    @property
    def slot_windows(self) -> int:
        """Windows for which memory and scheduling stay as they are: 5 minutes, the NUMA paper's interval."""
        return max(1, 300 // self.step_s)

    @property
    def tasks_each(self) -> int:
        """Mean tasks of a machine: fewer than jobs, so that not every job is beside every other."""
        tasks = self.tasks_per_machine or 12
        return tasks if self.tasks_per_machine else max(2, min(tasks, self.jobs * 2 // 3))

    @property
    def block_size(self) -> int:
        """Machines that are computed together: about 800,000 task samples a day, to bound memory."""
        return self.block_machines or min(64, max(1, _BLOCK_ROWS // (self.tasks_each * self.windows)))

    @property
    def cluster_count(self) -> int:
        """Clusters: one for a handful of machines, two or more otherwise."""
        if self.clusters is not None:
            return self.clusters
        return 1 if self.machines < 8 else max(2, self.machines // 500)

    def date(self, day: int) -> datetime.date:
        """Return the UTC day number ``day`` of the simulation."""
        return datetime.date.fromisoformat(self.start) + datetime.timedelta(days=day)

    def day_start_s(self, day: int) -> int:
        """Return when that day begins, Unix time."""
        date = self.date(day)
        return int(datetime.datetime(date.year, date.month, date.day, tzinfo=datetime.UTC).timestamp())

    def document(self) -> dict[str, Any]:
        """Return the settings as the truth keeps them."""
        return asdict(self) | {
            "windows_per_day": self.windows,
            "clusters": self.cluster_count,
            "tasks_per_machine": self.tasks_each,
        }
