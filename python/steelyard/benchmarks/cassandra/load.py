"""The load of the benchmark of Cassandra: its command line, and filling.

In: an address that answers CQL, a mix. Out: a load that warms up.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import executable
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.load.watch import LoadWatch

if TYPE_CHECKING:
    from steelyard.bench.session import Session

DRAIN_S = 15
"""Longer than the node's own limit for a scan, 10 s."""


def start_load(session: "Session", target: str, mix: Path) -> LoadWatch:
    """Start the load: it stores every record, then warms up until the order to measure."""
    settings = session.settings
    command = [
        *(str(executable("steelyard-load")), "--protocol", "cql", "--target", target),
        *LoadHosts.of(settings).arguments(session, mix),
        *("--keys", str(settings.count("records")), "--prefill"),
        *("--threads", str(settings.count("load_threads"))),
        *("--connections", str(settings.count("connections"))),
        *("--duration", f"{settings.number('measure'):g}s"),
        *("--warmup", f"{settings.number('warmup_min') * 1e3:.0f}ms", "--hold"),
        *("--drain", f"{DRAIN_S}s"),
        *("--seed", str(settings.count("seed"))),
        *("--hlog", str(session.directory / "latency.hlog")),
        *("--output", str(session.directory / "load.json")),
        *("--progress", "json"),
    ]
    if settings.number("rate") > 0:
        command += ["--rate", f"{settings.number('rate'):g}", "--arrival", "poisson"]
    place = session.placement
    return LoadWatch(session.start_process("load", command, cpus=place.load or place.server))


def fill(session: "Session", load: LoadWatch, timeout_s: float) -> tuple[int, int]:
    """Wait until every record is stored; return when that began and ended, monotonic ns."""

    def warms_up() -> bool:
        load.read()
        return "warmup" in load.phases

    session.progress.status({"storing": f"{session.settings.count('records'):,} records"})
    session.wait_for(warms_up, timeout_s, what="storing the records", hint=f"see {load.process.log}")
    return load.phases["prefill"], load.phases["warmup"]
