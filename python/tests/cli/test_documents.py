"""What commands print with ``--json``: every document fits its schema, and nothing in it is undeclared."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from steelyard._base import schemas_dir
from steelyard.cli.main import invoke
from steelyard.cli.schemas import RESULTS
from steelyard.records import document_schemas
from tests.cli.suites import write_suite
from tests.report.runs import write_run

GOLDEN = schemas_dir() / "golden"
TEXTS = {document_schemas.kind_of(result): document_schemas.schema_text(result) for result in RESULTS}
"""The schema of each kind, as it is generated."""


def hold(document: dict[str, Any]) -> None:
    """Fail unless ``document`` fits the schema of its kind and holds only what that declares."""
    schema = json.loads((schemas_dir() / f"{document['kind']}.schema.json").read_text())
    jsonschema.Draft202012Validator(closed(schema)).validate(document)


def closed(schema: Any) -> Any:
    """Return a schema whose objects have no other fields: readers take those of a newer minor version."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: closed(part) for name, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        parts["additionalProperties"] = False
    return parts


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "run-1", index=1, count=2)
    write_run(folder / "run-2", index=2, count=2, scale=1.5, changes={"tier": "full"})
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text("{")
    write_suite(folder / "suite-1", ("tao", "feed"))
    write_suite(folder / "suite-2", ("tao", "tax"), scale=2.0, repeats=2)
    (folder / "suite-3").mkdir()
    (folder / "suite-3" / "suite.json").write_text("[")
    return folder


def machine(name: str = "machine") -> str:
    return str(GOLDEN / f"{name}.json")


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("list", ["list"]),
        ("list", ["list", "runs"]),
        ("list", ["list", "hooks", "--all"]),
        ("doctor", ["doctor"]),
        ("comparison", ["compare", "run-1", "run-2"]),
        ("suite_comparison", ["compare", "suite-1", "suite-2"]),
        ("run_score", ["score", "run-1"]),
        ("suite_score", ["score", "suite-1"]),
        ("machine_check", ["machine", "check", machine()]),
        ("machine_diff", ["machine", "diff", machine(), "live"]),
        ("numa_map", ["numa", "map", "--machine", machine()]),
        ("preflight", ["run", "dcperf", "--preflight"]),
        ("pressure_matrix", ["characterize", "--suite", "suite-1"]),
        ("scaling", ["scale", "--from", "curve.csv"]),
    ],
)
def test_what_is_printed_fits_its_schema(
    kind: str, arguments: list[str], runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--suite" in arguments:
        arguments = [*arguments[:-1], str(runs / arguments[-1])]
    if "--from" in arguments:
        (runs / "curve.csv").write_text("cpus,ops_per_s\n1,100\n2,190\n4,350\n8,500\n")
        arguments = [*arguments[:-1], str(runs / "curve.csv")]
    where = ["--runs", str(runs)] if arguments[0] in ("list", "compare", "score") else []
    assert invoke([*arguments, "--json", *where]) in (0, 1, 3)
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == kind
    hold(document)


def test_every_document_is_printed_by_some_test() -> None:
    marks = test_what_is_printed_fits_its_schema.pytestmark  # type: ignore[attr-defined]
    printed = {case[0] for case in marks[0].args[1]}
    # tests/cli/test_health.py, tests/bench/stack/test_install.py, tests/cli/decide, tests/experiment and
    # tests/tune and tests/report/exports hold what the others print.
    elsewhere = {
        *("experiment_answer", "experiment_plan", "health_check", "install", "numa_experiment", "numa_plan"),
        *("knob_list", "softsku_state", "restoration", "uninstall"),
        *("fidelity", "calibration", "finding"),
        *("choice", "savings", "sizing", "ranking", "projection"),
    }
    assert printed | elsewhere == set(TEXTS)


@pytest.mark.parametrize("kind", TEXTS)
def test_golden_document_fits_its_schema(kind: str) -> None:
    hold(json.loads((GOLDEN / f"{kind}.json").read_text()))


@pytest.mark.parametrize("kind", TEXTS)
def test_schema_file_is_what_is_generated(kind: str) -> None:
    text = (schemas_dir() / f"{kind}.schema.json").read_text()
    assert text == TEXTS[kind], "run: make schemas"


def test_what_is_not_declared_is_noticed() -> None:
    document = json.loads((GOLDEN / "run_score.json").read_text())
    with pytest.raises(jsonschema.ValidationError, match="undeclared"):
        hold({**document, "undeclared": 1})
    with pytest.raises(jsonschema.ValidationError, match="undeclared"):
        hold({**document, "score": {**document["score"], "undeclared": 1}})
    with pytest.raises(jsonschema.ValidationError):
        hold({name: value for name, value in document.items() if name != "run_id"})
