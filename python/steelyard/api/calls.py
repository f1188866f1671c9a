"""Calls that do not fit a function: one error that names the function and the nearest option.

In: a function, or its name and signature. Out: the function, which raises UsageError where Python would raise
TypeError. Not here: values that do not fit (``requests``).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from steelyard._base import UsageError

F = TypeVar("F", bound=Callable[..., Any])
_LISTED = 12


def checked(function: F) -> F:
    """Make a function raise UsageError for options that it has not, and for arguments that are missing."""

    @functools.wraps(function)
    def called(*given: Any, **options: Any) -> Any:
        check_call(function.__name__, inspect.signature(called), given, options)
        return function(*given, **options)

    return called  # type: ignore[return-value]


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
