"""Formulas of metrics over counts, as text: read, checked and evaluated, never run as code.

In: a formula in the notation that ``perf`` and vendors' files share, and where names get their values from
(`Values`). Out: a number, or the reason why there is none.

The notation, from weakest to strongest: ``a if c else b``, ``|``, ``^``, ``&``, comparisons, ``+ -``,
``* / %``, unary ``-``; ``min``, ``max``, ``d_ratio``, ``has_event``, ``source_count``,
``strcmp_cpuid_str``; names of events (``INST_RETIRED.ANY``, ``cycles:k``, ``msr@tsc@``,
``cpu@UOPS_DECODED.DEC0,cmask=1@``, backslashes before special characters are dropped) or of other metrics;
literals of the machine (``#SMT_on``); numbers. As in tools/perf/util/expr.y of Linux, of which this reads
every formula.

Invariants: any text gives a formula or a UsageError, nothing else; evaluation gives a finite number or
raises `WithheldError`; a division by 0 withholds (perf gives 0 or nan); only the branch taken is evaluated,
so an event that only the other one needs is not missed.

Not here: which formula a machine has (``definitions``), counts (``telemetry.counters``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from steelyard._base import UsageError

MAX_CHARACTERS = 20_000
MAX_NESTING = 40
"""Vendors' formulas nest a dozen parentheses at most; what nests deeper is no formula."""
MAX_DEPTH = 250
"""Operations that wait for one another, chains of ``a + b + c`` included: the tree fits Python's stack."""


class WithheldError(Exception):
    """A formula has no value; ``reason`` says why. It never leaves the packages that evaluate."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Values(Protocol):
    """Where names get their values from. Each raises WithheldError where it has none."""

    def name(self, name: str) -> float:
        """Return the count of an event or the value of a metric."""

    def literal(self, name: str) -> float:
        """Return what the machine has for ``#name``, without the ``#``."""

    def has_event(self, name: str) -> bool:
        """Return whether the machine can count an event."""

    def source_count(self, name: str) -> float:
        """Return how many instances of a PMU an event's count sums over."""

    def is_cpu(self, identifier: str) -> bool:
        """Return whether the machine's CPU has this identifier."""


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True)
class Name:
    """An event or a metric."""

    name: str


@dataclass(frozen=True)
class Literal:
    """A property of the machine, ``#name``."""

    name: str


@dataclass(frozen=True)
class Negation:
    """A minus before its operand."""

    operand: Node


@dataclass(frozen=True)
class Operation:
    """An operator between two operands."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Choice:
    """``then if condition else otherwise``."""

    then: Node
    condition: Node
    otherwise: Node


@dataclass(frozen=True)
class Call:
    """A function of values (``min``, ``max``, ``d_ratio``)."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Query:
    """A question about a name, not about its value (``has_event``)."""

    function: str
    name: str


Node = Number | Name | Literal | Negation | Operation | Choice | Call | Query

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.@:\\]))
    | (?P<name>(?:\\.|[A-Za-z_0-9.])(?:\\.|[\w.:?])*(?:@(?:\\.|[^@])*@[A-Za-z]*)?)
    | (?P<literal>\#[A-Za-z_]\w*)
    | (?P<operator><=|>=|==|!=|[-+*/%()|^&<>,])
    )""",
    re.VERBOSE | re.ASCII,
)

_LEVELS: tuple[tuple[str, ...], ...] = (
    ("|",),
    ("^",),
    ("&",),
    ("<", ">", "<=", ">=", "==", "!="),
    ("+", "-"),
    ("*", "/", "%"),
)
_LEVEL_OF = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators}
_FUNCTIONS = {"min": (2, 64), "max": (2, 64), "d_ratio": (2, 2)}
_QUERIES = ("has_event", "source_count", "strcmp_cpuid_str")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    stripped = text.rstrip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            raise UsageError(
                f"a formula has {stripped[position:].strip()[:12]!r} where nothing like it can stand"
            )
        position = match.end()
        kind = str(match.lastgroup)
        yield _Token(kind, match[kind])


class _Parser:
    """Recursive descent; the depth is bounded so that no text exhausts the stack."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._choice()
        if self._at < len(self._tokens):
            raise UsageError(f"a formula continues with {self._tokens[self._at].text[:40]!r} after its end")
        return node

    def _peek(self) -> str | None:
        return self._tokens[self._at].text if self._at < len(self._tokens) else None

    def _next(self) -> _Token:
        if self._at >= len(self._tokens):
            raise UsageError("a formula ends where an operand is due")
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _expect(self, text: str) -> None:
        token = self._next().text
        if token != text:
            raise UsageError(f"a formula has {token[:40]!r} where {text!r} is due")

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise UsageError(f"a formula is nested more than {MAX_NESTING} deep")
        node = self._binary(0)
        if self._peek() == "if":
            self._next()
            condition = self._choice()
            self._expect("else")
            node = Choice(node, condition, self._choice())
        self._depth -= 1
        return node

    def _binary(self, least: int) -> Node:
        """Return operations that bind at least as strongly as level ``least``; all associate to the left."""
        node = self._unary()
        while (level := _LEVEL_OF.get(self._peek() or "", -1)) >= least:
            operator = self._next().text
            node = Operation(operator, node, self._binary(level + 1))
        return node

    def _unary(self) -> Node:
        if self._peek() != "-":
            return self._operand()
        minuses = 0
        while self._peek() == "-":
            self._next()
            minuses += 1
        operand = self._operand()
        return Negation(operand) if minuses % 2 else operand

    def _operand(self) -> Node:
        token = self._next()
        if token.text == "(":
            node = self._choice()
            self._expect(")")
            return node
        if token.kind == "number":
            value = float(token.text)
            if not math.isfinite(value):
                raise UsageError(f"a formula has {token.text[:40]}, which is too large a number")
            return Number(value)
        if token.kind == "literal":
            return Literal(token.text[1:])
        if token.kind == "operator" or token.text in ("if", "else"):
            raise UsageError(f"a formula has {token.text!r} where an operand is due")
        function = token.text.casefold()
        if self._peek() == "(":
            return self._call(function)
        return Name(token.text.replace("\\", ""))

    def _call(self, function: str) -> Node:
        self._expect("(")
        if function in _QUERIES:
            name = self._next()
            if name.kind not in ("name", "number"):
                raise UsageError(f"{function}() asks about a name, not {name.text[:40]!r}")
            self._expect(")")
            return Query(function, name.text.replace("\\", ""))
        if function not in _FUNCTIONS:
            raise UsageError(f"a formula calls {function[:40]!r}, which is no function of formulas")
        arguments = [self._choice()]
        while self._peek() == ",":
            self._next()
            arguments.append(self._choice())
        self._expect(")")
        least, most = _FUNCTIONS[function]
        if not least <= len(arguments) <= most:
            raise UsageError(f"{function}() takes {least} operands, not {len(arguments)}")
        return Call(function, tuple(arguments))


def parse_formula(text: str) -> Node:
    """Return what a formula says.

    >>> parse_formula("1000 * misses").operator
    '*'

    Raises UsageError, in one line, for text that is no formula.
    """
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"a formula has more than {MAX_CHARACTERS} characters")
    if not text.strip():
        raise UsageError("a formula is empty")
    node = _Parser(text).whole()
    if max(depth for depth, _ in _walk(node)) > MAX_DEPTH:
        raise UsageError(f"a formula has more than {MAX_DEPTH} operations that wait for one another")
    return node


def _walk(node: Node) -> Iterator[tuple[int, Node]]:
    """Yield every part of a formula with its depth, in the order of the text; no recursion."""
    waiting = [(1, node)]
    while waiting:
        depth, part = waiting.pop()
        yield depth, part
        waiting.extend((depth + 1, each) for each in reversed(_parts(part)))


def _parts(node: Node) -> tuple[Node, ...]:
    match node:
        case Negation(operand):
            return (operand,)
        case Operation(_, left, right):
            return (left, right)
        case Choice(then, condition, otherwise):
            return (then, condition, otherwise)
        case Call(_, arguments):
            return arguments
        case _:
            return ()


def names_in(node: Node) -> Iterator[str]:
    """Yield every event or metric whose value a formula may need, once for every place.

    >>> list(names_in(parse_formula("a / b if #smt_on else a")))
    ['a', 'b', 'a']
    """
    return (part.name for _, part in _walk(node) if isinstance(part, Name))


def literals_in(node: Node) -> Iterator[str]:
    """Yield every ``#name`` of a formula, without the ``#``."""
    return (part.name for _, part in _walk(node) if isinstance(part, Literal))


def evaluate(node: Node, values: Values) -> float:
    """Return a formula's value. Raises WithheldError, with the reason, where it has none."""
    try:
        value = _value(node, values)
    except OverflowError as error:
        raise WithheldError("it comes out larger than any number") from error
    except RecursionError as error:
        raise WithheldError("metrics refer to metrics too deeply") from error
    if not math.isfinite(value):
        raise WithheldError(f"it comes out as {value}")
    return value


_SIMPLE: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<": lambda a, b: float(a < b),
    ">": lambda a, b: float(a > b),
    "<=": lambda a, b: float(a <= b),
    ">=": lambda a, b: float(a >= b),
    "==": lambda a, b: float(a == b),
    "!=": lambda a, b: float(a != b),
    "|": lambda a, b: float(_whole(a) | _whole(b)),
    "^": lambda a, b: float(_whole(a) ^ _whole(b)),
    "&": lambda a, b: float(_whole(a) & _whole(b)),
}


def _value(node: Node, values: Values) -> float:
    match node:
        case Number(value):
            return value
        case Name(name):
            return values.name(name)
        case Literal(name):
            return values.literal(name)
        case Negation(operand):
            return -_value(operand, values)
        case Choice(then, condition, otherwise):
            return _value(then if _value(condition, values) != 0 else otherwise, values)
        case Operation(operator, left, right):
            first, second = _value(left, values), _value(right, values)
            if operator in ("/", "%"):
                return _over(operator, first, second, right)
            return _SIMPLE[operator](first, second)
        case Call("d_ratio", (left, right)):
            return _over("/", _value(left, values), _value(right, values), right)
        case Call(function, arguments):
            return (min if function == "min" else max)(_value(each, values) for each in arguments)
        case Query("has_event", name):
            return float(values.has_event(name))
        case Query("source_count", name):
            return values.source_count(name)
        case Query(_, name):
            return float(values.is_cpu(name))


def _over(operator: str, first: float, second: float, divisor: Node) -> float:
    if second == 0:
        raise WithheldError(f"{text_of(divisor)} is 0, which it divides by")
    return first / second if operator == "/" else math.fmod(first, second)


def _whole(value: float) -> int:
    if not math.isfinite(value):
        raise WithheldError(f"it comes out as {value}")
    return int(value)


def text_of(node: Node) -> str:
    """Return a formula's text with every operation in parentheses, which reads as the same formula.

    >>> text_of(parse_formula("a - b * 2 if #smt_on else max(a, 0)"))
    '((a - (b * 2)) if #smt_on else max(a, 0))'
    """
    match node:
        case Number(value):
            return f"{value:.17g}"
        case Name(name):
            return _escaped(name)
        case Literal(name):
            return f"#{name}"
        case Negation(operand):
            return f"(-{text_of(operand)})"
        case Operation(operator, left, right):
            return f"({text_of(left)} {operator} {text_of(right)})"
        case Choice(then, condition, otherwise):
            return f"({text_of(then)} if {text_of(condition)} else {text_of(otherwise)})"
        case Call(function, arguments):
            return f"{function}({', '.join(map(text_of, arguments))})"
        case Query(function, name):
            return f"{function}({_escaped(name)})"


def _escaped(name: str) -> str:
    """Return a name as it stands in a formula: between a PMU's @ anything may, outside operators may not."""
    pmu, at, event = name.partition("@")
    escaped = re.sub(r"([^\w.:?])", r"\\\1", pmu)
    # An escape keeps what would be read as a number or a keyword, or cannot begin a name, a name.
    if name in ("if", "else") or re.match(r"[^A-Za-z_\\]", escaped, re.ASCII):
        escaped = "\\" + escaped
    return escaped + at + event
