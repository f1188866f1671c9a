"""Keyword arguments as the requests that commands are made of, and the signatures that follow from them.

In: a request's class (``_base.request``). Out: requests, signatures and the list of options for docstrings:
what a request declares is declared once.
"""

from __future__ import annotations

import functools
import inspect
import keyword
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import MISSING
from typing import Any, TypeVar

from steelyard._base import SteelyardError, UsageError
from steelyard._base.request import Field, options, read_value
from steelyard.api.calls import brief, check_call, in_python

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def request_of(kind: type[T], given: Mapping[str, Any], *, without: Collection[str] = ()) -> T:
    """Return a request with the options ``given``, each as its field has it.

    Raises UsageError for an option that the request has not, and for a value that does not fit.
    """
    known = {name: field for name, field in options(kind).items() if name not in without}
    for name in given:
        if name not in known:
            raise UsageError(f"no option {name!r}", hint=f"there are {', '.join(known)}")
    return kind(
        **{
            name: read_value(known[name], name, _plain(known[name], name, value))
            for name, value in given.items()
            if value is not None
        }
    )


def with_options(kind: Callable[[], type], *, without: Collection[str] = ()) -> Callable[[F], F]:
    """Give a function of ``**options`` the parameters of a request, in its signature and docstring.

    An option may be given by the name of its flag, too, where the field has another. A call that does not fit
    is a UsageError.
    """

    def decorated(function: F) -> F:
        own = inspect.signature(function)
        first = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        taken = {one.name for one in first}
        known = {
            name: field
            for name, field in options(kind()).items()
            if name not in without and name not in taken
        }
        flags = {word: name for name, field in known.items() if (word := _word(field)) not in known}
        words = {name: word for word, name in flags.items()}
        by_flag = {field.flag: _word(field) for field in known.values()}

        @functools.wraps(function)
        def called(*given: Any, **asked: Any) -> Any:
            options_of = _by_field(function.__name__, asked, flags)
            check_call(function.__name__, signature, given, options_of)
            try:
                return function(*given, **options_of)
            except SteelyardError as error:
                raise in_python(error, by_flag) from error

        signature = own.replace(parameters=[*first, *(_parameter(field) for field in known.values())])
        called.__signature__ = signature  # type: ignore[attr-defined]
        shown = {name: f"{name} (or {words[name]})" if name in words else name for name in known}
        lines = "\n".join(f"        {shown[name]}: {field.option.help}" for name, field in known.items())
        called.__doc__ = f"{inspect.getdoc(function)}\n\nOptions:\n{inspect.cleandoc(lines)}\n"
        return called  # type: ignore[return-value]

    return decorated


def _word(field: Field) -> str:
    """Return the name of its flag, as Python writes it: ``order_by`` for ``--order-by``."""
    word = field.flag.removeprefix("--").replace("-", "_")
    return f"{word}_" if keyword.iskeyword(word) else word


def _by_field(function: str, asked: Mapping[str, Any], flags: Mapping[str, str]) -> dict[str, Any]:
    """Return options by the names of fields. Raises UsageError for one that was given by both names."""
    found: dict[str, Any] = {}
    for given, value in asked.items():
        name = flags.get(given, given)
        if name in found:
            raise UsageError(f"{function}() was given {name} twice", hint=f"{given} is another name of it")
        found[name] = value
    return found


def _parameter(field: Field) -> inspect.Parameter:
    default = None if field.default is MISSING else field.default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type
    )


def _plain(field: Field, name: str, value: Any) -> Any:
    """Return a value of Python as a document would have it. Raises UsageError for one that none has."""
    if field.is_mapping:
        return dict(value) if isinstance(value, Mapping) else value
    if field.is_repeated:
        if isinstance(value, str | os.PathLike | int | float):
            value = [value]
        elif not isinstance(value, Sequence | Set | Iterator):
            raise UsageError(f"{name}: not a list but {brief(value)}")
        return [_text(name, part) for part in value]
    if field.option.has_commas and isinstance(value, list | tuple):
        return [_text(name, part) for part in value]
    return _text(name, value)


def _text(name: str, value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if not isinstance(value, str | int | float):
        raise UsageError(f"{name}: {brief(value)} is no text or number")
    return value
