"""The load of TaoBench: starting it, warming up until the servers settle, measuring.

In: addresses of servers. Out: the measure phase on the monotonic clock.

The load runs from the beginning to the end without a gap: it warms up until the order to measure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import executable
from steelyard.analyze.verdict import WarmUp
from steelyard.bench.load import settled, watch
from steelyard.bench.load.watch import LoadWatch
from steelyard.bench.parameters import Setting
from steelyard.bench.server_counters import StatsTail
from steelyard.records import CacheStats

if TYPE_CHECKING:
    from steelyard.bench.session import Session


def load_command(
    settings: Mapping[str, Setting], *, target: str, key_sizes: str, value_sizes: str, seed: int
) -> list[str]:
    """Return the command line of one load, without where it writes."""
    command = [
        str(executable("steelyard-load")),
        *("--protocol", "memcached", "--target", target),
        *("--threads", str(settings["load_threads"])),
        *("--connections", str(settings["connections"])),
        *("--depth", str(settings["depth"])),
        *("--duration", f"{settings['measure']:g}s"),
        # In a unit in which the shortest has no exponent, which flags do not take.
        *("--warmup", f"{float(settings['warmup_min']) * 1e9:.0f}ns", "--hold"),
        *("--seed", str(seed)),
        *("--keys", str(settings["keys"])),
        *("--key-distribution", str(settings["key_distribution"])),
        *("--key-sizes", key_sizes, "--value-sizes", value_sizes),
        *("--io", str(settings["io"])),
        *("--progress", "json"),
    ]
    if float(settings["rate"]) > 0:
        command += ["--rate", f"{settings['rate']:g}", "--arrival", str(settings["arrival"])]
    return command


def start_load(
    session: "Session",
    *,
    name: str,
    suffix: str,
    target: str,
    cpus: Sequence[int],
    key_sizes: str,
    value_sizes: str,
    seed: int,
    fill: bool,
) -> LoadWatch:
    """Start one load process; ``fill`` first stores every key, for servers that do not fill themselves."""
    command = [
        *load_command(
            session.settings, target=target, key_sizes=key_sizes, value_sizes=value_sizes, seed=seed
        ),
        *("--hlog", str(session.directory / f"latency{suffix}.hlog")),
        *("--output", str(session.directory / f"load{suffix}.json")),
    ]
    if fill:
        command += ["--prefill"]
    return LoadWatch(session.start_process(name, command, cpus=cpus))


@dataclass(slots=True)
class _Ratios:
    """Hit ratios of all servers together, one a window."""

    tails: list[StatsTail]
    last: list[CacheStats | None] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    stored_bytes: int = 0

    def read(self) -> None:
        """Take in what the servers wrote since the last call."""
        self.last = self.last or [None] * len(self.tails)
        for index, tail in enumerate(self.tails):
            for stats in tail.read():
                before = self.last[index]
                self.last[index] = stats
                self.stored_bytes = sum(known.stored_bytes for known in self.last if known is not None)
                fast = stats.fast_requests - (before.fast_requests if before else 0)
                slow = stats.slow_requests - (before.slow_requests if before else 0)
                # With several servers every window of each is one value: they are alike.
                if fast + slow > 0:
                    self.ratios.append(fast / (fast + slow))

    def all(self) -> list[float]:
        """Return those that the servers have written so far."""
        self.read()
        return self.ratios

    def latest(self) -> float | None:
        """Return the last one that the servers wrote, None before the first."""
        self.read()
        return self.ratios[-1] if self.ratios else None


def wait_until_settled(session: "Session", loads: Sequence[LoadWatch], stats: Sequence[Path]) -> WarmUp:
    """Wait until the hit ratio has settled, or throughput where servers do not tell their hit ratio.

    Returns after ``warmup_max`` at the latest, with what was found.
    """
    hits = _Ratios([StatsTail(path) for path in stats])
    return settled.wait_until_settled(
        session,
        loads,
        least_s=session.settings.number("warmup_min"),
        most_s=session.settings.number("warmup_max"),
        quantity="hit ratio" if stats else "throughput",
        values=hits.all if stats else None,
        hit_ratio=hits.latest,
    )


def measure(
    session: "Session", loads: Sequence[LoadWatch], stats: Sequence[Path], duration_s: float
) -> tuple[int, int]:
    """Have all loads measure; return the interval in which every one of them did."""
    return watch.measure(session, loads, duration_s, _Ratios([StatsTail(path) for path in stats]).latest)
