"""The golden records, which the data plane's tests read too, and the schemas generated from the models."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import ExitCode, RecordError, schemas_dir
from steelyard.records import CacheStats, Check, Level, Run, Verdict, parse, read, read_lines, write
from steelyard.records.io import Record
from steelyard.records.schemas import RECORDS, schema_text

GOLDEN = schemas_dir() / "golden"


@pytest.mark.parametrize("model", RECORDS, ids=lambda model: model.KIND)
def test_golden_record_fits_schema_and_comes_through_whole(model: type[Record], tmp_path: Path) -> None:
    path = GOLDEN / f"{model.KIND}.json"
    text = json.loads(path.read_text())
    schema = json.loads((schemas_dir() / f"{model.KIND}.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(text)
    write(read(model, path), tmp_path / "copy.json")
    assert json.loads((tmp_path / "copy.json").read_text()) == text
    assert [file.name for file in tmp_path.iterdir()] == ["copy.json"]


@pytest.mark.parametrize("model", RECORDS, ids=lambda model: model.KIND)
def test_schema_file_is_what_the_model_generates(model: type[Record]) -> None:
    assert (schemas_dir() / f"{model.KIND}.schema.json").read_text() == schema_text(model), (
        "run: make schemas"
    )


@pytest.mark.parametrize("model", RECORDS, ids=lambda model: model.KIND)
def test_every_field_of_the_golden_record_is_in_the_model(model: type[Record]) -> None:
    assert set(json.loads((GOLDEN / f"{model.KIND}.json").read_text())) == set(model.model_fields)


@pytest.mark.parametrize("version", ["2.0", "0.9", "1", "one.two", "", 1, None])
def test_unknown_major_version_is_refused_in_one_line(version: object) -> None:
    text = json.dumps(json.loads((GOLDEN / "run.json").read_text()) | {"schema_version": version})
    with pytest.raises(RecordError, match=r"schema version .* of run is not supported") as caught:
        parse(Run, text, where="run.json")
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.USAGE


def test_newer_minor_version_is_read_and_its_new_fields_ignored() -> None:
    text = json.loads((GOLDEN / "run.json").read_text())
    newer = text | {"schema_version": "1.7", "field_of_the_future": {}}
    assert parse(Run, json.dumps(newer), where="x").benchmark == text["benchmark"]


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_other_text_is_refused_as_such(text: bytes) -> None:
    with pytest.raises(RecordError) as caught:
        parse(Run, text, where="x")
    assert "\n" not in caught.value.message


@given(st.data())
def test_misshapen_field_is_named(data: st.DataObject) -> None:
    text = json.loads((GOLDEN / "run.json").read_text())
    field = data.draw(st.sampled_from(["clock", "orchestrator", "cpus", "phases", "status", "series"]))
    with pytest.raises(RecordError, match=field):
        parse(Run, json.dumps(text | {field: 7}), where="x")


def test_line_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    line = json.dumps(json.loads((GOLDEN / "cache_stats.json").read_text())).encode()
    path = tmp_path / "stats.jsonl"
    path.write_bytes(line + b"\n" + line + b"\n" + line[: len(line) // 2])
    assert len(list(read_lines(CacheStats, path))) == 2


def test_verdict_is_its_worst_check() -> None:
    checks = [Check(id=str(level), level=level, claim="") for level in Level]
    assert Verdict.of(checks[:1]).level is Level.VALID
    verdict = Verdict.of(checks)
    assert verdict.level is Level.INVALID
    assert [check.level for check in verdict.reasons] == [Level.INVALID, Level.SUSPECT]
    assert Verdict.of([]).level is Level.SUSPECT


def test_saving_into_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    from steelyard._base import WorkloadFailedError

    with pytest.raises(WorkloadFailedError, match="cannot be written"):
        write(read(Run, GOLDEN / "run.json"), tmp_path / "absent" / "run.json")
