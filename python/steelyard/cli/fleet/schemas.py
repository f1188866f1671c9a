"""JSON Schemas of what ``steelyard fleet ... --json`` prints: ``python -m steelyard.cli.fleet.schemas``.

In: the shape that each query declares, and those of the other commands (`_OTHERS`). Out:
``schemas/fleet/<command>.schema.json``; tests hold the files, and what commands print, against them.

Notation of a field: ``text``, ``count``, ``truth``, ``number``; ``?`` behind it says that it may be null. A
number may always be null: one that is not finite is missing. A class whose fields are printed stands as
``module:Class``. A list has one element, the shape of all of its own; a mapping from names has the key ``*``.
A pair of a class and a mapping adds fields to it, a pair with None may be null.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from steelyard._base import schemas_dir
from steelyard.cli.fleet.query import named
from steelyard.cli.fleet.registry import queries

_OTHERS: dict[str, Any] = {
    "check": "steelyard.fleet.store.check:Check",
    "compact": "steelyard.fleet.store.compact:Compaction",
    "expire": "steelyard.fleet.store.retention:Expiry",
    "import": "steelyard.fleet.importers.batches:Imported",
    "symbols_add": "steelyard.fleet.profiles.symbols:SymbolsAdded",
}

_PROBLEMS = [{"path": "text", "table": "text", "reason": "text"}]
_COMMON = {"store": "text", "engine": "text", "problems": _PROBLEMS}
"""What every answer of a query says beside it; ``report`` is there with ``--report``."""
_BARE = ("check", "compact", "expire", "import", "symbols_add")
_KINDS: dict[str, str] = {"text": "string", "count": "integer", "truth": "boolean", "number": "number"}


def commands() -> dict[str, Any]:
    """Return the shape of each command's answer, by its name with ``_`` for spaces."""
    return {**{name.replace(" ", "_"): query.result for name, query in queries().items()}, **_OTHERS}


def schema_of(command: str) -> dict[str, Any]:
    """Return the JSON Schema of what ``command`` prints."""
    from steelyard.fleet.answer import FleetAnswer
    from steelyard.records import document_schemas

    shape = commands()[command]
    if isinstance(shape, str) and hasattr(named(shape), "KIND"):
        answer = named(shape) if command in _BARE else FleetAnswer[named(shape)]  # type: ignore[misc]
        return document_schemas.schema_of(answer, nan_is_null=True)
    definitions: dict[str, Any] = {}
    schema = _shape(shape, definitions)
    if command not in _BARE:
        common = dict(_COMMON) if command != "check" else {"store": "text", "problems": _PROBLEMS}
        for name, field in common.items():
            schema["properties"][name] = _shape(field, definitions)
        schema["required"] = sorted([*schema["required"], *common])
        schema["properties"]["report"] = {"type": "string"}
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = f"steelyard fleet {command.replace('_', ' ')} --json"
    if definitions:
        schema["$defs"] = definitions
    return schema


def schema_text(command: str) -> str:
    """Return the text of a schema's file."""
    return json.dumps(schema_of(command), indent=2, sort_keys=True) + "\n"


def _shape(field: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if isinstance(field, str) and ":" in field:
        return _of_class(named(field), definitions)
    if isinstance(field, str):
        kind = _KINDS[field.removesuffix("?")]
        may_be_null = field.endswith("?") or kind == "number"
        return {"type": [kind, "null"] if may_be_null else kind}
    if isinstance(field, list):
        return {"type": "array", "items": _shape(field[0], definitions)}
    if isinstance(field, dict) and list(field) == ["*"]:
        return {"type": "object", "additionalProperties": _shape(field["*"], definitions)}
    if isinstance(field, dict):
        properties = {name: _shape(part, definitions) for name, part in field.items()}
        return _object(properties)
    if isinstance(field, tuple) and isinstance(field[1], dict):
        extra = {name: _shape(part, definitions) for name, part in field[1].items()}
        return _object({**_shape(field[0], definitions)["properties"], **extra})
    if isinstance(field, tuple):
        kinds = [{"type": "null"} if part is None else _shape(part, definitions) for part in field]
        return {"anyOf": kinds}
    return _of_class(field, definitions)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


def _of_class(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the shape of a dataclass, all of whose fields are printed."""
    made = TypeAdapter(kind).json_schema(mode="serialization")
    definitions |= {name: _strict(definition) for name, definition in made.pop("$defs", {}).items()}
    return dict(_strict(made))


def _strict(part: Any) -> Any:
    """Return a shape in which every field is required and a number may be null."""
    if isinstance(part, list):
        return [_strict(item) for item in part]
    if not isinstance(part, dict):
        return part
    strict = {name: _strict(value) for name, value in part.items() if name not in ("title", "default")}
    if isinstance(part.get("properties"), dict):
        strict["properties"] = {name: _strict(value) for name, value in part["properties"].items()}
        strict["required"] = sorted(part["properties"])
        strict["additionalProperties"] = False
    if strict.get("type") == "number":
        strict["type"] = ["number", "null"]
    return strict


def main() -> None:
    """Write every schema file."""
    folder = schemas_dir() / "fleet"
    folder.mkdir(exist_ok=True)
    for command in commands():
        (folder / f"{command}.schema.json").write_text(schema_text(command), encoding="utf-8")


if __name__ == "__main__":
    main()
