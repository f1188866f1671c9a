"""Documents generated from the declarations of commands: the reference, man pages and shell completions.

In: the command line's tree, as the parser holds it, and the declarations of rules, checks, knobs, metrics and
records. Out: text. ``python -m steelyard.cli.manual`` writes files; of these the repository keeps pages of
`docs/reference` only, which a test compares.
"""

import json
from pathlib import Path

from steelyard.cli.manual.completions import bash, fish, zsh
from steelyard.cli.manual.man import man_page
from steelyard.cli.manual.pages import Page, Row, pages
from steelyard.cli.manual.reference import reference

SCHEMAS = Path(__file__).resolve().parents[4] / "schemas"
"""Of the checkout."""


def documents() -> dict[str, str]:
    """Return the generated pages of the reference by the names of their files."""
    from steelyard.cli.manual.declared import checks_page, knobs_page, metrics_page, rules_page
    from steelyard.cli.manual.schemas import schemas_page

    end = ".schema.json"
    files = sorted(path.relative_to(SCHEMAS).as_posix() for path in SCHEMAS.rglob(f"*{end}"))
    # Those of a fleet have a folder of their own, and stand last.
    files.sort(key=lambda name: "/" in name)
    schemas = {
        name.removesuffix(end): json.loads((SCHEMAS / name).read_text(encoding="utf-8")) for name in files
    }
    return {
        "commands.md": reference(pages()),
        "schemas.md": schemas_page(schemas),
        "metrics.md": metrics_page(),
        "rules.md": rules_page(),
        "checks.md": checks_page(),
        "knobs.md": knobs_page(),
    }


__all__ = ["Page", "Row", "bash", "documents", "fish", "man_page", "pages", "reference", "zsh"]
