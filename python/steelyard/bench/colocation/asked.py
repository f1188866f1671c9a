"""What is to be measured of two workloads, from what was asked.

In: `PairRequest`. Out: a `Pair`. Raises UsageError for anything that cannot be one. Not here: the runs
(``blocks``).
"""

import sys

from steelyard._base import UsageError
from steelyard.bench import hook as hooks
from steelyard.bench import tiers
from steelyard.bench.colocation.blocks import Pair
from steelyard.bench.colocation.workload import pair_of
from steelyard.bench.hooks.disk_limit import DiskLimitHook
from steelyard.bench.hooks.network_limit import NetworkLimitHook
from steelyard.bench.limits.disk import DiskLimit
from steelyard.bench.limits.network import NetworkLimit
from steelyard.bench.limits.stated import hooks_of
from steelyard.bench.parameters import Parameter
from steelyard.bench.request import DEFAULT_SUITE, PairRequest

DURATION = Parameter("duration", "seconds", "length of both measure phases", minimum=0.05, maximum=86_400.0)


def pair_asked(request: PairRequest) -> Pair:
    """Return the pair."""
    tier = request.tier
    if tier is not None and tier not in tiers.TIERS:
        raise UsageError(f"unknown tier {tier!r}", hint=f"tiers: {', '.join(tiers.TIERS)}")
    limits: list[NetworkLimit | DiskLimit] = []
    for text in hooks_of(request.set_limits):
        limits += [
            each.limit
            for _, each in hooks.create([text])
            if isinstance(each, NetworkLimitHook | DiskLimitHook)
        ]
    return Pair(
        workloads=pair_of(request.first, request.second),
        tier=tier or DEFAULT_SUITE,
        repeats=request.repeats,
        measure_s=None if request.duration is None else float(DURATION.parse(request.duration)),
        server_cpus=request.server_cpus,
        load_cpus=request.load_cpus,
        limits=limits,
        limit_texts=request.set_limits,
        seed=request.seed,
        out=request.out,
        command=["steelyard", *sys.argv[1:]],
    )
