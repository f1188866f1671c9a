"""The table of checks in words: its bounds on a page, and ``docs/concepts/verdicts.md``.

In: ``data/checks.json`` and checks of a run. Out: text; ``python -m steelyard.report.checks`` writes the
tables of the document of a checkout, and a test compares the two.
Not here: making checks, and their advice (``analyze.checks``).
"""

from pathlib import Path

from steelyard.analyze.checks import CHECKS, SCOPES, Bounds, Entry, Fails, find
from steelyard.records import Check
from steelyard.report import format as fmt

PAGE = Path(__file__).resolve().parents[3] / "docs" / "concepts" / "verdicts.md"
BEGIN = "<!-- Generated from data/checks.json by `python -m steelyard.report.checks`. -->\n"
END = "<!-- End of what is generated. -->\n"
_HEAD = "| check | question | bounds | what to do |\n|---|---|---|---|\n"


def bounds_text(check: Check) -> str:
    """Return from where on a check's result is suspect, and invalid; a dash where no bound decides.

    >>> from steelyard.analyze.checks import measured
    >>> fmt.plain(bounds_text(measured("errors", 0.0, "no request failed")))
    'suspect above 0.001 %, invalid above 0.1 %'
    >>> bounds_text(measured("samples", 12, "12 requests were completed"))
    'suspect below 10,000, invalid below 1,000'
    """
    entry = find(check.id)
    fails = None if entry is None else entry.fails
    return _text(Bounds(check.suspect, check.invalid), check.unit, fails) or fmt.MISSING


def _text(bounds: Bounds, unit: str | None, fails: Fails | None) -> str:
    # A check of another version of Steelyard may be unknown here, and with it the side on which it fails.
    side = "" if fails is None else f" {fails}"
    given = (("suspect", bounds.suspect), ("invalid", bounds.invalid))
    return ", ".join(f"{word}{side} {_exact(value, unit)}" for word, value in given if value is not None)


def _exact(bound: float, unit: str | None) -> str:
    """Return a bound as it was chosen, without rounding."""
    if unit == "ratio":
        return f"{100 * bound:.6g} %"
    return f"{bound:,.9g}" if unit == "count" else fmt.quantity(bound, unit)


def table() -> str:
    """Return every check as Markdown: a heading and a table a scope, each check under its first one."""
    parts = []
    left = dict(CHECKS)
    for scope, heading in SCOPES.items():
        members = {name: entry for name, entry in left.items() if scope in entry.scope}
        left = {name: entry for name, entry in left.items() if name not in members}
        rows = "".join(_row(name, entry) for name, entry in members.items())
        parts.append(f"### {heading}\n\n{_HEAD}{rows}")
    return "\n".join(parts)


def _row(name: str, entry: Entry) -> str:
    bounds = fmt.plain(_text(entry.bounds, entry.unit, entry.fails))
    if not bounds and entry.fails is not None:
        bounds = f"{entry.fails} a bound of the run"
    advice = entry.advice or ""
    if entry.advice_of_program is not None:
        advice += f" (a characterized program: {entry.advice_of_program})"
    return f"| `{name}` | {entry.asks} | {bounds} | {advice} |\n"


def page(text: str) -> str:
    """Return the document's text with today's tables."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


def main() -> None:
    """Write the document's tables."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
