"""What killed runs left changed on this machine, undone before anything is measured or judged.

In: the undo journal. Out: a line for each change on standard error. Not here: the journal (``bench.undo``).
"""

from __future__ import annotations

import sys
from pathlib import Path


def put_back() -> None:
    """Undo what killed runs left behind, and say so: a limit of theirs would be measured as the machine's."""
    from steelyard.bench import undo
    from steelyard.cli.output import printable

    # Most machines have no journal, and need not load what undoes.
    if not any(undo.journal_dir().glob("*")):
        return
    for line in undo.replay():
        print(printable(line), file=sys.stderr)


def is_here(root: Path | str | None) -> bool:
    """Return whether what is looked at is this machine and no recorded tree."""
    return root is None or str(root) == "/"
