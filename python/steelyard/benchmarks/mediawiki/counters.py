"""What the servers of the wiki count, read once a second while the load runs.

In: their processes, the cache's port, a client of the database. Out: samples of CPU time by server, hits and
misses of the cache, queries of the database.

Not here: gains over the measure phase (``server_counters``), and what they mean (``metrics``).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steelyard.bench.stack.processor import CpuTime, cpu_time
from steelyard.benchmarks.memcached.stack.stats import read_stats

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.session import Session

ANSWER_TIMEOUT_S = 10.0
_QUESTIONS = "SHOW GLOBAL STATUS LIKE 'Questions';\n"


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters at a moment, each from the start of its server."""

    monotonic_ns: int
    cpu: Mapping[str, CpuTime]
    """By server."""
    hits: int
    misses: int
    queries: int
    """Without those that read this counter."""


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter of a sample, as `server_counters` reads it."""

    monotonic_ns: int
    value: float


@dataclass(slots=True)
class ServerWatch:
    """Reads the counters of all servers; ``supervisors`` are the processes that each server runs below."""

    session: "Session"
    supervisors: Mapping[str, int]
    cache: str
    """Address of memcached."""
    database: "Process"
    """A client of the database that waits for statements."""
    samples: list[Sample] = field(default_factory=list)

    def read(self) -> Sample:
        """Take a sample. Raises WorkloadFailedError when a server does not answer."""
        # A server that was killed is named as such, and not by its silence.
        self.session.check()
        cache = read_stats(self.cache)
        queries = self._queries()
        sample = Sample(
            monotonic_ns=time.monotonic_ns(),
            cpu={name: cpu_time([pid]) for name, pid in self.supervisors.items()},
            hits=int(cache["get_hits"]),
            misses=int(cache["get_misses"]),
            # Each look so far, this one included, was a query of ours.
            queries=queries - len(self.samples) - 1,
        )
        self.samples.append(sample)
        return sample

    def _queries(self) -> int:
        self.database.write(_QUESTIONS)
        found: list[int] = []

        def answered() -> bool:
            for _, line in self.database.lines():
                name, _, value = line.partition("\t")
                if name == "Questions":
                    found.append(int(value))
            return bool(found)

        self.session.wait_for(answered, ANSWER_TIMEOUT_S, what="the answer of MariaDB")
        return found[-1]

    def hit_ratio(self) -> float | None:
        """Take a sample, and return the cache's hit ratio since the last one; None without a look-up."""
        before = self.samples[-1] if self.samples else None
        now = self.read()
        hits = now.hits - (before.hits if before else 0)
        misses = now.misses - (before.misses if before else 0)
        return hits / (hits + misses) if hits + misses else None

    def close(self) -> None:
        """Let the client of the database end."""
        self.database.write("quit\n")
        self.session.join(self.database, ANSWER_TIMEOUT_S, what="the end of the database's client")
