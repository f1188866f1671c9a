"""The reference page of the checks, generated from them: ``python -m steelyard.machine.checks.reference``.

In: the rules. Out: ``docs/reference/machine-checks.md`` of a checkout; a test compares the two.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from steelyard.machine.checks.registry import built_in
from steelyard.machine.checks.rule import Rule

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "machine-checks.md"

_HEAD = """# Checks of a machine

Generated from the rules by `python -m steelyard.machine.checks.reference`; a test compares this page with
them.

`steelyard machine check` runs these checks. A failed check of high or medium severity makes it exit with code
1; those of low severity are notes, and count with `--strict`. A check may raise or lower its severity by what
it finds. A check without data neither passes nor fails, and is shown with the reason.
"""


def page(rules: tuple[Rule, ...]) -> str:
    """Return the page's text."""
    parts = [_HEAD]
    for area, members in groupby(
        sorted(rules, key=lambda rule: _areas(rules).index(rule.area)), lambda rule: rule.area
    ):
        parts.append(f"\n## {area.upper() if area == 'numa' else area.capitalize()}\n")
        for rule in members:
            parts.append(
                f"\n### `{rule.id}` ({rule.severity})\n\n"
                f"Checks that {rule.asks}.\n\n"
                f"- Threshold: {rule.threshold}.\n"
                f"- Source: {rule.source}.\n"
                f"- What to do: {rule.advice}.\n"
            )
    return "".join(parts)


def _areas(rules: tuple[Rule, ...]) -> list[str]:
    return list(dict.fromkeys(rule.area for rule in rules))


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(built_in()), encoding="utf-8")


if __name__ == "__main__":
    main()
