"""The load of FeedSim: the search for the rate, the curve, and fresh load at the rate found.

In: instances that answer. Out: what the searches found, taken together.

Each instance has a load of its own. Their searches run at the same time, so that each instance is measured on
a machine as busy as it will be; the capacity of all is the sum of the capacities.
"""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard._base import WorkloadFailedError, executable
from steelyard.bench.arguments import NOWHERE, check_arguments
from steelyard.bench.load.watch import LOAD_CODES, LoadWatch
from steelyard.bench.parameters import Setting
from steelyard.records import CapacityResult, read

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.session import Session
    from steelyard.benchmarks.feed.benchmark import Instance

_COMPRESSIONS = {"none": 0, "snappy": 1, "zstd": 2}
_KNOWN_WEIGHT = 0.02
"""Share of requests whose answer is compared with what it must be."""
_SPARE = 3.0
"""How much longer than its probes a search may take: the overload that a probe leaves must drain."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The searches of all instances, taken together. Rates per second; None where not known."""

    searches: "list[CapacityResult]"
    begin_ns: int
    end_ns: int
    low_per_s: float | None
    high_per_s: float | None
    estimate_per_s: float | None
    confidence: float | None
    answer: str
    rates_per_s: list[float]
    """What each instance is offered in the measure phase."""


def wait_until_ready(session: "Session", server: "Process", timeout_s: float) -> dict[str, Any]:
    """Return the event ``ready`` of a server."""
    events: list[dict[str, Any]] = []

    def announced() -> bool:
        for stream, line in server.lines():
            if stream == "stdout" and line.startswith("{"):
                event = json.loads(line)
                if event.get("event") == "ready":
                    events.append(event)
        return bool(events)

    session.wait_for(announced, timeout_s, what=f"the start of {server.name}", hint=f"see {server.log}")
    return events[0]


def write_mix(path: Path, compression: str, known: Mapping[int, int]) -> None:
    """Write what the load sends: any user's feed, and now and then one whose checksum is known."""
    weights = {user: _KNOWN_WEIGHT / len(known) for user in known}
    parts = [
        'schema_version = "1.0"\nkind = "mix"\n'
        'description = "FeedSim: rank one user\'s feed; some answers are compared with what they must be"\n',
        _operation("rank", 1 - sum(weights.values()), "{key}", compression, "{ fields = [1] }"),
    ]
    parts += [
        _operation(
            f"known-{user}", weights[user], str(user), compression, f"{{ fields = [1], i64 = {checksum} }}"
        )
        for user, checksum in known.items()
    ]
    path.write_text("\n".join(parts), encoding="utf-8")


def _operation(name: str, weight: float, user: str, compression: str, expect: str) -> str:
    value = f'"{user}"' if user.startswith("{") else user
    fields = (
        f'[{{ id = 1, type = "i64", value = {value} }}, {{ id = 2, type = "i32", value = 0 }},'
        f' {{ id = 3, type = "i32", value = {_COMPRESSIONS[compression]} }}]'
    )
    return (
        f'[[operation]]\nname = "{name}"\nweight = {weight:.6g}\neffect = "call"\n'
        f'thrift = {{ method = "rank", arguments = [{{ id = 1, type = "struct", value = {fields} }}],'
        f" expect = {expect} }}\n"
    )


def _flags(settings: Mapping[str, Setting], target: str, mix: Path, authority: str | None) -> list[str]:
    """Return what every load of an instance has in common."""
    tls = ["--tls", "--tls-ca", authority, "--tls-name", "localhost"] if authority else []
    return [
        *("--protocol", "thrift", "--target", target),
        *tls,
        *("--mix", str(mix)),
        *("--keys", str(settings["users"])),
        *("--key-distribution", str(settings["user_distribution"])),
        *("--threads", str(settings["load_threads"])),
        *("--connections", str(settings["connections"])),
        *("--depth", str(settings["depth"])),
        *("--progress", "json"),
    ]


def _of(session: "Session", instance: "Instance", authority: str | None) -> list[str]:
    """Return the same for one instance of a run."""
    mix = session.directory / f"mix{instance.suffix}.toml"
    seed = session.settings.count("seed") + instance.number - 1
    return [*_flags(session.settings, instance.target, mix, authority), "--seed", str(seed)]


def _search_flags(settings: Mapping[str, Setting]) -> list[str]:
    return [
        *(str(executable("steelyard-load")), "capacity"),
        *("--slo", str(settings["slo"])),
        *("--probes", str(settings["probes"])),
        *("--time", f"{settings['search']:g}s"),
        *("--confidence", f"{settings['confidence']:g}"),
        *("--duration", f"{settings['probe']:g}s"),
        *("--warmup", f"{settings['probe_warmup']:g}s"),
    ]


def _sweep_flags(settings: Mapping[str, Setting]) -> list[str]:
    return [
        *(str(executable("steelyard-load")), "sweep"),
        *("--points", str(settings["sweep_points"])),
        *("--duration", f"{settings['sweep']:g}s"),
        *("--warmup", f"{settings['probe_warmup']:g}s"),
    ]


_FLAGS = {
    "--slo": "slo",
    "--probes": "probes",
    "--time": "search",
    "--confidence": "confidence",
    "--points": "sweep_points",
    "--key-distribution": "user_distribution",
    "--keys": "users",
    "--threads": "load_threads",
    "--connections": "connections",
    "--depth": "depth",
}
"""The parameters behind the load's flags."""


def check_loads(settings: Mapping[str, Setting]) -> None:
    """Have the load judge the search and the curve. Raises UsageError or EnvironmentLacksError."""
    with tempfile.TemporaryDirectory(prefix="steelyard-check-") as folder:
        mix = Path(folder) / "mix.toml"
        write_mix(mix, str(settings["compression"]), {1: 0})
        common = _flags(settings, NOWHERE, mix, None)
        check_arguments([*_search_flags(settings), *common], settings, _FLAGS)
        if settings["sweep_points"]:
            check_arguments([*_sweep_flags(settings), *common], settings, _FLAGS)


def search(session: "Session", instances: "Sequence[Instance]", authority: str | None) -> Capacity:
    """Find the capacity of every instance, all at the same time."""
    settings = session.settings
    session.begin_phase("search")
    begin_ns = session.clock.monotonic_ns()
    processes = []
    for instance in instances:
        command = [
            *_search_flags(settings),
            *_of(session, instance, authority),
            *("--output", str(session.directory / f"capacity{instance.suffix}.json")),
        ]
        processes.append(session.start_process(instance.name("search"), command, cpus=instance.place.load))
    longest_s = settings.number("search") + 10.0 * settings.count("probes")
    _follow(session, processes, _SPARE * longest_s, "the search")
    paths = [session.directory / f"capacity{instance.suffix}.json" for instance in instances]
    searches = [read(CapacityResult, path) for path in paths]
    return together(searches, begin_ns, session.clock.monotonic_ns())


def sweep(session: "Session", instances: "Sequence[Instance]", authority: str | None) -> None:
    """Measure latency over throughput, on every instance at the same time."""
    settings = session.settings
    session.begin_phase("sweep")
    processes = []
    for instance in instances:
        command = [
            *_sweep_flags(settings),
            *_of(session, instance, authority),
            *("--output", str(session.directory / f"sweep{instance.suffix}.json")),
        ]
        processes.append(session.start_process(instance.name("sweep"), command, cpus=instance.place.load))
    each_s = settings.number("sweep") + settings.number("probe_warmup") + 10.0
    _follow(session, processes, _SPARE * each_s * (settings.count("sweep_points") + 1), "the sweep")


def start_hold(
    session: "Session", instance: "Instance", authority: str | None, rate_per_s: float
) -> LoadWatch:
    """Start fresh load at one rate, which measures when it is ordered to."""
    settings = session.settings
    command = [
        str(executable("steelyard-load")),
        *("--rate", f"{rate_per_s:.6g}", "--arrival", "poisson"),
        *("--duration", f"{settings.number('measure'):g}s"),
        *("--warmup", f"{settings.number('probe_warmup'):g}s", "--hold"),
        *("--hlog", str(session.directory / f"latency{instance.suffix}.hlog")),
        *_of(session, instance, authority),
        *("--output", str(session.directory / f"load{instance.suffix}.json")),
    ]
    return LoadWatch(session.start_process(instance.name("load"), command, cpus=instance.place.load))


def _follow(
    session: "Session",
    processes: "Sequence[Process]",
    timeout_s: float,
    task: str,
) -> None:
    """Show how loads come on until each has ended; raises WorkloadFailedError for another exit code."""
    figures = _ProgressFigures(session.progress.status)
    begin_ns = session.clock.monotonic_ns()
    for process in processes:
        session.expect_end(process)
    while any(process.poll() is None for process in processes):
        session.wait(0.05)
        for process in processes:
            for stream, line in process.lines():
                if stream == "stderr" and line.startswith("{"):
                    figures.take(line)
        if (session.clock.monotonic_ns() - begin_ns) / 1e9 > timeout_s:
            raise WorkloadFailedError(f"{task} took longer than {timeout_s:.0f} s")
    for process in processes:
        session.join(process, 1.0, what=task, codes=LOAD_CODES)


@dataclass(slots=True)
class _ProgressFigures:
    """Turns a load's progress into figures."""

    show: Callable[[dict[str, str]], None]
    probes: int = 0

    def take(self, line: str) -> None:
        """Show one event."""
        try:
            event = json.loads(line)
        except ValueError:
            return
        if event.get("event") == "closed_loop":
            self.show({"closed loop requests/s": f"{float(event['throughput_per_s']):,.1f}"})
        elif event.get("event") in ("probe", "point"):
            self.probes += 1
            figures = {event["event"]: str(self.probes)}
            if event.get("rate_per_s") is not None:
                figures["requests/s"] = f"{float(event['rate_per_s']):,.1f}"
            if event.get("outcome"):
                figures["objective"] = str(event["outcome"])
            self.show(figures)


_WORST = ("interval", "at-least", "unknown", "never")


def together(searches: "Sequence[CapacityResult]", begin_ns: int, end_ns: int) -> Capacity:
    """Return several searches as one: capacities add up, and so do the chances of being wrong."""
    intervals = [result.interval for result in searches]
    lows = [interval.low_per_s if interval is not None else None for interval in intervals]
    highs = [interval.high_per_s if interval is not None else None for interval in intervals]
    missed = [1.0 - interval.confidence for interval in intervals if interval is not None]
    answer = max((result.answer for result in searches), key=_WORST.index)
    return Capacity(
        searches=list(searches),
        begin_ns=begin_ns,
        end_ns=end_ns,
        low_per_s=_sum(lows),
        high_per_s=_sum(highs),
        estimate_per_s=_sum([result.estimate_per_s for result in searches]),
        confidence=max(0.0, 1.0 - sum(missed)) if len(missed) == len(intervals) else None,
        answer=answer,
        rates_per_s=[_rate(result) for result in searches],
    )


def _sum(values: "Sequence[float | None]") -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _rate(result: "CapacityResult") -> float:
    """Return the rate to measure at, one that the answer supports.

    That is the interval's lower end, where the objective holds with most of the confidence. Without an
    interval it is the lowest rate that was tried: one probe that met the objective says little of its rate.
    """
    if result.interval is not None and result.interval.low_per_s is not None:
        return result.interval.low_per_s
    tried = [probe.rate_per_s for probe in result.probes]
    if not tried:
        raise WorkloadFailedError(f"the search made no probe: {result.ended}")
    return min(tried)
