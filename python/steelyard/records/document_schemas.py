"""The JSON Schemas of results that are dataclasses: of the fields that ``_base.documents`` prints.

In: a dataclass. Out: its schema. Types give the values, ``| None`` what may be null, the docstring below a
field its description. What records (pydantic models) say of themselves stands as they say it.

Invariants: a schema is made when the files in ``schemas/`` are, never while a command runs: docstrings below
fields are read from the source.
"""

import ast
import dataclasses
import enum
import importlib
import inspect
import json
import re
import sys
import textwrap
import types
import typing
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import PurePath
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, JsonValue, TypeAdapter

from steelyard._base.documents import head_of, parts

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SIMPLE: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    None: {"type": "null"},
    Any: {},
    object: {},
    JsonValue: {},
}


def schema_text(result: Any) -> str:
    """Return the text of the schema file of a dataclass that names its kind."""
    return json.dumps(schema_of(result), indent=2, sort_keys=True) + "\n"


def kind_of(result: Any) -> str:
    """Return the kind that results of a type name. Raises TypeError where they name none."""
    return head_of(_naming(result))["kind"]


def _naming(result: Any) -> Any:
    origin = typing.get_origin(result) or result
    if hasattr(origin, "KIND"):
        return origin
    for part in parts(origin):
        if part.is_inline:
            return _naming(_hints(result)[part.name])
    raise TypeError(f"{result} names no kind")


def schema_of(result: Any, *, nan_is_null: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of a dataclass that names its kind, or of an envelope of one.

    ``nan_is_null`` is for results whose numbers may be missing by not being finite.
    """
    made = _Schemas("number", "null") if nan_is_null else _Schemas("number")
    schema = made.object_of(result)
    head = head_of(_naming(result))
    major = head["schema_version"].split(".")[0]
    schema["properties"] |= {
        "kind": {"const": head["kind"]},
        "schema_version": {
            "default": head["schema_version"],
            "pattern": rf"^{major}\.\d+$",
            "type": "string",
        },
    }
    schema["$schema"] = _DIALECT
    if made.definitions:
        schema["$defs"] = made.definitions
    return schema


class _Schemas:
    """Makes schemas of types, and collects those that have a name."""

    def __init__(self, *numbers: str) -> None:
        self.definitions: dict[str, Any] = {}
        self._number = {"type": numbers[0] if len(numbers) == 1 else list(numbers)}
        self._known: dict[str, Any] = {}

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of values of a type. Raises TypeError for one that JSON has no values of."""
        if kind is float:
            return dict(self._number)
        if isinstance(kind, typing.Hashable) and kind in _SIMPLE:
            return dict(_SIMPLE[kind])
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is Annotated:
            return {**self.of(arguments[0]), **_limits(kind)}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(one) for one in sorted(arguments, key=lambda one: one is type(None))]}
        if origin is Literal:
            return {"enum": list(arguments)}
        if dataclasses.is_dataclass(origin or kind):
            return self._reference(kind)
        if isinstance(origin or kind, type):
            return self._of_class(origin or kind, arguments)
        raise TypeError(f"no schema of {kind}")

    def _of_class(self, kind: type, arguments: tuple[Any, ...]) -> dict[str, Any]:
        if issubclass(kind, enum.Enum):
            values = [one.value if isinstance(one.value, str) else one.name.lower() for one in kind]
            return {"enum": values, "type": "string"}
        if issubclass(kind, BaseModel):
            return self._of_model(kind)
        if issubclass(kind, Mapping):
            value = self.of(arguments[1]) if arguments else {}
            return {"type": "object", **({"additionalProperties": value} if value else {})}
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._fixed(list(_hints(kind).values()))
        if issubclass(kind, tuple) and arguments and arguments[-1] is not Ellipsis:
            return self._fixed(arguments)
        if issubclass(kind, Sequence) or kind is Sequence:
            return {"type": "array", "items": self.of(arguments[0]) if arguments else {}}
        if issubclass(kind, PurePath | date):
            return {"type": "string"}
        raise TypeError(f"no schema of {kind}")

    def _fixed(self, kinds: Sequence[Any]) -> dict[str, Any]:
        size = len(kinds)
        items = [self.of(one) for one in kinds]
        return {"type": "array", "prefixItems": items, "minItems": size, "maxItems": size}

    def _of_model(self, model: type[BaseModel]) -> dict[str, Any]:
        made = model.model_json_schema(mode="serialization")
        self.definitions |= made.pop("$defs", {})
        if "$ref" not in made:
            self.definitions[model.__name__] = made
        return {"$ref": f"#/$defs/{model.__name__}"}

    def _reference(self, kind: Any) -> dict[str, Any]:
        name = re.sub(r"\W+", "", (typing.get_origin(kind) or kind).__name__)
        if self._known.setdefault(name, kind) is not kind:
            raise TypeError(f"two classes of one document are called {name}: {kind}, {self._known[name]}")
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = self.object_of(kind)
        return {"$ref": f"#/$defs/{name}"}

    def object_of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of the fields and properties of a dataclass that are printed."""
        origin = typing.get_origin(kind) or kind
        hints = _hints(kind)
        about = _descriptions(origin)
        properties: dict[str, Any] = {}
        required: list[str] = []
        title, description = origin.__name__, _words(inspect.getdoc(origin) or "")
        for part in parts(origin):
            value = hints[part.name] if not part.is_property else _returned(origin, part.name)
            if part.is_inline:
                inner = self.object_of(_without_none(value))
                properties |= inner["properties"]
                required += inner["required"] if _without_none(value) is value else []
                if origin is not kind:
                    title, description = inner["title"], inner["description"]
                continue
            shape = self.of(_without_none(value) if part.is_optional else value)
            note = {"description": about[part.name]} if part.name in about else {}
            properties[part.name] = {**shape, **note}
            required += [] if part.is_optional else [part.name]
        return {
            "title": title,
            "description": description,
            "type": "object",
            "properties": properties,
            "required": sorted(required),
        }


def _limits(kind: Any) -> dict[str, Any]:
    """Return what pydantic makes of the notes beside a simple type, such as the least value of a count."""
    simple = typing.get_args(kind)[0] in (int, float, str)
    return TypeAdapter(kind).json_schema() if simple else {}


def _without_none(kind: Any) -> Any:
    rest = [one for one in typing.get_args(kind) if one is not type(None)]
    if typing.get_origin(kind) in (Union, types.UnionType) and len(rest) < len(typing.get_args(kind)):
        return Union[tuple(rest)]  # noqa: UP007 - of as many as there are
    return kind


def _hints(kind: Any) -> dict[str, Any]:
    """Return the types of a class's fields; those of a generic class with what it is made of."""
    origin = typing.get_origin(kind) or kind
    names: dict[str, Any] = {}
    for base in origin.__mro__:
        names |= _checked_names(base.__module__)
    hints = typing.get_type_hints(origin, localns=names, include_extras=True)
    given = dict(zip(getattr(origin, "__parameters__", ()), typing.get_args(kind), strict=True))
    return {name: given.get(hint, hint) if given else hint for name, hint in hints.items()}


def _returned(kind: type, name: str) -> Any:
    get = getattr(kind, name).fget
    hints = typing.get_type_hints(get, localns=_checked_names(get.__module__), include_extras=True)
    return hints["return"]


@cache
def _checked_names(module: str) -> dict[str, Any]:
    """Return what a module imports for its type checker only."""
    names: dict[str, Any] = {}
    if module == "builtins":
        return names
    for block in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for line in block.body:
                if isinstance(line, ast.ImportFrom) and line.module is not None:
                    source = importlib.import_module(line.module)
                    names |= {one.asname or one.name: getattr(source, one.name) for one in line.names}
    return names


@cache
def _descriptions(kind: type) -> dict[str, str]:
    """Return what the docstrings of a dataclass say, by field and property."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for line, below in zip(body.body, body.body[1:], strict=False):
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and _is_text(below):
                found[line.target.id] = _words(ast.literal_eval(below.value))
        for part in parts(base):
            if part.is_property:
                found[part.name] = _words(getattr(base, part.name).__doc__ or "")
    return found


def _is_text(line: ast.stmt) -> typing.TypeGuard[ast.Expr]:
    return (
        isinstance(line, ast.Expr)
        and isinstance(line.value, ast.Constant)
        and isinstance(line.value.value, str)
    )


def _words(docstring: str) -> str:
    """Return the first paragraph of a docstring as one who reads JSON knows things.

    >>> _words("Return the ``name``, None\\n    without one.")
    'The `name`, null without one.'
    """
    text = " ".join(docstring.split("\n\n")[0].split())
    text = text.replace("``None``", "None").replace("``", "`")
    text = re.sub(r"\bNone\b", "null", text.removeprefix("Return "))
    return text[:1].upper() + text[1:]
