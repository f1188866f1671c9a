"""Formulas: what they mean, that any text gives a formula or one line, and that no value is made up."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import UsageError
from steelyard.analyze.counters.formulas import (
    Name,
    WithheldError,
    evaluate,
    literals_in,
    names_in,
    parse_formula,
    text_of,
)


class Table:
    """Values from a dictionary; a literal has a # before it."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self.values = values

    def name(self, name: str) -> float:
        if name not in self.values:
            raise WithheldError(f"{name} was not counted")
        return self.values[name]

    def literal(self, name: str) -> float:
        return self.name(f"#{name}")

    def has_event(self, name: str) -> bool:
        return name in self.values

    def source_count(self, name: str) -> float:
        return 4.0 if name in self.values else 0.0

    def is_cpu(self, identifier: str) -> bool:
        return identifier == "0x410fd490"


VALUES = {
    "a": 6.0,
    "b": 4.0,
    "z": 0.0,
    "#SMT_on": 1.0,
    "cpu@x,cmask=1@": 3.0,
    "topdown-be-bound": 2.0,
    "c:k": 9.0,
}


def value_of(text: str) -> float:
    return evaluate(parse_formula(text), Table(VALUES))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a + b * 2", 14),
        ("a - b - 1", 1),
        ("(a - b) * 2", 4),
        ("a / b / 2", 0.75),
        ("-a + 10", 4),
        ("--a", 6),
        ("2 - -a", 8),
        ("a % b", 2),
        ("1e3 * .5", 500),
        ("a if #SMT_on else b", 6),
        ("a if z else b", 4),
        ("1 if a > b else 2 if z else 3", 1),
        ("1 if a < b else 2 if z else 3", 3),
        ("1 - a / b if a < b else 1", 1),
        ("max(a, b, 1e9) - min(a, b)", 1e9 - 4),
        ("d_ratio(a, b)", 1.5),
        ("D_RATIO(a, b)", 1.5),
        ("cpu@x\\,cmask\\=1@ * topdown\\-be\\-bound", 6),
        ("cpu@x,cmask=1@ + c:k", 12),
        ("has_event(a) + has_event(nothing)", 1),
        ("source_count(a)", 4),
        # As Arm writes it: | is weaker than ^.
        ("1 if (strcmp_cpuid_str(0x410fd493) | strcmp_cpuid_str(0x410fd490) ^ 1) else 2", 2),
        ("a & 3 | 8", 10),
        ("a > 5 & b > 5", 0),
        ("a >= 6", 1),
        ("a == b", 0),
        ("a != b", 1),
    ],
)
def test_formulas_mean_what_they_mean_to_perf(text: str, value: float) -> None:
    assert value_of(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("a b", "continues with 'b'"),
        ("a +", "ends where an operand is due"),
        ("(a", "ends where an operand is due"),
        ("a if b", "ends where an operand is due"),
        ("if", "'if' where an operand is due"),
        ("* a", "'*' where an operand is due"),
        ("min(a)", "takes 2 operands"),
        ("d_ratio(a, b, c)", "takes 2 operands"),
        ("eval(a)", "no function of formulas"),
        ("has_event(1 + 2)", "where ')' is due"),
        ("has_event(#x)", "asks about a name"),
        ("1e999", "too large"),
        ("a ; b", "where nothing like it can stand"),
        ("__import__('os')", "where nothing like it can stand"),
        ("(" * 41 + "a" + ")" * 41, "nested more than"),
        ("a" + " + a" * 400, "operations that wait"),
        ("a" * 20_001, "more than 20000 characters"),
    ],
)
def test_malformed_formulas_are_reported_in_a_line(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_formula(text)
    assert message in error.value.message
    assert "\n" not in error.value.message
    assert len(error.value.message) < 200


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a / z", "z is 0, which it divides by"),
        ("a % z", "z is 0, which it divides by"),
        ("d_ratio(a, b - 4)", "(b - 4) is 0, which it divides by"),
        ("a + lost", "lost was not counted"),
        ("#num_cores", "#num_cores was not counted"),
        ("1e300 * 1e300", "it comes out as inf"),
        ("1e300 * 1e300 - 1e300 * 1e300", "it comes out as nan"),
        ("(1e300 * 1e300) & 1", "it comes out as inf"),
    ],
)
def test_what_has_no_value_is_withheld_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(WithheldError) as error:
        value_of(text)
    assert error.value.reason == reason


def test_only_the_branch_taken_needs_its_events() -> None:
    assert value_of("a if #SMT_on else lost") == 6
    assert value_of("(lost / z) if has_event(lost) else b") == 4


def test_names_and_literals_are_found_in_both_branches() -> None:
    node = parse_formula("max(a, cpu@e,edge@) if #SMT_on else -(b % #slots) | has_event(c)")
    assert list(names_in(node)) == ["a", "cpu@e,edge@", "b"]
    assert list(literals_in(node)) == ["SMT_on", "slots"]


@pytest.mark.parametrize("text", ["\\0", "\\if", "\\:a", "\\1e3@x@", "\\?", "4k_reads"])
def test_a_name_that_looks_like_something_else_stays_a_name(text: str) -> None:
    node = parse_formula(text)
    assert isinstance(node, Name)
    assert parse_formula(text_of(node)) == node


@given(st.text(max_size=60))
def test_any_text_is_a_formula_or_a_usage_error(text: str) -> None:
    try:
        node = parse_formula(text)
    except UsageError:
        return
    assert parse_formula(text_of(node)) == node


TOKENS = (
    "a b z lost 1 2.5 1e3 + - * / % ( ) , | ^ & < > <= >= == != if else min( max( d_ratio( has_event("
    " source_count( #SMT_on #x cpu@x,cmask=1@ c:k \\- @ strcmp_cpuid_str( 0x10"
)
pieces = st.lists(
    st.sampled_from(TOKENS.split()),
    max_size=40,
)


@given(pieces)
def test_any_tokens_give_a_finite_value_a_reason_or_a_usage_error(parts: list[str]) -> None:
    try:
        node = parse_formula(" ".join(parts))
    except UsageError:
        return
    assert parse_formula(text_of(node)) == node
    try:
        value = evaluate(node, Table(VALUES))
    except WithheldError:
        return
    assert math.isfinite(value)


numbers = st.floats(min_value=0, max_value=1e12).map(lambda number: f"{number:.17g}")
expressions = st.recursive(
    st.one_of(numbers, st.sampled_from(["a", "b"])),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda part: f"({part[0]} {part[1]} {part[2]})"),
        st.tuples(inner, inner).map(lambda part: f"min({part[0]}, {part[1]})"),
        st.tuples(inner, inner, inner).map(
            lambda part: f"({part[0]} if {part[1]} > {part[2]} else {part[2]})"
        ),
        inner.map(lambda part: f"(-{part})"),
    ),
    max_leaves=12,
)


@given(expressions)
def test_arithmetic_is_pythons(text: str) -> None:
    # Python reads the same notation; its eval stands here as the reference only.
    expected = float(eval(text, {"__builtins__": {}, "min": min}, {"a": 6.0, "b": 4.0}))
    try:
        assert value_of(text) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    except WithheldError:
        assert not math.isfinite(expected)
