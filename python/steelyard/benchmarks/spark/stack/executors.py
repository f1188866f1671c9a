"""What each executor of a Spark application did, and the host that it was on.

In: the event log of an application that has ended, names of its measured jobs. Out: `Executor`s with sums
over their tasks of those jobs; and the same by host.

Not here: sums by stage (``events``); telemetry of the hosts (``far``).
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from steelyard._base import WorkloadFailedError

_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(slots=True)
class Executor:
    """One executor. Figures are sums over its tasks of the measured jobs."""

    id: str
    host: str
    slots: int
    """Tasks that it runs at once."""
    tasks: int = 0
    failed_tasks: int = 0
    cpu_s: float = 0.0
    run_s: float = 0.0
    """Time of tasks, waiting included."""
    gc_s: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    shuffle_read_bytes: int = 0
    remote_read_bytes: int = 0
    """Of those, from another executor's disk."""
    shuffle_written_bytes: int = 0
    spilled_disk_bytes: int = 0

    def add(self, other: "Executor") -> None:
        """Add the figures of another one."""
        for name in _FIGURES:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def as_document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


_FIGURES = tuple(name for name in Executor.__dataclass_fields__ if name not in ("id", "host"))


def read_executors(path: Path, jobs: Collection[str]) -> list[Executor]:
    """Return the executors that were there, by host; only tasks of ``jobs`` count.

    Raises WorkloadFailedError when the log is none.
    """
    executors: dict[str, Executor] = {}
    measured: dict[int, bool] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                event = json.loads(line)
                kind = event["Event"]
                if kind == "SparkListenerExecutorAdded":
                    name, info = str(event["Executor ID"]), event["Executor Info"]
                    executors[name] = Executor(name, str(info["Host"]), int(info["Total Cores"]))
                elif kind == "SparkListenerJobStart":
                    group = (event.get("Properties") or {}).get("spark.jobGroup.id", "")
                    measured |= dict.fromkeys(event["Stage IDs"], group in jobs)
                elif kind == "SparkListenerTaskEnd" and measured.get(event["Stage ID"]):
                    info = event["Task Info"]
                    name = str(info["Executor ID"])
                    executor = executors.setdefault(name, Executor(name, str(info["Host"]), 0))
                    executor.add(_task(executor, event))
            except _DAMAGE as error:
                raise WorkloadFailedError(f"{path}: line {number} is no event of Spark: {error!r}") from error
    return sorted(executors.values(), key=lambda each: (each.host, each.id))


def _task(executor: Executor, event: Mapping[str, Any]) -> Executor:
    """Return what one task adds to its executor."""
    # A task that failed early has no figures.
    figures = event.get("Task Metrics") or {}

    def count(*names: str) -> int:
        found: Any = figures
        for name in names:
            found = found.get(name, {})
        return int(found or 0)

    remote = count("Shuffle Read Metrics", "Remote Bytes Read")
    return Executor(
        executor.id,
        executor.host,
        slots=0,
        tasks=1,
        failed_tasks=int(event["Task End Reason"]["Reason"] != "Success"),
        cpu_s=count("Executor CPU Time") / 1e9,
        run_s=count("Executor Run Time") / 1e3,
        gc_s=count("JVM GC Time") / 1e3,
        read_bytes=count("Input Metrics", "Bytes Read"),
        written_bytes=count("Output Metrics", "Bytes Written"),
        shuffle_read_bytes=count("Shuffle Read Metrics", "Local Bytes Read") + remote,
        remote_read_bytes=remote,
        shuffle_written_bytes=count("Shuffle Write Metrics", "Shuffle Bytes Written"),
        spilled_disk_bytes=count("Disk Bytes Spilled"),
    )


def by_host(executors: Iterable[Executor]) -> dict[str, Executor]:
    """Return sums of executors by their host; the ``id`` of a sum lists theirs."""
    hosts: dict[str, Executor] = {}
    for each in executors:
        known = hosts.get(each.host)
        if known is None:
            hosts[each.host] = Executor(each.id, each.host, slots=0)
        else:
            known.id += f" {each.id}"
        hosts[each.host].add(each)
    return hosts


def skew(hosts: Sequence[Executor]) -> float | None:
    """Return the CPU time of the busiest host over the mean, None without CPU time.

    >>> skew([Executor("0", "a", 1, cpu_s=3.0), Executor("1", "b", 1, cpu_s=1.0)])
    1.5
    """
    total = sum(host.cpu_s for host in hosts)
    return max(host.cpu_s for host in hosts) * len(hosts) / total if total else None
