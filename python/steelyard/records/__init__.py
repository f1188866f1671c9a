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
from steelyard.records.health import (
    BandwidthRow,
    CoreToCore,
    DiskHealth,
    DiskRow,
    Estimate,
    HealthCache,
    HealthConditions,
    HealthCpu,
    HealthMachine,
    HealthNode,
    HealthResult,
    HealthSettings,
    LatencyPoint,
    LoopbackHealth,
    MemoryBandwidth,
    MemoryLatency,
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
from steelyard.records.rank_stats import RankStage, RankStats, RankThread
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
from steelyard.records.suite import Suite, SuiteMember, SuiteOverall, SuiteRun
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
    "BandwidthRow",
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
    "CoreToCore",
    "Cpu",
    "Cpus",
    "Disk",
    "DiskHealth",
    "DiskRow",
    "Estimate",
    "HealthCache",
    "HealthConditions",
    "HealthCpu",
    "HealthMachine",
    "HealthNode",
    "HealthResult",
    "HealthSettings",
    "Interface",
    "IntervalRow",
    "Kernel",
    "LatencyPoint",
    "LatencySummary",
    "Level",
    "LoadCpu",
    "LoadLatency",
    "LoadOperations",
    "LoadRequests",
    "LoadResult",
    "LoadSettings",
    "LoadThread",
    "LoopbackHealth",
    "Machine",
    "Memory",
    "MemoryBandwidth",
    "MemoryLatency",
    "Metric",
    "NumaNode",
    "Orchestrator",
    "Parameter",
    "Phase",
    "Process",
    "QuantileValue",
    "RankStage",
    "RankStats",
    "RankThread",
    "Record",
    "Run",
    "RunStatus",
    "SelfCost",
    "Series",
    "Source",
    "Suite",
    "SuiteMember",
    "SuiteOverall",
    "SuiteRun",
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
