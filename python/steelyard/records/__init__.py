"""Records that cross the boundary between the two planes.

In: JSON files written by either plane. Out: typed, checked values, and files that appear under their name
only when complete. The shapes are the same as in ``crates/record``; ``schemas/`` holds the JSON Schemas
generated from these models and the golden records that both languages' tests read.

Invariants: times are nanoseconds of ``CLOCK_MONOTONIC`` unless a name says otherwise; what could not be
measured is ``None`` with a reason beside it, never 0; an unknown major version is refused.

Not here: measuring, deriving, drawing.
"""

from steelyard.records.cache_stats import CacheStats, CacheThread
from steelyard.records.capacity import (
    CapacityCriterion,
    CapacityEdge,
    CapacityInterval,
    CapacityProbe,
    CapacityResult,
    ClosedLoop,
    SweepPoint,
    SweepResult,
)
from steelyard.records.io import SCHEMA_VERSION, Record, parse, read, read_lines, write
from steelyard.records.load import (
    IntervalRow,
    LatencySummary,
    LoadCpu,
    LoadLatency,
    LoadOperations,
    LoadRequests,
    LoadResult,
    LoadSettings,
    LoadThread,
    QuantileValue,
    Tool,
)
from steelyard.records.machine import Cache, Cpu, Disk, Interface, Kernel, Machine, Memory, NumaNode
from steelyard.records.run import (
    Cpus,
    Metric,
    Orchestrator,
    Parameter,
    Phase,
    Process,
    Run,
    RunStatus,
    Series,
)
from steelyard.records.tax import (
    TaxBenchmark,
    TaxCategory,
    TaxMeasure,
    TaxResult,
    TaxScore,
    TaxSettings,
)
from steelyard.records.telemetry import Column, ColumnKind, SelfCost, Source, Telemetry
from steelyard.records.values import Check, Clock, Level, Verdict

__all__ = [
    "SCHEMA_VERSION",
    "Cache",
    "CacheStats",
    "CacheThread",
    "CapacityCriterion",
    "CapacityEdge",
    "CapacityInterval",
    "CapacityProbe",
    "CapacityResult",
    "Check",
    "Clock",
    "ClosedLoop",
    "Column",
    "ColumnKind",
    "Cpu",
    "Cpus",
    "Disk",
    "Interface",
    "IntervalRow",
    "Kernel",
    "LatencySummary",
    "Level",
    "LoadCpu",
    "LoadLatency",
    "LoadOperations",
    "LoadRequests",
    "LoadResult",
    "LoadSettings",
    "LoadThread",
    "Machine",
    "Memory",
    "Metric",
    "NumaNode",
    "Orchestrator",
    "Parameter",
    "Phase",
    "Process",
    "QuantileValue",
    "Record",
    "Run",
    "RunStatus",
    "SelfCost",
    "Series",
    "Source",
    "SweepPoint",
    "SweepResult",
    "TaxBenchmark",
    "TaxCategory",
    "TaxMeasure",
    "TaxResult",
    "TaxScore",
    "TaxSettings",
    "Telemetry",
    "Tool",
    "Verdict",
    "parse",
    "read",
    "read_lines",
    "write",
]
