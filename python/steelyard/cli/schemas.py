"""The JSON Schemas of what commands print and install: ``python -m steelyard.cli.schemas``."""

from typing import Any

from steelyard._base import schemas_dir
from steelyard._base.documents import Paged, Sides
from steelyard.analyze.comparison import RunComparison
from steelyard.analyze.pressure.matrix import PressureMatrix
from steelyard.analyze.suite_comparison import SuiteComparison
from steelyard.bench.health.check import HealthCheck
from steelyard.bench.stack.install import Installed, Removal
from steelyard.bench.stack.installation import Installation
from steelyard.bench.suites.preflight import Preflight
from steelyard.cli.listing.listed import Listed
from steelyard.decide import RunScore, SuiteScore
from steelyard.decide.choice.results import Choice
from steelyard.decide.choice.savings import Savings
from steelyard.decide.fidelity.comparison import Fidelity
from steelyard.decide.projection.result import Projection
from steelyard.decide.ranking.ranking import Ranking
from steelyard.decide.sizing.results import Sizing
from steelyard.experiment.numa.result import NumaExperiment
from steelyard.experiment.numa.scenarios import NumaPlan
from steelyard.experiment.results import ExperimentAnswer, ExperimentNeeds
from steelyard.experiment.scaling import ScalingAnswer
from steelyard.machine.checks.rule import MachineCheck
from steelyard.machine.compare import MachineComparison
from steelyard.machine.doctor import Diagnosis
from steelyard.numa.map import MapOf
from steelyard.records import document_schemas
from steelyard.records.schemas import schema_text
from steelyard.report.exports.findings import ExportedFinding
from steelyard.tune.calibration.results import Calibration
from steelyard.tune.deploy.results import KnobList, Restoration, SoftSkuState

RESULTS: tuple[Any, ...] = (
    Diagnosis,
    Paged[Calibration],
    Paged[Choice],
    Paged[ExperimentAnswer],
    ExportedFinding,
    ExperimentNeeds,
    Paged[Fidelity],
    Paged[HealthCheck],
    Installed,
    KnobList,
    Listed,
    MachineCheck,
    Sides[MachineComparison],
    MapOf,
    Paged[NumaExperiment],
    NumaPlan,
    Preflight,
    Paged[PressureMatrix],
    Paged[Projection],
    Paged[Ranking],
    Removal,
    Restoration,
    RunScore,
    Paged[Savings],
    Paged[Sides[RunComparison]],
    Paged[ScalingAnswer],
    Paged[Sizing],
    SoftSkuState,
    Paged[Sides[SuiteComparison]],
    SuiteScore,
)
"""What ``--json`` prints, but for records that are files; ``run``, ``report`` and ``characterize`` print such
a record with its report. ``export --to findings`` prints a document a line."""


def main() -> None:
    """Write ``schemas/<kind>.schema.json`` of each document."""
    for result in RESULTS:
        path = schemas_dir() / f"{document_schemas.kind_of(result)}.schema.json"
        path.write_text(document_schemas.schema_text(result), encoding="utf-8")
    path = schemas_dir() / f"{Installation.KIND}.schema.json"
    path.write_text(schema_text(Installation), encoding="utf-8")


if __name__ == "__main__":
    main()
