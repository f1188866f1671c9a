"""A command of the user's as a benchmark: it is run again and again, and whole iterations are counted.

In: a command that ends by itself with 0. Out: iterations per second, and what each took.

The measure phase begins with the first iteration that begins in it, and ends with the one that is under way
when its time is over: it holds whole iterations only, one at least. Not here: starting them (``loop``).
"""

import math
import shlex
import shutil
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from steelyard._base import UsageError, WorkloadFailedError
from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.command import loop
from steelyard.bench.parameters import Parameter, Setting

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.placement import Placement
    from steelyard.records import Machine

ITERATIONS = "iterations.txt"
_MEASURE_S = {"smoke": 3.0, "quick": 15.0, "standard": 60.0, "full": 300.0}
_FITTING = 5
"""Iterations that the advised length of the measure phase holds."""
_LOOK_S = 0.02
_STEADY_COUNT = 8
"""Iterations from which a check says whether they were alike."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """One run of the command."""

    begin_ns: int
    end_ns: int
    cpu_ns: int


class CommandBench(Benchmark):
    """A command."""

    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "command", "text", "what to run again and again, without a shell", derived="has to be given"
        ),
        Parameter(
            "measure",
            "seconds",
            "least length of the measure phase",
            derived="per tier: 3 s, 15 s, 1 min, 5 min",
            minimum=0.05,
            maximum=86_400.0,
        ),
        Parameter(
            "patience",
            "seconds",
            "how long one iteration may take",
            default=600.0,
            minimum=1.0,
            maximum=86_400.0,
        ),
        Parameter("seed", "count", "of nothing: every run has one", default=1, minimum=0, maximum=2**53),
    )

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: "Placement"
    ) -> dict[str, Setting]:
        """Return what follows from the tier."""
        return {"measure": _MEASURE_S[tier]}

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise UsageError where there is no such command."""
        words(str(settings["command"]))

    def install(self) -> None:
        """Read the command."""
        self._command = words(self.settings.text("command"))
        self._file = self.session.directory / ITERATIONS
        self._loop: Process | None = None
        self._seen: list[Iteration] = []
        self._offset = 0
        self._counted: list[Iteration] = []

    def warm_up(self) -> None:
        """Start the loop and return when the command has been through once."""
        line = [sys.executable, "-I", str(Path(loop.__file__)), str(self._file), *self._command]
        self._loop = self.session.start_process(
            "server", line, cpus=self.session.placement.server, direct=True
        )
        first = self._next(0)
        took_s, measure_s = (first.end_ns - first.begin_ns) / 1e9, self.settings.number("measure")
        if took_s > measure_s:
            # Of less than one iteration nothing follows, however often it is repeated.
            raise WorkloadFailedError(
                f"{self._command[0]} takes {took_s:.3g} s, and the measure phase {measure_s:g} s: not one"
                " iteration fits",
                hint=f"measure for longer: --duration {math.ceil(_FITTING * took_s)}s",
            )

    def _next(self, begun_ns: int) -> Iteration:
        """Wait for the first iteration that begins at ``begun_ns`` or later, and return it."""
        until_ns = self.session.clock.monotonic_ns() + int(2e9 * self.settings.number("patience"))
        while True:
            self._read()
            found = next((each for each in self._seen if each.begin_ns >= begun_ns), None)
            if found is not None:
                return found
            if self.session.clock.monotonic_ns() > until_ns:
                raise WorkloadFailedError(
                    f"{self._command[0]} took longer than {self.settings.number('patience'):g} s",
                    hint="give it more with --set patience=...",
                )
            self.session.wait(_LOOK_S)

    def _read(self) -> None:
        """Take in the iterations that have ended since."""
        try:
            with self._file.open() as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return
        whole = text[: text.rfind("\n") + 1]
        self._offset += len(whole)
        self._seen += [Iteration(*map(int, line.split())) for line in whole.splitlines()]

    def measure(self) -> int:
        """Wait until the time is over and the iteration that is under way then has ended."""
        session = self.session
        asked_ns = session.clock.monotonic_ns()
        first = self._next(asked_ns)
        session.begin_phase("measure", first.begin_ns)
        least_ns = first.begin_ns + int(self.settings.number("measure") * 1e9)
        while self._seen[-1].end_ns < least_ns:
            session.progress.status({"iterations": str(len(self._seen))})
            self._next(self._seen[-1].begin_ns + 1)
        last = next(each for each in self._seen if each.end_ns >= least_ns)
        self._counted = [
            each for each in self._seen if first.begin_ns <= each.begin_ns and each.end_ns <= last.end_ns
        ]
        return last.end_ns

    def drain(self) -> None:
        """End the loop, and the iteration that is under way."""
        if self._loop is None:
            raise AssertionError("started in warm_up")
        self.session.stop_process(self._loop, dies_of_sigterm=True)

    def collect(self) -> Outcome:
        """Return what the iterations took."""
        from steelyard.records import Metric
        from steelyard.stats import steady

        counted = self._counted
        seconds = (counted[-1].end_ns - counted[0].begin_ns) / 1e9
        cpu_s = sum(each.cpu_ns for each in counted) / 1e9
        lengths_ns = [each.end_ns - each.begin_ns for each in counted]
        metrics = {
            "iterations_per_s": Metric(value=len(counted) / seconds, unit="1/s", better="higher"),
            "iteration_p50_ns": Metric(value=statistics.median(lengths_ns), unit="ns", better="lower"),
            "cpu_per_iteration_ns": Metric(value=cpu_s * 1e9 / len(counted), unit="ns", better="lower"),
            "iterations": Metric(value=float(len(counted)), unit="count"),
            "server_cpu_ratio": Metric(
                value=cpu_s / seconds / len(self.session.placement.server), unit="ratio"
            ),
        }
        is_enough = len(counted) >= _STEADY_COUNT
        return Outcome(
            metrics=metrics,
            loads=None,
            measure=steady.check([1e9 / each for each in lengths_ns]) if is_enough else None,
            own_cpu_s=cpu_s,
            artifacts={"iterations": ITERATIONS},
            own_commands=(Path(self._command[0]).name,),
        )


def words(text: str) -> list[str]:
    """Return the words of a command. Raises UsageError where it is none, or its program is not there."""
    try:
        found = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text}: {error}", hint="write a command as for a shell") from error
    if not found:
        raise UsageError("the command is empty", hint="write a command as for a shell")
    if shutil.which(found[0]) is None:
        raise UsageError(f"{found[0]}: there is no such command", hint="give its path, or look at PATH")
    return found
