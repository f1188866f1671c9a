"""The time that the first figure of a run is made of, and how much of it is work.

In: facts of a phase. Out: `Headline`: of a request's time where a load drives a server, of a program's
elapsed time where one was watched, else of the machine's.
"""

from dataclasses import dataclass, field

from steelyard.analyze.own_cpu import Usage
from steelyard.analyze.stages import Stages


@dataclass(frozen=True)
class Headline:
    """The headline's time."""

    has_load: bool = True
    usage: Usage = field(default_factory=Usage)
    stages: Stages | None = None

    @property
    def time(self) -> str:
        """What it is called."""
        if self.has_load:
            return "a request's time"
        return "the program's time" if self.usage.target is not None else "the machine's time"

    @property
    def cpu_ratio(self) -> float | None:
        """Share of it in which its CPUs worked; None where that is not known."""
        if self.stages is not None and self.stages.root is not None:
            return self.stages.root.cpu_ratio
        if self.usage.target is not None:
            cpus = self.usage.target.cpus.value
            return None if cpus is None else min(1.0, cpus)
        if self.has_load:
            return self.usage.server_ratio
        own, every = self.usage.own_cpus, self.usage.cpus.all
        if own is not None and every.cpus:
            return min(1.0, own / len(every.cpus))
        return None if every.use is None else min(1.0, every.use.own_ratio)

    @property
    def work_ratio(self) -> float | None:
        """Share of it in which its CPUs worked, or a program waited for one.

        Who has less work waits less for a CPU, too.
        """
        ran, target = self.cpu_ratio, self.usage.target
        if target is None or ran is None:
            return ran
        return min(1.0, ran + (target.cpu_wait.value or 0.0))
