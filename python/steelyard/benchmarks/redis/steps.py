"""One command against all instances: filling, a short warm-up, a step of the measure phase.

In: instances whose servers answer. Out: `Step`s with the results of their loads.

Not here: metrics (``metrics``).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import executable
from steelyard.bench.children import children_cpu_s
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.load.watch import LoadWatch, measure
from steelyard.bench.stack.processor import CpuTime, cpu_time
from steelyard.benchmarks.redis.benchmark import COMMANDS
from steelyard.benchmarks.redis.memory import FASTEST_PER_S
from steelyard.records import LoadResult, read

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.session import Session
    from steelyard.benchmarks.redis.benchmark import Instance

DRAIN_TIMEOUT_S = 30.0
FILLED = ("lpop", "zrange")
"""Commands that read what has to be written before."""
VALUES_PER_LIST = 32
"""Values that filling puts into each list of ``data/redis/lpop.toml``."""
SPARE = 4.0
"""Times what was pushed in as long a step: what lists hold before they are popped."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one command showed."""

    command: str
    begin_ns: int
    end_ns: int
    loads: list[LoadResult]
    servers_at_begin: CpuTime
    servers_at_end: CpuTime
    loads_s: float
    """CPU time of the loads here from start to end, with the writing of what the step reads."""

    @property
    def servers(self) -> CpuTime:
        """Return the CPU time of the servers in the step."""
        return self.servers_at_end - self.servers_at_begin

    @property
    def completed(self) -> int:
        """Return the answered requests of all instances."""
        return sum(load.requests.completed for load in self.loads)

    @property
    def seconds(self) -> float:
        """Return the length of the step."""
        return (self.end_ns - self.begin_ns) / 1e9


def lists_for(pushed: int, instances: int, seconds: float) -> int:
    """Return how many lists of one instance outlast ``seconds`` of popping.

    ``pushed`` is what all instances answered in the step that pushed.
    """
    return math.ceil(max(SPARE * pushed / instances, FASTEST_PER_S * seconds) / VALUES_PER_LIST)


def run_step(
    session: "Session",
    instances: "Sequence[Instance]",
    servers: "Sequence[Process]",
    command: str,
    mix: Path,
    *,
    pushed: int,
) -> Step:
    """Run one command on all instances at the same time; ``pushed`` is what the step ``lpush`` completed.

    ``mix`` is the command's, by the name that every host of the load has it by.
    """
    settings = session.settings
    far = LoadHosts.of(settings).flags()
    length_s = settings.number("measure") / len(COMMANDS)
    before_s = children_cpu_s()
    watches, results = [], []
    for instance in instances:
        result = session.directory / f"load-{command}{instance.suffix}.json"
        line = [
            *(str(executable("steelyard-load")), "--protocol", "redis", "--target", instance.target),
            *("--mix", str(mix), *far, "--threads", str(max(1, len(instance.place.load)))),
            *("--connections", str(max(settings.count("connections"), len(instance.place.load)))),
            *("--depth", str(settings.count("depth"))),
            *("--duration", f"{length_s:g}s"),
            *("--warmup", f"{settings.number('warmup') * 1e3:.0f}ms", "--hold"),
            *("--seed", str(settings.count("seed") + instance.number - 1)),
            *("--hlog", str(session.directory / f"latency-{command}{instance.suffix}.hlog")),
            *("--output", str(result), "--progress", "json"),
        ]
        if command in FILLED:
            line += ["--prefill"]
        if command == "lpop":
            popping_s = length_s + settings.number("warmup")
            line += ["--keys", str(lists_for(pushed, len(instances), popping_s))]
        process = session.start_process(
            instance.name(f"load-{command}"), line, cpus=instance.place.load or instance.place.server
        )
        watches.append(LoadWatch(process))
        results.append(result)
    begun: list[CpuTime] = []

    def mark(begin_ns: int) -> None:
        begun.append(cpu_time(server.pid for server in servers))
        if session.manifest.phase != "measure":
            session.begin_phase("measure", begin_ns)
        session.progress.status({"command": command})

    begin_ns, end_ns = measure(session, watches, length_s, mark=mark)
    ended = cpu_time(server.pid for server in servers)
    session.manifest.put_step(command, begin_ns, end_ns)
    for watch in watches:
        watch.finish(session, DRAIN_TIMEOUT_S, f"finishing {command}")
    loads = [read(LoadResult, path) for path in results]
    return Step(command, begin_ns, end_ns, loads, begun[0], ended, children_cpu_s() - before_s)


def own_cpu_s(steps: "Sequence[Step]", hosts: LoadHosts) -> float:
    """Return the CPU time of servers and loads in the measure phase, filling between steps included, s."""
    servers_s = (steps[-1].servers_at_end - steps[0].servers_at_begin).total_s
    # The first loads filled before the phase, the later ones in it.
    return servers_s + sum(map(hosts.own_cpu_s, steps[0].loads)) + sum(step.loads_s for step in steps[1:])


def artifacts(folder: Path, steps: "Sequence[Step]") -> dict[str, str]:
    """Return the files of the steps by role."""
    found = {}
    for step in steps:
        for path in sorted(folder.glob(f"load-{step.command}*.json")):
            found[path.stem.replace("-", "_")] = path.name
        for path in sorted(folder.glob(f"latency-{step.command}*.hlog")):
            found[path.stem.replace("-", "_")] = path.name
    return found
