"""What counters say of a run, as ``--json`` shows it.

In: `CounterUse`. Out: plain values. Every term is a value or null with its reason.

Not here: text for people (``words``).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from steelyard._base.documents import as_document
from steelyard.analyze.counters.figures import kernel_ratio
from steelyard.analyze.counters.iron_law import work_per_cpu_second, work_per_joule
from steelyard.analyze.counters.topdown import TopDown
from steelyard.analyze.counters.use import CounterUse
from steelyard.analyze.values import Quantity


def tree_document(tree: TopDown) -> dict[str, Any]:
    """Return a top-down tree with its checks."""
    return {
        "model": tree.model,
        "source": tree.source,
        "slots": tree.slots,
        "level_1": [asdict(node) for node in tree.level_1],
        "checks": [check.model_dump(mode="json") for check in tree.checks],
    }


def counters_document(use: CounterUse, power_w: Quantity) -> dict[str, Any]:
    """Return everything that was concluded from counts."""
    series = use.series
    events = {} if series is None else series.events
    return {
        "source": use.source,
        "scope": use.scope,
        "duration_s": use.duration_s,
        "missing": use.missing,
        "cautions": list(use.cautions),
        "operations": asdict(use.operations),
        "iron_law": as_document(use.law),
        "kernel_ratio": asdict(kernel_ratio(use)),
        "work_per_cpu_second": asdict(work_per_cpu_second(use.law)),
        "work_per_joule": asdict(work_per_joule(use.law, power_w)),
        "top_down": None if use.top_down is None else tree_document(use.top_down),
        "top_down_next_step": None if use.top_down is None else use.top_down.next_step,
        "top_down_missing": use.top_down_missing,
        "cpu_time": None if use.split is None else asdict(use.split),
        "used_capacity": asdict(use.capacity),
        "definition": use.definition,
        "metrics": {name: asdict(metric) for name, metric in use.metrics.items()},
        "events": {
            name: {
                "count": None if None in event.count else sum(value or 0.0 for value in event.count),
                "coverage_ratio": use.events.coverage.get(name),
                "unit": event.unit,
            }
            for name, event in events.items()
        },
        "events_missing": {} if series is None else dict(series.missing),
        "told_by_perf": [
            {"name": metric.name, "value": metric.value, "unit": metric.unit, "event": metric.event}
            for metric in use.perf_metrics
        ],
    }
