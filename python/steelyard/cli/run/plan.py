"""``steelyard run --plan``: shows who would run where, and runs nothing.

In: a request, this machine or a recorded tree of one. Out: a picture for each benchmark, or JSON.
"""

from steelyard._base import ExitCode
from steelyard.bench import declaration, tiers
from steelyard.bench.parameters import by_benchmark
from steelyard.bench.placement.parameters import BINDING
from steelyard.bench.placement.request import (
    as_allowed,
    live_layout,
    placement_of,
    record_of,
    recorded_layout,
)
from steelyard.bench.request import RunRequest
from steelyard.cli.output import print_json


def show_plan(request: RunRequest, *, as_json: bool) -> int:
    """Print the placement of each benchmark of ``request``."""
    root = request.root
    _, names, _ = tiers.resolve(request.name, request.tier)
    benchmarks = {name: declaration.find(name).load() for name in names}
    declared = {
        name: [parameter.name for parameter in benchmark.parameters] for name, benchmark in benchmarks.items()
    }
    chosen = by_benchmark(request.settings, declared, owner=request.name)
    layout = live_layout() if root is None else recorded_layout(root)
    placements = {}
    for name, benchmark in benchmarks.items():
        placement = placement_of(
            benchmark,
            layout,
            chosen[name],
            server_cpus=request.server_cpus,
            load_cpus=request.load_cpus,
        )
        if root is None:
            placement = as_allowed(placement, is_asked=chosen[name].get(BINDING) == "node")
        placements[name] = placement
    if as_json:
        print_json(
            {
                "machine": "live" if root is None else str(root),
                "usable_cpus": len(layout.cpus),
                "quota_cpus": layout.quota_cpus,
                "plans": [
                    {"benchmark": name, "cpus": record_of(placement).model_dump(mode="json")}
                    for name, placement in placements.items()
                ],
            }
        )
        return int(ExitCode.OK)
    from rich.console import Console

    from steelyard.report.placement import render_placement

    console = Console()
    for name, placement in placements.items():
        console.print(render_placement(name, layout, placement))
    return int(ExitCode.OK)
