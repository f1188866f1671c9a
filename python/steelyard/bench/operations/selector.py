"""Which series of an endpoint are meant: ``name{label="value",other=~"a|b"}``.

In: a selector as PromQL writes it (without ranges, functions or offsets). Out: a `Selector` that says of a
name with labels whether it is meant.

Standard library only: the recorder's process imports it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from steelyard._base.errors import UsageError

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_MATCHER = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\\n]|\\.)*)"\s*(,|$)')
_ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}


@dataclass(frozen=True)
class Selector:
    """A metric's name and conditions on its labels; an absent label is the empty text, as in PromQL."""

    metric: str
    matchers: tuple[tuple[str, Callable[[str], bool]], ...] = ()

    def meant(self, labels: Mapping[str, str]) -> bool:
        """Return whether a series with these labels is meant."""
        return all(fits(labels.get(name, "")) for name, fits in self.matchers)


def unescape(text: str) -> str:
    r"""Return a quoted text's characters.

    >>> unescape(r'a\"b\\c')
    'a"b\\c'
    """
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), text, flags=re.DOTALL)


def parse(text: str, *, where: str) -> Selector:
    """Return the selector in ``text``. Raises UsageError for anything else.

    >>> parse('up{job="a",path!~"/health.*"}', where="").meant({"job": "a", "path": "/"})
    True
    """
    text = text.strip()
    name = _NAME.match(text)
    rest = text[name.end() :].strip() if name else ""
    if name is None or (rest and not (rest.startswith("{") and rest.endswith("}"))):
        raise UsageError(
            f"{where}: {text!r} is no metric's name",
            hint='as http_requests_total or http_requests_total{code="200"}; a query needs prometheus-query:',
        )
    inner = rest[1:-1].strip()
    matchers = []
    while inner:
        match = _MATCHER.match(inner)
        if match is None:
            raise UsageError(f"{where}: {inner!r} is no condition on a label", hint='as {code="200"}')
        matchers.append((match[1], _condition(match[2], unescape(match[3]), where)))
        inner = inner[match.end() :].strip()
    return Selector(name[0], tuple(matchers))


def _condition(sign: str, value: str, where: str) -> Callable[[str], bool]:
    if sign == "=":
        return lambda text: text == value
    if sign == "!=":
        return lambda text: text != value
    try:
        pattern = re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{where}: {value!r} is no regular expression: {error}") from error
    if sign == "=~":
        return lambda text: pattern.fullmatch(text) is not None
    return lambda text: pattern.fullmatch(text) is None
