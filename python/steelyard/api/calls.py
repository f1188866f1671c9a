"""Calls that do not fit a function: one error that names the function and the nearest option.

In: a function, or its name and signature. Out: the function, which raises UsageError where Python would raise
TypeError, and errors that name options as Python does. Not here: values of requests (``requests``) and of
queries (``queries``).
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from types import SimpleNamespace
from typing import Any, TypeVar

from steelyard._base import SteelyardError, UsageError

F = TypeVar("F", bound=Callable[..., Any])
_LISTED = 12
_FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)( (?=[A-Z'\d]))?")
_BRIEF = 40


def checked(function: F) -> F:
    """Make a function raise UsageError for options that it has not, for arguments that are missing, and for
    values of another type.
    """

    @functools.wraps(function)
    def called(*given: Any, **options: Any) -> Any:
        signature = inspect.signature(called)
        check_call(function.__name__, signature, given, options)
        bound = signature.bind(*given, **options).arguments
        for key, kind in _kinds(function).items():
            if key in bound and not _fits(bound[key], kind):
                raise UsageError(
                    f"{function.__name__}() takes {_described(kind)} as {key}, not {brief(bound[key])}",
                    hint=f"help({function.__name__}) says what it takes",
                )
        return function(*given, **options)

    return called  # type: ignore[return-value]


def brief(value: object) -> str:
    """Return a value as an error quotes it; of what is long only its type.

    >>> brief(None), brief(3), brief([1, 2])
    ('None', '3', 'a list')
    """
    if value is None or isinstance(value, str | int | float):
        text = repr(value)
        return text if len(text) <= _BRIEF else f"{text[:_BRIEF]}..."
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def in_python(error: SteelyardError, names: Mapping[str, str]) -> SteelyardError:
    """Return an error that names options as Python does; ``names`` has them by their flags.

    >>> in_python(UsageError("2 rates", hint="--workload NAME: a, b"), {"--workload": "workload"}).hint
    'workload=NAME: a, b'
    """

    def named(text: str) -> str:
        if "steelyard " in text:
            # It names a command, whose flags these are.
            return text
        return _FLAG.sub(lambda found: _option(found, names), text)

    said = copy.copy(error)
    said.message, said.hint = named(error.message), None if error.hint is None else named(error.hint)
    said.args = (said.message,)
    return said


def _option(found: re.Match[str], names: Mapping[str, str]) -> str:
    name = names.get(found[1])
    return found[0] if name is None else f"{name}=" if found[2] else name


def _kinds(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of the parameters."""
    # What it returns is too heavy to be loaded here.
    notes = {key: note for key, note in function.__annotations__.items() if key != "return"}
    own = SimpleNamespace(__annotations__=notes)
    return typing.get_type_hints(own, vars(sys.modules[function.__module__]))


def _fits(value: object, kind: Any) -> bool:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind in (Any, object):
        return True
    if isinstance(kind, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Mapping:
        return isinstance(value, Mapping)
    if origin is Sequence:
        return isinstance(value, str | list | tuple) and all(_fits(one, parts[0]) for one in value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, origin or kind)


_WORDS = {str: "a text", int: "a whole number", Mapping: "a dict", Sequence: "texts"}


def _described(kind: Any) -> str:
    parts = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    origins = [typing.get_origin(part) or part for part in parts if part is not types.NoneType]
    if os.PathLike in origins:
        return "a path"
    return " or ".join(_WORDS.get(one, str(one)) for one in origins)


def check_call(
    name: str, signature: inspect.Signature, given: Sequence[Any], options: Mapping[str, Any]
) -> None:
    """Raise UsageError for arguments that do not fit the signature of ``name``.

    >>> check_call("f", inspect.signature(lambda *, rows=1: rows), (), {"row": 2})
    Traceback (most recent call last):
    ...
    steelyard._base.errors.UsageError: f() has no option 'row'
    """
    positional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)
    known = [key for key, one in signature.parameters.items() if one.kind not in positional]
    for key in options:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            listed = ", ".join(known[:_LISTED]) + (", ..." if len(known) > _LISTED else "")
            hint = f"did you mean {near[0]}?" if near else f"its options: {listed or 'none'}"
            raise UsageError(f"{name}() has no option {key!r}", hint=hint)
    try:
        bound = signature.bind_partial(*given, **options)
    except TypeError as error:
        raise UsageError(f"{name}(): {error}", hint=f"{name}{signature}"[:400]) from None
    missing = [
        key
        for key, one in signature.parameters.items()
        if one.default is one.empty
        and one.kind is not inspect.Parameter.VAR_POSITIONAL
        and key not in bound.arguments
    ]
    if missing:
        raise UsageError(f"{name}() needs {' and '.join(missing)}", hint=f"help({name}) says what they are")
