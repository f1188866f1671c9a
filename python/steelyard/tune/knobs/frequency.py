"""Knobs of frequency: cores, uncore, governor, energy preference, boost, idle states."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from steelyard._base import UsageError
from steelyard.machine.tree import Tree
from steelyard.tune.cells import FileCell
from steelyard.tune.changes import Write
from steelyard.tune.knobs.knob import FilesKnob, Found, Knob, Lacking, Risk, between, choices, unwritable

_CPU = "sys/devices/system/cpu"
_POLICIES = f"{_CPU}/cpufreq"
_UNCORE = f"{_CPU}/intel_uncore_frequency"
_STEPS = 5
_STEP_KHZ = 100_000
"""Processors know multiples of 100 MHz (Intel SDM, MSR_UNCORE_RATIO_LIMIT and IA32_PERF_CTL); of another
number the driver keeps the one below it."""


def _policies(tree: Tree, file: str) -> list[str]:
    return [f"{_POLICIES}/{name}/{file}" for name in tree.names(_POLICIES, r"policy\d+")]


_NO_POLICY = "no cpufreq driver: the firmware or the hypervisor sets the frequency"


def core_frequency(tree: Tree) -> Found:
    """The highest frequency of cores."""
    name, about = "core_frequency", "highest frequency of cores, kHz"
    paths = _policies(tree, "scaling_max_freq")
    if not paths:
        return [Lacking(name, about, _NO_POLICY)]
    if (why := unwritable(tree, paths)) is not None:
        return [Lacking(name, about, why)]
    folder = paths[0].rpartition("/")[0]
    low, high = tree.number(f"{folder}/cpuinfo_min_freq"), tree.number(f"{folder}/cpuinfo_max_freq")
    offered = choices(tree, f"{folder}/scaling_available_frequencies")
    if low is None or high is None:
        return [Lacking(name, about, "the driver does not tell its range")]
    files = tuple(tree.path(path) for path in paths)
    if offered:
        # The driver rounds what is not among them.
        return [FilesKnob(name, about, files, tuple(sorted(offered, key=int)), is_ordered=True)]
    levels = between(low, high, _STEPS, _STEP_KHZ)
    return [FilesKnob(name, about, files, levels, minimum=low, maximum=high, step=_STEP_KHZ, is_ordered=True)]


def governor(tree: Tree) -> Found:
    """The governor of all cores."""
    return [
        _of_policies(
            tree, "governor", "scaling_governor", "scaling_available_governors", "choice of frequency"
        )
    ]


def energy_preference(tree: Tree) -> Found:
    """The hint to hardware that chooses the frequency itself."""
    return [
        _of_policies(
            tree,
            "energy_preference",
            "energy_performance_preference",
            "energy_performance_available_preferences",
            "hint to hardware that chooses the frequency itself",
        )
    ]


def _of_policies(tree: Tree, name: str, file: str, offered: str, about: str) -> Knob | Lacking:
    paths = _policies(tree, file)
    if not paths:
        return Lacking(name, about, _NO_POLICY)
    if (why := unwritable(tree, paths)) is not None:
        return Lacking(name, about, why)
    words = choices(tree, paths[0].replace(file, offered))
    levels = tuple(word for word in words if word not in ("userspace", "default"))
    if len(levels) < 2:
        return Lacking(name, about, "the driver offers one")
    return FilesKnob(name, about, tuple(tree.path(path) for path in paths), levels)


@dataclass
class Boost(Knob):
    """Frequencies above the base frequency; Intel's driver has the file the other way round."""

    path: Path
    on: str
    name: str = "boost"
    about: str = "frequencies above the base frequency"
    risk: Risk = Risk.LOW
    levels: tuple[str, ...] = ("on", "off")

    def read(self) -> str:
        """Return on or off."""
        return "on" if FileCell(self.path).read() == self.on else "off"

    def writes(self, level: str) -> list[Write]:
        """Return the digit for the file."""
        return [(FileCell(self.path), self.on if level == "on" else str(1 - int(self.on)))]


def boost(tree: Tree) -> Found:
    """Boost of either driver."""
    for path, on in ((f"{_CPU}/intel_pstate/no_turbo", "0"), (f"{_POLICIES}/boost", "1")):
        if tree.exists(path):
            why = unwritable(tree, [path])
            return [Boost(tree.path(path), on) if why is None else Lacking("boost", Boost.about, why)]
    return [Lacking("boost", Boost.about, "no driver with a boost switch")]


def uncore_frequency(tree: Tree) -> Found:
    """The highest frequency of caches and memory controllers."""
    name, about = "uncore_frequency", "highest frequency of caches, mesh and memory controller, kHz"
    domains = tree.names(_UNCORE, r"package_\d+_die_\d+")
    if not domains:
        return [Lacking(name, about, "no intel_uncore_frequency driver: modprobe intel-uncore-frequency")]
    paths = [f"{_UNCORE}/{domain}/max_freq_khz" for domain in domains]
    if (why := unwritable(tree, paths)) is not None:
        return [Lacking(name, about, why)]
    folder = paths[0].rpartition("/")[0]
    low, high = tree.number(f"{folder}/initial_min_freq_khz"), tree.number(f"{folder}/initial_max_freq_khz")
    if low is None or high is None:
        return [Lacking(name, about, "the driver does not tell its range")]
    files = tuple(tree.path(path) for path in paths)
    levels = between(low, high, _STEPS, _STEP_KHZ)
    return [FilesKnob(name, about, files, levels, minimum=low, maximum=high, step=_STEP_KHZ, is_ordered=True)]


@dataclass
class IdleLimit(Knob):
    """The deepest idle state that cores may enter."""

    root: Path
    states: tuple[str, ...]
    """Names, shallow first."""
    cpus: tuple[str, ...]
    name: str = "idle_limit"
    about: str = "deepest idle state of cores"
    risk: Risk = Risk.MEDIUM
    is_ordered: bool = True

    def __post_init__(self) -> None:
        self.levels = self.states

    def _cell(self, cpu: str, index: int) -> FileCell:
        return FileCell(self.root / _CPU / cpu / "cpuidle" / f"state{index}" / "disable")

    def read(self) -> str:
        """Return the deepest state that is enabled."""
        enabled = [
            index for index in range(len(self.states)) if self._cell(self.cpus[0], index).read() == "0"
        ]
        return self.states[max(enabled)] if enabled else "none"

    def writes(self, level: str) -> list[Write]:
        """Return what disables all deeper states."""
        if level not in self.states:
            raise UsageError(f"{self.name}={level}: allowed is {'|'.join(self.states)}")
        deepest = self.states.index(level)
        return [
            (self._cell(cpu, index), str(int(index > deepest)))
            for cpu in self.cpus
            for index in range(len(self.states))
        ]


def idle_limit(tree: Tree) -> Found:
    """Idle states of cpuidle."""
    cpus = tree.names(_CPU, r"cpu\d+")
    states = tree.names(f"{_CPU}/cpu0/cpuidle", r"state\d+")
    if len(states) < 2:
        return [Lacking("idle_limit", IdleLimit.about, "no idle states to choose from: the hypervisor idles")]
    with_states = [cpu for cpu in cpus if tree.exists(f"{_CPU}/{cpu}/cpuidle/state0/disable")]
    if (why := unwritable(tree, [f"{_CPU}/{cpu}/cpuidle/state0/disable" for cpu in with_states])) is not None:
        return [Lacking("idle_limit", IdleLimit.about, why)]
    names = [tree.text(f"{_CPU}/cpu0/cpuidle/{state}/name") or state for state in states]
    return [IdleLimit(tree.root, tuple(names), tuple(with_states))]
