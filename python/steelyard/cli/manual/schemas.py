"""The reference of JSON documents: `docs/reference/schemas.md`, from `schemas/*.schema.json`.

In: JSON Schemas, by name. Out: Markdown: a section each with its fields, types and meanings, then the types
that several share.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from steelyard.cli.manual.markdown import table

Schema = Mapping[str, Any]
_SIMPLE = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}
_HEAD = """# JSON documents

Fields of what Steelyard writes and `--json` prints, from `schemas/`: `make docs` writes this page, a test
compares it. A field with a question mark may be absent. A figure that was not measured is null, with a reason
beside it. A new minor version only adds fields.
"""


def schemas_page(schemas: Mapping[str, Schema]) -> str:
    """Return the page; ``schemas`` are by the path of their file below ``schemas/``, without its end."""
    shared = _shared(schemas.values())
    parts = [
        _HEAD,
        "".join(f"- [{name}](#{_anchor(name)}): {_first(one)}\n" for name, one in schemas.items()),
    ]
    for name, schema in schemas.items():
        parts.append(f"## {name}\n\n{_about(schema)}{_fields(schema, shared, name)}")
        own = {key: one for key, one in _types(schema).items() if key not in shared}
        parts += [
            f"### {name}: {key}\n\n{_about(one)}{_fields(one, shared, name)}" for key, one in own.items()
        ]
    parts.append("## Shared types\n")
    parts += [f"### {key}\n\n{_about(one)}{_fields(one, shared, '')}" for key, one in sorted(shared.items())]
    return "\n".join(parts)


def _types(schema: Schema) -> Mapping[str, Schema]:
    return dict(sorted(schema.get("$defs", {}).items()))


def _shared(schemas: Any) -> dict[str, Schema]:
    """Return types that stand in several schemas and are the same in all of them."""
    seen: dict[str, list[Schema]] = defaultdict(list)
    for schema in schemas:
        for name, one in schema.get("$defs", {}).items():
            seen[name].append(one)
    shared = {
        name: found[0]
        for name, found in seen.items()
        if len(found) > 1 and len({json.dumps(one, sort_keys=True) for one in found}) == 1
    }
    # What refers to a type that differs between schemas differs with it.
    while lost := [name for name, one in shared.items() if not _refers_to(one) <= shared.keys()]:
        for name in lost:
            del shared[name]
    return shared


def _refers_to(schema: Schema) -> set[str]:
    return set(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(schema)))


def _first(schema: Schema) -> str:
    text = " ".join(str(schema.get("description", schema.get("title", ""))).replace("``", "`").split())
    return text.partition(". ")[0].rstrip(".") + "."


def _about(schema: Schema) -> str:
    text = str(schema.get("description", "")).replace("``", "`").replace("<", "&lt;").strip()
    return f"{text}\n\n" if text else ""


def _fields(schema: Schema, shared: Mapping[str, Schema], name: str) -> str:
    if "enum" in schema:
        return f"One of {', '.join(f'`{one}`' for one in schema['enum'])}.\n"
    needed = set(schema.get("required", ()))
    rows = [
        (f"`{field}`" if field in needed else f"`{field}`?", _type(one, shared, name), _meaning(one))
        for field, one in schema.get("properties", {}).items()
    ]
    return table(("field", "type", "meaning"), rows) if rows else f"{_type(schema, shared, name)}\n"


def _meaning(field: Schema) -> str:
    said = str(field.get("description", ""))
    if "const" in field:
        said = f"{said} Always `{field['const']}`.".strip()
    return said


def _type(field: Schema, shared: Mapping[str, Schema], name: str) -> str:
    if "$ref" in field:
        target = str(field["$ref"]).rpartition("/")[2]
        heading = target if target in shared else f"{name}: {target}"
        return f"[{target}](#{_anchor(heading)})"
    if "allOf" in field:
        return " and ".join(_type(one, shared, name) for one in field["allOf"])
    if "anyOf" in field or "oneOf" in field:
        several = field.get("anyOf", field.get("oneOf", ()))
        return " or ".join(dict.fromkeys(_type(one, shared, name) for one in several))
    if "enum" in field:
        return "one of " + ", ".join(f"`{one}`" for one in field["enum"])
    kind = field.get("type")
    if kind == "array":
        items = list(_items(field))
        return f"list of {' or '.join(_type(one, shared, name) for one in items)}" if items else "list"
    if kind == "object":
        values = field.get("additionalProperties")
        return f"{_type(values, shared, name)} by name" if isinstance(values, Mapping) else "object"
    if isinstance(kind, list):
        return " or ".join(_SIMPLE.get(str(one), str(one)) for one in kind)
    return _SIMPLE.get(str(kind), "anything")


def _items(field: Schema) -> Iterator[Schema]:
    if isinstance(items := field.get("items"), Mapping):
        yield items
    yield from {json.dumps(one): one for one in field.get("prefixItems", ())}.values()


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub and MyST give a heading."""
    kept = "".join(each for each in heading.lower() if each.isalnum() or each in " -_")
    return kept.replace(" ", "-")
