"""The JSON Schemas of the records, generated from the models: ``python -m steelyard.records.schemas``.

In: the models. Out: ``schemas/<kind>.schema.json``; a test compares the files with what this module
generates, so that the two cannot part.
"""

import json

from steelyard._base import schemas_dir
from steelyard.records.cache_stats import CacheStats
from steelyard.records.capacity import CapacityResult, SweepResult
from steelyard.records.colocation import Colocation
from steelyard.records.counter_plan import CounterPlan
from steelyard.records.cpi_specs import CpiSpecs
from steelyard.records.experiment import Experiment
from steelyard.records.health import HealthResult
from steelyard.records.io import Record
from steelyard.records.load import LoadResult
from steelyard.records.machine import Machine
from steelyard.records.numa_score import NumaScore
from steelyard.records.rank_stats import RankStats
from steelyard.records.run import Run
from steelyard.records.suite import Suite
from steelyard.records.tax import TaxResult
from steelyard.records.telemetry import Telemetry
from steelyard.records.top import Top
from steelyard.records.tuning import Tuning

RECORDS: tuple[type[Record], ...] = (
    CacheStats,
    CapacityResult,
    Colocation,
    CounterPlan,
    CpiSpecs,
    Experiment,
    HealthResult,
    LoadResult,
    Machine,
    NumaScore,
    RankStats,
    Run,
    Suite,
    SweepResult,
    TaxResult,
    Telemetry,
    Top,
    Tuning,
)
"""Every record, in the order of its kind."""


def schema_text(model: type[Record]) -> str:
    """Return the text of the schema file of ``model``."""
    schema = model.model_json_schema(mode="serialization")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["properties"]["kind"] = {"const": model.KIND}
    schema["properties"]["schema_version"]["pattern"] = r"^1\.\d+$"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Write every schema file."""
    for model in RECORDS:
        (schemas_dir() / f"{model.KIND}.schema.json").write_text(schema_text(model), encoding="utf-8")


if __name__ == "__main__":
    main()
