"""``open_store``: a fleet's store, and every query of it as a method.

In: where the store is. Out: a `FleetStore`, whose methods are the queries of ``steelyard fleet``: their names
with underscores, their options as keywords. Not here: the queries (``cli.fleet``).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from steelyard._base import SteelyardError, UsageError, command_text
from steelyard.api.calls import brief, check_call, checked, in_python
from steelyard.api.queries import values_of
from steelyard.api.result import Result
from steelyard.cli.fleet.query import split

if TYPE_CHECKING:
    from steelyard.cli.fleet.query import Query
    from steelyard.fleet.answer import FleetAnswer
    from steelyard.fleet.store.store import Store


class FleetStore:
    """A store that is open. A context manager: closing it frees the engine."""

    def __init__(self, store: Store, words: tuple[str, ...] = ()) -> None:
        self._store = store
        self._words = words

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the engine."""
        self._store.close()

    def __repr__(self) -> str:
        """Return where it is, and the engine."""
        return f"<{type(self).__name__} {self.url}, {self._store.engine.name}>"

    @property
    def url(self) -> str:
        """Where it is."""
        return self._store.url

    @property
    def queries(self) -> dict[str, str]:
        """What can be asked: names, and what each shows."""
        return {_attribute(name): _about(query) for name, query in _queries().items()}

    def ask(self, name: str, **options: Any) -> Result[FleetAnswer[Any]]:
        """Return the answer of a query, as ``ask("cpi specs")``.

        Raises UsageError for a query that is not there, and for an option that it has not, that is missing,
        or that does not fit.
        """
        from steelyard.fleet.answer import FleetAnswer

        query = _queries().get(name) if isinstance(name, str) else None
        if query is None:
            near = get_close_matches(str(name), _queries(), n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_queries())}"
            raise UsageError(f"no query {brief(name)} of a fleet's store", hint=hint)
        check_call(_attribute(name), _signature(query), (), options)
        given = values_of(query, options)
        try:
            answer = query.ask(self._store, **given)
        except SteelyardError as error:
            raise in_python(error, query.flags) from error
        words = ["--store", self.url, *self._words]
        found = FleetAnswer(self.url, self._store.engine.name, answer.result, self._store.problems)
        return Result(found, replace(answer, command=command_text(query.words(given, words))))

    def __getattr__(self, name: str) -> Callable[..., Result[FleetAnswer[Any]]]:
        """Return the query of that name."""
        query = next((one for one in _queries() if _attribute(one) == name), None)
        if name.startswith("_") or query is None:
            raise AttributeError(f"{type(self).__name__!r} has no query {name!r}: see .queries")

        def ask(**options: Any) -> Result[FleetAnswer[Any]]:
            return self.ask(query, **options)

        ask.__name__ = ask.__qualname__ = name
        ask.__signature__ = _signature(_queries()[query])  # type: ignore[attr-defined]
        ask.__doc__ = _help(_queries()[query])
        return ask

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *map(_attribute, _queries())]


@checked
def open_store(
    url: str | os.PathLike[str], engine: str = "duckdb", *, first: str | None = None, last: str | None = None
) -> FleetStore:
    """Open the store of a fleet: a folder or ``s3://bucket/prefix``; for the days ``first`` to ``last`` only.

    Raises EnvironmentLacksError where there is no store, RecordError for one of another major version,
    UsageError for what is no engine or day.
    """
    from steelyard.cli.fleet.options import DUCKDB, opened

    typed = (("--engine", None if engine == DUCKDB else engine), ("--from", first), ("--to", last))
    words = tuple(word for flag, value in typed if value is not None for word in (flag, value))
    try:
        return FleetStore(opened(os.fspath(url), engine, first, last), words)
    except SteelyardError as error:
        raise in_python(error, {"--engine": "engine", "--from": "first", "--to": "last"}) from error


def _queries() -> dict[str, Query]:
    from steelyard.cli.fleet.registry import queries

    return queries()


def _attribute(name: str) -> str:
    return name.replace(" ", "_").replace("-", "_")


def _signature(query: Query) -> inspect.Signature:
    """Return what a query takes: its options, as keywords, with their types but without flags and help."""
    parameters = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=split(one.annotation)[0])
        for one in query.options
    ]
    return inspect.Signature(parameters, return_annotation="Result[FleetAnswer[Any]]")


def _help(query: Query) -> str:
    """Return what a query shows, and a line for each of its options."""
    lines = []
    for one in query.options:
        helps = (getattr(note, "help", None) for note in split(one.annotation)[1])
        text = next((str(found) for found in helps if found), "")
        lines.append(f"    {one.name}: {' '.join(text.split())}".rstrip(": "))
    about = inspect.getdoc(query.ask) or ""
    return "\n".join([about, "", "Options:", *lines]) if lines else about


def _about(query: Query) -> str:
    return " ".join((query.ask.__doc__ or "").split("\n\n")[0].split())
