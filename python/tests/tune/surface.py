"""A made-up service whose throughput depends on knobs, after the SoftSKU paper.

A surface is a function from levels to throughput; a trial multiplies it by noise. Frequencies raise it with
less and less return, and share a power budget; prefetchers cost bandwidth that the uncore's frequency gives;
transparent and static huge pages do part of the same; code and data share the last cache at an inner optimum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steelyard.bench.clock import SystemClock
from steelyard.bench.progress import Silence
from steelyard.bench.signals import Interrupts
from steelyard.experiment.engine import Engine, StillOpen
from steelyard.experiment.workload import Measured
from steelyard.records import Orchestrator, RunStatus
from steelyard.records.experiment import Experiment, ExperimentArm, ExperimentMetric
from steelyard.records.tuning import Tuning, TuningKnob, TuningPlan
from steelyard.tune.knobs import Knob
from steelyard.tune.tuning import Tuner

LEVELS: dict[str, tuple[str, ...]] = {
    "thp": ("madvise", "always", "never"),
    "shp": ("200", "0", "100", "300", "400", "500"),
    "prefetchers": ("all", "none", "l2-stream", "l1-next-line"),
    "core_ghz": ("2.2", "1.6", "1.8", "2.0"),
    "uncore_ghz": ("1.8", "1.4", "1.6"),
    "code_data": ("shared", "4+7", "5+6", "6+5", "7+4"),
    "cpus": ("18", "2", "8", "16"),
    "governor": ("performance", "powersave"),
}
"""What is found comes first."""


def throughput(levels: Mapping[str, str], helps: bool = True) -> float:
    """Return the operations per second; without ``helps``, what is found is best."""
    value = {name: levels.get(name, known[0]) for name, known in LEVELS.items()}
    logs = 0.0
    logs += 0.45 * math.log(float(value["core_ghz"]) / 2.2)
    logs += 0.20 * math.log(float(value["uncore_ghz"]) / 1.8)
    logs += 0.95 * math.log(int(value["cpus"]) / 18)
    if not helps:
        # Nothing helps: every other level is a loss, or makes no difference.
        logs -= 0.02 * (value["thp"] == "never") + 0.03 * (value["prefetchers"] != "all")
        logs -= 0.01 * abs(int(value["shp"]) - 200) / 100 + 0.02 * (value["code_data"] != "shared")
        return 1000 * math.exp(logs)
    huge = {"madvise": 0.0, "always": 0.022, "never": -0.03}[value["thp"]]
    # Static pages cover what transparent ones would: the gains do not add up.
    static = 0.024 * (1 - ((int(value["shp"]) - 300) / 300) ** 2) - 0.024 * (1 - (100 / 300) ** 2)
    logs += huge + static * (0.6 if value["thp"] == "always" else 1.0)
    # Prefetching costs bandwidth, the more so the slower the uncore is.
    starved = (2.0 - float(value["uncore_ghz"])) / 0.2
    logs += {"all": 0.0, "none": 0.02, "l2-stream": -0.01, "l1-next-line": 0.012}[
        value["prefetchers"]
    ] * starved
    logs += {"shared": 0.0, "4+7": -0.02, "5+6": 0.004, "6+5": 0.025, "7+4": 0.008}[value["code_data"]]
    return 1000 * math.exp(logs)


def optimum(helps: bool = True) -> float:
    """Return the greatest throughput of all combinations."""
    return max(
        throughput(dict(zip(LEVELS, levels, strict=True)), helps)
        for levels in itertools.product(*LEVELS.values())
    )


def combinations() -> np.ndarray:
    """Return the throughput of every combination."""
    return np.array(
        [throughput(dict(zip(LEVELS, levels, strict=True))) for levels in itertools.product(*LEVELS.values())]
    )


@dataclass
class MadeUp(Knob):
    """A knob of the surface."""

    name: str
    levels: tuple[str, ...]
    about: str = "made up"

    def read(self) -> str:
        return self.levels[0]


@dataclass
class Surface:
    """Trials of the surface."""

    random: np.random.Generator
    noise: float = 0.01
    helps: bool = True
    function: Callable[[Mapping[str, str]], float] | None = None
    """Another surface."""
    trials: int = 0

    def measure(self, arm: ExperimentArm, block: int) -> Measured:
        self.trials += 1
        value = throughput(arm.knobs, self.helps) if self.function is None else self.function(arm.knobs)
        value *= math.exp(self.noise * self.random.standard_normal())
        return Measured(value, unit="1/s", better="higher")


def tuning(
    seed: int,
    strategy: str = "one-at-a-time",
    *,
    blocks: int = 150,
    known: Mapping[str, tuple[str, ...]] = LEVELS,
) -> Tuning:
    """Return the record of a tuning of all knobs."""
    clock = SystemClock().now()
    return Tuning(
        tuning_id="made-up",
        benchmark=None,
        tier=None,
        hooks=[],
        settings={},
        template=["true"],
        metric=ExperimentMetric(name="operations_per_s", unit="1/s", better="higher"),
        root="/",
        knobs=[
            TuningKnob(
                name=name,
                about="made up",
                found=levels[0],
                levels=list(levels[1:]),
                risk="low",
                needs_reboot=False,
            )
            for name, levels in known.items()
        ],
        lacking=[],
        guards=[],
        plan=TuningPlan.model_validate(
            {
                "strategy": strategy,
                "seed": seed,
                "blocks": blocks,
                "confirm_blocks": 40,
                "least_effect_ratio": 0.01,
                "confidence": 0.95,
                "settle_s": 0.0,
                "timeout_s": 60.0,
            }
        ),
        evidence=[],
        chosen={},
        trials=0,
        status=RunStatus.RUNNING,
        steelyard_version="0",
        command=["steelyard", "tune"],
        clock=clock,
        orchestrator=Orchestrator(pid=1, start_ticks=1, boot_id=None, hostname=None),
    )


def tune(surface: Surface, record: Tuning) -> Tuning:
    """Tune the surface by the code that tunes a machine; nothing is written to disk."""

    def make(name: str, experiment: Experiment, rule: StillOpen | None) -> Experiment:
        engine = Engine(
            Path("/nonexistent"),
            experiment,
            surface,
            clock=SystemClock(),
            progress=Silence(),
            interrupts=Interrupts(),
            still_open=rule,
            keep=lambda experiment, path: None,
        )
        return engine.run()

    knobs = {one.name: MadeUp(one.name, (one.found, *one.levels)) for one in record.knobs}
    return Tuner(record, knobs, make).run()
