"""What a fleet query is: a function from an open store to an answer, and all that is declared beside it.

In: the function, decorated with `query`. Out: a `Query`. From it follow, without another line anywhere: the
command ``steelyard fleet NAME`` with its flags and help (``group``), its page and terminal text, its place in
the list that is run on every engine (``registry``), its JSON Schema (``schemas``) and its lines in the
reference. ``docs/guides/extend.md`` walks through one.

Invariants: a module that declares queries imports nothing heavy before a query runs; what is named as
``"module:attribute"`` is imported when it is needed.

Not here: the options that every query has (``options``), which queries there are (``registry``).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from steelyard.fleet.store.store import Store
    from steelyard.report.answer import Answer

Expressions = Mapping[str, "Callable[[Store], Any]"]
"""Ibis expressions over a store, by name."""


@dataclass(frozen=True)
class Writes:
    """Stands beside the type of an option that writes: pages and agents only read, and lack it."""


@dataclass(frozen=True)
class Query:
    """One query of a fleet's store."""

    name: str
    """As it is typed: one word, or two where the first is a group such as ``cpi``."""
    ask: Callable[..., Answer]
    """Takes the store and the options."""
    result: str
    """The class of what ``--json`` prints, as ``module:Class``."""
    expressions: Expressions | str
    """What it asks the engine, with its default settings; or where that is, as ``module:attribute``."""
    examples: Sequence[str]
    """Options and arguments of two or three calls, as typed after the name and ``--store``."""
    group: str = ""
    """Help of the group, in the first query of one."""

    @property
    def options(self) -> list[inspect.Parameter]:
        """Return the parameters of `ask` but the store: each an option or an argument, declared by typer.

        Raises TypeError for one without a type.
        """
        parameters = list(inspect.signature(self.ask).parameters.values())[1:]
        for parameter in parameters:
            if parameter.annotation is parameter.empty:
                raise TypeError(f"parameter {parameter.name} of {self.name} has no type")
        # The types of the store and of the answer are too heavy to be there before the query runs.
        own = SimpleNamespace(
            __annotations__={
                parameter.name: self.ask.__annotations__[parameter.name] for parameter in parameters
            }
        )
        hints = get_type_hints(own, vars(import_module(self.ask.__module__)), include_extras=True)
        return [parameter.replace(annotation=hints[parameter.name]) for parameter in parameters]

    @property
    def flags(self) -> Mapping[str, str]:
        """Return the names of the options by their flags."""
        return {_flag(one): one.name for one in self.options}

    def words(self, given: Mapping[str, Any], of_store: Sequence[str]) -> list[str]:
        """Return the command that asks the same of the store that ``of_store`` names."""
        first: list[str] = []
        flags: list[str] = []
        for one in self.options:
            value = given.get(one.name, one.default)
            if value is None or value == one.default or value == []:
                continue
            flag = _flag(one)
            if one.default is inspect.Parameter.empty:
                first += [str(value)] if _is_argument(one) else [flag, str(value)]
            elif isinstance(value, bool):
                flags.append(flag if value else flag.replace("--", "--no-", 1))
            else:
                for part in value if isinstance(value, list) else [value]:
                    flags += [flag, str(part)]
        return ["steelyard", "fleet", *self.name.split(), *first, *of_store, *flags]

    @property
    def all_expressions(self) -> Expressions:
        """Return the expressions, imported where they are named."""
        expressions: Expressions = (
            named(self.expressions) if isinstance(self.expressions, str) else self.expressions
        )
        return expressions


def split(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type, and what is said of it."""
    if get_origin(annotation) is not Annotated:
        return annotation, ()
    kind, *notes = get_args(annotation)
    return kind, tuple(notes)


def _flag(option: inspect.Parameter) -> str:
    for note in split(option.annotation)[1]:
        # Beside ``Annotated``, typer takes the first text for a default.
        texts = (getattr(note, "default", None), *(getattr(note, "param_decls", None) or ()))
        if found := next((text for text in texts if str(text).startswith("--")), None):
            return str(found)
    return f"--{option.name.replace('_', '-')}"


def _is_argument(option: inspect.Parameter) -> bool:
    return any(type(note).__name__ == "ArgumentInfo" for note in split(option.annotation)[1])


def query(
    name: str,
    *,
    result: str,
    expressions: Expressions | str,
    examples: Sequence[str],
    group: str = "",
    reads: str = "task_samples",
) -> Callable[[Callable[..., Answer]], Query]:
    """Make a function the query ``name``: its docstring is the help, its parameters after the store the
    options. One that names an option which every query has, such as ``report``, is given its value.
    ``reads`` is the table without which it has no answer.
    """

    def made(ask: Callable[..., Answer]) -> Query:
        @functools.wraps(ask)
        def checked(store: Store, **options: Any) -> Answer:
            store.check_days(reads)
            return ask(store, **options)

        return Query(name, checked, result, expressions, examples, group)

    return made


def over(function: str, *tables: str, **options: Any) -> Callable[[Store], Any]:
    """Return the expression that ``module:function`` makes of tables of the store."""
    return lambda store: named(function)(*(store.table(name) for name in tables), **options)


def named(target: str) -> Any:
    """Return what ``module:attribute`` names.

    >>> named("math:pi")
    3.141592653589793
    """
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)
