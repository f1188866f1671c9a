"""Keyword arguments as the requests that commands are made of, and the signatures that follow from them.

In: a request's class (``_base.request``). Out: requests, signatures and the list of options for docstrings:
what a request declares is declared once.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING
from typing import Any, TypeVar

from steelyard._base.request import Field, options, read_value

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def request_of(kind: type[T], given: Mapping[str, Any], *, without: Collection[str] = ()) -> T:
    """Return a request with the options ``given``, each as its field has it.

    Raises TypeError for an option that the request has not, UsageError for a value that does not fit.
    """
    known = {name: field for name, field in options(kind).items() if name not in without}
    for name in given:
        if name not in known:
            raise TypeError(f"no option {name!r}: there are {', '.join(known)}")
    return kind(
        **{
            name: read_value(known[name], name, _plain(known[name], value))
            for name, value in given.items()
            if value is not None
        }
    )


def with_options(kind: Callable[[], type], *, without: Collection[str] = ()) -> Callable[[F], F]:
    """Give a function of ``**options`` the parameters of a request, in its signature and docstring."""

    def decorated(function: F) -> F:
        own = inspect.signature(function)
        first = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        taken = {one.name for one in first}
        known = {
            name: field
            for name, field in options(kind()).items()
            if name not in without and name not in taken
        }
        function.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*first, *(_parameter(field) for field in known.values())]
        )
        lines = "\n".join(f"        {name}: {field.option.help}" for name, field in known.items())
        function.__doc__ = f"{inspect.getdoc(function)}\n\nOptions:\n{inspect.cleandoc(lines)}\n"
        return function

    return decorated


def _parameter(field: Field) -> inspect.Parameter:
    default = None if field.default is MISSING else field.default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type
    )


def _plain(field: Field, value: Any) -> Any:
    """Return a value of Python as a document would have it."""
    if field.is_mapping:
        return dict(value) if isinstance(value, Mapping) else value
    if field.is_repeated:
        one = isinstance(value, str | os.PathLike | int | float)
        return [_text(part) for part in ([value] if one else value)]
    return _text(value)


def _text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value
