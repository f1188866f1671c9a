"""What may be asked of a command, declared once: a dataclass whose fields say how each is typed.

In: a dataclass with fields of ``Annotated[type, Option(...)]``. From it follow the flags of the command line
(``cli.requests``), the keys of a TOML file, what a record keeps of the request, and what ``--resume`` takes.

    @dataclass(frozen=True, kw_only=True)
    class Request:
        blocks: Annotated[int, Option("Most blocks.", least=1)] = 40

A field without an `Option` is filled by the program and never typed. Types are str, bool, int, float and
Path, each also ``| None``, sequences of str, int or Path (a flag that may be repeated), and mappings of str
to str (``NAME=VALUE``, repeated).

Not here: what a request means, and whether it can be met.
"""

import copy
import re
import types
import typing
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from steelyard._base.commands import command_text
from steelyard._base.errors import SteelyardError, UsageError

T = TypeVar("T")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


@dataclass(frozen=True, slots=True)
class Option:
    """How a field is typed."""

    help: str
    flag: str = ""
    """Such as ``--from``; by default the name of the field."""
    metavar: str | None = None
    least: float | None = None
    most: float | None = None
    is_argument: bool = False
    """Whether it is what stands in the command line without a flag."""
    has_no: bool = False
    """Whether the opposite of a flag is ``--no-...``."""
    key: str | None = ""
    """Key in a file; by default the name of the field, None where it belongs to the command line only."""
    has_commas: bool = False
    """Whether what is typed with commas may be a list in a file."""
    anew: bool = False
    """Whether it may be typed beside ``--resume``, whatever the request began with."""
    is_share: bool = False
    """Whether a number may be typed with a percent sign."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field that can be typed."""

    name: str
    option: Option
    type: Any
    """Without None: str, bool, int, float, Path, or a sequence or mapping of them."""
    default: Any

    @property
    def flag(self) -> str:
        """Return the flag, with its dashes."""
        return self.option.flag or "--" + self.name.rstrip("_").replace("_", "-")

    @property
    def key(self) -> str | None:
        """Return its key in a file, None where it has none."""
        return self.name.rstrip("_") if self.option.key == "" else self.option.key

    @property
    def is_repeated(self) -> bool:
        """Return whether it holds several values."""
        return self.part is not None

    @property
    def is_mapping(self) -> bool:
        """Return whether it holds values by name."""
        return typing.get_origin(self.type) is Mapping

    @property
    def part(self) -> Any:
        """Return the type of each of its values, None where it holds one."""
        parts = typing.get_args(self.type)
        return parts[-1] if parts else None


def options(request: type[Any]) -> Mapping[str, Field]:
    """Return the fields of a request that can be typed, by name and in order."""
    return _options(request)  # type: ignore[arg-type]


@cache
def _options(request: Hashable) -> Mapping[str, Field]:
    assert isinstance(request, type)
    hints = typing.get_type_hints(request, include_extras=True)
    found: dict[str, Field] = {}
    for field in fields(request):
        kind, *notes = typing.get_args(hints[field.name]) or (hints[field.name],)
        option = next((note for note in notes if isinstance(note, Option)), None)
        if option is not None:
            default = field.default_factory() if callable(field.default_factory) else field.default
            found[field.name] = Field(field.name, option, _without_none(kind), default)
    return found


def _without_none(kind: Any) -> Any:
    if isinstance(kind, types.UnionType):
        (kind,) = (one for one in typing.get_args(kind) if one is not type(None))
    return kind


def in_names(error: SteelyardError, flags: Mapping[str, str]) -> SteelyardError:
    """Return an error that calls what was asked by the names of fields, for those who type no flags.

    >>> in_names(UsageError("--rate 'lots': no number", hint="--rate 100"), {"--rate": "demand"}).message
    "demand 'lots': no number"
    """

    def named(text: str) -> str:
        return _FLAG.sub(lambda found: flags.get(found[0], found[0]), text)

    found = copy.copy(error)
    found.message, found.hint = named(error.message), None if error.hint is None else named(error.hint)
    found.args = (found.message,)
    return found


def flags_of(request: type[Any]) -> Mapping[str, str]:
    """Return the names of a request's fields by their flags."""
    return {one.flag: name.rstrip("_") for name, one in options(request).items()}


def number_in(text: str) -> float:
    """Return a number that may be typed with a percent sign. Raises ValueError.

    >>> number_in("95%"), number_in("0.95")
    (0.95, 0.95)
    """
    word = text.strip()
    return float(word[:-1]) / 100 if word.endswith("%") else float(word)


def asked_document(request: Any) -> dict[str, Any]:
    """Return what of a request is not its default, as plain values: those of a JSON or TOML document."""
    return {
        name: value
        for name, field in options(type(request)).items()
        if (value := _plain(getattr(request, name))) != _plain(field.default)
    }


def from_document(request: type[T], document: Mapping[str, Any]) -> T:
    """Return the request that `asked_document` wrote. Raises UsageError for what none has."""
    known = options(request)
    if (unknown := next((name for name in document if name not in known), None)) is not None:
        raise UsageError(f"{unknown}: nothing that can be asked")
    return request(**{name: read_value(known[name], name, value) for name, value in document.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else dict(value) if isinstance(value, Mapping) else value


def words(request: Any, *, always: Collection[str] = (), never: Collection[str] = ()) -> list[str]:
    """Return the arguments that ask for the same: what has no flag, the flags, then a command after ``--``.

    Defaults are left out, but for those in ``always``; fields in ``never`` are left out, too.
    """
    first: list[str] = []
    flags: list[str] = []
    rest: list[str] = []
    for name, field in options(type(request)).items():
        value = getattr(request, name)
        if name in never or (name not in always and _plain(value) == _plain(field.default)):
            continue
        if field.option.is_argument and field.is_repeated:
            rest = ["--", *map(str, value)]
        elif field.option.is_argument:
            first.append(str(value))
        elif field.type is bool:
            flags.append(field.flag if value else field.flag.replace("--", "--no-", 1))
        else:
            texts = [f"{key}={text}" for key, text in value.items()] if isinstance(value, Mapping) else value
            for text in texts if field.is_repeated else [value]:
                flags += [field.flag, str(text)]
    return first + flags + rest


def read_value(field: Field, where: str, value: object) -> Any:
    """Return a value of a document as the field has it. Raises UsageError that names ``where``."""
    if field.is_mapping:
        if not isinstance(value, dict):
            raise UsageError(f"{where}: not a table of NAME = VALUE")
        return {str(name): read_text(f"{where}.{name}", one) for name, one in value.items()}
    if field.is_repeated:
        if not isinstance(value, list):
            raise UsageError(f"{where}: not a list")
        return tuple(_one(field.part, where, one) for one in value)
    if field.option.has_commas and isinstance(value, list):
        return ",".join(read_text(where, one) for one in value)
    found = _one(field.type, where, value)
    low, high = field.option.least, field.option.most
    if (low is not None and found < low) or (high is not None and found > high):
        raise UsageError(f"{where}: {found} is outside {low:g}..{'' if high is None else f'{high:g}'}")
    return found


def _one(kind: type, where: str, value: object) -> Any:
    if kind is bool:
        if not isinstance(value, bool):
            raise UsageError(f"{where}: neither true nor false")
        return value
    if kind is int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise UsageError(f"{where}: {value!r} is no count")
        return value
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"{where}: {value!r} is no number")
        return float(value)
    return kind(read_text(where, value))


def read_text(where: str, value: object) -> str:
    """Return a text, number or truth of a document as it is typed. Raises UsageError."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return str(value)
    raise UsageError(f"{where}: {value!r} is no text or number")


def resumed(begun: Mapping[str, Any] | None, asked: T, given: Collection[str], *, words: list[str]) -> T:
    """Return the request that goes on: as it began, but for what may be asked anew.

    ``begun`` is what the record keeps, None in a record of a version that kept nothing; ``given`` has the
    fields that were typed now, and ``words`` is the command that goes on. Raises UsageError for one that asks
    for something else than at the beginning.
    """
    known = options(type(asked))
    for name in sorted(given & known.keys()):
        field = known[name]
        then = None if begun is None else begun.get(name, _plain(field.default))
        if not field.option.anew and (begun is None or _plain(getattr(asked, name)) != then):
            what = "other benchmark or command" if field.option.is_argument else field.flag
            raise UsageError(
                f"--resume goes on as it began: it takes no {what}",
                hint=f"{command_text(words)} goes on",
            )
    kept = from_document(type(asked), begun or {})
    anew = {name: getattr(asked, name) for name in given if name in known and known[name].option.anew}
    going: T = replace(kept, **anew)  # type: ignore[type-var]
    return going
