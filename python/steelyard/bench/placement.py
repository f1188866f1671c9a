"""Which CPUs the servers and the load may use.

In: the CPUs this process may use, and what was asked. Out: two disjoint lists where there are at least two
CPUs, one shared list otherwise.

Not here: pinning, which ``steelyard-exec`` does.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import UsageError


@dataclass(frozen=True, slots=True)
class Placement:
    """CPUs by side, in ascending order."""

    server: tuple[int, ...]
    load: tuple[int, ...]

    @property
    def shared(self) -> bool:
        """Return whether some CPU serves both sides."""
        return bool(set(self.server) & set(self.load))


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


def cores(usable: Sequence[int], root: Path = Path("/")) -> list[tuple[int, ...]]:
    """Return the ``usable`` CPUs grouped by physical core, cores in order of their first CPU.

    A CPU whose topology cannot be read counts as a core of its own.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for cpu in sorted(set(usable)):
        path = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        try:
            siblings = parse_cpu_list(path.read_text().strip())
        except (OSError, UsageError):
            siblings = (cpu,)
        groups.setdefault(siblings, []).append(cpu)
    return sorted(tuple(group) for group in groups.values())


def place(
    by_core: Sequence[Sequence[int]],
    *,
    load_ratio: float,
    server: Sequence[int] | None = None,
    load: Sequence[int] | None = None,
) -> Placement:
    """Return who runs where on the usable CPUs, given grouped `by_core`.

    ``load_ratio`` is the share of the CPUs that the load needs to keep the servers busy without being the
    bottleneck itself. The load gets whole cores from the end, so that no core serves both sides, unless there
    is only one core. A side that was asked for is taken as it is, and the other gets what is left. With a
    ratio of 0 there is no load: the servers get all CPUs, or those that were asked for.

    >>> place([(0,), (1,), (2,), (3,)], load_ratio=0.25)
    Placement(server=(0, 1, 2), load=(3,))
    >>> place([(0, 2), (1, 3)], load_ratio=0.25)
    Placement(server=(0, 2), load=(1, 3))
    """
    available = sorted({cpu for core in by_core for cpu in core})
    for flag, asked in (("--server-cpus", server), ("--load-cpus", load)):
        lacking = sorted(set(asked or ()) - set(available))
        if lacking:
            raise UsageError(
                f"{flag}: CPU {format_cpu_list(lacking)} is not usable here",
                hint=f"usable are {format_cpu_list(available)}",
            )
    if load_ratio == 0:
        return Placement(tuple(sorted(set(server or available))), ())
    if server and load:
        return Placement(tuple(sorted(set(server))), tuple(sorted(set(load))))
    if server or load:
        asked = sorted(set(server or load or ()))
        rest = [cpu for cpu in available if cpu not in asked] or asked
        return Placement(tuple(asked), tuple(rest)) if server else Placement(tuple(rest), tuple(asked))
    if len(available) == 1:
        return Placement(tuple(available), tuple(available))
    groups = [tuple(core) for core in by_core] if len(by_core) > 1 else [(cpu,) for cpu in available]
    wanted = max(1, round(len(available) * load_ratio))
    chosen: list[int] = []
    while len(groups) > 1 and len(chosen) < wanted:
        chosen.extend(groups.pop())
    return Placement(tuple(sorted(cpu for group in groups for cpu in group)), tuple(sorted(chosen)))


def split(cpus: tuple[int, ...], parts: int) -> list[tuple[int, ...]]:
    """Return ``cpus`` in ``parts`` lists of nearly equal length; with too few CPUs, parts share them."""
    if len(cpus) < parts:
        return [(cpus[part % len(cpus)],) for part in range(parts)]
    edges = [round(part * len(cpus) / parts) for part in range(parts + 1)]
    return [cpus[a:b] for a, b in itertools.pairwise(edges)]
