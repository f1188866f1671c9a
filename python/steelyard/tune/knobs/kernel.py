"""Knobs of the scheduler, and those of the kernel's command line, which need a reboot."""

from __future__ import annotations

import re
from dataclasses import dataclass

from steelyard.machine.tree import Tree
from steelyard.tune.knobs.knob import FilesKnob, Found, Knob, Lacking, Risk, unwritable

_SLICES = ("sys/kernel/debug/sched/base_slice_ns", "sys/kernel/debug/sched/min_granularity_ns")
_FACTORS = (0.25, 0.5, 1, 2, 4, 8)


def base_slice(tree: Tree) -> Found:
    """The time that a thread runs before another one may take its place (EEVDF's base slice)."""
    name, about = "base_slice", "time that a thread runs before another may take its place, ns"
    path = next((path for path in _SLICES if tree.exists(path)), None)
    if path is None:
        return [Lacking(name, about, "debugfs is not mounted: mount -t debugfs debugfs /sys/kernel/debug")]
    present = tree.number(path)
    if (why := unwritable(tree, [path])) is not None:
        return [Lacking(name, about, why)]
    if present is None:
        return [Lacking(name, about, f"/{path} holds no number")]
    # Linux, kernel/sched/debug.c: 100 us to 1 s.
    low, high = 100_000, 1_000_000_000
    steps = sorted({round(present * factor) for factor in _FACTORS})
    levels = tuple(str(step) for step in steps if low <= step <= high)
    return [FilesKnob(name, about, (tree.path(path),), levels, minimum=low, maximum=high, is_ordered=True)]


def autogroup(tree: Tree) -> Found:
    """Whether sessions share CPU time as groups."""
    name, about = "sched_autogroup", "CPU time shared between sessions first, then between their threads"
    path = "proc/sys/kernel/sched_autogroup_enabled"
    if (why := unwritable(tree, [path])) is not None:
        return [Lacking(name, about, why)]
    return [FilesKnob(name, about, (tree.path(path),), ("0", "1"))]


@dataclass
class BootOption(Knob):
    """An option of the kernel's command line: listed with its value, never tried."""

    root_tree: Tree
    option: str
    default: str
    name: str
    about: str
    levels: tuple[str, ...]
    risk: Risk = Risk.HIGH
    needs_reboot: bool = True

    def read(self) -> str:
        """Return what the running kernel was started with."""
        return boot_option(self.root_tree.text("proc/cmdline") or "", self.option) or self.default


def boot_option(line: str, option: str) -> str | None:
    """Return the value of an option of a kernel's command line, the last one.

    >>> boot_option("quiet mitigations=auto mitigations=off", "mitigations")
    'off'
    """
    values = re.findall(rf"(?:^|\s){re.escape(option)}=(\S*)", line)
    return values[-1] if values else None


_BOOT = (
    ("mitigations", "mitigations of processors' vulnerabilities", "auto", ("auto", "off")),
    ("default_hugepagesz", "size of huge pages that programs get without asking for one", "2M", ("2M", "1G")),
    ("idle", "what idle cores do", "driver", ("driver", "poll", "halt")),
)


def boot_options(tree: Tree) -> Found:
    """Options of the command line."""
    if tree.text("proc/cmdline") is None:
        return [
            Lacking(f"boot_{option}", about, "/proc/cmdline cannot be read") for option, about, *_ in _BOOT
        ]
    return [
        BootOption(tree, option, default, f"boot_{option}", about, levels)
        for option, about, default, levels in _BOOT
    ]
