"""Lists such as ``0-3,8`` and masks such as ``00000001,80000003``: how the kernel writes CPUs and nodes.

A text that breaks the notation anywhere is no list at all: it is never understood in part. The data plane
reads the same notation (``crates/kernel``, ``cpu_list``), and ``schemas/golden/cpu_list_vectors.json`` holds
both to the same answers. Source: Linux, lib/bitmap-str.c.
"""

import re
from collections.abc import Iterable

_NUMBERS_AT_MOST = 65_536
"""No Linux has more CPUs: a number from here on is a mistake, and so is a text that names more numbers."""

_BLANKS = " \t\r\n\f"


def parse_cpu_list(text: str) -> list[int] | None:
    """Return the numbers of a list in the order given, each once; ``None`` where the text is no list.

    Blanks may stand around each part; an empty text is an empty list.

    >>> parse_cpu_list("0-2,8,10-11")
    [0, 1, 2, 8, 10, 11]
    >>> parse_cpu_list("3-1")
    """
    text = _trimmed(text)
    if not text:
        return []
    numbers: dict[int, None] = {}
    left = _NUMBERS_AT_MOST
    for part in text.split(","):
        match = re.fullmatch(r"(0*[0-9]{1,5})(?:-(0*[0-9]{1,5}))?", part.strip(_BLANKS))
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        left -= last - first + 1
        if first > last or last >= _NUMBERS_AT_MOST or left < 0:
            return None
        numbers.update(dict.fromkeys(range(first, last + 1)))
    return list(numbers)


def parse_cpu_mask(text: str) -> list[int] | None:
    """Return the numbers of a bit mask in hexadecimal, in order; ``None`` where the text is no mask.

    >>> parse_cpu_mask("00000001,80000003")
    [0, 1, 31, 32]
    """
    digits = _trimmed(text).replace(",", "")
    if re.fullmatch(r"[0-9a-fA-F]*", digits) is None or len(digits) > _NUMBERS_AT_MOST // 4:
        return None
    bits = int(digits or "0", 16)
    return [index for index in range(bits.bit_length()) if bits >> index & 1]


def _trimmed(text: str) -> str:
    # Some kernels end a file with a NUL.
    return text.rstrip("\0").strip(_BLANKS)


def format_cpu_list(numbers: Iterable[int]) -> str:
    """Return numbers as the kernel lists them.

    >>> format_cpu_list([11, 0, 1, 2, 8, 10])
    '0-2,8,10-11'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
