"""What a benchmark is: declared parameters and six verbs.

In: a `Session` that starts processes, keeps time and marks phases. Out: metrics, and the evidence on which
``analyze.verdict`` judges them.

Not here: any benchmark (``tao.benchmark``), what belongs to one beside its code (``declaration``), and the
order of the verbs (``session``).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from steelyard.bench.footprint import Footprint, load_span_s
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement

if TYPE_CHECKING:
    from steelyard.analyze.verdict import WarmUp
    from steelyard.bench.session import Session
    from steelyard.records import Check, LoadResult, Machine, Metric
    from steelyard.stats.steady import Steadiness


@dataclass(slots=True)
class Outcome:
    """What a benchmark found in its measure phase."""

    metrics: "dict[str, Metric]"
    loads: "Sequence[LoadResult] | None"
    """What the load generators say of the measure phase; None for a benchmark without a load generator."""
    samples: tuple[int, int] | None = None
    """Requests below which the result is suspect, and below which it is invalid; None: as for a p99.9."""
    achieved_ratio_min: float | None = None
    """Share of the offered rate below which the result is invalid; None: 0.99."""
    warmup: "WarmUp | None" = None
    measure: "Steadiness | None" = None
    memory_needed_bytes: int | None = None
    own_cpu_s: float | None = None
    """CPU time of servers and load in the measure phase, s."""
    checks: "Sequence[Check]" = field(default_factory=tuple)
    """What the benchmark itself has to say about its result, objections and passed checks alike."""
    artifacts: dict[str, str] = field(default_factory=dict)
    own_commands: tuple[str, ...] = ()
    """Names of processes that are the run's own beside those that the session started."""
    saturates: bool = True
    """Whether the servers' CPUs are here and are to be the limit. With an offered rate they never are."""
    describes: str | None = None
    """What the run describes where it claims no result, `program` or `machine`; others' work is then no
    error.
    """


class Benchmark(ABC):
    """One workload. An object lives for one run; the verbs are called once each, in the order given here.

    Those with nothing to do may be left out, all but ``measure`` and ``collect``.
    """

    parameters: ClassVar[tuple[Parameter, ...]]
    load_ratio: ClassVar[float] = 0.0
    """Share of the CPUs that the load needs so that the servers are the bottleneck; 0 without a load."""
    cpus_per_instance: ClassVar[int | None] = None
    """Most CPUs of one instance's servers; None for a benchmark that has no instances."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.settings = session.settings

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return values for parameters that follow from the machine, the tier and the ``chosen`` values."""
        return {}

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise UsageError or EnvironmentLacksError when ``settings`` cannot work on ``machine``."""

    @classmethod
    def footprint(cls, settings: Mapping[str, Setting], *, placement: Placement) -> Footprint:
        """Return what a run with ``settings`` takes of the machine; nothing is made or started."""
        least_s, most_s = load_span_s(settings)
        return Footprint(least_s, most_s)

    def install(self) -> None:
        """See that everything the run needs is there. Raises EnvironmentLacksError otherwise."""

    def start(self) -> None:
        """Start the servers and return when they answer."""

    def warm_up(self) -> None:
        """Start the load and return when the servers have settled, or the time for it is over."""

    @abstractmethod
    def measure(self) -> int:
        """Measure, marking phase ``measure`` with its true beginning; return when it ended, monotonic ns."""

    def drain(self) -> None:
        """Let the load finish and stop all processes in order."""

    @abstractmethod
    def collect(self) -> Outcome:
        """Return what the measure phase showed. Every process has ended."""
