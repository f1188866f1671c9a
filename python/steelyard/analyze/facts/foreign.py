"""What other processes did on a run's CPUs, as the run's verdict says."""

from collections.abc import Collection
from dataclasses import dataclass

from steelyard.analyze.values import cpus_in
from steelyard.records import Run

CHECK = "foreign-load"


@dataclass(frozen=True)
class Foreign:
    """Work of others on the run's CPUs."""

    ratio: float | None = None
    """Share of the machine's CPUs that it used; None where that was not measured of all of them."""
    is_objected: bool = False
    """Whether the run's verdict objects to it."""


def observe_foreign(run: Run, cpus: Collection[int]) -> Foreign:
    """Return others' work on ``cpus``, all there are."""
    if run.verdict is None:
        return Foreign()
    return Foreign(_ratio(run, cpus), any(check.id == CHECK for check in run.verdict.reasons))


def _ratio(run: Run, cpus: Collection[int]) -> float | None:
    """Return the share that others used by the verdict; None if the run itself used some of the CPUs only."""
    if run.verdict is None or not cpus_in(run.cpus.server) | cpus_in(run.cpus.load) >= set(cpus):
        return None
    return next((check.value for check in run.verdict.checks if check.id == CHECK), None)
