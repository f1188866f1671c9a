"""Requests: flags, keys of files, what a record keeps and what `--resume` takes are one declaration."""

import json
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import pytest

from steelyard._base import UsageError
from steelyard._base.request import Field, Option, asked_document, from_document, options, resumed, words
from steelyard.bench.request import CharacterizeRequest, PairRequest, RunRequest
from steelyard.cli import main
from steelyard.cli.requests import _typed
from steelyard.experiment.request.fields import CurveRequest, ExperimentRequest, ScenarioRequest
from steelyard.tune.request import SweepRequest, TuneRequest

COMMANDS = {
    "run": RunRequest,
    "characterize": CharacterizeRequest,
    "colocate": PairRequest,
    "experiment": ExperimentRequest,
    "scale": CurveRequest,
    "numa experiment": ScenarioRequest,
    "tune run": TuneRequest,
    "tune sweep": SweepRequest,
}
GO_ON = ["steelyard", "experiment", "--resume", "DIR"]


def other_than_default(each: Field) -> Any:
    """Return a value that differs from the default of a field."""
    if each.is_mapping:
        return {"memory": "1GiB", "text": "a=b c"}
    if each.is_repeated:
        return tuple(each.part(value) for value in ("7", "8"))
    if each.type is bool:
        return not each.default
    return {str: "some text", int: 7, float: 0.5, Path: Path("some/file")}[each.type]


def full(request: type) -> Any:
    return request(**{name: other_than_default(each) for name, each in options(request).items()})


def parser_of(name: str) -> Any:
    command = main.parser_of()
    for word in name.split():
        command = command.commands[word]  # type: ignore[attr-defined]
    return command


@pytest.mark.parametrize("name", COMMANDS)
def test_a_record_gives_the_request_back(name: str) -> None:
    asked = full(COMMANDS[name])
    kept = json.loads(json.dumps(asked_document(asked)))
    assert set(kept) == set(options(COMMANDS[name]))
    assert from_document(COMMANDS[name], kept) == asked


@pytest.mark.parametrize("name", COMMANDS)
def test_its_words_are_read_as_the_same_request(name: str) -> None:
    asked = full(COMMANDS[name])
    known = options(COMMANDS[name])
    context = parser_of(name).make_context(name, words(asked))
    read = {field_: _typed(known[field_], context.params[field_]) for field_ in known}
    assert COMMANDS[name](**read) == asked


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_flags_of_its_request_and_those_of_answers(name: str) -> None:
    flags = {
        flag
        for parameter in parser_of(name).params
        if parameter.param_type_name == "option"
        for flag in parameter.opts
    }
    own = {each.flag for each in options(COMMANDS[name]).values() if not each.option.is_argument}
    assert flags - own <= {"--report", "--json", "--format"}
    assert own <= flags


def test_only_what_is_no_default_is_kept() -> None:
    assert asked_document(ExperimentRequest()) == {}
    assert asked_document(ExperimentRequest(blocks=40, guards=[], seed=3)) == {"seed": 3}


def test_what_goes_on_is_as_it_began_but_for_what_may_be_asked_anew() -> None:
    begun = asked_document(CurveRequest(words=("tao",), blocks=3, chosen={"memory": "1GiB"}))
    asked = CurveRequest(resume=Path("DIR"), predict=(8,), blocks=3)
    going = resumed(begun, asked, {"resume", "predict", "blocks"}, words=GO_ON)
    assert going == replace(asked, words=("tao",), chosen={"memory": "1GiB"})
    # What is not typed stays as it began, also what could be asked anew.
    quiet = asked_document(CurveRequest(words=("tao",), profile=False))
    assert not resumed(quiet, CurveRequest(), set(), words=GO_ON).profile
    assert resumed(quiet, CurveRequest(), {"profile"}, words=GO_ON).profile
    for name, other in (("blocks", 4), ("metric", "elapsed_s"), ("words", ("feed",))):
        with pytest.raises(UsageError, match="--resume goes on as it began: it takes no"):
            resumed(begun, replace(asked, **{name: other}), {"resume", name}, words=GO_ON)
    with pytest.raises(UsageError, match="it takes no --blocks"):
        resumed(None, asked, {"blocks"}, words=GO_ON)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A request of the test."""

    count: Annotated[int, Option("How many.", least=1, most=9)] = 5
    ratio: Annotated[float | None, Option("How much.")] = None
    texts: Annotated[list[str], Option("Texts.")] = field(default_factory=list)
    internal: int = 1


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"count": 0}, "count: 0 is outside 1..9"),
        ({"count": True}, "count: True is no count"),
        ({"count": "5"}, "count: '5' is no count"),
        ({"ratio": "much"}, "ratio: 'much' is no number"),
        ({"texts": "one"}, "texts: not a list"),
        ({"internal": 2}, "internal: nothing that can be asked"),
        ({"texts": [[]]}, r"texts: \[\] is no text or number"),
    ],
)
def test_a_value_that_no_request_has_is_refused_by_its_name(document: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        from_document(Sample, document)


def test_a_field_without_an_option_is_never_typed() -> None:
    assert set(options(Sample)) == {"count", "ratio", "texts"}


def test_shares_are_typed_with_and_without_a_percent_sign() -> None:
    def answer(confidence: str, error: str = "0.1") -> str:
        flags = ["--target", "a", "--confidence", confidence, "--wanted-error", error]
        done = subprocess.run(["steelyard", "project", "no-such.csv", *flags], capture_output=True, text=True)
        assert done.returncode == 2
        return done.stderr

    for texts in (("0.9", "0.1"), ("90%", "10%"), ("90 %", "5e-3")):
        assert "no-such.csv" in answer(*texts)
    for text, said in (("101%", "0.5<=x<=0.99"), ("%", "is no share"), ("nan", "0.5<=x<=0.99")):
        assert said in answer(text)
