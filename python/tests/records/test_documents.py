"""Results as documents: what is printed of a dataclass, and the schema that the same fields give."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, ClassVar, Literal

import jsonschema
import pytest

from steelyard._base.documents import INLINE, NOT_PRINTED, OPTIONAL, Paged, Sides, as_document, printed
from steelyard.records import Level
from steelyard.records.document_schemas import kind_of, schema_of
from steelyard.records.values import Check


class Word(StrEnum):
    YES = "yes"


class Degree(IntEnum):
    LITTLE = 1
    MUCH = 2


@dataclass(frozen=True, slots=True)
class Part:
    """A part."""

    name: str
    """Its ``name``, None
    where it has none."""
    ratio: float | None
    degree: Degree = Degree.MUCH


@dataclass(frozen=True, slots=True)
class Beside:
    seconds: float


@dataclass(frozen=True)
class Found:
    """What was found."""

    KIND: ClassVar[str] = "found"

    parts: list[Part]
    """In order."""
    by_node: Mapping[int, tuple[int, ...]]
    pair: tuple[str, float]
    check: Check
    word: Word | Literal["no"]
    folder: Path
    raw: Any = field(default=None, metadata=NOT_PRINTED)
    beside: Beside | None = field(default=None, metadata=INLINE)
    advice: str | None = field(default=None, metadata=OPTIONAL)
    """What to do."""

    @property
    @printed
    def count(self) -> int:
        """Return how many parts there are."""
        return len(self.parts)

    @property
    def hidden(self) -> int:
        """Return what only the program needs."""
        return 1


def found(**changes: Any) -> Found:
    check = Check(id="a", level=Level.VALID, claim="good")
    values: dict[str, Any] = {"parts": [Part("x", math.inf)], "by_node": {3: (1, 2)}, "pair": ("a", 0.5)}
    return Found(**(values | {"check": check, "word": Word.YES, "folder": Path("/runs")} | changes))


def test_fields_and_marked_properties_are_printed() -> None:
    document = as_document(found(raw=object()))
    assert list(document)[:2] == ["schema_version", "kind"]
    assert document["parts"] == [{"name": "x", "ratio": None, "degree": "much"}]
    assert (document["by_node"], document["pair"]) == ({"3": [1, 2]}, ["a", 0.5])
    assert (document["word"], document["folder"], document["count"]) == ("yes", "/runs", 1)
    assert document["check"]["level"] == "valid"
    assert not {"raw", "hidden", "beside", "seconds", "advice"} & set(document)
    json.dumps(document, allow_nan=False)


def test_what_is_inline_stands_among_the_fields() -> None:
    document = as_document(found(beside=Beside(2.0), advice="wait"))
    assert (document["seconds"], document["advice"]) == (2.0, "wait")
    paged = as_document(Paged(found(), Path("page.html")))
    assert (paged["kind"], paged["report"], paged["count"]) == ("found", "page.html", 1)


def test_what_json_has_no_value_for_is_refused() -> None:
    with pytest.raises(TypeError, match="set"):
        as_document({"a": {1}})
    with pytest.raises(TypeError, match="tuple"):
        as_document({(1, 2): 0})


@pytest.mark.parametrize(
    "result",
    [found(), found(beside=Beside(1.5), advice="wait"), found(parts=[], word="no")],
    ids=["plain", "all", "no"],
)
def test_a_document_fits_the_schema_of_its_class(result: Found) -> None:
    jsonschema.Draft202012Validator(schema_of(Found)).validate(as_document(result))
    schema = schema_of(Paged[Found])
    jsonschema.Draft202012Validator(schema).validate(as_document(Paged(result, None)))
    assert kind_of(Paged[Found]) == "found"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts": [{"name": "x", "ratio": "1", "degree": "much"}]}, "'1'"),
        ({"parts": [{"name": "x", "ratio": 1.0, "degree": "huge"}]}, "huge"),
        ({"by_node": {"3": ["1"]}}, "'1'"),
        ({"pair": ["a"]}, "too short"),
        ({"advice": None}, "None"),
        ({"kind": "lost"}, "lost"),
        ({"schema_version": "2.0"}, "2.0"),
    ],
)
def test_a_schema_refuses_what_the_class_does_not_say(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(jsonschema.ValidationError, match=message):
        jsonschema.Draft202012Validator(schema_of(Found)).validate(as_document(found()) | changes)


def test_docstrings_describe_fields_to_who_reads_json() -> None:
    schema = schema_of(Found)
    assert schema["description"] == "What was found."
    assert schema["properties"]["parts"]["description"] == "In order."
    assert schema["properties"]["count"] == {"type": "integer", "description": "How many parts there are."}
    part = schema["$defs"]["Part"]["properties"]
    assert part["name"]["description"] == "Its `name`, null where it has none."
    assert part["degree"]["enum"] == ["little", "much"]
    assert schema["required"] == sorted({*as_document(found())} - {"kind", "schema_version"})


def test_a_class_may_have_a_version_of_its_own() -> None:
    @dataclass(frozen=True)
    class Newer(Found):
        VERSION: ClassVar[str] = "2.3"

    newer = Newer(**{part.name: getattr(found(), part.name) for part in fields(Found)})
    assert as_document(newer)["schema_version"] == "2.3"
    assert as_document(found())["schema_version"] == "1.0"


def test_a_class_without_a_kind_has_no_schema_file() -> None:
    with pytest.raises(TypeError, match="names no kind"):
        kind_of(Part)


def test_numbers_may_be_null_where_they_are_missing_by_not_being_finite() -> None:
    result = found(pair=("a", math.nan))
    jsonschema.Draft202012Validator(schema_of(Found, nan_is_null=True)).validate(as_document(result))
    with pytest.raises(jsonschema.ValidationError, match="None"):
        jsonschema.Draft202012Validator(schema_of(Found)).validate(as_document(result))


def test_two_that_are_compared_have_their_names_beside() -> None:
    document = as_document(Paged(Sides("run-1", "run-2", found()), None))
    assert (document["a"], document["b"], document["kind"]) == ("run-1", "run-2", "found")
    jsonschema.Draft202012Validator(schema_of(Paged[Sides[Found]])).validate(document)
