"""Text that a program wrote for a terminal, as text."""

import re

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, the cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # strings: titles, links
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)
"""What a terminal obeys (ECMA-48), but tabs and ends of lines."""


def without_escapes(text: str) -> str:
    r"""Return ``text`` without what a terminal obeys: colours, titles, bells.

    >>> without_escapes("\x1b[1;31mERROR\x1b[0m no route to host\x07")
    'ERROR no route to host'
    >>> without_escapes("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b")
    'ab'
    """
    return _ESCAPES.sub("", text)
