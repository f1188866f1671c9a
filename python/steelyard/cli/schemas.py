"""The JSON Schemas of what commands print and install: ``python -m steelyard.cli.schemas``."""

from typing import Any

from steelyard._base import schemas_dir
from steelyard._base.documents import Paged
from steelyard.analyze.pressure.matrix import PressureMatrix
from steelyard.bench.health.check import HealthCheck
from steelyard.bench.stack.install import Installed, Removal
from steelyard.bench.stack.installation import Installation
from steelyard.bench.suites.preflight import Preflight
from steelyard.cli.documents import DOCUMENTS
from steelyard.cli.listed import Listed
from steelyard.decide import RunScore, SuiteScore
from steelyard.experiment.numa.result import NumaExperiment
from steelyard.experiment.numa.scenarios import NumaPlan
from steelyard.experiment.results import ExperimentAnswer, ExperimentNeeds
from steelyard.experiment.scaling import ScalingAnswer
from steelyard.machine.checks.rule import MachineCheck
from steelyard.machine.compare import MachineDiff
from steelyard.machine.doctor import Diagnosis
from steelyard.numa.map import MapOf
from steelyard.records import Record, document_schemas
from steelyard.records.schemas import schema_text
from steelyard.tune.deploy.results import KnobList, Restoration, SoftSkuState

RESULTS: tuple[Any, ...] = (
    Diagnosis,
    Paged[ExperimentAnswer],
    ExperimentNeeds,
    Paged[HealthCheck],
    Installed,
    KnobList,
    Listed,
    MachineCheck,
    MachineDiff,
    MapOf,
    Paged[NumaExperiment],
    NumaPlan,
    Preflight,
    Paged[PressureMatrix],
    Removal,
    Restoration,
    RunScore,
    Paged[ScalingAnswer],
    SoftSkuState,
    SuiteScore,
)
"""Results that ``--json`` prints as they are, in the order of their kinds."""


def main() -> None:
    """Write ``schemas/<kind>.schema.json`` of each document."""
    for result in RESULTS:
        path = schemas_dir() / f"{document_schemas.kind_of(result)}.schema.json"
        path.write_text(document_schemas.schema_text(result), encoding="utf-8")
    models: tuple[type[Record], ...] = (*DOCUMENTS, Installation)
    for model in models:
        (schemas_dir() / f"{model.KIND}.schema.json").write_text(schema_text(model), encoding="utf-8")


if __name__ == "__main__":
    main()
