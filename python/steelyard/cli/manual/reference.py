"""The reference of all commands in Markdown: `docs/reference/commands.md`."""

from collections.abc import Iterable

from steelyard.cli.manual.pages import Page, Row

_HEAD = """# Commands

Every command of `steelyard`, from its declaration: `make docs` writes this page, a test compares it.
The programs underneath (`steelyard-load`, `steelyard-cache`, ...) describe themselves: their `--help`.
"""


def reference(commands: Iterable[Page]) -> str:
    """Return the reference: a list of all commands, then a section for each."""
    commands = list(commands)
    leaves = [page for page in commands if not page.commands]
    parts = [_HEAD]
    parts.append("".join(f"- [`{page.name}`](#{_anchor(page.name)}): {page.about}\n" for page in leaves))
    if commands and commands[0].epilog:
        parts.append(f"{commands[0].epilog}\n")
    parts += [_section(page) for page in leaves]
    return "\n".join(parts)


def _section(page: Page) -> str:
    lines = [f"## {page.name}", "", page.about, "", f"    {page.usage}", ""]
    for head, rows in (("argument", page.arguments), ("option", page.options)):
        if rows:
            lines += [f"| {head} | meaning |", "|---|---|", *map(_row, rows), ""]
    if page.examples:
        lines += ["Examples:", "", *(f"    {example}" for example in page.examples), ""]
    return "\n".join(lines)


def _row(row: Row) -> str:
    return f"| `{_cell(row.name)}` | {_cell(row.text)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _anchor(name: str) -> str:
    return name.replace(" ", "-")
