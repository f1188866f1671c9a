"""Lists of CPUs in the kernel's notation, such as ``0-3,8``."""

import itertools
from collections.abc import Sequence

from steelyard._base import UsageError


def parse_cpu_list(text: str, *, flag: str = "CPU list") -> tuple[int, ...]:
    """Return the CPUs of a list in the kernel's notation.

    >>> parse_cpu_list("0-2,5")
    (0, 1, 2, 5)
    """
    cpus: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        # 64 Ki CPUs is more than any Linux supports; the bound keeps a typing error from filling memory.
        if not (
            first.isascii() and first.isdigit() and last.isascii() and last.isdigit() and int(last) < 65536
        ):
            raise UsageError(f"{flag} {text!r} is not a CPU list", hint="write it as 0-3,8")
        if int(first) > int(last):
            raise UsageError(f"{flag} {text!r} runs backwards", hint="write it as 0-3,8")
        cpus.update(range(int(first), int(last) + 1))
    return tuple(sorted(cpus))


def format_cpu_list(cpus: Sequence[int]) -> str:
    """Return ``cpus`` in the kernel's notation.

    >>> format_cpu_list([0, 1, 2, 5])
    '0-2,5'
    """
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def split(cpus: tuple[int, ...], parts: int) -> list[tuple[int, ...]]:
    """Return ``cpus`` in ``parts`` lists of nearly equal length; with too few CPUs, parts share them."""
    if len(cpus) < parts:
        return [(cpus[part % len(cpus)],) for part in range(parts)]
    edges = [round(part * len(cpus) / parts) for part in range(parts + 1)]
    return [cpus[a:b] for a, b in itertools.pairwise(edges)]
