"""``steelyard fleet``: keep a fleet's store, and ask it.

The commands of this folder: each module adds its own by ``register(app)``, and each `Query` of ``registry``
becomes one here. They are made when a command of the group is looked for, so that other commands do not wait
for them. A command imports what it needs when it runs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, MutableMapping
from typing import Any

import typer

from steelyard.cli.commands import Commands
from steelyard.cli.formats import add_format
from steelyard.cli.output import examples
from steelyard.cli.overview import ABOUT, EXIT_CODES


class _Commands(Commands):
    """The commands of ``steelyard fleet``."""

    @property
    def commands(self) -> MutableMapping[str, Any]:
        """The commands by name."""
        return fleet_commands()

    @commands.setter
    def commands(self, given: Any) -> None:
        """Leave out what the parser was given, which is nothing."""


app = typer.Typer(
    cls=_Commands,
    help=ABOUT["fleet"],
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@functools.cache
def fleet_commands() -> MutableMapping[str, Any]:
    """Return the commands of the group by name, those of other packages too."""
    from steelyard.cli.fleet.registry import modules, queries

    made = typer.Typer(rich_markup_mode=None)
    groups: dict[str, typer.Typer] = {}
    for module in modules():
        if hasattr(module, "register"):
            module.register(made)
    for query in queries().values():
        first, _, second = query.name.rpartition(" ")
        parent = made
        if first:
            if first not in groups:
                groups[first] = typer.Typer(
                    cls=Commands,
                    help=query.group,
                    epilog=EXIT_CODES,
                    no_args_is_help=True,
                    rich_markup_mode=None,
                )
                made.add_typer(groups[first], name=first)
            parent = groups[first]
        calls = [f"steelyard fleet {query.name} --store STORE {rest}".rstrip() for rest in query.examples]
        parent.command(second, epilog=examples(*calls))(command(query))
    add_format(made)
    commands: MutableMapping[str, Any] = typer.main.get_group(made).commands
    return commands


def command(query: Any) -> Callable[..., int]:
    """Return the command of a `Query`: its own options, then those that every query has."""
    from steelyard.cli.fleet import options

    def run(**values: Any) -> int:
        own = {option.name: values[option.name] for option in query.options}
        return options.answer(query.ask, own, **{name: values[name] for name in common})

    common = dict(list(inspect.signature(options.answer, eval_str=True).parameters.items())[2:])
    keyword = inspect.Parameter.KEYWORD_ONLY
    own = {option.name: option.replace(kind=keyword) for option in query.options if option.name not in common}
    parameters = {"store": common["store"], **own, **common}
    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    run.__doc__ = query.ask.__doc__
    return run
