"""The options of a fleet's queries as Python gives them.

In: a query, and what was given. Out: values as the query takes them. Bounds are those that the command line
declares. Not here: asking (``fleet``).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard._base import UsageError
from steelyard.api.calls import brief
from steelyard.cli.fleet.query import split

if TYPE_CHECKING:
    from steelyard.catalog.fields import Field
    from steelyard.cli.fleet.query import Query


def values_of(query: Query, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as the query takes them. Raises UsageError for one of another type or out of bounds."""
    from steelyard.catalog.fields import fields_of_query

    fields = {one.name: one for one in fields_of_query(query.options)}
    declared = {one.name: one for one in query.options}
    found: dict[str, Any] = {}
    for name, value in given.items():
        if value is None and declared[name].default is None:
            found[name] = None
        elif name in fields:
            found[name] = _value(fields[name], value)
        else:
            found[name] = _files(name, declared[name], value)
    return found


def _value(field: Field, value: Any) -> Any:
    """Return a value that fits a field. Raises UsageError."""
    if field.kind == "flag":
        if not isinstance(value, bool):
            raise UsageError(f"{field.name}: {brief(value)} is neither True nor False")
        return value
    if field.is_list:
        parts = [value] if isinstance(value, str) else value
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            raise UsageError(f"{field.name}: {brief(value)} is no list of texts")
        return list(parts)
    if field.type in (int, float):
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UsageError(f"{field.name}: {brief(value)} is no number")
        number = field.given(str(value)).parsed()
        if number is None:
            raise UsageError(f"{field.name}: {brief(value)} is no number")
        return number
    if not isinstance(value, str):
        raise UsageError(f"{field.name}: {brief(value)} is no text")
    field.given(value).parsed()
    return value


def _files(name: str, option: inspect.Parameter, value: Any) -> Any:
    """Return a value of an option that names files, or that writes."""
    if isinstance(option.default, bool):
        if not isinstance(value, bool):
            raise UsageError(f"{name}: {brief(value)} is neither True nor False")
        return value
    parts = [value] if isinstance(value, str | os.PathLike) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(one, str | os.PathLike) for one in parts):
        raise UsageError(f"{name}: {brief(value)} is no path")
    paths = [Path(one) for one in parts]
    return paths if "list" in str(split(option.annotation)[0]) else paths[0]
