"""JSON Schemas of what ``steelyard fleet ... --json`` prints: ``python -m steelyard.cli.fleet.schemas``.

In: the class of the result that each query declares, and those of the other commands (`_OTHERS`). Out:
``schemas/fleet/<command>.schema.json``; tests hold the files, and what commands print, against them.

A number may always be null: one that is not finite is missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from steelyard._base import schemas_dir
from steelyard.cli.fleet.query import named
from steelyard.cli.fleet.registry import queries

_OTHERS = {
    "check": "steelyard.fleet.store.check:Check",
    "compact": "steelyard.fleet.store.compact:Compaction",
    "expire": "steelyard.fleet.store.retention:Expiry",
    "import": "steelyard.fleet.importers.batches:Imported",
    "symbols_add": "steelyard.fleet.profiles.symbols:SymbolsAdded",
}


def commands() -> Mapping[str, str]:
    """Return the class of each command's result, by its name with ``_`` for spaces."""
    return {**{name.replace(" ", "_"): query.result for name, query in queries().items()}, **_OTHERS}


def schema_of(command: str) -> dict[str, Any]:
    """Return the JSON Schema of what ``command`` prints."""
    from steelyard.fleet.answer import FleetAnswer
    from steelyard.records import document_schemas

    result: Any = named(commands()[command])
    printed = result if command in _OTHERS else FleetAnswer[result]
    return document_schemas.schema_of(printed, nan_is_null=True)


def schema_text(command: str) -> str:
    """Return the text of a schema's file."""
    return json.dumps(schema_of(command), indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Write every schema file."""
    folder = schemas_dir() / "fleet"
    folder.mkdir(exist_ok=True)
    for command in commands():
        (folder / f"{command}.schema.json").write_text(schema_text(command), encoding="utf-8")


if __name__ == "__main__":
    main()
