"""One trial with knobs: when the machine is left alone, and what is put back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from steelyard.bench.clock import SystemClock
from steelyard.bench.signals import Interrupts
from steelyard.experiment.workload import Measured
from steelyard.records.experiment import ExperimentArm
from steelyard.tune.knobs import find
from steelyard.tune.trials import KnobTrials
from tests.tune.machines import make_machine

RATIO = "proc/sys/vm/dirty_ratio"


@dataclass
class Noted(SystemClock):
    """A clock and a workload that note what happens, in order."""

    path: Path
    events: list[str] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.events.append(f"settles {seconds:g} s with {self.path.read_text().strip()}")

    def measure(self, arm: ExperimentArm, block: int) -> Measured:
        self.events.append(f"measures with {self.path.read_text().strip()}")
        return Measured(1.0)


def test_the_machine_settles_before_every_trial_that_follows_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial of the machine as found follows one too: what the trial before it changed was put back."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = make_machine(tmp_path / "machine")
    knobs = {knob.name: knob for knob in find(root)[0]}
    noted = Noted(root / RATIO)
    trials = KnobTrials(noted, knobs, (), "test", 5.0, noted, Interrupts())
    for levels in ({"dirty_ratio": "40"}, {}, {"dirty_ratio": "10"}):
        trials.measure(ExperimentArm(name="arm", settings={}, command=[], knobs=levels), 0)
    assert noted.events == [
        "settles 5 s with 40",
        "measures with 40",
        "settles 5 s with 20",
        "measures with 20",
        "settles 5 s with 10",
        "measures with 10",
    ]
    assert (root / RATIO).read_text() == "20"
