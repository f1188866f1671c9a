"""What the history of Hadoop's jobs says: phases of tasks with their times and counters.

In: the driver's lines of JSON. Out: `Round`s of `Job`s, with times of CLOCK_MONOTONIC.

Not here: metrics of them (``metrics``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from steelyard._base import WorkloadFailedError

_COUNTERS = (
    *("tasks", "input_records", "input_bytes", "output_records", "output_bytes", "spilled_records"),
    *("shuffled_bytes", "file_read_bytes", "file_written_bytes"),
)


@dataclass(frozen=True, slots=True)
class Phase:
    """The map or the reduce tasks of a job. Figures are sums over its tasks."""

    begin_ns: int
    """Start of its first task; of reduce tasks that started earlier, the end of the last map task."""
    end_ns: int
    tasks: int
    cpu_s: float
    gc_s: float
    input_records: int
    input_bytes: int
    output_records: int
    output_bytes: int
    spilled_records: int
    shuffled_bytes: int
    file_read_bytes: int
    """Read from local disks, of this machine or the cluster's."""
    file_written_bytes: int
    spans_ns: list[tuple[int, int]]
    """Start and end of every task."""

    @property
    def seconds(self) -> float:
        """Return its length."""
        return (self.end_ns - self.begin_ns) / 1e9

    @property
    def run_s(self) -> float:
        """Return the time of its tasks together."""
        return sum(end - begin for begin, end in self.spans_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Job:
    """One job that has ended."""

    name: str
    end_ns: int
    failed_attempts: int
    phases: Mapping[str, Phase]
    """``map`` and, where it has reduce tasks, ``reduce``."""


@dataclass(frozen=True, slots=True)
class Round:
    """The jobs of the benchmark once, one after the other."""

    name: str
    begin_ns: int
    end_ns: int
    jobs: Sequence[Job]

    @property
    def seconds(self) -> float:
        """Return its time, from the first submission to the end of the last job."""
        return (self.end_ns - self.begin_ns) / 1e9

    def phases(self) -> list[tuple[str, Phase]]:
        """Return the phases by name: ``map``, or ``train_map`` where there are several jobs."""
        prefixed = len(self.jobs) > 1
        return [
            (f"{job.name}_{name}" if prefixed else name, phase)
            for job in self.jobs
            for name, phase in job.phases.items()
        ]

    def total(self, figure: str, phase: str | None = None) -> float:
        """Return the sum of a figure over all its phases, or those called ``phase``."""
        return float(
            sum(
                getattr(each, figure)
                for job in self.jobs
                for name, each in job.phases.items()
                if phase in (None, name)
            )
        )

    def as_document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "name": self.name,
            "begin_ns": self.begin_ns,
            "end_ns": self.end_ns,
            "phases": {name: asdict(phase) for name, phase in self.phases()},
        }


def round_of(event: Mapping[str, Any], offset_ns: int) -> Round:
    """Return the round that a line of the driver tells of; ``offset_ns`` is monotonic minus real time.

    Raises WorkloadFailedError when the line is none.
    """
    try:
        jobs = [_job(each, offset_ns) for each in event["jobs"]]
        # The client learns of the end of a job later than the cluster.
        end_ns = min(int(event["end_ns"]), max(job.end_ns for job in jobs))
        return Round(str(event["name"]), int(event["begin_ns"]), end_ns, jobs)
    except (KeyError, TypeError, ValueError) as error:
        raise WorkloadFailedError(f"the driver's report of a round cannot be read: {error!r}") from error


def _job(report: Mapping[str, Any], offset_ns: int) -> Job:
    phases: dict[str, Phase] = {}
    for name, each in report["phases"].items():
        if not each["spans_ms"]:
            continue
        before = phases["map"].end_ns if "map" in phases else None
        phases[name] = _phase(each, offset_ns, not_before_ns=before)
    return Job(
        name=str(report["name"]),
        end_ns=_monotonic(report["end_ms"], offset_ns),
        failed_attempts=int(report["failed_attempts"]),
        phases=phases,
    )


def _phase(report: Mapping[str, Any], offset_ns: int, *, not_before_ns: int | None) -> Phase:
    spans = sorted(
        (_monotonic(begin, offset_ns), _monotonic(end, offset_ns)) for begin, end in report["spans_ms"]
    )
    end_ns = max(end for _, end in spans)
    begin_ns = spans[0][0] if not_before_ns is None else max(spans[0][0], not_before_ns)
    return Phase(
        begin_ns=min(begin_ns, end_ns),
        end_ns=end_ns,
        cpu_s=int(report["cpu_ms"]) / 1e3,
        gc_s=int(report["gc_ms"]) / 1e3,
        spans_ns=spans,
        **{name: int(report[name]) for name in _COUNTERS},
    )


def _monotonic(real_ms: int, offset_ns: int) -> int:
    return int(real_ms) * 1_000_000 + offset_ns
