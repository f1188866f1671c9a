"""Spark's event log: what stages did, and which executors were lost.

In: the event log of one application, complete or growing. Out: `Stage`s with figures and times, and `Lost`
executors.

Times are CLOCK_MONOTONIC, ns: those of the log are the driver's real time in ms, moved by what the driver
says of both clocks. Not here: which stage of the query does what (``metrics``).
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from steelyard._base import WorkloadFailedError

_SUCCESS = "Success"
_PREFIX = "internal.metrics."
_BLOCK_BYTES = 1 << 22


@dataclass(slots=True)
class Stage:
    """One stage of a query. Figures are sums over its tasks."""

    id: int
    query: str
    begin_ns: int
    """Start of its first task."""
    end_ns: int
    """End of its last task."""
    tasks: int
    failed_tasks: int
    cpu_s: float = 0.0
    run_s: float = 0.0
    """Time of tasks, waiting included."""
    gc_s: float = 0.0
    read_bytes: int = 0
    read_rows: int = 0
    shuffle_read_bytes: int = 0
    shuffle_written_bytes: int = 0
    spilled_disk_bytes: int = 0
    spilled_memory_bytes: int = 0
    """Size in memory of what was spilled."""
    written_bytes: int = 0
    written_rows: int = 0
    spans_ns: list[tuple[int, int]] = field(default_factory=list)
    """Start and end of every task."""

    @property
    def seconds(self) -> float:
        """Return its length."""
        return (self.end_ns - self.begin_ns) / 1e9

    def as_document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Lost:
    """An executor that went away while the application ran."""

    executor: str
    reason: str


class Tail:
    """An event log that grows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._at = 0
        self._rest = b""

    def lost(self) -> list[Lost]:
        """Return the executors that were lost since the last call."""
        found: list[Lost] = []
        path = log_of(self._folder)
        if path is None:
            return found
        try:
            with path.open("rb") as file:
                file.seek(self._at)
                while block := file.read(_BLOCK_BYTES):
                    self._at += len(block)
                    *lines, self._rest = (self._rest + block).split(b"\n")
                    found += [lost for line in lines if (lost := _lost(line)) is not None]
        except FileNotFoundError:
            # It is renamed when the application ends.
            return found
        return found


def log_of(folder: Path) -> Path | None:
    """Return the event log in ``folder``, None before there is one."""
    return next((path for path in sorted(folder.glob("*")) if path.is_file() and path.name[0] != "."), None)


def _lost(line: bytes) -> Lost | None:
    # Most lines are ends of tasks: only those that matter are parsed.
    if b"SparkListenerExecutorRemoved" not in line[:80]:
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    return Lost(str(event.get("Executor ID")), str(event.get("Removed Reason", "")).rstrip("."))


def read_stages(path: Path, offset_ns: int) -> list[Stage]:
    """Return the stages of queries that ran, by start; ``offset_ns`` is monotonic minus real time.

    Raises WorkloadFailedError when the log is none.
    """
    queries: dict[int, str] = {}
    spans: dict[int, list[tuple[int, int]]] = {}
    failed: dict[int, int] = {}
    stages: list[Stage] = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                event = json.loads(line)
                kind = event["Event"]
                if kind == "SparkListenerJobStart":
                    group = (event.get("Properties") or {}).get("spark.jobGroup.id", "")
                    queries |= dict.fromkeys(event["Stage IDs"], group)
                elif kind == "SparkListenerTaskEnd":
                    stage, info = event["Stage ID"], event["Task Info"]
                    span = (
                        _monotonic(info["Launch Time"], offset_ns),
                        _monotonic(info["Finish Time"], offset_ns),
                    )
                    spans.setdefault(stage, []).append(span)
                    if event["Task End Reason"]["Reason"] != _SUCCESS:
                        failed[stage] = failed.get(stage, 0) + 1
                elif kind == "SparkListenerStageCompleted" and event["Stage Info"]["Stage ID"] in spans:
                    stages.append(_stage(event["Stage Info"], queries, spans, failed))
            except (
                ValueError,
                LookupError,
                TypeError,
                AttributeError,
                OverflowError,
                RecursionError,
            ) as error:
                raise WorkloadFailedError(f"{path}: line {number} is no event of Spark: {error!r}") from error
    return sorted(stages, key=lambda stage: stage.begin_ns)


def _monotonic(real_ms: int, offset_ns: int) -> int:
    return int(real_ms) * 1_000_000 + offset_ns


def _stage(
    info: dict[str, Any],
    queries: dict[int, str],
    spans: dict[int, list[tuple[int, int]]],
    failed: dict[int, int],
) -> Stage:
    number = int(info["Stage ID"])
    values = {
        str(each["Name"]).removeprefix(_PREFIX): each["Value"]
        for each in info["Accumulables"]
        if str(each.get("Name", "")).startswith(_PREFIX)
    }

    def count(*names: str) -> int:
        # Spark leaves out what stayed 0.
        return sum(int(values.get(name, 0)) for name in names)

    tasks = sorted(spans[number])
    return Stage(
        id=number,
        query=queries.get(number, ""),
        begin_ns=tasks[0][0],
        end_ns=max(end for _, end in tasks),
        tasks=int(info["Number of Tasks"]),
        failed_tasks=failed.get(number, 0),
        cpu_s=count("executorCpuTime") / 1e9,
        run_s=count("executorRunTime") / 1e3,
        gc_s=count("jvmGCTime") / 1e3,
        read_bytes=count("input.bytesRead"),
        read_rows=count("input.recordsRead"),
        shuffle_read_bytes=count("shuffle.read.localBytesRead", "shuffle.read.remoteBytesRead"),
        shuffle_written_bytes=count("shuffle.write.bytesWritten"),
        spilled_disk_bytes=count("diskBytesSpilled"),
        spilled_memory_bytes=count("memoryBytesSpilled"),
        written_bytes=count("output.bytesWritten"),
        written_rows=count("output.recordsWritten"),
        spans_ns=tasks,
    )
