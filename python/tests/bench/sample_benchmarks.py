"""Three small benchmarks that really measure, and suites of them, for tests of suites.

``spin`` counts turns of a loop, ``nap`` asks a process of the run, ``scripted`` does what its parameter says.
"""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from steelyard._base import EnvironmentLacksError, WorkloadFailedError
from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.declaration import Declaration
from steelyard.bench.footprint import Disk, Footprint
from steelyard.bench.parameters import Parameter
from steelyard.records import Check, Level, Metric

QUICKLY = [f"{hook}:enabled=false" for hook in ("probe", "counters", "topdown", "profile")]
"""Recording takes longer than all else in their runs, and is tested elsewhere."""
QUICK_WORDS = [word for hook in QUICKLY for word in ("--hook", hook)]
SEED = Parameter("seed", "count", "of every choice", default=1, minimum=0, maximum=2**53)


class Spin(Benchmark):
    """Turns of a loop per second."""

    parameters: ClassVar[tuple[Parameter, ...]] = (
        SEED,
        Parameter("spin_s", "seconds", "how long", default=0.05, minimum=0.01, maximum=60.0),
    )
    objection: Level = Level.VALID

    @classmethod
    def suggest(cls, chosen, *, machine, tier, placement):
        return {}

    @classmethod
    def checks(cls, settings: Mapping, *, machine) -> None:
        pass

    def install(self) -> None:
        pass

    def start(self) -> None:
        pass

    def warm_up(self) -> None:
        pass

    def measure(self) -> int:
        self.session.begin_phase("measure")
        begin = time.monotonic()
        self.turns = 0
        while (lasted := time.monotonic() - begin) < self.settings.number("spin_s"):
            self.turns += 1
            if self.turns % 1000 == 0:
                self.session.check()
        self.lasted = lasted
        return self.session.clock.monotonic_ns()

    def drain(self) -> None:
        pass

    def collect(self) -> Outcome:
        return Outcome(
            metrics={
                "turns_per_s": Metric(value=self.turns / self.lasted, unit="1/s", better="higher"),
                "turns": Metric(value=self.turns, unit="1"),
            },
            loads=None,
            checks=[Check(id="behaviour", level=self.objection, claim="as it was asked to be")],
        )


class Nap(Spin):
    """How long a process takes to sleep."""

    parameters: ClassVar[tuple[Parameter, ...]] = (
        SEED,
        Parameter("nap_s", "seconds", "how long", default=0.05, minimum=0.0, maximum=600.0),
    )

    def measure(self) -> int:
        self.session.begin_phase("measure")
        begin_ns = time.monotonic_ns()
        code = f"import time; time.sleep({self.settings.number('nap_s')})"
        process = self.session.start_process("sleeper", [sys.executable, "-c", code], cpus=None)
        self.session.join(process, 600.0, what="the sleep")
        self.nap_ns = time.monotonic_ns() - begin_ns
        return time.monotonic_ns()

    def collect(self) -> Outcome:
        return Outcome({"nap_ns": Metric(value=self.nap_ns, unit="ns", better="lower")}, loads=None)


class Scripted(Spin):
    """Is invalid, fails, or lacks something, as asked."""

    parameters: ClassVar[tuple[Parameter, ...]] = (
        *Spin.parameters,
        Parameter(
            "behaviour",
            "choice",
            "how it ends",
            default="valid",
            choices=("valid", "suspect", "invalid", "fail", "lack", "refuse"),
        ),
        Parameter("takes", "bytes", "memory and disk that it states", default=1 << 20, minimum=0),
    )

    @classmethod
    def footprint(cls, settings, *, placement) -> Footprint:
        takes = int(settings["takes"])
        return Footprint(1.0, 2.0, "a rest", memory_bytes=takes, disks=(Disk(takes, smaller="takes=0"),))

    @classmethod
    def checks(cls, settings, *, machine) -> None:
        if settings["behaviour"] == "refuse":
            raise EnvironmentLacksError("there is no such device", hint="attach one")

    def install(self) -> None:
        if self.settings.text("behaviour") == "lack":
            raise EnvironmentLacksError("the executable steelyard-absent is not here", hint="build it")

    def start(self) -> None:
        if self.settings.text("behaviour") == "fail":
            raise WorkloadFailedError("scripted would not start")

    def collect(self) -> Outcome:
        behaviour = self.settings.text("behaviour")
        self.objection = Level(behaviour) if behaviour in list(Level) else Level.VALID
        return super().collect()


def _declare(name: str, doc: str, metric: str, order: int, **more) -> Declaration:
    target = f"tests.bench.sample_benchmarks:{name.capitalize()}"
    return Declaration(
        name, name.capitalize(), doc, target, (metric,), suites=("sample",), order=order, **more
    )


SPIN = _declare("spin", "turns of a loop", "turns_per_s", 1)
SCRIPTED = _declare("scripted", "does what its parameter says", "turns_per_s", 2)
NAP = _declare("nap", "how long a short sleep is", "nap_ns", 3)


def add(site: Path, to_path: Callable[[str], object]) -> None:
    """Install the benchmarks in ``site`` as pip would, and put that on the path."""
    metadata = site / "sample_benchmarks-1.0.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sample_benchmarks\nVersion: 1.0\n")
    points = [
        f"{name} = tests.bench.sample_benchmarks:{name.upper()}\n" for name in ("spin", "scripted", "nap")
    ]
    (metadata / "entry_points.txt").write_text("[steelyard.benchmarks]\n" + "".join(points))
    to_path(str(site))


if __name__ == "__main__":
    add(Path(sys.argv.pop(1)), sys.path.append)
    from steelyard.cli.main import main

    main()
