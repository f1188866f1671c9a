"""Man pages in roff's man macros."""

from collections.abc import Iterable

from steelyard.cli.manual.pages import Page, Row


def man_page(page: Page, version: str) -> str:
    """Return the man page of a command."""
    title = page.name.replace(" ", "-")
    lines = [
        f'.TH "{title.upper()}" "1" "" "steelyard {version}" "Steelyard"',
        ".SH NAME",
        f"{_escape(title)} \\- {_escape(page.about)}",
        ".SH SYNOPSIS",
        f"\\fB{_escape(page.name)}\\fR{_escape(page.usage.removeprefix(page.name))}",
    ]
    for head, rows in (
        ("ARGUMENTS", page.arguments),
        ("OPTIONS", page.options),
        ("COMMANDS", [Row(f"{title}-{row.name}(1)", row.text) for row in page.commands]),
    ):
        if rows:
            lines += [f".SH {head}", *_rows(rows)]
    if page.examples:
        lines += [".SH EXAMPLES", ".nf", *map(_line, page.examples), ".fi"]
    if page.epilog:
        lines += [".SH EXIT STATUS", _line(page.epilog)]
    return "\n".join(lines) + "\n"


def _rows(rows: Iterable[Row]) -> Iterable[str]:
    for row in rows:
        yield ".TP"
        yield f"\\fB{_escape(row.name)}\\fR"
        yield _line(row.text)


def _line(text: str) -> str:
    # A line that begins with a dot or a quote would be a request to roff.
    escaped = _escape(text)
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def _escape(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")
