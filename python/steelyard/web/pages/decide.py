"""Decisions on tables of machines and results: which machine, how fast another, how many of which.

The same as ``steelyard choose``, ``project`` and ``size``, with their options as a form and prices and
weights as sliders. Tables are those that the server was started with, and the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from steelyard._base import SteelyardError, UsageError, command_text
from steelyard._base.request import Field as RequestField
from steelyard._base.request import flags_of, in_names, options
from steelyard.catalog.fields import Field, field_of, filled, values
from steelyard.catalog.filters import RunFilter
from steelyard.catalog.roots import NotThereError
from steelyard.report.answer import Answer, Links, Section
from steelyard.web.context import Context
from steelyard.web.jobs import Watch
from steelyard.web.pages import waiting
from steelyard.web.shell import answer_page

HERE = "/decide"
RUNS = "runs"
"""The name that stands for the folder of runs."""
_TABLES = "tables"
_WEIGHT = "weight:"
_MOST_WEIGHTS = 12
_MOST_RUNS = 100
_MOST_NAMES = 2000
_LEFT = frozenset({"sources", "columns", "runs"})


@dataclass(frozen=True)
class Decision:
    """One kind of decision."""

    name: str
    request: str
    """``module:Class``."""
    answered: str
    """``module:function`` of the request and its command line."""
    about: str
    first: tuple[str, ...]
    """Fields that stand first."""
    sliders: Mapping[str, tuple[float, float, float]]
    """Ends and step of fields that are sliders."""
    weights: str = ""
    """The field of weights, each of which is a slider."""
    needs: str = ""
    """The field without which nothing is asked."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """``module:name`` of the words that a field takes, by field."""
    results: tuple[str, ...] = ()
    """Fields that name results of the table."""
    machines: tuple[str, ...] = ()
    """Fields that name machines of the table."""


_PRICES = {"years": (1.0, 10.0, 0.5), "power_price": (0.0, 0.5, 0.01), "pue": (1.0, 2.0, 0.05)}
DECISIONS = {
    one.name: one
    for one in (
        Decision(
            "choose",
            "steelyard.decide.choice.request:ChooseRequest",
            "steelyard.cli.decide.choose:answered",
            "Which machine, by performance per watt and per cost",
            ("baseline", "by", "demands"),
            _PRICES,
            weights="weights",
            choices={"by": "steelyard.decide.choice.results:Criterion"},
            results=("workloads",),
            machines=("baseline",),
        ),
        Decision(
            "project",
            "steelyard.decide.projection.request:ProjectRequest",
            "steelyard.cli.decide.project:answered",
            "How fast a workload is on machines that did not run it",
            ("target", "calibration", "method"),
            {},
            needs="target",
            choices={"method": "steelyard.decide.projection.problem:METHODS"},
            results=("target", "use", "without"),
            machines=("calibration",),
        ),
        Decision(
            "size",
            "steelyard.decide.sizing.request:SizeRequest",
            "steelyard.cli.decide.size:answered",
            "How many machines of which type serve a rate",
            ("workload", "demand", "memory"),
            _PRICES,
            needs="demand",
            choices={"latency": "steelyard.decide.sizing.making:LATENCIES"},
            results=("workload",),
        ),
    )
}


def index_page(context: Context, *, query: Mapping[str, Sequence[str]]) -> str:
    """Return the page of all decisions."""
    items = tuple((one.name, f"{HERE}/{one.name}", one.about) for one in DECISIONS.values())
    names = ", ".join(_names(context))
    said = Answer(
        "Decide",
        "What to decide",
        [Section("decisions", "Decisions", (Links(items),))],
        lines=[f"Tables: {names}. Others are given by --table when the server starts."],
        eyebrow="decide",
        source="tables and runs",
    )
    return answer_page(said, HERE)


def page(context: Context, *, name: str, query: Mapping[str, Sequence[str]]) -> str:
    """Return the page of a decision."""
    one = decision_named(name)
    form = form_of(context, one, query)
    action = f"{HERE}/{one.name}"
    if one.needs and not next(field for field in form if field.name == one.needs).value:
        about = f"Fill in {one.needs.replace('_', ' ')}, then press Decide."
        said = Answer(one.name, one.about, [], lines=[about], eyebrow="decide", source="tables")
        return answer_page(said, HERE, form=form, action=action, submit="Decide")
    try:
        found, waits = waiting.answered(
            context, key_of(one, form), one.about, HERE, lambda watch: ask(context, one, form, watch)
        )
    except SteelyardError as error:
        found, waits = (None, waiting.refused(context, error, one.name, "decide", "tables and runs")), ""
    if found is None:
        return waits
    return answer_page(found[1], HERE, form=form, action=action, submit="Decide")


def document(context: Context, *, name: str, query: Mapping[str, Sequence[str]]) -> Any:
    """Return the result of a decision."""
    one = decision_named(name)
    form = form_of(context, one, query)
    job = context.jobs.begin(key_of(one, form), one.about, HERE, lambda watch: ask(context, one, form, watch))
    return job.result(waiting.MOST_S)[0]


def decision_named(name: str) -> Decision:
    """Return the decision of an address."""
    if name not in DECISIONS:
        raise NotThereError(f"there is no decision {name[:80]!r}")
    return DECISIONS[name]


def form_of(context: Context, one: Decision, query: Mapping[str, Sequence[str]]) -> list[Field]:
    """Return the fields of a decision with what an address has."""
    given = {name: "\n".join(many) for name, many in query.items()}
    names = _names(context)
    results, machines = _table_names(context, given.get(_TABLES, names[0]))
    suggested = dict.fromkeys(one.results, results) | dict.fromkeys(one.machines, machines)
    first, *declared = declared_fields(one)
    fields = [replace(first, value=names[0], choices=tuple(names))]
    fields += [replace(field, suggested=suggested.get(field.name, ())) for field in declared]
    counted = _counted(given, results, one)
    if one.weights and 1 < len(counted) <= _MOST_WEIGHTS and one.weights not in given:
        fields = [field for field in fields if field.name != one.weights]
        fields += [
            Field(
                f"{_WEIGHT}{result}", "", "number", "1", "1", f"weight of {result}",
                least=0.0, most=1e6, slider=(0.0, 5.0, 0.1), type=float,
            )
            for result in counted
        ]  # fmt: skip
    if unknown := sorted(set(given) - {field.name for field in fields}):
        raise UsageError(f"{one.name} has no option {unknown[0][:40]!r}")
    return filled(fields, given)


def declared_fields(one: Decision) -> list[Field]:
    """Return the fields of a decision as they are declared, the table first."""
    known = [field for field in options(_named(one.request)).values() if _is_shown(field, one)]
    first = {name: at for at, name in enumerate((*one.first, *one.sliders))}
    known.sort(key=lambda field: first.get(field.name, len(first)))
    fields = [Field(_TABLES, "Table of machines and results.")]
    for declared in known:
        made = field_of(declared, slider=one.sliders.get(declared.name))
        if declared.name in one.choices:
            made = _of_choices(made, [str(word) for word in _named(one.choices[declared.name])])
        fields.append(replace(made, is_more=declared.name not in first))
    return fields


def ask(context: Context, one: Decision, form: Sequence[Field], watch: Watch) -> tuple[Any, Answer]:
    """Return what is decided, and its answer."""
    watch.check()
    kind = _named(one.request)
    given = values(form)
    path = _path(context, given.pop(_TABLES))
    weights = {name: given.pop(name) for name in list(given) if name.startswith(_WEIGHT)}
    known = options(kind)
    asked: dict[str, Any] = {name: _typed(known[name], value) for name, value in given.items()}
    changed = {name.removeprefix(_WEIGHT): f"{weight:g}" for name, weight in weights.items() if weight != 1}
    if changed and one.weights:
        asked[one.weights] = {name.removeprefix(_WEIGHT): f"{weight:g}" for name, weight in weights.items()}
    request = kind(sources=(str(path),), **asked)
    words = ["steelyard", one.name, path.name, *_words(known, asked)]
    answered: Callable[[Any, str], tuple[Any, Answer]] = _named(one.answered)
    try:
        result, said = answered(request, command_text(words))
    except SteelyardError as error:
        names = {flag: name.replace("_", " ") for flag, name in flags_of(kind).items()}
        raise in_names(error, names) from error
    return result, replace(said, source=path.name)


def key_of(one: Decision, form: Sequence[Field]) -> tuple[Any, ...]:
    """Return what is the same for the same question."""
    return (one.name, *((field.name, field.value) for field in form))


def _is_shown(field: RequestField, one: Decision) -> bool:
    is_file = field.type is Path or field.part is Path
    # A curve is a file that a browser must not name.
    return field.name not in _LEFT and not is_file and field.name != "curves"


def _names(context: Context) -> list[str]:
    names = [table.name for table in context.settings.tables]
    return [*dict.fromkeys(names), RUNS]


def _path(context: Context, name: str) -> Path:
    found = next((table for table in context.settings.tables if table.name == name), None)
    if found is not None:
        return found
    if name != RUNS:
        raise UsageError(f"there is no table {name[:80]!r}")
    return context.settings.root


def _counted(given: Mapping[str, str], results: Sequence[str], one: Decision) -> list[str]:
    """Return the results that count: those that are named, else all of the table."""
    text = next((given[name] for name in one.results if given.get(name)), "")
    named = [part for line in text.splitlines() for each in line.split(",") if (part := each.strip())]
    return [result for result in results if result in named] if named else list(results)


def _of_choices(made: Field, words: Sequence[str]) -> Field:
    """Return a field that takes one of some words, or none where none is the default."""
    if made.default:
        return replace(made, choices=tuple(words))
    return replace(made, choices=("", *words), words=("default", *words))


def _table_names(context: Context, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a table's results and machines, none of a large folder of runs."""
    from steelyard.cli.decide.sources import table_of
    from steelyard.decide.request import TableRequest

    try:
        path = _path(context, name)
        if path == context.settings.root and context.index.rows(RunFilter()).total > _MOST_RUNS:
            return (), ()
        table = table_of(TableRequest(sources=(str(path),)))
    except SteelyardError:
        # The answer says why; the form has no names.
        return (), ()
    return tuple(column.name for column in table.results), table.names[:_MOST_NAMES]


def _typed(field: RequestField, value: Any) -> Any:
    """Return a value as the request has it."""
    if field.is_mapping:
        pairs = [part.partition("=") for part in value]
        if wrong := [name for name, equals, _ in pairs if not equals]:
            raise UsageError(f"{field.name.replace('_', ' ')}: {wrong[0][:40]!r} is not NAME=VALUE")
        return {name.strip(): text.strip() for name, _, text in pairs}
    return tuple(value) if field.is_repeated else value


def _words(known: Mapping[str, RequestField], asked: Mapping[str, Any]) -> list[str]:
    """Return options as they are typed, as far as they differ from their defaults."""
    words: list[str] = []
    for name, value in asked.items():
        field = known[name]
        if value == field.default or value is False or not value:
            continue
        parts = [f"{key}={text}" for key, text in value.items()] if field.is_mapping else value
        for part in parts if field.is_repeated else [value]:
            words += [field.flag] if part is True else [field.flag, str(part)]
    return words


def _named(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)
