"""Commands as plain values, one page each: what it does, its usage, arguments, options and subcommands."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

PROGRAM = "steelyard"
_EXAMPLE = f"  {PROGRAM} "
"""How lines with an example begin in an epilog (``cli.output.examples``)."""


@dataclass(frozen=True)
class Row:
    """One line of a table: a name as it is typed, and what it means."""

    name: str
    text: str


@dataclass(frozen=True)
class Page:
    """One command.

    ``path`` is the command with the groups that it is in, such as ``("fleet", "top")``; the program's own
    page has none. ``flags`` are the options' long names, as completions need them; ``epilog`` is the text
    below the examples.
    """

    path: tuple[str, ...]
    about: str
    usage: str
    arguments: list[Row] = field(default_factory=list)
    options: list[Row] = field(default_factory=list)
    commands: list[Row] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)
    epilog: str = ""

    @property
    def name(self) -> str:
        """Return the command as it is typed, such as ``steelyard fleet top``."""
        return " ".join((PROGRAM, *self.path))


def pages() -> Iterator[Page]:
    """Yield a page for the program, each group and each command, in the order of ``--help``."""
    # The commands stand on this module's package: it is imported when it is asked.
    from steelyard.cli.main import parser_of

    yield from _walk(parser_of(), (), None)


def _walk(command: Any, path: tuple[str, ...], parent: Any) -> Iterator[Page]:
    context = command.make_context(
        " ".join((PROGRAM, *path)) if parent is None else path[-1], [], parent=parent, resilient_parsing=True
    )
    children = [
        (name, command.get_command(context, name))
        for name in (command.list_commands(context) if hasattr(command, "list_commands") else [])
    ]
    children = [(name, child) for name, child in children if not child.hidden]
    yield _page(command, path, context, children)
    for name, child in children:
        yield from _walk(child, (*path, name), context)


def _page(command: Any, path: tuple[str, ...], context: Any, children: list[tuple[str, Any]]) -> Page:
    arguments, options, flags = [], [], []
    epilog = command.epilog or ""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None:
            continue
        row = Row(_plain(record[0]), _plain(record[1]))
        if parameter.param_type_name == "argument":
            arguments.append(row)
        else:
            options.append(row)
            flags += [flag for flag in (*parameter.opts, *parameter.secondary_opts) if flag.startswith("--")]
    return Page(
        path=path,
        about=_plain(command.help or ""),
        usage=_plain(" ".join((context.command_path, *command.collect_usage_pieces(context)))),
        arguments=arguments,
        options=options,
        commands=[Row(name, _plain(child.get_short_help_str(1000))) for name, child in children],
        flags=flags,
        examples=[line.strip() for line in epilog.splitlines() if line.startswith(_EXAMPLE)],
        epilog=_plain(epilog.rpartition("\n\n")[2]),
    )


def _plain(text: str) -> str:
    return " ".join(text.split())
