"""What FeedSim found: metrics of the search and of the measure phase, and what objects to them.

In: the files of a run. Out: an `Outcome`; what the files do not say is None with the reason.

Not here: telemetry of the machine, and judgement of the load.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import data_dir
from steelyard.analyze import checks
from steelyard.analyze.checks import CONSTANTS
from steelyard.analyze.stages import stage_gains
from steelyard.bench import server_counters as counters
from steelyard.bench.benchmark import Outcome
from steelyard.bench.load.merge import merged
from steelyard.bench.load.metrics import load_metrics, per_second, value
from steelyard.records import Check, Level, LoadResult, Metric, RankStats, read, read_lines, write
from steelyard.stats import steady
from steelyard.stats.fairness import jain_index, min_max_ratio

if TYPE_CHECKING:
    from steelyard.bench.session import Session
    from steelyard.benchmarks.feed.benchmark import Instance
    from steelyard.benchmarks.feed.load import Capacity

SAMPLES = (200, 100)
"""Requests of the measure phase: p95 rests on 10 beyond it from 200 on."""
_NOT_COVERED = "the servers' counters do not cover the measure phase"
_STAGE_WALL, _STAGE_CPU = "wall_ns_total", "cpu_ns_total"


def outcome(
    session: "Session", span: tuple[int, int], instances: "Sequence[Instance]", capacity: "Capacity"
) -> Outcome:
    """Return what the run in ``session.directory`` showed."""
    folder = session.directory
    loads = [read(LoadResult, folder / f"load{instance.suffix}.json") for instance in instances]
    whole = loads[0] if len(loads) == 1 else merged(loads)
    if len(loads) > 1:
        write(whole, folder / "load.json")
    roots = [_stats(folder, "root", instance) for instance in instances]
    leaves = [_stats(folder, "leaf", instance) for instance in instances]
    cpu_s = _cpu_s([*roots, *leaves], span)
    metrics = {
        **capacity_metrics(capacity),
        **load_metrics(whole, len(session.placement.load)),
        **_server_metrics(roots, leaves, span, len(session.placement.server), cpu_s),
        **_fairness(capacity),
        "feature_code_bytes": value(
            instances[0].code_bytes, "bytes", None, "this build of the service does not report it"
        ),
    }
    load_cpu_s = whole.cpu.user_s + whole.cpu.system_s
    return Outcome(
        metrics=metrics,
        loads=loads,
        samples=SAMPLES,
        achieved_ratio_min=achieved_ratio_min(whole),
        measure=steady.check(per_second(loads), tolerance_ratio=drift_tolerance_ratio(whole)),
        own_cpu_s=None if cpu_s is None else cpu_s + load_cpu_s,
        checks=[*search_checks(capacity), hold_check(whole, capacity), checksum_check(instances, whole)],
        artifacts=_artifacts(folder, instances),
    )


def achieved_ratio_min(load: LoadResult) -> float:
    """Return how much of the offered rate must be achieved when requests are few and long.

    What is in flight at the two edges of the phase differs by chance: by Little's law about rate times
    response time, with that as its variance, at either edge. Three standard deviations are no shortfall.
    """
    in_flight = load.throughput_per_s * (load.latency.response.mean_ns or 0.0) / 1e9
    intended = max(1, load.requests.intended)
    return max(0.0, min(CONSTANTS.achieved_ratio, 1.0 - 3.0 * math.sqrt(2.0 * in_flight) / intended))


def drift_tolerance_ratio(load: LoadResult) -> float:
    """Return how far the throughput may drift before it counts, as a share of its level.

    Arrivals are a Poisson process, whose own counts drift: the slope of a line through counts of ``n``
    requests in all has a standard deviation of sqrt(12 / n) over the whole span. Two of them are no drift of
    the service.
    """
    return max(0.05, 2.0 * math.sqrt(12.0 / max(1, load.requests.intended)))


def _stats(folder: Path, role: str, instance: "Instance") -> list[RankStats]:
    return list(read_lines(RankStats, folder / f"{role}-stats{instance.suffix}.jsonl"))


def _artifacts(folder: Path, instances: "Sequence[Instance]") -> dict[str, str]:
    artifacts = {"load": "load.json"}
    for instance in instances:
        role = instance.suffix.replace("-", "_")
        for name, file in (
            (f"capacity{role}", f"capacity{instance.suffix}.json"),
            (f"sweep{role}", f"sweep{instance.suffix}.json"),
            (f"load{role}", f"load{instance.suffix}.json"),
            (f"latency{role}", f"latency{instance.suffix}.hlog"),
            (f"mix{role}", f"mix{instance.suffix}.toml"),
            (f"root_stats{role}", f"root-stats{instance.suffix}.jsonl"),
            (f"leaf_stats{role}", f"leaf-stats{instance.suffix}.jsonl"),
        ):
            if (folder / file).exists():
                artifacts[name] = file
    return artifacts


def capacity_metrics(capacity: "Capacity") -> dict[str, Metric]:
    """Return the rate within the objective, its interval and how sure it is."""
    why = {
        "never": "the objective is met at no rate that was offered",
        "unknown": _unknown(capacity),
        "at-least": "nothing showed the servers' limit",
    }.get(capacity.answer, "the search has no answer")
    estimate = capacity.estimate_per_s if capacity.answer == "interval" else None
    if estimate is not None and not (capacity.low_per_s or 0.0) <= estimate <= (
        capacity.high_per_s or math.inf
    ):
        estimate, why = (
            None,
            f"the best estimate, {estimate:,.1f}/s, is not in the interval: the probes disagree",
        )
    elif estimate is not None and checks.level("capacity", capacity.confidence or 0.0) is Level.INVALID:
        estimate, why = None, f"the search is only {capacity.confidence or 0.0:.1%} sure of its interval"
    return {
        "requests_per_s_at_slo": value(estimate, "1/s", "higher", why),
        "slo_low_per_s": value(capacity.low_per_s, "1/s", "higher", why),
        "slo_high_per_s": value(capacity.high_per_s, "1/s", "higher", why),
        "slo_confidence_ratio": value(capacity.confidence, "ratio", None, why),
        "search_probes": Metric(value=sum(len(result.probes) for result in capacity.searches), unit="count"),
        "search_s": Metric(value=(capacity.end_ns - capacity.begin_ns) / 1e9, unit="s"),
    }


def _cpu_s(servers: Sequence[Sequence[RankStats]], span: tuple[int, int]) -> float | None:
    user = counters.total_gain(servers, "cpu_user_ns", *span)
    system = counters.total_gain(servers, "cpu_system_ns", *span)
    return None if user is None or system is None else (user + system) / 1e9


def _server_metrics(
    roots: Sequence[Sequence[RankStats]],
    leaves: Sequence[Sequence[RankStats]],
    span: tuple[int, int],
    cpus: int,
    cpu_s: float | None,
) -> dict[str, Metric]:
    servers = [*roots, *leaves]
    seconds = (span[1] - span[0]) / 1e9
    answered = counters.total_gain(roots, "requests", *span)
    ends = [stats[-1] for stats in servers if stats]
    resident = [stats.rss_bytes for stats in ends if stats.rss_bytes is not None]

    def share(counter: str) -> Metric:
        gained = counters.total_gain(servers, counter, *span)
        return value(None if gained is None else gained * 1e-9 / seconds / cpus, "ratio", None, _NOT_COVERED)

    def per_s(counter: str) -> Metric:
        gained = counters.total_gain(roots, counter, *span)
        return value(None if gained is None else gained / seconds, "bytes/s", None, _NOT_COVERED)

    return {
        "server_cpu_ratio": value(
            None if cpu_s is None else cpu_s / seconds / cpus, "ratio", None, _NOT_COVERED
        ),
        "server_cpu_user_ratio": share("cpu_user_ns"),
        "server_cpu_system_ratio": share("cpu_system_ns"),
        "cpu_per_request_ns": value(
            cpu_s * 1e9 / answered if cpu_s is not None and answered else None, "ns", "lower", _NOT_COVERED
        ),
        "network_received_bytes_per_s": per_s("bytes_read"),
        "network_sent_bytes_per_s": per_s("bytes_written"),
        "rss_bytes": value(
            sum(resident) if ends and len(resident) == len(ends) else None, "bytes", "lower", _NOT_COVERED
        ),
        **_stages(roots, span, "root"),
        **_stages(leaves, span, "leaf"),
    }


def _stages(servers: Sequence[Sequence[RankStats]], span: tuple[int, int], role: str) -> dict[str, Metric]:
    """Return the share of a request's time, and of its CPU time, that each stage takes."""
    gained = {kind: stage_gains(servers, span, kind) for kind in (_STAGE_WALL, _STAGE_CPU)}
    metrics = {}
    for kind, label in ((_STAGE_WALL, "time"), (_STAGE_CPU, "cpu")):
        whole = sum(gained[kind].values())
        for name, ns in gained[kind].items():
            metrics[f"{role}_{name}_{label}_ratio"] = value(
                ns / whole if whole else None, "ratio", None, "no request was answered"
            )
    return metrics


def _fairness(capacity: "Capacity") -> dict[str, Metric]:
    """Return how evenly the instances carry load: each one's capacity beside the others'."""
    estimates = [result.estimate_per_s for result in capacity.searches]
    known = [estimate for estimate in estimates if estimate is not None]
    whole = len(known) == len(estimates) and bool(known)
    why = (
        "one instance has nothing to be compared with"
        if len(estimates) == 1
        else "not every search has an answer"
    )
    alone = len(estimates) == 1
    return {
        "instances": Metric(value=len(estimates), unit="count"),
        "fairness_jain_ratio": value(
            jain_index(known) if whole and not alone else None, "ratio", "higher", why
        ),
        "fairness_min_max_ratio": value(
            min_max_ratio(known) if whole and not alone else None, "ratio", "higher", why
        ),
    }


def search_checks(capacity: "Capacity") -> list[Check]:
    """Return what the search itself says about its answer."""
    low, high = capacity.low_per_s, capacity.high_per_s
    if (
        capacity.answer == "interval"
        and low is not None
        and high is not None
        and capacity.confidence is not None
    ):
        level = checks.level("capacity", capacity.confidence)
        if capacity_metrics(capacity)["requests_per_s_at_slo"].value is None:
            level = Level.INVALID
        claim = (
            f"the rate at which the objective holds in the long run is between {low:,.1f}"
            f" and {high:,.1f} requests/s, with {capacity.confidence:.1%} confidence"
        )
        answer = checks.stated("capacity", level, claim, capacity.confidence)
    else:
        claims = {
            "never": "the objective is met at no rate that was offered",
            "at-least": f"the objective is still met at {low or 0.0:,.1f} requests/s: no limit was found",
        }
        claim = claims.get(capacity.answer, _unknown(capacity))
        answer = checks.stated("capacity", Level.INVALID, claim)
    objections = [
        check
        for result in capacity.searches
        for check in result.verdict.checks
        # That there is no interval is what the answer says already.
        if check.level is not Level.VALID and check.id != "no-interval"
    ]
    return [answer, *(check.model_copy(update={"id": f"search-{check.id}"}) for check in objections)]


def _unknown(capacity: "Capacity") -> str:
    """Say why no search, or not every one, has an answer."""
    return next(
        (result.ended for result in capacity.searches if result.answer == "unknown"),
        "the search has no answer",
    )


def hold_check(whole: LoadResult, capacity: "Capacity") -> Check:
    """Return whether fresh load at the rate found keeps the objective's percentile."""
    bounds = [
        (criterion.name, criterion.bound)
        for probe in capacity.searches[0].probes[:1]
        for criterion in probe.criteria
        if criterion.unit == "ns"
    ]
    parts = []
    kept = True
    where = "the interval's lower end" if capacity.low_per_s is not None else "the lowest rate that was tried"
    for name, bound in bounds:
        measured = getattr(whole.latency.response, f"{name.replace('.', '')}_ns", None)
        if measured is None:
            continue
        kept = kept and measured <= bound
        parts.append(f"{name} was {measured / 1e6:,.0f} ms (objective {bound / 1e6:,.0f} ms)")
    return checks.stated(
        "slo",
        # The lower end is where the objective is met: fresh load that breaks it says that the machine has
        # changed since, or that the interval is one of those that miss.
        Level.VALID if kept else Level.SUSPECT,
        f"fresh load at {where}: {'; '.join(parts) or 'no percentile was requested'}",
    )


def checksum_check(instances: "Sequence[Instance]", whole: LoadResult) -> Check:
    """Return whether every instance does the work that it should, before and under load."""
    sums = [instance.checksums or {} for instance in instances]
    on_record = recorded(instances[0].work or {}, instances[0].leaf_work or {}) or {}
    # The record of other settings may be about other users.
    known = {user: on_record[user] for user in sums[0] if user in on_record}
    compared = sum(counts.completed for name, counts in whole.operations.items() if name.startswith("known-"))
    wrong = whole.requests.errors_by_kind.get("wrong-result", 0)
    if any(checksums != sums[0] for checksums in sums):
        claim, level = "instances gave different results for the same users", Level.INVALID
    elif wrong:
        claim, level = f"{wrong} answers under load were wrong", Level.INVALID
    elif not known:
        claim, level = (
            f"no results are on record for these work settings; {compared} answers under load agree",
            Level.VALID,
        )
    elif any(sums[0][user] != checksum for user, checksum in known.items()):
        claim, level = "the results are not those on record: this machine does other work", Level.INVALID
    else:
        claim = f"{len(known)} users' results are those on record, as are {compared} answers under load"
        level = Level.VALID
    return checks.stated("checksum", level, claim, compared)


def recorded(work: Mapping[str, str], leaf_work: Mapping[str, str]) -> dict[int, int] | None:
    """Return the checksums on record for these work settings of root and leaf, None when there are none."""
    entries = json.loads((data_dir() / "feed" / "checksums.json").read_text(encoding="utf-8"))["results"]
    for entry in entries:
        if (entry["work"], entry["leaf_work"]) == (dict(work), dict(leaf_work)):
            return {int(user): int(checksum) for user, checksum in entry["checksums"].items()}
    return None
