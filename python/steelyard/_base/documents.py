"""What a result is as a JSON document: its own fields, by their names.

In: a frozen dataclass or a pydantic model. Out: plain values. A field is printed unless it is marked
`NOT_PRINTED`; a property is printed where it is marked `printed`. What a class declares is thus said once:
``records.document_schemas`` makes the JSON Schema of the same fields, with the docstrings below them.

    @dataclass(frozen=True)
    class Found:
        KIND: ClassVar[str] = "found"

        runs: int
        \"\"\"How many.\"\"\"

        @property
        @printed
        def is_empty(self) -> bool:
            \"\"\"Return whether there is none.\"\"\"

Invariants: figures that are not finite are null, as on a page; paths are text; a document that names its
kind (``KIND``) also has its version (``VERSION``, by default that of Steelyard's records).

Not here: writing it (``cli.output``).
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import Any, Generic, TypeVar

from steelyard._base.version import SCHEMA_VERSION

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_HOW = "document"
NOT_PRINTED: Mapping[str, str] = {_HOW: "not printed"}
"""Metadata of a field that is no part of the document."""
INLINE: Mapping[str, str] = {_HOW: "inline"}
"""Metadata of a field whose own fields stand in its place; nothing stands there where it is None."""
OPTIONAL: Mapping[str, str] = {_HOW: "optional"}
"""Metadata of a field that is left out where it is None."""


def printed(get: F) -> F:
    """Mark the function below ``@property`` as a part of the document."""
    get.is_printed = True  # type: ignore[attr-defined]
    return get


@dataclass(frozen=True)
class Paged(Generic[T]):
    """A result, and the page that was written of it."""

    result: T = field(metadata=INLINE)
    report: PurePath | None
    """The page, None where none was requested."""


@dataclass(frozen=True)
class Sides(Generic[T]):
    """A result of two that are compared, and what they are called."""

    a: str
    """The one."""
    b: str
    """The other."""
    comparison: T = field(metadata=INLINE)


@dataclass(frozen=True, slots=True)
class Part:
    """A field or property of a class that is printed."""

    name: str
    is_property: bool = False
    is_inline: bool = False
    is_optional: bool = False


def parts(kind: Any) -> tuple[Part, ...]:
    """Return what is printed of the results of a dataclass: its fields in order, then its properties."""
    return _parts(kind)


@cache
def _parts(kind: type) -> tuple[Part, ...]:
    found = []
    for each in dataclasses.fields(kind):
        how = each.metadata.get(_HOW)
        if how != NOT_PRINTED[_HOW]:
            found.append(Part(each.name, False, how == INLINE[_HOW], how == OPTIONAL[_HOW]))
    properties: dict[str, Part] = {}
    for base in reversed(kind.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, property) and getattr(value.fget, "is_printed", False):
                properties[name] = Part(name, is_property=True)
    return (*found, *properties.values())


def naming(result: Any) -> Any:
    """Return the class that names the kind of a result: its own, or that of what stands in it; else None."""
    if hasattr(type(result), "KIND"):
        return type(result)
    if not dataclasses.is_dataclass(result):
        return None
    inline = (getattr(result, part.name) for part in parts(type(result)) if part.is_inline)
    return next((named for one in inline if (named := naming(one)) is not None), None)


def head_of(named: Any) -> dict[str, str]:
    """Return the kind and the version that a class names."""
    return {"schema_version": getattr(named, "VERSION", SCHEMA_VERSION), "kind": named.KIND}


def as_document(result: Any) -> Any:
    """Return a result as the values of a JSON document, with its kind and version where it names one.

    >>> as_document({"a": [1.0, float("inf")], "b": (float("nan"), 0)})
    {'a': [1.0, None], 'b': [None, 0]}

    Raises TypeError for what JSON has no value for.
    """
    named, document = naming(result), _plain(result)
    return document if named is None else {**head_of(named), **document}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        # What numbers stand for is their order; the word is the value.
        return value.value if isinstance(value.value, str) else value.name.lower()
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_key(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"a document has no value for a {type(value).__name__}")


def _key(key: Any) -> str:
    plain = _plain(key)
    if isinstance(plain, str | int) and not isinstance(plain, bool):
        return str(plain)
    raise TypeError(f"a document has no key for a {type(key).__name__}")


def _fields(result: Any) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for part in parts(type(result)):
        value = getattr(result, part.name)
        if value is None and (part.is_optional or part.is_inline):
            continue
        if part.is_inline:
            document |= _plain(value)
        else:
            document[part.name] = _plain(value)
    return document
