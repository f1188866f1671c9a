"""Commands as the parser has them, with two changes.

A group's help shows the whole first sentence of each command, which the parser's own groups cut at the end of
the line. A command whose options have their defaults starts without pydantic, which the parser loads to check
values.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from steelyard.cli.overview import overview


class _Defaults:
    """A command, or a group, that takes defaults as they are: checking them takes longer than `list` does."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, and that of ``--help``."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if "process_value" not in vars(parameter) and not parameter.required:
                _take_default(parameter)
        return parameters


def _take_default(parameter: Any) -> None:
    check = parameter.process_value

    def process_value(ctx: Any, value: Any) -> Any:
        if value is not None and value is not parameter.default:
            return check(ctx, value)
        if value is None and (parameter.multiple or parameter.nargs == -1):
            value = ()
        return parameter.callback(ctx, parameter, value) if parameter.callback else value

    parameter.process_value = process_value


class Command(_Defaults, TyperCommand):
    """A command."""


class Commands(_Defaults, TyperGroup):
    """A group that wraps its commands' help instead of cutting it."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with the first sentence of its help."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, each.get_short_help_str(1000)) for name, each in commands if each and not each.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


class AllCommands(Commands):
    """All of ``steelyard``."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write what `start` prints for ``--help`` before it loads any of this."""
        formatter.write(overview())


def use_commands(app: typer.Typer) -> None:
    """Make every command of ``app``, and of its groups, a `Command`."""
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            use_commands(group.typer_instance)
