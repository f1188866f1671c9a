"""Commands as people see them: on pages with a button that copies them, in hints, in tables.

Invariant: what is shown can be pasted into a shell, and means there the words that it was made of.
"""

import shlex
from collections.abc import Sequence


def command_text(words: Sequence[object]) -> str:
    """Return words as a shell reads them.

    >>> command_text(["steelyard", "experiment", "--metric", r"rate=rate (\\S+)"])
    "steelyard experiment --metric 'rate=rate (\\\\S+)'"
    """
    return shlex.join(map(str, words))
