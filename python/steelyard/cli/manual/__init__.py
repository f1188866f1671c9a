"""Documents generated from the declarations of commands: the reference, man pages and shell completions.

In: the command line's tree, as the parser holds it. Out: text. ``python -m steelyard.cli.manual`` writes
files; of these the repository keeps `docs/reference/commands.md` only, which a test compares.
"""

from steelyard.cli.manual.completions import bash, fish, zsh
from steelyard.cli.manual.man import man_page
from steelyard.cli.manual.pages import Page, Row, pages
from steelyard.cli.manual.reference import reference

__all__ = ["Page", "Row", "bash", "fish", "man_page", "pages", "reference", "zsh"]
