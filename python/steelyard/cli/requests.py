"""The command of a request: its flags from the fields, then those of every command that shows an answer.

In: a request (``_base.request``) and the name of what carries it out, imported when it is called. Out: a
function for the parser. What carries it out gets the request, the names of the fields that were typed, and
``report`` and ``as_json``, and returns the exit code.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import MISSING
from importlib import import_module
from typing import Annotated, Any

import typer

from steelyard._base.request import Field, Option, number_in, options
from steelyard.cli.options import Json, Report

CONTEXT = "context"


def command(
    request: type, carry_out: str, about: str, *, report: Any = Report, has_json: bool = True
) -> Callable[..., int]:
    """Return the command; ``carry_out`` is ``module:function``, ``about`` its help.

    ``report`` declares the flag of the page, None where there is none; ``has_json`` is whether there is a
    ``--json``.
    """
    known = options(request)
    common: dict[str, Any] = {
        **({} if report is None else {"report": report}),
        **({"as_json": Json} if has_json else {}),
    }
    defaults: dict[str, Any] = {"report": None, "as_json": False}

    def run(**values: Any) -> int:
        context = values.pop(CONTEXT)
        given = frozenset(name for name in known if _is_typed(context, name))
        asked = request(**{name: _typed(field, values[name]) for name, field in known.items()})
        module, _, function = carry_out.partition(":")
        act = getattr(import_module(module), function)
        code: int = act(asked, given, **{name: values[name] for name in common})
        return code

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(CONTEXT, keyword, annotation=typer.Context)]
    for name, field in known.items():
        parameters.append(inspect.Parameter(name, keyword, **_declared(field)))
    for name, annotation in common.items():
        parameters.append(inspect.Parameter(name, keyword, default=defaults[name], annotation=annotation))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = about
    return run


def _is_typed(context: Any, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _declared(field: Field) -> dict[str, Any]:
    """Return annotation and default, as the parser takes them."""
    option = field.option
    said: dict[str, Any] = {"help": option.help, "metavar": option.metavar}
    said |= {} if option.least is None else {"min": option.least}
    said |= {} if option.most is None else {"max": option.most}
    kind = field.type
    if option.is_share:
        ends = " to ".join(f"{end * 100:g}%" for end in (option.least, option.most) if end is not None)
        text = f"{option.help} [{ends}]"
        said = {"help": text, "metavar": option.metavar or "SHARE", "parser": _share(option)}
    if field.is_repeated:
        # NAME=VALUE is read when all are there, so that errors name the flag.
        kind = list[field.part]  # type: ignore[name-defined]
    default = None if field.is_repeated else field.default
    if default is MISSING:
        default = inspect.Parameter.empty
    if option.is_argument:
        declared: Any = typer.Argument(**said)
    else:
        both = f"{field.flag}/{field.flag.replace('--', '--no-', 1)}" if option.has_no else field.flag
        declared = typer.Option(both, **said)
    return {"annotation": Annotated[kind | None if default is None else kind, declared], "default": default}


def _share(option: Option) -> Callable[[Any], float]:
    """Return what reads a number that may be typed with a percent sign, within its range."""
    low, high = (
        math.inf * sign if end is None else end for sign, end in ((-1, option.least), (1, option.most))
    )

    def share(text: Any) -> float:
        try:
            value = number_in(str(text))
        except ValueError as error:
            raise typer.BadParameter(f"{str(text)!r} is no share, such as 0.05 or 5%.") from error
        if not low <= value <= high:
            raise typer.BadParameter(f"{text} is not in the range {low:g}<=x<={high:g}.")
        return value

    return share


def _typed(field: Field, value: Any) -> Any:
    if not field.is_repeated:
        return value
    if not field.is_mapping:
        return tuple(value or ())
    from steelyard.bench.parameters import parse_assignments

    return parse_assignments(value or [], flag=field.flag)
