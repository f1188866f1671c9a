"""What looking at a workload cost while it ran, by tool: CPU time that was not there for the workload.

In: a run's folder, as its tools left it. Out: seconds by tool, for the manifest's hook ``cost``; None where a
tool was there and does not say.

Not here: what naming functions and drawing the report cost, which come after the workload.
"""

from collections.abc import Mapping
from pathlib import Path

from steelyard._base import SteelyardError
from steelyard.records import Telemetry, read

HOOK = "cost"
PROFILER = "profiler"
_RECORDINGS = {"telemetry": "telemetry", "looks at threads": "target", "counters": "counters"}
_HEAD_LINES = 64


def tool_cpu_s(folder: Path, own_cpu_s: float) -> dict[str, float | None]:
    """Return CPU time by tool, s, until the workload had ended."""
    by_tool: dict[str, float | None] = {"steelyard itself": own_cpu_s}
    for name, place in _RECORDINGS.items():
        if (folder / place / "telemetry.json").is_file():
            by_tool[name] = _recorded_s(folder / place / "telemetry.json")
    profile = folder / "profile.folded"
    if profile.is_file():
        by_tool[PROFILER] = _profiler_s(profile)
    return by_tool


def cpus(cost: Mapping[str, float | None], elapsed_s: float) -> float | None:
    """Return the mean number of CPUs that the tools used; None where one of them does not say."""
    known = [each for each in cost.values() if each is not None]
    return sum(known) / elapsed_s if elapsed_s > 0 and len(known) == len(cost) else None


def _recorded_s(path: Path) -> float | None:
    try:
        cost = read(Telemetry, path).cost
    except SteelyardError:
        return None
    return cost.cpu_user_s + cost.cpu_system_s if cost is not None else None


def _profiler_s(path: Path) -> float | None:
    with path.open("rb") as file:
        for _, line in zip(range(_HEAD_LINES), file, strict=False):
            if line.startswith(b"# recorder_cpu_s: "):
                try:
                    return float(line.split(b":", 1)[1])
                except ValueError:
                    return None
    return None
