"""The CPU time of each process over a span, from telemetry that looks at processes about once a second.

In: a recording and a span. Out: `ProcessTime` of each process that was seen in it. One that began in the span
counts from its begin; what it used after it was last seen is not known.

Not here: whose a process is (``interference``).
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard.telemetry import Recording

_KEY = ("pid", "start_ticks")
_TICK_NS = 1e9 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """CPU time of one process; ``command`` is what it was called last, ``resident_bytes`` its most."""

    pid: int
    command: str
    user_ns: float
    system_ns: float
    resident_bytes: float | None

    @property
    def total_ns(self) -> float:
        """CPU time in both modes."""
        return self.user_ns + self.system_ns

    @property
    def is_kernel(self) -> bool:
        """Whether it is a thread of the kernel, which has no memory of its own."""
        return self.resident_bytes == 0


def process_times(recording: "Recording", begin_ns: int, end_ns: int) -> list[ProcessTime]:
    """Return what each process used between two times, the busiest first; nothing without such telemetry."""
    if recording.missing("process"):
        return []
    # Here and not above: whoever begins a run loads this module, and the tables' libraries are for its end.
    from steelyard.telemetry.engine import fetch_rows
    from steelyard.telemetry.tables import within

    rows = within(recording.table("process").rows, begin_ns, end_ns)
    ends = {"first_ns": rows.time_ns.min(), "last_ns": rows.time_ns.max()}
    for name in ("user_ns", "system_ns"):
        ends |= {
            f"first_{name}": rows[name].argmin(rows.time_ns),
            f"last_{name}": rows[name].argmax(rows.time_ns),
        }
    ends |= {"command": rows.command.argmax(rows.time_ns), "resident": rows.rss_bytes.max()}
    ends["threads"] = rows.threads.max()
    found = [_time(row, begin_ns) for row in fetch_rows(rows.group_by(list(_KEY)).aggregate(**ends))]
    return sorted((one for one in found if one is not None), key=lambda one: -one.total_ns)


def _time(row: dict[str, object], begin_ns: int) -> ProcessTime | None:
    """Return what a process used between its first and its last row, or since its begin."""
    figures = {name: row[name] for name in row if name != "command" and row[name] is not None}
    numbers = {name: float(value) for name, value in figures.items()}  # type: ignore[arg-type]
    if not numbers.keys() >= {f"{end}_{mode}_ns" for end in ("first", "last") for mode in ("user", "system")}:
        return None
    begun_ns, first_ns = numbers["start_ticks"] * _TICK_NS, numbers["first_ns"]
    before = numbers["first_user_ns"] + numbers["first_system_ns"]
    # The kernel counts starts from the boot, sleep of the machine included: what could not have used so much
    # since then is older than it seems.
    most_ns = (first_ns - begun_ns) * max(1.0, numbers.get("threads", 1.0)) + 2 * _TICK_NS
    is_new = begin_ns - _TICK_NS <= begun_ns <= first_ns and before <= most_ns
    gains = [
        numbers[f"last_{mode}_ns"] - (0.0 if is_new else numbers[f"first_{mode}_ns"])
        for mode in ("user", "system")
    ]
    return ProcessTime(int(numbers["pid"]), str(row["command"]), gains[0], gains[1], numbers.get("resident"))
