"""JSON text from an untrusted writer -> plain values, with errors that name the field.

In: text. Out: a dictionary. Raises RecordError for what is no JSON, nests without end, or holds what JSON can
spell and no record may hold: NaN, infinity, numbers beyond 64 bits, the character NUL, half a surrogate pair.
Those would pass the checks of a field's type and fail much later, in a path, a table or a printed line.

Not here: kinds, versions and shapes (``io``).
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from steelyard._base import RecordError

INTEGER_AT_MOST = 2**64 - 1
"""The largest whole number that both planes can read."""

_ODD = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])|NaN|Infinity|\d{19}|\d[eE]\+?\d{3}")
"""Text that has none of these holds nothing odd: most records are spared the walk through their values."""
_DIGITS_AT_MOST = 4000
"""Python refuses to read longer whole numbers; such a number is beyond 64 bits anyway."""


def load_object(text: str | bytes, *, where: str) -> dict[str, Any]:
    """Return the JSON object in ``text``; ``where`` names its origin in errors."""
    try:
        try:
            data = json.loads(text)
        except ValueError:
            # One of the numbers may be too long for Python: read again, so that its field can be named.
            data = json.loads(text, parse_int=_integer)
    except RecursionError as error:
        raise RecordError(f"{where}: not JSON of a record: it nests too deeply") from error
    except ValueError as error:
        raise RecordError(f"{where}: not JSON: {error}") from error
    if not isinstance(data, dict):
        raise RecordError(f"{where}: not a JSON object")
    raw = text if isinstance(text, bytes) else text.encode("utf-8", errors="surrogatepass")
    if _ODD.search(raw):
        for place, problem in _odd_values(data):
            raise RecordError(f"{where}: {place}: {problem}")
    return data


def _integer(digits: str) -> int | float:
    # A number that is too long to be read is as odd as infinity, and is refused with its place.
    return int(digits) if len(digits) < _DIGITS_AT_MOST else math.inf


def _odd_values(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the place of each odd value and what is odd about it."""
    stack: list[tuple[str, Any]] = [("", data)]
    while stack:
        place, value = stack.pop()
        if isinstance(value, dict):
            for key, inner in value.items():
                if (problem := _odd_text(key)) is not None:
                    yield shown_place(f"{place}.{key}".lstrip(".")), f"the name {problem}"
                stack.append((f"{place}.{key}".lstrip("."), inner))
        elif isinstance(value, list):
            stack += [(f"{place}.{index}", inner) for index, inner in enumerate(value)]
        elif isinstance(value, str):
            if (problem := _odd_text(value)) is not None:
                yield shown_place(place), problem
        elif isinstance(value, float) and not math.isfinite(value):
            yield shown_place(place), "not a finite number"
        elif isinstance(value, int) and abs(value) > INTEGER_AT_MOST:
            yield shown_place(place), "a number beyond 64 bits"


def _odd_text(text: str) -> str | None:
    if "\0" in text:
        return "holds the character NUL"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "holds half a surrogate pair"
    return None


def shown_place(place: str) -> str:
    """Return a place as it can be printed, in one line that is not too long."""
    text = "".join(character if character.isprintable() else "?" for character in place)
    return text if len(text) <= 120 else f"{text[:60]}...{text[-57:]}"
