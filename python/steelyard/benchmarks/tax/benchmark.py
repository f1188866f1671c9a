"""The datacenter tax: microbenchmarks of what a fleet's machines do beside the application.

In: settings that follow from the tier. Out: operations per second as geometric means, by category and over
all, on all cores at once and on one.

``steelyard-tax`` is server and load in one. It has every CPU, and the probe runs beside it: a reading twice a
second takes about a millisecond of one CPU, which disturbs one batch in a few hundred, and the median over
rounds does not see it. Without it nobody would know whether others used the machine meanwhile.

Not here: the benchmarks and their statistics (``crates/tax``), metrics from the record (``metrics``).
"""

import json
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from steelyard._base import (
    REPAIR_HINT,
    EnvironmentLacksError,
    UsageError,
    WorkloadFailedError,
    executable,
    format_cpu_list,
)
from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.footprint import Footprint
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.records import Machine

LATE_S = 60.0
"""How much longer than it should the program may take: on a slow machine the least number of rounds rules."""
LOOK_S = 0.25
"""How often the program is looked at: rarely, because every look takes a CPU from a batch."""
RESULT = "tax.json"
_TIME_S = {"smoke": 6.0, "quick": 40.0, "standard": 300.0, "full": 900.0}

PARAMETERS = (
    Parameter(
        "time",
        "seconds",
        "total time, including inputs and calibration",
        derived="per tier: 6 s, 40 s, 5 min, 15 min",
        minimum=1.0,
        maximum=86_400.0,
    ),
    Parameter(
        "cores",
        "choice",
        "run on one core, on all cores at the same time, or both",
        default="both",
        choices=("one", "all", "both"),
    ),
    Parameter(
        "only",
        "text",
        "names or categories of benchmarks to run, or parts of them, separated by spaces; empty for all",
        default="",
    ),
    Parameter(
        "benchmarks",
        "text",
        "number of benchmarks and checksum of their names; results of other sets are not comparable",
        derived="steelyard-tax list",
    ),
    Parameter("seed", "count", "seed of inputs and orders", derived="random", minimum=0, maximum=2**53),
)


class TaxBench(Benchmark):
    """Datacenter tax."""

    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the tier and the program."""
        return {"time": _TIME_S[tier], "benchmarks": _set_of(str(chosen.get("only", "")))}

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise UsageError when another set of benchmarks is asked for than the program has."""
        known = _set_of(str(settings["only"]))
        if settings["benchmarks"] != known:
            raise UsageError(
                f"benchmarks={settings['benchmarks']}: this version has {known}",
                hint="omit it: it separates results of different versions",
            )

    @classmethod
    def footprint(cls, settings: Mapping[str, Setting], *, placement: Placement) -> Footprint:
        """Return what a run takes: its time."""
        return Footprint(float(settings["time"]), float(settings["time"]))

    def install(self) -> None:
        """See that the executable is there."""
        executable("steelyard-tax")
        self._process: Process | None = None
        self._begin_ns: int | None = None

    def warm_up(self) -> None:
        """Start the program and return when it has made its inputs and sized its batches."""
        command = [
            *(str(executable("steelyard-tax")), "run"),
            *("--time", f"{self.settings.number('time'):g}s"),
            *("--cores", self.settings.text("cores")),
            *("--cpus", format_cpu_list(self.session.placement.server)),
            *("--seed", str(self.settings.count("seed"))),
            *("--output", str(self.session.directory / RESULT)),
            *("--progress", "json"),
        ]
        for word in self.settings.text("only").split():
            command += ["--only", word]
        self._process = self.session.start_process("tax", command, cpus=self.session.placement.server)
        # If this process gets no CPU for as long as a short measurement takes, the program has ended by then.
        self.session.expect_end(self._process)
        deadline_ns = self._deadline_ns()
        while self._begin_ns is None:
            has_ended = self._process.poll() is not None
            if has_ended:
                # Its last lines are read when this returns.
                self._process.stop(0.0)
            self._look("preparing", deadline_ns)
            if has_ended and self._begin_ns is None:
                self.session.join(self._process, 1.0, what="ending")
                raise WorkloadFailedError("tax ended before it measured", hint=f"see {self._process.log}")

    def _deadline_ns(self) -> int:
        return self.session.clock.monotonic_ns() + int((self.settings.number("time") * 2 + LATE_S) * 1e9)

    def _look(self, step: str, deadline_ns: int) -> None:
        """Take in what the program reported, then leave it alone for a while."""
        if self._process is None:
            raise AssertionError("started in warm_up")
        self.session.check()
        for stream, line in self._process.lines():
            if stream == "stderr" and line.startswith("{"):
                self._take(line)
        if self.session.clock.monotonic_ns() > deadline_ns:
            raise WorkloadFailedError(
                f"{step} the benchmarks took too long", hint="give it more --set time=..."
            )
        self.session.clock.sleep(LOOK_S)

    def _take(self, line: str) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return
        if event.get("event") == "phase":
            self._begin_ns = int(event["begin_ns"])
        elif event.get("event") == "progress":
            self.session.progress.status(
                {
                    "rounds": f"{event['rounds']}",
                    "time": _time_text(event["elapsed_s"], event["time_s"]),
                }
            )

    def measure(self) -> int:
        """Wait until the rounds are over; return when they were."""
        from steelyard.records import TaxResult, read

        if self._process is None or self._begin_ns is None:
            raise AssertionError("started in warm_up")
        self.session.begin_phase("measure", self._begin_ns)
        deadline_ns = self._deadline_ns()
        while self._process.poll() is None:
            self._look("measuring", deadline_ns)
        self.session.join(self._process, 1.0, what="ending")
        return read(TaxResult, self.session.directory / RESULT).end_ns

    def collect(self) -> Outcome:
        """Return what the record says."""
        from steelyard.benchmarks.tax.metrics import outcome
        from steelyard.records import TaxResult, read

        return outcome(read(TaxResult, self.session.directory / RESULT), {"tax": RESULT})


def _set_of(only: str) -> str:
    """Return how many benchmarks ``only`` selects and the checksum of their names, as one word.

    Raises UsageError for a word that selects none.
    """
    import hashlib

    command = [str(executable("steelyard-tax")), "list", "--json"]
    for word in only.split():
        command += ["--only", word]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 2:
        raise UsageError(
            f"only={only}: {done.stderr.strip().partition(': ')[2].removesuffix('; see --help')}"
        )
    if done.returncode != 0:
        raise EnvironmentLacksError(f"steelyard-tax list failed: {done.stderr.strip()}", hint=REPAIR_HINT)
    names = sorted(json.loads(line)["name"] for line in done.stdout.splitlines())
    return f"{len(names)}-{hashlib.sha256(' '.join(names).encode()).hexdigest()[:8]}"


def _time_text(elapsed_s: float, planned_s: float) -> str:
    """Return how much of the time is over; the least rounds are made however long they take.

    >>> _time_text(4.2, 6.0), _time_text(13.0, 6.0)
    ('4 of 6 s', '13 s, for the least number of rounds')
    """
    if elapsed_s <= planned_s:
        return f"{elapsed_s:.0f} of {planned_s:.0f} s"
    return f"{elapsed_s:.0f} s, for the least number of rounds"
