"""What is put together: benchmarks and commands, as they are written on the command line.

In: ``redis``, ``redis:depth=16,connections=8``, or a command in quotes. Out: a `Workload`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from steelyard._base import UsageError
from steelyard.bench import declaration, tiers
from steelyard.bench.command.benchmark import words
from steelyard.bench.hook import parse_request
from steelyard.bench.parameters import nearest

COMMAND = "command"
"""The benchmark that repeats a command."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One of the two."""

    name: str
    benchmark: str
    chosen: Mapping[str, str] = field(default_factory=dict)
    """Parameters that were asked for, as texts."""


def workload_of(text: str) -> Workload:
    """Return the workload that ``text`` stands for. Raises UsageError for neither benchmark nor command."""
    names = declaration.names()
    benchmark = text.partition(":")[0].strip()
    if benchmark in names and " " not in benchmark:
        name, chosen = parse_request(text)
        return Workload(name, name, chosen)
    if text in tiers.suites():
        raise UsageError(f"{text} is a suite, not a benchmark", hint="name one of its benchmarks")
    try:
        program = words(text)[0]
    except UsageError as error:
        close = nearest(benchmark, names)
        raise UsageError(
            f"{text!r} is no benchmark and no command{close}: {error.message}",
            hint="see `steelyard list benchmarks`, or write a command in quotes",
        ) from error
    return Workload(Path(program).name, COMMAND, {"command": text})


def pair_of(first: str, second: str) -> tuple[Workload, Workload]:
    """Return both workloads, by different names."""
    pair = workload_of(first), workload_of(second)
    if pair[0].name != pair[1].name:
        return pair
    return replace(pair[0], name=f"{pair[0].name} 1"), replace(pair[1], name=f"{pair[1].name} 2")
