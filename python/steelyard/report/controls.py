"""Characters that steer a terminal or turn the direction of text, from names of anywhere.

In: text. Out: the same with a mark in the place of each such character. The narrow space of our figures is
none of them. Not here: HTML (``html``), JSON in pages (``embedding``).
"""

import re

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def without_controls(text: str) -> str:
    r"""Return ``text`` with a replacement character for each that steers; tabs and ends of lines stay.

    >>> without_controls("a\x1b[31m\u202eb\n1\u202fk")
    'a�[31m�b\n1\u202fk'
    """
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
