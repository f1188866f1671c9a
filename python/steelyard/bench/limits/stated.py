"""Limits as they are typed: those that results are held against, and those that a run sets.

In: texts such as ``lo=1Gbit``. Out: `Limits`, and hooks. Raises UsageError for anything else. Not here:
setting them (``disk``, ``network``).
"""

import re
from collections.abc import Sequence

from steelyard._base import UsageError, parse_rate
from steelyard.analyze.pressure.limits import Limits

STATED = "stated by --limit"


def _parsed(flag: str, texts: Sequence[str]) -> list[tuple[str, str, float, bool]]:
    """Return part, text of the rate, bytes per second and whether it counts bits; raises UsageError."""
    parsed = []
    for text in texts:
        part, _, written = text.partition("=")
        rate = parse_rate(written) if re.fullmatch(r"[\w.:-]+", part) else None
        if rate is None:
            raise UsageError(
                f"{flag} {text}: not a limit", hint="write INTERFACE=1Gbit, DISK=200MB or dram=20GB"
            )
        parsed.append((part, written, *rate))
    return parsed


def limits_of(texts: Sequence[str]) -> Limits:
    """Return stated limits: ``lo=1Gbit``, ``sda=200MB``, ``dram=20GB``; each a second. Raises UsageError."""
    dram: float | None = None
    links: dict[str, float] = {}
    disks: dict[str, float] = {}
    for part, _, rate, in_bits in _parsed("--limit", texts):
        if part == "dram":
            dram = rate
        elif in_bits:
            links[part] = rate
        else:
            disks[part] = rate
    return Limits(dram_bytes_per_s=dram, network_bytes_per_s=links, disk_bytes_per_s=disks, source=STATED)


def hooks_of(texts: Sequence[str]) -> list[str]:
    """Return the hooks that set limits for a run, as ``--hook`` names them. Raises UsageError."""
    hooks: dict[str, str] = {}
    for part, written, _, in_bits in _parsed("--set-limit", texts):
        if part == "dram":
            raise UsageError(
                "--set-limit dram: memory bandwidth cannot be limited", hint="state it with --limit"
            )
        name, noun = ("network-limit", "interface") if in_bits else ("disk-limit", "device")
        if name in hooks:
            raise UsageError(f"--set-limit {part}: one {noun} is limited already")
        hooks[name] = f"{name}:{noun}={part},rate={written}"
    return list(hooks.values())


def asked_limits(limits: Sequence[str], set_limits: Sequence[str]) -> tuple[Limits, list[str]]:
    """Return stated limits, and the hooks that set limits. Raises UsageError for a part that is in both."""
    stated, hooks = limits_of(limits), hooks_of(set_limits)
    twice = {text.partition("=")[0] for text in limits} & {text.partition("=")[0] for text in set_limits}
    if twice:
        raise UsageError(f"{min(twice)} has both --limit and --set-limit", hint="a limit that is set counts")
    return stated, hooks
