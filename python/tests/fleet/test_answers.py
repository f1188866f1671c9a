"""What fleet commands print with --json, held against their schemas and golden examples."""

import json
import shlex

import jsonschema
import pytest

from steelyard._base import schemas_dir
from steelyard.cli.fleet.registry import queries
from steelyard.cli.fleet.schemas import commands, schema_of, schema_text
from steelyard.cli.main import invoke
from tests.cli.test_documents import closed
from tests.fleet.simulated import simulated_store


def first_example(name: str) -> list[str]:
    """Return the words of a query's first example."""
    return [*name.split(), *shlex.split(queries()[name].examples[0])]


SMALL = {"machines": 6, "jobs": 4, "days": 1, "platforms": 1, "tasks_per_machine": 3, "step_s": 120}
CALLS = {
    **{name.replace(" ", "_"): first_example(name) for name in queries()},
    "cpi_specs": ["cpi", "specs", "--min-samples", "20", "--min-tasks", "2"],
    "cpi_outliers": ["cpi", "outliers", "--specs", "computed", "--min-samples", "20", "--min-tasks", "2"],
    "cpi_incidents": ["cpi", "incidents", "--specs", "computed", "--min-samples", "20", "--min-tasks", "2"],
    "cpi_distribution": ["cpi", "distribution", "--min-samples", "20", "--min-tasks", "2"],
    "top": ["top", "--rows", "3"],
    "diff": ["diff", "cluster=cell-00,cluster=cell-01", ""],
    "smt": ["smt", "--uplift", "0.25"],
    "check": ["check"],
    "compact": ["compact", "--dry-run"],
    "expire": ["expire", "--keep-days", "9999", "--dry-run"],
}


def validator(command: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(closed(schema_of(command)))


@pytest.mark.parametrize("command", commands())
def test_the_schema_file_is_generated_and_its_golden_example_fits(command: str) -> None:
    path = schemas_dir() / "fleet" / f"{command}.schema.json"
    assert path.read_text() == schema_text(command), "run: make schemas"
    golden = json.loads((schemas_dir() / "golden" / "fleet" / f"{command}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))
    validator(command).validate(golden)
    # A schema that lets anything through would hold nothing.
    first = next(iter(golden)) if isinstance(golden, dict) else None
    for spoilt in ([{"a": 1}], {**golden, "unknown": 1} if first else None, {}):
        if spoilt is not None and command not in ("symbols_add",):
            assert not validator(command).is_valid(spoilt)


@pytest.mark.parametrize("command", CALLS)
def test_what_a_command_prints_fits_its_schema(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(simulated_store(**SMALL))
    code = invoke(["fleet", *CALLS[command], "--store", store, "--json"])
    out, err = capsys.readouterr()
    assert code in (0, 1), err
    assert out, err
    document = json.loads(out)
    validator(command).validate(document)
    golden = json.loads((schemas_dir() / "golden" / "fleet" / f"{command}.json").read_text())
    assert set(golden) == set(document)
