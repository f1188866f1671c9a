"""Knobs and guardrails of the user, from a TOML file.

    [[knob]]
    name = "queue_depth"
    files = ["/sys/block/sda/queue/nr_requests"]     # each gets the level
    levels = ["64", "256"]

    [[knob]]
    name = "threads"
    apply = ["service-ctl", "threads", "{}"]         # {} is the level
    read = ["service-ctl", "threads"]                # prints the level
    levels = ["4", "8"]

    [[knob]]
    name = "cache_size"
    file = "/etc/service.conf"
    template = "cache = {value}\\n"                   # replaces the whole file
    levels = ["1g", "2g"]

    [[knob]]
    environment = "MALLOC_ARENA_MAX"
    levels = ["", "2"]

    [[guard]]
    name = "queue"
    command = ["service-ctl", "queue-length"]        # or file = "/path", or metric = "p99_ns"
    at_most = 100

In: the file. Out: knobs and guardrails. Not here: what they do (``application``, ``tune.guards``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steelyard._base import RecordError, UsageError
from steelyard._base.toml import read_toml
from steelyard.tune.guards import Guard, Source
from steelyard.tune.knobs.application import CommandKnob, EnvironmentKnob, TemplateKnob, TextKnob
from steelyard.tune.knobs.knob import Knob, Risk

_COMMON = {"name", "about", "levels", "risk", "needs_reboot"}
_KINDS = {
    "files": {"files", "minimum", "maximum"},
    "apply": {"apply", "read", "minimum", "maximum"},
    "template": {"file", "template"},
    "environment": {"environment"},
}
_GUARD = {"name", "at_most", "at_least"}


def read_user_file(path: Path) -> tuple[list[Knob], list[Guard]]:
    """Return the knobs and guardrails of a file. Raises UsageError, which names file and entry."""
    try:
        data = read_toml(path)
    except RecordError as error:
        raise UsageError(error.message) from error
    unknown = data.keys() - {"knob", "guard"}
    if unknown:
        raise UsageError(
            f"{path}: unknown {', '.join(sorted(unknown))}", hint="it holds [[knob]] and [[guard]]"
        )
    knobs = [
        _knob(f"{path}: knob {number}", entry) for number, entry in enumerate(_tables(path, data, "knob"), 1)
    ]
    guards = [
        _guard(f"{path}: guard {number}", entry)
        for number, entry in enumerate(_tables(path, data, "guard"), 1)
    ]
    return knobs, guards


def _tables(path: Path, data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = data.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path}: {key} is a list of tables: [[{key}]]")
    return entries


def _knob(where: str, entry: Mapping[str, Any]) -> Knob:
    kinds = [kind for kind in _KINDS if kind in entry]
    if len(kinds) != 1:
        raise UsageError(f"{where}: needs one of {', '.join(_KINDS)}")
    (kind,) = kinds
    unknown = entry.keys() - _COMMON - _KINDS[kind]
    if unknown:
        raise UsageError(f"{where}: unknown {', '.join(sorted(unknown))} beside {kind}")
    levels = tuple(_words(where, entry, "levels"))
    if len(set(levels)) < 2 or len(set(levels)) < len(levels):
        raise UsageError(f"{where}: levels needs two or more different texts")
    if kind == "environment":
        return EnvironmentKnob(
            _word(where, entry, "environment"), levels, str(entry.get("name", "")), _about(entry, kind)
        )
    name = _word(where, entry, "name")
    try:
        risk = Risk(entry.get("risk", Risk.MEDIUM))
    except ValueError as error:
        raise UsageError(f"{where}: risk is low, medium or high") from error
    needs_reboot = bool(entry.get("needs_reboot", False))
    about = _about(entry, kind)
    if kind == "template":
        template = _word(where, entry, "template")
        if "{value}" not in template:
            raise UsageError(f"{where}: the template has no {{value}}")
        return TemplateKnob(
            name, about, Path(_word(where, entry, "file")), template, levels, risk, needs_reboot
        )
    ends = (_number(where, entry, "minimum"), _number(where, entry, "maximum"))
    if kind == "files":
        paths = tuple(Path(path) for path in _words(where, entry, "files"))
        if not paths:
            raise UsageError(f"{where}: files is empty")
        knob: Knob = TextKnob(name, about, paths, levels, risk, needs_reboot, *ends)
    else:
        apply, show = _words(where, entry, "apply"), _words(where, entry, "read")
        if not any("{}" in word for word in apply) or not show:
            raise UsageError(f"{where}: apply needs {{}} for the level, and read a command that prints it")
        knob = CommandKnob(name, about, tuple(apply), tuple(show), levels, risk, needs_reboot, *ends)
    for level in levels:
        _check_range(where, level, ends)
    return knob


def _check_range(where: str, level: str, ends: tuple[float | None, float | None]) -> None:
    low, high = ends
    if low is None and high is None:
        return
    try:
        number = float(level)
    except ValueError as error:
        raise UsageError(f"{where}: level {level!r} is no number, but there is a range") from error
    if (low is not None and number < low) or (high is not None and number > high):
        raise UsageError(f"{where}: level {level} is out of range")


def _guard(where: str, entry: Mapping[str, Any]) -> Guard:
    kinds = [source for source in Source if source.value in entry]
    if len(kinds) != 1:
        raise UsageError(f"{where}: needs one of {', '.join(Source)}")
    unknown = entry.keys() - _GUARD - {kinds[0].value}
    if unknown:
        raise UsageError(f"{where}: unknown {', '.join(sorted(unknown))}")
    ends = [key for key in ("at_most", "at_least") if key in entry]
    if len(ends) != 1:
        raise UsageError(f"{where}: needs at_most or at_least")
    limit = _number(where, entry, ends[0])
    words = (
        tuple(_words(where, entry, "command"))
        if kinds[0] is Source.COMMAND
        else (_word(where, entry, kinds[0].value),)
    )
    return Guard(str(entry.get("name", words[0])), kinds[0], words, ends[0] == "at_most", limit or 0.0)


def _about(entry: Mapping[str, Any], kind: str) -> str:
    return str(entry.get("about", f"of the user's: {kind}"))


def _word(where: str, entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where}: {key} needs a text")
    return value


def _words(where: str, entry: Mapping[str, Any], key: str) -> list[str]:
    value = entry.get(key)
    if not isinstance(value, list) or not all(isinstance(word, str | int | float) for word in value):
        raise UsageError(f"{where}: {key} needs a list of texts")
    return [str(word) for word in value]


def _number(where: str, entry: Mapping[str, Any], key: str) -> float | None:
    value = entry.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{where}: {key} needs a number")
    return float(value)
