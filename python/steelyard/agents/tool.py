"""What a tool is: a request, what answers it, and what an agent reads of both.

In: a request as commands have them (``_base.request``). Out: a `Tool`, whose JSON Schema follows from the
request's fields, and which reads arguments: one that does not fit is one error that says what does.

Not here: which tools there are (``tools``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any

from steelyard._base import UsageError
from steelyard._base.request import Field, options, read_value
from steelyard.agents.context import Context, Stop
from steelyard.agents.data import NOTE

MOST_LETTERS = 2000
MOST_ITEMS = 200


@dataclass(frozen=True)
class Reply:
    """What a tool answers: data, and where the next page begins."""

    data: Mapping[str, Any]
    next_cursor: str | None = None


Act = Callable[[Context, Any, Stop], Reply]


@dataclass(frozen=True)
class Tool:
    """One tool."""

    name: str
    request: Callable[..., Any]
    act: Act
    """Answers a request."""
    about: str
    fields: Mapping[str, Field]
    choices: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Values that a text may have, by the name of the argument."""
    measures: bool = False
    """Whether it runs something."""

    @property
    def input_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of its arguments."""
        properties = {name: self._property(one) for name, one in self.fields.items()}
        required = [name for name, one in self.fields.items() if one.default is MISSING]
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**schema, "required": required} if required else schema

    def _property(self, one: Field) -> dict[str, Any]:
        found = _type_of(one)
        if one.name in self.choices:
            found["enum"] = list(self.choices[one.name])
        if isinstance(one.default, str | int | float) and one.default != "":
            found["default"] = one.default
        return {**found, "description": one.option.help}

    def read(self, arguments: Mapping[str, Any]) -> Any:
        """Return the request of arguments. Raises UsageError for one that does not fit."""
        for name in arguments:
            if name not in self.fields:
                known = ", ".join(self.fields) or "no arguments"
                raise UsageError(f"{self.name} has no argument {name[:40]!r}", hint=f"it takes {known}")
        given = {}
        for name, one in self.fields.items():
            value = arguments.get(name)
            if value is not None:
                given[name] = self._value(one, value)
            elif one.default is MISSING:
                raise UsageError(f"{self.name} needs {name}", hint=one.option.help)
        return self.request(**given)

    def _value(self, one: Field, value: Any) -> Any:
        _check_size(one.name, value)
        if one.is_repeated and not one.is_mapping and isinstance(value, str):
            value = [value]
        if one.type is str and isinstance(value, int | float) and not isinstance(value, bool):
            # Quantities are texts, since they may have a unit: a number is one without.
            value = repr(value)
        if one.type is str and not isinstance(value, str):
            raise UsageError(f"{one.name}: not a text but {_kind(value)}")
        found = read_value(one, one.name, value)
        if one.name in self.choices and found not in (one.default, *self.choices[one.name]):
            known = ", ".join(self.choices[one.name])
            raise UsageError(f"{one.name}: {str(found)[:40]!r} is none of them", hint=f"one of {known}")
        return found


OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "data": {"type": "object", "description": f"The answer. {NOTE}"},
        "next_cursor": {
            "type": "string",
            "description": "Give it as `cursor` for the next page. Absent at the end.",
        },
        "note": {"type": "string"},
    },
    "required": ["data", "note"],
}


def tool(
    request: Callable[..., Any],
    *,
    without: Collection[str] = (),
    choices: Mapping[str, Collection[str]] | None = None,
    measures: bool = False,
) -> Callable[[Act], Tool]:
    """Make a function the tool of its name: its docstring is what an agent reads."""

    def made(act: Act) -> Tool:
        known = {name: one for name, one in options(request).items() if name not in without}  # type: ignore[arg-type]
        about = " ".join((inspect.getdoc(act) or "").split())
        return Tool(act.__name__, request, act, about, known, choices or {}, measures)

    return made


def _type_of(one: Field) -> dict[str, Any]:
    if one.is_mapping:
        return {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
    if one.is_repeated:
        return {"type": "array", "items": {"type": _WORDS[one.part]}, "maxItems": MOST_ITEMS}
    found: dict[str, Any] = {"type": _WORDS[one.type]}
    if one.option.least is not None:
        found["minimum"] = one.option.least
    if one.option.most is not None:
        found["maximum"] = one.option.most
    return found


_WORDS: Mapping[Any, str] = {str: "string", Path: "string", int: "integer", float: "number", bool: "boolean"}


def _check_size(name: str, value: Any) -> None:
    """Raise UsageError for a text or a list that no request needs."""
    if isinstance(value, str) and len(value) > MOST_LETTERS:
        raise UsageError(f"{name}: {len(value):,} characters, and at most {MOST_LETTERS:,} are read")
    if isinstance(value, list | dict):
        if len(value) > MOST_ITEMS:
            raise UsageError(f"{name}: {len(value):,} values, and at most {MOST_ITEMS} are read")
        for one in value.values() if isinstance(value, dict) else value:
            _check_size(name, one)


def _kind(value: Any) -> str:
    words = {list: "a list", dict: "an object", bool: "a truth value"}
    return words.get(type(value), "a number")
