"""Forms of pages: declared fields of what can be asked, as inputs, and their values as an address has them.

In: a request's fields (``_base.request``), or the options of a fleet query as the command line has them. Out:
`Field`s for the template, and values for the request.

Not here: fields that name files: a page reads none but those that it was given at the start.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Any

from steelyard._base import UsageError
from steelyard._base.request import Field as RequestField
from steelyard._base.request import number_in
from steelyard.cli.fleet.query import Writes

_MOST_LENGTH = 2000
_UNITS = {"SECONDS": "seconds"}
_WORDS = re.compile(r"[a-z][a-z-]*(\|[a-z][a-z-]*)+")


@dataclass(frozen=True, slots=True)
class Field:
    """One input."""

    name: str
    help: str = ""
    kind: str = "text"
    """``text``, ``number``, ``choice``, ``flag``, ``date`` or ``hidden``."""
    value: str = ""
    default: str = ""
    """The value of an address without the field."""
    label: str = ""
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """What stands for each choice; by default the choice."""
    suggested: tuple[str, ...] = ()
    """Values that are there, of a field that takes others, too."""
    is_more: bool = False
    """Whether it is folded away unless it has a value of its own."""
    least: float | None = None
    most: float | None = None
    slider: tuple[float, float, float] | None = None
    """Ends and step of the slider beside a number, which may lie outside of them."""
    type: Any = str
    is_share: bool = False
    """Whether a number may have a percent sign."""
    is_list: bool = False
    """Whether it holds several values, separated by commas or lines."""
    is_mapping: bool = False
    """Whether these are NAME=VALUE."""

    @property
    def title(self) -> str:
        """Return what stands beside the input."""
        return self.label or self.name.replace("_", " ").replace("-", " ").strip()

    @property
    def is_open(self) -> bool:
        """Return whether it has another value than its default."""
        return self.value != self.default

    @property
    def options(self) -> list[tuple[str, str]]:
        """Return each choice and what stands for it."""
        return list(zip(self.choices, self.words or self.choices, strict=True))

    def given(self, text: str) -> Field:
        """Return the field with what the address has."""
        return replace(self, value=text)

    def parsed(self) -> Any:
        """Return the value; None where it is empty. Raises UsageError for one that does not fit."""
        text = self.value.strip()
        if len(text) > _MOST_LENGTH:
            raise UsageError(f"{self.title}: longer than {_MOST_LENGTH} characters")
        if self.kind == "flag":
            if text not in ("", "yes", "no"):
                raise UsageError(f"{self.title}: {text[:40]!r} is neither yes nor no")
            return text == "yes"
        if not text:
            return None
        if self.is_list:
            return [part for line in text.splitlines() for one in line.split(",") if (part := one.strip())]
        if self.choices and text not in self.choices:
            raise UsageError(
                f"{self.title}: {text[:40]!r} is none of {', '.join(filter(None, self.choices))}"
            )
        if self.type in (int, float):
            return self._number(text)
        return text

    def _number(self, text: str) -> float:
        try:
            value = number_in(text) if self.is_share else self.type(text)
        except ValueError as error:
            raise UsageError(f"{self.title}: {text[:40]!r} is no number") from error
        is_low = self.least is not None and not value >= self.least
        is_high = self.most is not None and not value <= self.most
        if is_low or is_high or value != value:
            ends = ["" if end is None else f"{end:g}" for end in (self.least, self.most)]
            raise UsageError(f"{self.title}: {text[:40]} is outside {'..'.join(ends)}")
        return float(value) if self.type is float else value


def field_of(
    field: RequestField, *, label: str = "", slider: tuple[float, float, float] | None = None
) -> Field:
    """Return the input of a request's field; ``slider`` has the ends and the step of one beside it."""
    option, kind = field.option, field.type
    default = "" if field.default in (None, MISSING) or field.is_repeated else str(field.default)
    if kind is bool:
        text = "yes" if field.default else ""
        return Field(field.name, option.help, "flag", text, text, label, type=bool)
    made = Field(
        field.name,
        option.help,
        "number" if kind in (int, float) else "text",
        default,
        default,
        label,
        least=option.least,
        most=option.most,
        type=kind,
        is_share=option.is_share,
        is_list=field.is_repeated,
        is_mapping=field.is_mapping,
    )
    if slider is None:
        return made
    if made.value:
        made = replace(made, value=f"{float(made.value):g}", default=f"{float(made.value):g}")
    return replace(made, slider=slider)


def fields_of_query(parameters: Sequence[inspect.Parameter]) -> list[Field]:
    """Return the inputs of a fleet query's options, without those that name files or write."""
    found = []
    for parameter in parameters:
        kind, *notes = typing.get_args(parameter.annotation) or (parameter.annotation,)
        declared = next((note for note in notes if hasattr(note, "help")), None)
        part, is_list = _part(kind)
        if part is Path or any(isinstance(note, Writes) for note in notes):
            continue
        choices = tuple(str(one.value) for one in part) if _is_enum(part) else words_of(declared)
        default = parameter.default
        text = "" if default in (None, inspect.Parameter.empty) or is_list else str(default)
        if part is bool:
            text = "yes" if default else ""
        words = choices
        if choices and not text:
            choices, words = ("", *choices), ("by default", *choices)
        found.append(
            Field(
                parameter.name,
                _about(declared),
                "flag" if part is bool else "number" if part in (int, float) else "text",
                text,
                text,
                choices=choices,
                words=words,
                least=getattr(declared, "min", None),
                most=getattr(declared, "max", None),
                type=part,
                is_list=is_list,
            )
        )
    return found


def filled(fields: Sequence[Field], query: Mapping[str, str]) -> list[Field]:
    """Return the fields with what an address has; a flag that an address with any field lacks is off."""
    has_any = any(field.name in query for field in fields)
    return [
        field.given(query.get(field.name, "" if field.kind == "flag" else field.value))
        if has_any and (field.name in query or field.kind == "flag")
        else field
        for field in fields
    ]


def values(fields: Sequence[Field]) -> dict[str, Any]:
    """Return the values of fields that have one, by name. Raises UsageError."""
    return {field.name: value for field in fields if (value := field.parsed()) is not None}


def _about(declared: Any) -> str:
    """Return the help of a flag, with the unit that its placeholder names."""
    about = (declared.help if declared is not None else "") or ""
    unit = _UNITS.get(getattr(declared, "metavar", None) or "")
    return about if unit is None else f"{about.rstrip('.')}, in {unit}."


def words_of(declared: Any) -> tuple[str, ...]:
    """Return the words that a flag takes, where its declaration has all of them, as ``used|machines``."""
    metavar = getattr(declared, "metavar", None) or ""
    return tuple(metavar.split("|")) if _WORDS.fullmatch(metavar) else ()


def _is_enum(kind: Any) -> bool:
    import enum

    return isinstance(kind, type) and issubclass(kind, enum.Enum)


def _part(kind: Any) -> tuple[Any, bool]:
    """Return the type of one value, and whether there are several."""
    if isinstance(kind, types.UnionType):
        kind = next(one for one in typing.get_args(kind) if one is not type(None))
    if typing.get_origin(kind) in (list, tuple):
        return typing.get_args(kind)[0], True
    return kind, False
