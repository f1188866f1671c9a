"""Queries of a fleet's store: the same as ``steelyard fleet``, with their options as a form.

A query runs as a job: what takes longer than a second shows that it waits, and can be cancelled.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from steelyard._base import SteelyardError, UsageError, command_text
from steelyard._base.request import in_names
from steelyard.catalog.fields import Field, fields_of_query, filled, values
from steelyard.catalog.roots import NotThereError
from steelyard.cli.fleet.options import opened, with_aside
from steelyard.cli.fleet.query import Query
from steelyard.cli.fleet.registry import queries
from steelyard.fleet.answer import FleetAnswer
from steelyard.report.answer import Answer, Links, Section
from steelyard.web.context import Context
from steelyard.web.jobs import Watch
from steelyard.web.pages import waiting
from steelyard.web.shell import answer_page, template_page

HERE = "/fleet"
_MOST_SHOWN = 6
"""Options that are shown; further ones are folded away."""
_DAYS = (
    Field("from", "First day (UTC).", "date"),
    Field("to", "Last day (UTC, inclusive).", "date"),
)


def index_page(context: Context, *, query: Mapping[str, Sequence[str]]) -> str:
    """Return the page of all queries."""
    if context.settings.store is None:
        content = {
            "title": "Fleet",
            "eyebrow": "fleet",
            "heading": "No store is served",
            "lines": ["Start the server with --store STORE to ask a fleet's store."],
            "job": None,
            "links": [],
        }
        return template_page("message.html.j2", HERE, content)
    items = tuple(
        (name, f"{HERE}/{quote(name.replace(' ', '/'))}", _about(one)) for name, one in queries().items()
    )
    said = Answer(
        "Fleet",
        "What to ask the fleet",
        [Section("queries", "Queries", (Links(items),))],
        eyebrow="fleet",
        source="a fleet's store",
    )
    return answer_page(said, HERE)


def page(context: Context, *, name: str, query: Mapping[str, Sequence[str]]) -> str:
    """Return the page of a query."""
    one = query_named(name)
    if context.settings.store is None:
        raise NotThereError("no store is served: start the server with --store")
    form = form_of(one, query)
    action = f"{HERE}/{quote(name)}"
    if missing := _missing(one, form):
        about = f"Fill in {' and '.join(missing)}, then press Ask."
        said = Answer(one.name, _about(one), [], lines=[about], eyebrow="fleet")
        return answer_page(said, HERE, form=form, action=action, submit="Ask")
    try:
        found, waits = waiting.answered(
            context, _key(one, form), f"fleet {one.name}", HERE, lambda watch: ask(context, one, form, watch)
        )
    except SteelyardError as error:
        said = waiting.refused(context, error, one.name, "fleet", "a fleet's store")
        found, waits = (said, None), ""
    if found is None:
        return waits
    return answer_page(found[0], HERE, form=form, action=action, submit="Ask")


def document(context: Context, *, name: str, query: Mapping[str, Sequence[str]]) -> Any:
    """Return the result of a query, once it is there."""
    one = query_named(name)
    if context.settings.store is None:
        raise NotThereError("no store is served: start the server with --store")
    form = form_of(one, query)
    if missing := _missing(one, form):
        raise UsageError(f"{one.name} needs {' and '.join(missing)}")
    job = context.jobs.begin(
        _key(one, form), f"fleet {one.name}", HERE, lambda watch: ask(context, one, form, watch)
    )
    return job.result(waiting.MOST_S)[1]


def query_named(name: str) -> Query:
    """Return the query of an address."""
    found = queries().get(name.replace("/", " "))
    if found is None:
        raise NotThereError(f"there is no query {name[:80]!r}")
    return found


def form_of(one: Query, query: Mapping[str, Sequence[str]]) -> list[Field]:
    """Return the fields of a query with what an address has. Raises UsageError for what it has not."""
    fields = fields_of_query(one.options)
    many = len(fields) > _MOST_SHOWN
    fields = [
        replace(field, is_more=many and not _is_required(one, field) and at >= _MOST_SHOWN)
        for at, field in enumerate(fields)
    ]
    fields += _DAYS
    # A flag that may be repeated may be so in an address.
    given = {name: "\n".join(many) for name, many in query.items()}
    if unknown := sorted(set(given) - {field.name for field in fields}):
        raise UsageError(f"fleet {one.name} has no option {unknown[0][:40]!r}")
    return filled(fields, given)


def ask(context: Context, one: Query, form: Sequence[Field], watch: Watch) -> tuple[Answer, FleetAnswer[Any]]:
    """Return the answer of a query and its result."""
    given = values(form)
    first, last = given.pop("from", None), given.pop("to", None)
    store = context.settings.store
    assert store is not None
    words = one.words(given, [*_period(first, last), "--store", context.settings.store_name])
    with opened(store, first=first, last=last) as source:
        watch.stop = source.engine.interrupt
        watch.check()
        try:
            said = one.ask(source, **given)
        except SteelyardError as error:
            names = {flag: name.replace("_", " ") for flag, name in one.flags.items()}
            raise in_names(error, names) from error
        problems, url, engine = source.problems, source.url, source.engine.name
    said = replace(with_aside(said, problems), command=command_text(words))
    return said, FleetAnswer(url, engine, said.result, problems, None)


def _period(first: str | None, last: str | None) -> list[str]:
    return [word for flag, day in (("--from", first), ("--to", last)) if day for word in (flag, day)]


def _key(one: Query, form: Sequence[Field]) -> tuple[Any, ...]:
    return (one.name, *((field.name, field.value) for field in form))


def _missing(one: Query, form: Sequence[Field]) -> list[str]:
    """Return the fields that a query needs and an address lacks."""
    return [field.title for field in form if _is_required(one, field) and not field.value]


def _is_required(one: Query, field: Field) -> bool:
    return any(
        parameter.name == field.name and parameter.default is inspect.Parameter.empty
        for parameter in one.options
    )


def _about(one: Query) -> str:
    return " ".join((inspect.getdoc(one.ask) or "").split("\n\n")[0].split())
