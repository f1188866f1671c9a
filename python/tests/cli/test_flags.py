"""One word for one thing: every command's flags, held to one table, and examples that can be typed."""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from steelyard.cli.main import invoke, parser_of

OUTPUT = {
    "--out": "DIR",
    "--report": "FILE.html",
    "--runs": "DIR",
    "--store": "STORE",
    "--json": None,
    "--format": "FORMAT",
    "--force": None,
    "--rows": "N",
}
"""Flags that say where something goes or comes from, and how much is shown, with the name of their value."""

OTHER_WORDS = ("--output", "--html", "--no-html", "--top", "--dir", "--file", "--overwrite")
"""Words for the same things that no command has."""

DEPENDS = {
    "--tier": "of a run, or of those that are read",
    "--all": "what there is more of differs",
    "--baseline": "a machine, or a configuration of a fleet",
    "--blocks": "whether fewer may do",
    "--budget": "whether blocks or trials begin",
    "--call-graph": "what is said of the default",
    "--cgroup": "what is done with the cgroup",
    "--confidence": "of a decision, or of intervals",
    "--duration": "what lasts",
    "--force": "what is replaced",
    "--from": "from when, or from which file",
    "--guard": "a change that may be seen, or a bound that ends a trial",
    "--host": "where the load is, or where to listen",
    "--hz": "what is said of the default",
    "--interval": "of a measurement, in time, or of a share",
    "--job": "one or several",
    "--lower-is-better": "what has such a metric",
    "--metric": "what has metrics",
    "--ops": "a program that is started, or a service that runs",
    "--name": "of a machine, or of a server",
    "--out": "what goes there",
    "--pid": "what is done with the process",
    "--plan": "what is planned: a placement, events to count, or blocks",
    "--platform": "one or several",
    "--reading": "what is done with it",
    "--repeat": "what is run several times",
    "--resume": "what goes on",
    "--report": "what it is of: everything, or a suite only",
    "--root": "whole trees, or /proc and /sys",
    "--rules": "where the rules are from",
    "--seed": "what is drawn",
    "--sibling-worth": "a prediction, or sizes",
    "--start": "the first day of what",
    "--store": "whether it is new",
    "--suite": "of runs, or of results",
    "--weight": "of which mean",
    "--table": "of a store, or of machines",
    "--to": "until when, or in which format",
    "--window": "of what",
    "--workload": "one or several",
}
"""Flags whose help differs from command to command, and why: they name one thing all the same."""


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command with its name, the groups left out."""

    def below(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield name, command
            return
        for word, one in inner.items():
            yield from below(one, f"{name} {word}")

    yield from below(parser_of(), "steelyard")


COMMANDS = dict(commands())


def flags(command: Any) -> dict[str, Any]:
    """Return the long flags that a command shows, with the parser's option."""
    return {
        flag: option
        for option in command.params
        if not getattr(option, "hidden", False)
        for flag in option.opts
        if flag.startswith("--")
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_output_flags_are_the_same_words_for_the_same_things(name: str) -> None:
    found = flags(COMMANDS[name])
    assert not set(OTHER_WORDS) & set(found)
    for flag in OUTPUT.keys() & found.keys():
        option = found[flag]
        assert option.is_flag if OUTPUT[flag] is None else option.metavar == OUTPUT[flag], flag
    # One hands its arguments on, to a program with the same flag; two serve, and print no result; export has
    # --to for its formats.
    if name not in ("steelyard top", "steelyard serve", "steelyard mcp", "steelyard export"):
        assert {"--json", "--format"} <= set(found)


def test_a_flag_of_several_commands_says_the_same_of_itself_in_each() -> None:
    texts: dict[str, set[str]] = defaultdict(set)
    for command in COMMANDS.values():
        for flag, option in flags(command).items():
            texts[flag].add((option.help or "").strip())
    differing = {flag for flag, found in texts.items() if len(found) > 1}
    assert differing == set(DEPENDS), differing ^ set(DEPENDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_that_the_command_understands(name: str) -> None:
    command = COMMANDS[name]
    examples = re.findall(r"^  (steelyard .*)$", command.epilog, re.MULTILINE)
    assert 2 <= len(examples) <= 4
    for example in examples:
        assert f"{example} ".startswith(f"{name} ")
        words = shlex.split(example.removeprefix(name).partition(" > ")[0])
        command.make_context(name, words)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_begins_with_a_verb(name: str) -> None:
    first = (COMMANDS[name].help or "").split()[0]
    assert first in VERBS, f"{first}: a verb of the list, or a new one for it"


VERBS = {
    *("Install", "Run", "List", "Show", "Score", "Check", "Find", "Compare", "Record"),
    *("Add", "Count", "Rank", "Join", "Remove", "Import", "Measure", "Place", "Simulate", "Write"),
    *("Try", "Set", "Undo", "Project", "Make", "Serve"),
}


@pytest.mark.parametrize("group", ["", "fleet", "machine", "profile"])
def test_help_of_a_group_cuts_no_command_short(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([*group.split(), "--help"]) == 0
    commands = capsys.readouterr().out.partition("Commands:")[2]
    assert commands
    assert "..." not in commands
