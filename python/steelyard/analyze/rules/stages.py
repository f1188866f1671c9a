"""Rules about servers that time their own work: the stages of a request, the two paths of a cache.

Not here: reading the times (``stages``, ``services``).
"""

from steelyard.analyze.rules.findings import Evidence, Finding, at_most, percent, rule, time_text, without
from steelyard.analyze.services import CacheUse, GeneratorUse
from steelyard.analyze.stages import Stages

LONG_RATIO = 0.30
WAITING_RATIO = 0.20
"""Share of a stage's time on a CPU below which it waits."""
MISS_RATIO = 0.20

_WAITS = {
    "fan_out": "waiting for the leaves",
    "backend": "the simulated backend",
    "queue": "waiting for a worker",
}


def _stage_text(stage: str) -> str:
    reason = _WAITS.get(stage)
    return f"{stage.replace('_', ' ')}{f' ({reason})' if reason else ''}"


@rule(
    "request-stage",
    "Does one stage take most of a request's time?",
    area="load",
    threshold="convention: 30 % of the request time as the server measures it",
    explains="time",
)
def _stage(stages: Stages) -> Finding | None:
    root = stages.root
    name = root.longest if root is not None else None
    if root is None or name is None or root.share(name) < LONG_RATIO:
        return None
    share, busy = root.share(name), root.busy(name)
    claim = f"{percent(share)} of a request's {time_text(root.request_ns)} is {_stage_text(name)}"
    claim += "" if busy < WAITING_RATIO else f", {percent(busy)} of it on a CPU"
    evidence = [
        Evidence(f"{name} of a request's time", share, "ratio", LONG_RATIO),
        Evidence(f"on a CPU in {name}", busy, "ratio"),
        Evidence("on a CPU in the whole request", root.cpu_ratio or 0.0, "ratio"),
    ]
    leaf, inner = stages.leaf, stages.leaf.longest if stages.leaf is not None else None
    if name == "fan_out" and leaf is not None and inner is not None and leaf.share(inner) >= LONG_RATIO:
        claim += (
            f"; {percent(leaf.share(inner))} of a leaf's {time_text(leaf.request_ns)} is {_stage_text(inner)}"
        )
        evidence.append(Evidence(f"{inner} of a leaf's time", leaf.share(inner), "ratio", LONG_RATIO))
        name = inner
    return Finding(f"{claim}.", tuple(evidence), _step(name), 0.9, gain=_gain(name, share))


def _step(stage: str) -> str:
    return {
        "backend": "This wait is a parameter: more CPU does not shorten it. Compare with --set"
        " leaf_delay=none,"
        " and look at the other stages in the report.",
        "fan_out": "Look at the stages of the leaves and at the number of calls: the slowest call counts.",
        "queue": "Add workers or CPUs to the service, or offer less load.",
    }.get(stage, "Profile the server to find this stage's functions: steelyard profile record --pid.")


def _gain(stage: str, share: float) -> str:
    if stage == "backend":
        return f"latency could fall {without(share)}; capacity would not change"
    return f"latency {at_most(share)}, without this stage (Amdahl)"


@rule(
    "cache-misses",
    "Do misses take most of the requests' time?",
    area="load",
    threshold="convention: 20 % of the mean response time",
    explains="time",
    cause="slow path of the cache",
)
def _misses(cache: CacheUse, generator: GeneratorUse) -> Finding | None:
    if not generator.response_mean_ns.value:
        return None
    hits, wait, service = cache.hit_ratio.value, cache.slow_wait_ns.value, cache.slow_service_ns.value
    if hits is None or wait is None or service is None:
        return None
    share = (1 - hits) * (wait + service) / generator.response_mean_ns.value
    if share < MISS_RATIO:
        return None
    return Finding(
        f"{percent(min(share, 1.0))} of the mean response time is in the slow path: {percent(1 - hits)} of"
        f" the gets miss and take {time_text(wait + service)},"
        f" of which {time_text(wait)} is waiting for a thread.",
        (
            Evidence("slow path of the mean response time", min(share, 1.0), "ratio", MISS_RATIO),
            Evidence("misses", 1 - hits, "ratio"),
            Evidence("time of a miss on the slow path", wait + service, "ns"),
        ),
        "Enlarge the cache (--set memory=...) to miss less, or add slow threads to wait less"
        " (--set slow_threads=...).",
        0.97,
        gain=f"latency {at_most(min(share, 0.99))} on average, without misses",
    )
