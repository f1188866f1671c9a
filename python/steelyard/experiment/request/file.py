"""An experiment in a TOML file: several factors, listed arms, and all that flags say.

In: a file. Out: an `ExperimentRequest`, as if it had been typed. Raises UsageError that names the key. Not
here: whether arms and metrics fit the benchmark (``record``).

    benchmark = "tao"                       # or: command = ["gzip", "-{level}", "-k", "-f", "words"]
    metric = "requests_per_s"
    guards = ["response_p99_ns=5%"]

    [factors]                               # every combination is an arm; the first of each is the base
    memory = ["64MiB", "256MiB"]
    connections = [16, 64]

In place of ``[factors]`` each arm may be listed, ``[arms.NAME]``, with its settings, or with a ``command``.
"""

import itertools
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from steelyard._base import RecordError, UsageError
from steelyard._base.request import options, read_text, read_value
from steelyard._base.toml import read_toml
from steelyard.bench import declaration
from steelyard.bench.parameters import nearest
from steelyard.experiment.request.fields import ExperimentRequest, Variant

_MOST_ARMS = 64


_WHOLE = ("benchmark", "command", "factors", "arms")


def read_file(path: Path, request: ExperimentRequest) -> ExperimentRequest:
    """Return what ``path`` asks for; ``request`` holds where runs go, and whether only to plan."""
    bare = ExperimentRequest(words=request.words, out=request.out, plan=request.plan, pilot=request.pilot)
    if request != bare:
        raise UsageError(
            f"{path} says what is tried: only --out, --plan, --pilot, --report and --json go with it"
        )
    try:
        document = read_toml(path)
    except RecordError as error:
        raise UsageError(error.message) from error
    keys = {field.key: field for field in options(ExperimentRequest).values() if field.key is not None}
    for name in document:
        if name not in keys and name not in _WHOLE:
            raise UsageError(f"{path}: unknown key {name!r}{nearest(name, (*keys, *_WHOLE))}")
    fields = {
        field.name: read_value(field, f"{path}: {key}", document[key])
        for key, field in keys.items()
        if key in document
    }
    variants = _variants(path, document)
    return replace(request, words=tuple(_words(path, document)), variants=variants, **fields)


def _words(path: Path, document: Mapping[str, Any]) -> list[str]:
    given = [name for name in ("benchmark", "command") if name in document]
    commands = [
        one for one in document.get("arms", {}).values() if isinstance(one, dict) and "command" in one
    ]
    if len(given) + bool(commands) != 1:
        raise UsageError(f"{path}: needs a benchmark, a command, or a command in each arm, and one of these")
    if commands:
        return []
    if given == ["benchmark"]:
        name = read_text(f"{path}: benchmark", document["benchmark"])
        if name not in declaration.names():
            raise UsageError(f"{path}: {name} is no benchmark{nearest(name, declaration.names())}")
        return [name]
    return _command(f"{path}: command", document["command"])


def _variants(path: Path, document: Mapping[str, Any]) -> tuple[Variant, ...]:
    if ("factors" in document) == ("arms" in document):
        raise UsageError(f"{path}: needs either [factors] or [arms.NAME]")
    if "arms" in document:
        arms = _table(f"{path}: arms", document["arms"])
        return tuple(_listed(f"{path}: arms.{name}", name, arm) for name, arm in arms.items())
    factors = {
        name: [
            read_text(f"{path}: factors.{name}", level) for level in _list(f"{path}: factors.{name}", levels)
        ]
        for name, levels in _table(f"{path}: factors", document["factors"]).items()
    }
    if not factors:
        raise UsageError(f"{path}: factors is empty")
    for name, levels in factors.items():
        if len(levels) < 2 or len(set(levels)) < len(levels):
            raise UsageError(f"{path}: factors.{name}: not two or more different values")
    combinations = [dict(zip(factors, one, strict=True)) for one in itertools.product(*factors.values())]
    if len(combinations) > _MOST_ARMS:
        raise UsageError(
            f"{path}: {len(combinations)} combinations, at most {_MOST_ARMS} arms can be distinguished",
            hint="list the arms that matter: [arms.NAME]",
        )
    return tuple(Variant(",".join(levels.values()), levels, factors=levels) for levels in combinations)


def _listed(where: str, name: str, arm: object) -> Variant:
    values = dict(_table(where, arm))
    command = _command(f"{where}.command", values.pop("command")) if "command" in values else []
    if command and values:
        raise UsageError(f"{where}: settings beside a command: {', '.join(values)}")
    return Variant(name, {key: read_text(f"{where}.{key}", value) for key, value in values.items()}, command)


def _table(where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: not a table of NAME = VALUE")
    return value


def _list(where: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise UsageError(f"{where}: not a list")
    return value


def _texts(where: str, value: object) -> list[str]:
    return [read_text(where, one) for one in _list(where, value)]


def _command(where: str, value: object) -> list[str]:
    try:
        words = shlex.split(value) if isinstance(value, str) else _texts(where, value)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error
    if not words:
        raise UsageError(f"{where}: empty")
    return words
