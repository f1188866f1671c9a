"""Text that a program wrote for a terminal, as text."""

import re

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def without_escapes(text: str) -> str:
    r"""Return ``text`` without the sequences that colour it.

    >>> without_escapes("\x1b[1;31mERROR\x1b[0m no route to host")
    'ERROR no route to host'
    """
    return _ESCAPES.sub("", text)
