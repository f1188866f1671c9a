"""How the processors are set: SMT, frequency, idle states, heat, steal, and the events that perf may count.

In: a tree and its online CPUs. Out: fields of ``records.Cpu``, ``None`` or empty for what the tree does not
tell. Settings of single CPUs are counts over all of them, so that one CPU that differs can be seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from steelyard._base import format_cpu_list, parse_cpu_list
from steelyard.machine.tree import Tree, keyed
from steelyard.records import IdleState

SLOW_GOVERNORS = frozenset({"powersave", "conservative", "ondemand", "userspace"})
"""Frequency governors that hold CPUs below the frequency they could have, or raise it late."""

_CPU = "sys/devices/system/cpu"
_EVENTS = "sys/bus/event_source/devices"


def offline_cpus(tree: Tree, online: Sequence[int]) -> str | None:
    """Return the CPUs that are present but not online, as a list.

    ``cpu/offline`` also names CPUs that could be but are not there, so that ``present`` bounds it.
    """
    present = tree.text(f"{_CPU}/present")
    if present is None or not online:
        return None
    return format_cpu_list(sorted(set(parse_cpu_list(present) or ()) - set(online)))


def microcode(tree: Tree, online: Sequence[int]) -> str | None:
    """Return the revision of the microcode; where CPUs differ, each with its number of CPUs."""
    texts = [tree.text(f"sys/devices/system/cpu/cpu{cpu}/microcode/version") for cpu in online]
    if not any(texts):
        blocks = (keyed(block) for block in (tree.text("proc/cpuinfo") or "").split("\n\n"))
        texts = [block.get("microcode") for block in blocks if "processor" in block]
    counts = Counter(text for text in texts if text)
    if len(counts) < 2:
        return next(iter(counts), None)
    return ", ".join(f"{text} ({count} CPUs)" for text, count in counts.items())


def cores_by_threads(cores: Sequence[frozenset[int]]) -> dict[str, int]:
    """Return the number of cores by their number of online threads.

    >>> cores_by_threads([frozenset({0, 4}), frozenset({1, 5}), frozenset({2})])
    {'1': 1, '2': 2}
    """
    counts = Counter(len(threads) for threads in cores)
    return {str(threads): counts[threads] for threads in sorted(counts)}


def policy_folders(tree: Tree, online: Sequence[int]) -> dict[int, str]:
    """Return each online CPU's folder of frequency settings; a CPU without one is absent."""
    folders = {}
    for cpu in online:
        for folder in (f"{_CPU}/cpu{cpu}/cpufreq", f"{_CPU}/cpufreq/policy{cpu}"):
            if tree.exists(folder):
                folders[cpu] = folder
                break
    return folders


def governors(tree: Tree, folders: dict[int, str]) -> dict[str, int]:
    """Return the number of CPUs by governor."""
    names = (tree.text(f"{folder}/scaling_governor") for folder in folders.values())
    return dict(sorted(Counter(name for name in names if name).items()))


def frequency_limits(tree: Tree, folders: dict[int, str]) -> tuple[int | None, int | None]:
    """Return the lowest limit set for any CPU, Hz, and the number of CPUs that are held below their best."""
    limits, held = [], 0
    for folder in folders.values():
        limit = tree.number(f"{folder}/scaling_max_freq")
        best = tree.number(f"{folder}/cpuinfo_max_freq")
        if limit is None or best is None:
            continue
        limits.append(limit * 1000)
        held += limit < best
    return (min(limits), held) if limits else (None, None)


def idle_states(tree: Tree, cpu: int) -> list[IdleState]:
    """Return the idle states of ``cpu``, lightest first."""
    base = f"{_CPU}/cpu{cpu}/cpuidle"
    states = []
    for name in tree.names(base, r"state\d+"):
        latency_us = tree.number(f"{base}/{name}/latency")
        residency_us = tree.number(f"{base}/{name}/residency")
        disabled = tree.number(f"{base}/{name}/disable")
        states.append(
            IdleState(
                name=tree.text(f"{base}/{name}/name") or name,
                exit_latency_ns=None if latency_us is None or latency_us < 0 else latency_us * 1000,
                residency_ns=None if residency_us is None or residency_us < 0 else residency_us * 1000,
                is_enabled=None if disabled is None else disabled == 0,
            )
        )
    return states


def thermal_throttles(tree: Tree, cores: Sequence[frozenset[int]], online: Sequence[int]) -> int | None:
    """Return how often cores were slowed for heat since boot; threads of a core share its counter."""
    first = [min(threads) for threads in cores] or list(online)
    counts = [tree.number(f"{_CPU}/cpu{cpu}/thermal_throttle/core_throttle_count") for cpu in first]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def steal_ratio(tree: Tree) -> float | None:
    """Return the share of CPU time since boot that went to other guests.

    Source: proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal; the two guest columns are
    parts of user and nice and not added again.
    """
    for line in (tree.text("proc/stat") or "").splitlines():
        words = line.split()
        if words[:1] == ["cpu"]:
            times = [int(word) for word in words[1:9] if word.isdigit()]
            total = sum(times)
            return times[7] / total if len(times) == 8 and total > 0 else None
    return None


def performance_monitors(tree: Tree) -> list[str]:
    """Return the kinds of perf events that the kernel has; empty where the tree does not report it."""
    return tree.names(_EVENTS)
