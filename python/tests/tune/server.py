"""A made-up server in files: /proc, /sys and registers below a folder, which a made-up service runs on.

The service reads the files and registers by itself, not by the code that writes them, and has the throughput
of ``surface`` for what it finds there. So a tuning of it goes the whole way: knobs are found, written, read
back and put back, with the undo journal. Two more settings would help most and need a reboot: an option of
the kernel's command line, and a file of the user's.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steelyard.bench.clock import SystemClock
from steelyard.bench.signals import Interrupts
from steelyard.experiment.workload import Measured
from steelyard.records.experiment import ExperimentArm
from steelyard.records.tuning import Tuning
from steelyard.tune.begin import entry_of
from steelyard.tune.knobs import Knob, find
from steelyard.tune.knobs.application import TextKnob
from steelyard.tune.trials import KnobTrials
from tests.tune.machines import CPUS, make_machine, register
from tests.tune.surface import LEVELS, throughput, tune, tuning

_CPU = "sys/devices/system/cpu"
_UNCORE = f"{_CPU}/intel_uncore_frequency/package_00_die_00/max_freq_khz"
_RESERVED = "etc/reserved_gigabytes"
_PREFETCHERS = {0b0000: "all", 0b1111: "none", 0b1110: "l2-stream", 0b1011: "l1-next-line"}
"""By the bits of register 0x1A4, which switch off L2 stream, L2 adjacent, L1 next line, L1 by instruction."""
REBOOT_ONLY = ("boot_mitigations", "reserved")


def make_server(root: Path) -> Path:
    """Write the files as the service finds them, each as the kernel's would be once it was written."""
    make_machine(root)
    changes = {
        _UNCORE: "1800000",
        "sys/kernel/mm/transparent_hugepage/enabled": "madvise",
        "sys/kernel/mm/transparent_hugepage/defrag": "madvise",
        "sys/fs/resctrl/schemata": "MB:0=100\nL3CODE:0=7ff\nL3DATA:0=7ff\n",
        "proc/cmdline": "quiet mitigations=auto",
        _RESERVED: "0",
    }
    for name, text in changes.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    for path in root.rglob("*"):
        if path.is_file() and path.name not in ("msr", "schemata"):
            path.write_text(path.read_text().strip())
    return root


@dataclass
class Server:
    """The service on the server below ``root``."""

    root: Path
    random: np.random.Generator
    noise: float = 0.01
    helps: bool = True
    trials: int = 0

    def _text(self, name: str) -> str:
        return (self.root / name).read_text().strip()

    def levels(self) -> dict[str, str]:
        """Return what the files say, all CPUs alike."""
        cpus = range(CPUS)
        off = {register(self.root, cpu, 0x1A4) for cpu in cpus}
        cores = {self._text(f"{_CPU}/cpufreq/policy{cpu}/scaling_max_freq") for cpu in cpus}
        governors = {self._text(f"{_CPU}/cpufreq/policy{cpu}/scaling_governor") for cpu in cpus}
        (bits,), (core,), (governor,) = off, cores, governors
        assert bits & ~0xF == 0x30, "bits that are nobody's business"
        masks = dict(line.split(":0=") for line in self._text("sys/fs/resctrl/schemata").splitlines())
        data, code = int(masks["L3DATA"], 16), int(masks["L3CODE"], 16)
        assert data == code == 0x7FF or (data & code == 0 and data | code == 0x7FF)
        online = 1 + sum(self._text(f"{_CPU}/cpu{cpu}/online") == "1" for cpu in cpus[1:])
        return {
            "thp_enabled": self._text("sys/kernel/mm/transparent_hugepage/enabled"),
            "huge_pages_2MiB": self._text("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"),
            "base_slice": self._text("sys/kernel/debug/sched/base_slice_ns"),
            "prefetchers": _PREFETCHERS[bits & 0xF],
            "core_frequency": core,
            "uncore_frequency": self._text(_UNCORE),
            "code_data_ways": f"{data.bit_count()}+{code.bit_count()}",
            "governor": governor,
            "online_cpus": str(online),
        }

    def measure(self, arm: ExperimentArm, block: int) -> Measured:
        """Return the throughput for what the files say; the arm is not asked."""
        self.trials += 1
        value = throughput(self.levels(), self.helps)
        value *= 1.1 if "mitigations=off" in self._text("proc/cmdline") else 1.0
        value *= 1.1 if self._text(_RESERVED) != "0" else 1.0
        value *= math.exp(self.noise * self.random.standard_normal())
        return Measured(value, unit="1/s", better="higher")


@contextmanager
def server(random: np.random.Generator, *, helps: bool = True) -> Iterator[Server]:
    """Make a server in memory, with an undo journal of its own beside it."""
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    before = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        try:
            yield Server(make_server(Path(folder) / "machine"), random, helps=helps)
        finally:
            if before is None:
                del os.environ["XDG_STATE_HOME"]
            else:
                os.environ["XDG_STATE_HOME"] = before


def knobs_of(root: Path) -> dict[str, Knob]:
    """Return the knobs that are tuned, and those that need a reboot, as they are found below ``root``."""
    reserved = TextKnob("reserved", "reserved at boot", (root / _RESERVED,), ("0", "4"), needs_reboot=True)
    found = {knob.name: knob for knob in [*find(root)[0], reserved]}
    return {name: found[name] for name in (*LEVELS, *REBOOT_ONLY)}


def record_of(knobs: Mapping[str, Knob], seed: int, strategy: str, blocks: int) -> Tuning:
    """Return the record of a tuning of these knobs, as the command makes it."""
    entries = [entry_of(knob, LEVELS.get(name, ())) for name, knob in knobs.items()]
    return tuning(seed, strategy, blocks=blocks).model_copy(update={"knobs": entries})


def tune_server(made: Server, seed: int, strategy: str = "hill-climb", *, blocks: int = 100) -> Tuning:
    """Tune a server as the command does."""
    knobs = knobs_of(made.root)
    record = record_of(knobs, seed, strategy, blocks)
    tried = {entry.name: knobs[entry.name] for entry in record.knobs if entry.reason is None}
    trials = KnobTrials(made, tried, (), "made-up", 0.0, SystemClock(), Interrupts())
    return tune(trials, record, tried)
