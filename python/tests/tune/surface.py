"""A made-up service whose throughput depends on knobs, after the SoftSKU paper.

A surface is a function from levels to throughput; a trial multiplies it by noise. It has what makes tuning
hard: the best level of a knob depends on others, and gains do not add up.

- Cores and uncore share a power budget. Beyond it the cores are throttled, and lose more than a lower limit
  would cost: as found the highest core frequency is best, at the best uncore frequency a lower one.
- Prefetchers cost bandwidth, which the uncore's frequency gives: none of them is best as found, all are at
  the best frequency.
- Transparent and static huge pages do part of the same: with the former on request 300 static ones are best,
  with them always 100.
- Code and data share the last cache at an inner optimum, as published for Web on Skylake; the scheduler's
  slice makes no difference; fewer CPUs do less.

The knobs and their levels are those of a made-up server in files (``server``), which reads the same function.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steelyard.bench.clock import Clock, SystemClock
from steelyard.bench.progress import Silence
from steelyard.bench.signals import Interrupts
from steelyard.experiment.engine import Engine, StillOpen
from steelyard.experiment.workload import Measured, Workload
from steelyard.records import Orchestrator, RunStatus
from steelyard.records.experiment import Experiment, ExperimentArm, ExperimentMetric
from steelyard.records.tuning import Tuning, TuningKnob, TuningPlan
from steelyard.tune.knobs import Knob
from steelyard.tune.tuning import Tuner

LEVELS: dict[str, tuple[str, ...]] = {
    "thp_enabled": ("madvise", "always", "never"),
    "huge_pages_2MiB": ("200", "0", "100", "300", "400"),
    "base_slice": ("3000000", "1500000", "6000000"),
    "prefetchers": ("all", "none", "l2-stream", "l1-next-line"),
    "core_frequency": ("2200000", "1600000", "1800000", "2000000"),
    "uncore_frequency": ("1800000", "1400000", "2200000"),
    "code_data_ways": ("11+11", "4+7", "5+6", "6+5", "7+4"),
    "governor": ("powersave", "performance"),
    "online_cpus": ("4", "1", "2"),
}
"""What is found comes first."""

POWER_BUDGET = 16.1
"""Of cores (the cube of their GHz) and uncore (three times its GHz)."""
THROTTLED = 0.04
"""What going to and fro between frequencies costs beside the lower one."""


def throughput(levels: Mapping[str, str], helps: bool = True) -> float:
    """Return the operations per second; without ``helps``, what is found is best."""
    value = {name: levels.get(name, known[0]) for name, known in LEVELS.items()}
    core, uncore = (int(value[name]) / 1e6 for name in ("core_frequency", "uncore_frequency"))
    pages, ways = int(value["huge_pages_2MiB"]), value["code_data_ways"]
    logs = 0.95 * math.log(int(value["online_cpus"]) / 4)
    if not helps:
        # Every other level is a loss, or makes no difference.
        logs += 0.45 * math.log(core / 2.2) + 0.2 * math.log(min(uncore, 1.8) / 1.8)
        logs -= 0.02 * (value["thp_enabled"] == "never") + 0.03 * (value["prefetchers"] != "all")
        logs -= 0.01 * abs(pages - 200) / 100 + 0.02 * (ways != "11+11")
        return 1000 * math.exp(logs)
    sustained = (POWER_BUDGET - 3 * uncore) ** (1 / 3)
    logs += 0.45 * math.log(min(core, sustained) / 2.2) - THROTTLED * (core > sustained)
    logs += 0.35 * math.log(uncore / 1.8)
    logs += {"madvise": 0.0, "always": 0.022, "never": -0.03}[value["thp_enabled"]]
    most_useful = 100 if value["thp_enabled"] == "always" else 300
    logs -= 0.012 * ((pages - most_useful) / 100) ** 2
    starved = max(2.0 - uncore, 0.0) / 0.2
    gain, cost = {
        "all": (0.014, 0.034),
        "none": (0.0, 0.0),
        "l2-stream": (0.008, 0.03),
        "l1-next-line": (0.002, 0.004),
    }[value["prefetchers"]]
    logs += gain - cost * starved
    logs += {"11+11": 0.0, "4+7": -0.02, "5+6": 0.004, "6+5": 0.025, "7+4": 0.008}[ways]
    logs += 0.015 * (value["governor"] == "performance")
    return 1000 * math.exp(logs)


def optimum(helps: bool = True, known: Mapping[str, tuple[str, ...]] = LEVELS) -> float:
    """Return the greatest throughput of all combinations of these knobs, the others as found."""
    return max(
        throughput(dict(zip(known, levels, strict=True)), helps)
        for levels in itertools.product(*known.values())
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


def tune(
    workload: Workload,
    record: Tuning,
    knobs: Mapping[str, Knob] | None = None,
    clock: Clock | None = None,
) -> Tuning:
    """Tune by the code that tunes a machine; without ``knobs`` they are made up. No record is written."""

    def make(name: str, experiment: Experiment, rule: StillOpen | None) -> Experiment:
        engine = Engine(
            Path("/nonexistent"),
            experiment,
            workload,
            clock=clock or SystemClock(),
            progress=Silence(),
            interrupts=Interrupts(),
            still_open=rule,
            keep=lambda experiment, path: None,
        )
        return engine.run()

    if knobs is None:
        knobs = {one.name: MadeUp(one.name, (one.found, *one.levels)) for one in record.knobs}
    return Tuner(record, knobs, make).run()
