"""What db_bench prints: throughput, latency and keys found of one benchmark.

In: the text of one invocation with ``--histogram``, and its file of ``--report_file``. Out: `Result`.

Not here: running db_bench.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import WorkloadFailedError, read_regular

_LINE = re.compile(
    r"^(?P<name>\w+)\s*:\s*[\d.]+ micros/op \d+ ops/sec (?P<seconds>\d{1,18}\.?\d{0,9}) seconds"
    r" (?P<operations>\d{1,18}) operations;.*?(?:\((?P<found>\d{1,18}) of (?P<of>\d{1,18}) found\))?\s*$",
    re.MULTILINE,
)
_PERCENTILES = re.compile(
    r"^Percentiles: P50: (\d{1,18}\.?\d{0,9}) P75: [\d.]+ P99: (\d{1,18}\.?\d{0,9})", re.MULTILINE
)
_ASSERTIONS = "Assertions are enabled"
_VERSION = re.compile(r"RocksDB:\s+version ([\d.]+)")


@dataclass(frozen=True, slots=True)
class Result:
    """One benchmark of db_bench."""

    name: str
    operations: int
    seconds: float
    p50_ns: float | None
    p99_ns: float | None
    found_ratio: float | None
    """Share of the keys looked up that were found, of the thread that is printed; None where none was."""
    has_assertions: bool
    """Whether this build checks assertions, which makes it slower than those of other systems."""
    version: str | None

    @property
    def per_s(self) -> float:
        """Return operations per second of all threads together."""
        return self.operations / self.seconds


def parse(text: str, name: str) -> Result:
    """Return the result of benchmark ``name``. Raises WorkloadFailedError where there is none."""
    line = next((match for match in _LINE.finditer(text) if match["name"] == name), None)
    if line is None or float(line["seconds"]) <= 0 or int(line["operations"]) == 0:
        raise WorkloadFailedError(f"db_bench printed no result of {name}")
    # Threads that only write beside readers have a histogram of their own: that of the readers comes first.
    percentiles = _PERCENTILES.search(text, line.end())
    version = _VERSION.search(text)
    return Result(
        name=name,
        operations=int(line["operations"]),
        seconds=float(line["seconds"]),
        p50_ns=float(percentiles[1]) * 1e3 if percentiles else None,
        p99_ns=float(percentiles[2]) * 1e3 if percentiles else None,
        found_ratio=int(line["found"]) / int(line["of"]) if line["of"] and int(line["of"]) else None,
        has_assertions=_ASSERTIONS in text,
        version=version[1] if version else None,
    )


def rates(path: Path) -> list[float]:
    """Return operations per second of each second; the first and what cannot be read are left out."""
    lines = (
        read_regular(path, at_most_bytes=1 << 20).decode("ascii", "replace").splitlines()[2:]
        if path.is_file()
        else []
    )
    values = []
    for line in lines:
        _, _, rate = line.partition(",")
        if rate.strip().isdigit():
            values.append(float(rate))
    return values
