"""Inputs of fleet queries are what their commands declare."""

import inspect
import typing
from typing import Any

import pytest

from steelyard._base import UsageError
from steelyard.catalog.fields import fields_of_query, values, words_of
from steelyard.cli.fleet.registry import queries
from steelyard.cli.main import parser_of


def options_of(name: str) -> dict[str, inspect.Parameter]:
    return {one.name: one for one in queries()[name].options}


@pytest.mark.parametrize(
    ("query", "option", "choices"),
    [
        ("top", "by", ("function", "binary", "job", "platform", "cluster", "category")),
        ("place", "capacity", ("used", "machines")),
        ("rue", "replicate", ("machine", "machine-day", "task", "task-day")),
        ("cpi outliers", "specs", ("", "stored", "computed")),
    ],
)
def test_an_option_of_few_words_is_a_choice(query: str, option: str, choices: tuple[str, ...]) -> None:
    field = next(one for one in fields_of_query(queries()[query].options) if one.name == option)
    assert field.choices == choices
    assert field.value in choices
    assert len(field.options) == len(choices)
    with pytest.raises(UsageError) as refused:
        values([field.given("fastest")])
    assert refused.value.message.endswith(f"is none of {', '.join(filter(None, choices))}")


def test_every_default_is_one_of_the_words() -> None:
    for query in queries().values():
        for parameter in query.options:
            _, *notes = typing.get_args(parameter.annotation) or (parameter.annotation,)
            for words in filter(None, map(words_of, notes)):
                assert parameter.default in (None, *words), (query.name, parameter.name)


def test_other_placeholders_are_no_words() -> None:
    class Declared:
        def __init__(self, metavar: str | None) -> None:
            self.metavar = metavar

    for metavar in (None, "", "NAME", "FILE|last", "A=99,B=1", "[PLATFORM=]RATIO", "one"):
        assert words_of(Declared(metavar)) == ()
    assert words_of(Declared("used|machines")) == ("used", "machines")


@pytest.mark.parametrize(
    ("query", "given", "words"),
    [
        ("place", {"jobs": ["a", "b"]}, ["fleet", "place", "--store", "s", "--job", "a", "--job", "b"]),
        ("diff", {"a": "job=a", "b": "job=b"}, ["fleet", "diff", "job=a", "job=b", "--store", "s"]),
        ("rue", {"label": "config"}, ["fleet", "rue", "--label", "config", "--store", "s"]),
        ("top", {"rows": 7, "by": "job"}, ["fleet", "top", "--store", "s", "--by", "job", "--rows", "7"]),
    ],
)
def test_a_query_is_asked_again_by_its_command(query: str, given: dict[str, Any], words: list[str]) -> None:
    asked = queries()[query].words(given, ["--store", "s"])
    assert asked[1:] == words
    # The parser takes it.
    parser_of("fleet").make_context("steelyard", asked[1:])
