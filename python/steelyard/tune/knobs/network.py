"""Knobs of the network: which CPUs handle interrupts and received packets; rings and coalescing."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import format_cpu_list, parse_cpu_list, parse_cpu_mask
from steelyard.machine import ethtool
from steelyard.machine.tree import Tree
from steelyard.records import LinkSettings
from steelyard.tune.cells import CommandCell, FileCell
from steelyard.tune.changes import Write
from steelyard.tune.knobs.knob import Found, Knob, Lacking, Risk, unwritable

_NET = "sys/class/net"
_INTERRUPT = re.compile(r"\s*(\d+):.*?(\S+)\s*$")


def _interfaces(tree: Tree) -> list[str]:
    """Return interfaces with a device behind them: not loopback, bridges and tunnels."""
    return [name for name in tree.names(_NET) if tree.exists(f"{_NET}/{name}/device")]


def _online(tree: Tree) -> list[int]:
    return parse_cpu_list(tree.text("sys/devices/system/cpu/online") or "") or [0]


@dataclass
class Steering(Knob):
    """Which CPUs handle received packets after the interrupt (RPS)."""

    paths: tuple[Path, ...]
    cpus: tuple[int, ...]
    name: str
    about: str = "CPUs that handle received packets after the interrupt"
    risk: Risk = Risk.LOW
    levels: tuple[str, ...] = ("off", "all")

    def _mask(self, level: str) -> int:
        return 0 if level == "off" else sum(1 << cpu for cpu in self.cpus)

    def read(self) -> str:
        """Return off or all, or the mask."""
        text = FileCell(self.paths[0]).read()
        now = sum(1 << cpu for cpu in parse_cpu_mask(text) or [])
        return next((level for level in self.levels if self._mask(level) == now), text)

    def writes(self, level: str) -> list[Write]:
        """Return the mask for each queue, as wide as the kernel writes it."""
        written: list[Write] = []
        for path in self.paths:
            words = FileCell(path).read().split(",")
            mask = self._mask(level)
            parts = [mask >> 32 * index & 0xFFFFFFFF for index in reversed(range(len(words)))]
            text = ",".join(f"{part:0{len(word)}x}" for part, word in zip(parts, words, strict=True))
            written.append((FileCell(path), text))
        return written


def steering(tree: Tree) -> Found:
    """RPS of each interface."""
    found: list[Knob | Lacking] = []
    for interface in _interfaces(tree):
        queues = tree.names(f"{_NET}/{interface}/queues", r"rx-\d+")
        paths = [f"{_NET}/{interface}/queues/{queue}/rps_cpus" for queue in queues]
        name = f"rps_{interface}"
        if (why := unwritable(tree, paths)) is not None:
            found.append(Lacking(name, Steering.about, why))
        else:
            found.append(Steering(tuple(map(tree.path, paths)), tuple(_online(tree)), name))
    return found or [Lacking("rps", Steering.about, "no network interface with a device")]


@dataclass
class InterruptCpus(Knob):
    """Which CPUs take an interface's interrupts."""

    paths: tuple[Path, ...]
    cpus: tuple[int, ...]
    name: str
    about: str = "CPUs that take the interface's interrupts: its queues spread, or all on one"
    risk: Risk = Risk.LOW
    levels: tuple[str, ...] = ("spread", "first", "last", "any")

    def read(self) -> str:
        """Return the level, or the lists as they are."""
        now = [FileCell(path).read() for path in self.paths]
        for level in self.levels:
            if [text for _, text in self.writes(level)] == now:
                return level
        return " ".join(now)

    def writes(self, level: str) -> list[Write]:
        """Return a list of CPUs for each interrupt."""
        lists = {
            "spread": [str(self.cpus[index % len(self.cpus)]) for index in range(len(self.paths))],
            "first": [str(self.cpus[0])] * len(self.paths),
            "last": [str(self.cpus[-1])] * len(self.paths),
            "any": [format_cpu_list(self.cpus)] * len(self.paths),
        }
        return [(FileCell(path), text) for path, text in zip(self.paths, lists[level], strict=True)]


def interrupt_cpus(tree: Tree) -> Found:
    """Interrupts of each interface, by the name of its device in /proc/interrupts."""
    lines = (tree.text("proc/interrupts") or "").splitlines()
    named = [(match[1], match[2]) for line in lines if (match := _INTERRUPT.match(line))]
    found: list[Knob | Lacking] = []
    for interface in _interfaces(tree):
        device = Path(tree.link(f"{_NET}/{interface}/device") or interface).name
        pattern = re.compile(rf"(?:{re.escape(interface)}|{re.escape(device)})\b(?!.*config)")
        numbers = [number for number, name in named if pattern.search(name)]
        paths = [f"proc/irq/{number}/smp_affinity_list" for number in numbers]
        knob = f"interrupt_cpus_{interface}"
        if not numbers:
            found.append(Lacking(knob, InterruptCpus.about, "/proc/interrupts names none of its own"))
        elif (why := unwritable(tree, paths)) is not None:
            found.append(Lacking(knob, InterruptCpus.about, why))
        else:
            found.append(InterruptCpus(tuple(map(tree.path, paths)), tuple(_online(tree)), knob))
    return found or [Lacking("interrupt_cpus", InterruptCpus.about, "no network interface with a device")]


@dataclass
class LinkSetting(Knob):
    """One setting of an interface that ethtool changes."""

    interface: str
    group: str
    """Option of ethtool: ``ring`` or ``coalesce``."""
    key: str
    present: int
    name: str
    about: str
    levels: tuple[str, ...]
    risk: Risk = Risk.MEDIUM
    is_ordered: bool = True

    def _cell(self) -> CommandCell:
        flags = {"ring": ("-G", "-g"), "coalesce": ("-C", "-c")}[self.group]
        label = {"rx": "RX", "tx": "TX"}.get(self.key, self.key)
        # The last line with this label: rings are listed twice, the greatest possible first.
        script = f'$1 == "{label}:" {{ value = $2 }} END {{ print value }}'
        read = f"ethtool {flags[1]} {self.interface} | awk '{script}'"
        return CommandCell(("ethtool", flags[0], self.interface, self.key, "{}"), ("sh", "-c", read))

    def read(self) -> str:
        """Return the number."""
        return self._cell().read()

    def writes(self, level: str) -> list[Write]:
        """Return the command."""
        return [(self._cell(), level)]


def _microseconds(now: LinkSettings | None) -> int | None:
    return None if now is None or now.receive_delay_ns is None else now.receive_delay_ns // 1000


def link_settings(tree: Tree) -> Found:
    """Rings and coalescing of each interface of the running machine."""
    found: list[Knob | Lacking] = []
    interfaces = [name for name in _interfaces(tree) if re.fullmatch(r"[\w.-]+", name)]
    if not interfaces:
        reason = "no network interface with a device"
        return [
            Lacking("ring", "length of rings", reason),
            Lacking("coalesce", "delay of interrupts", reason),
        ]
    for interface in interfaces:
        ring = f"ring_{interface}", "descriptors of the receive ring"
        delay = f"coalesce_{interface}", "delay of receive interrupts, µs"
        if not tree.is_live:
            why: str | None = "a recorded machine answers no driver's questions"
            now = None
        else:
            answer = ethtool.settings(interface)
            now, why = (None, answer) if isinstance(answer, str) else (answer, None)
        if now is not None and shutil.which("ethtool") is None:
            why = "ethtool is not installed"
        for (name, about), present, most, group, key in (
            (ring, now.receive_ring if now else None, now.receive_ring_max if now else None, "ring", "rx"),
            (delay, _microseconds(now), 128, "coalesce", "rx-usecs"),
        ):
            if why is not None or present is None or most is None:
                found.append(Lacking(name, about, why or "the driver does not tell"))
                continue
            steps = {256, 512, 1024, 2048, 4096} if group == "ring" else {0, 8, 32, 64, 128}
            levels = tuple(str(one) for one in sorted({*steps, present}) if one <= most)
            found.append(LinkSetting(interface, group, key, present, name, about, levels))
    return found
