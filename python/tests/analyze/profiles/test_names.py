"""Names of functions in a line: what is taken off, and that nothing else is."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.analyze.profiles.names import short_function

WORDS = st.text(string.ascii_letters + "_", min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("function", "short"),
    [
        ("java.lang.Object java.util.TreeMap.put(K, V)", "TreeMap.put"),
        ("void java.util.zip.Deflater.<init>(int, boolean)", "Deflater.<init>"),
        (
            "java.lang.Object a.b.C$$Lambda$1492/0x00007f2930a1c000.apply(java.lang.Object)",
            "C$$Lambda$1492.apply",
        ),
        ("byte[] a.b.C.d()", "C.d"),
        ("Lorg/apache/cassandra/db/rows/Cell$Serializer;::deserialize", "Cell$Serializer::deserialize"),
        (
            "std::vector<int, std::allocator<int> >::push_back(int&&)",
            "std::vector<int, std::allocator<int> >::push_back",
        ),
        ("CodeHeap::find_blob_unsafe(void*) const", "CodeHeap::find_blob_unsafe"),
        ("Table::operator()(int) const", "Table::operator()"),
        ("I2C/C2I adapters", "I2C/C2I adapters"),
        ("StubRoutines (2)", "StubRoutines (2)"),
        ("net/http.(*conn).serve", "net/http.(*conn).serve"),
        ("encoding.json.decode", "encoding.json.decode"),
        ("finish_task_switch.isra.0", "finish_task_switch.isra.0"),
        ("py::fib:/tmp/a (b).py", "py::fib:/tmp/a (b).py"),
        ("f(", "f("),
        ("f)", "f)"),
        ("()", "()"),
        ("", ""),
    ],
)
def test_a_function_is_shown_by_its_own_name(function: str, short: str) -> None:
    assert short_function(function) == short


@given(st.text(max_size=40))
def test_any_text_has_a_name_that_is_part_of_it(function: str) -> None:
    short = short_function(function)
    assert len(short) <= len(function)
    assert bool(short) == bool(function)


@given(st.lists(WORDS, min_size=1, max_size=4), WORDS, WORDS, st.lists(WORDS, max_size=3))
def test_class_and_method_stay(packages: list[str], owner: str, method: str, parameters: list[str]) -> None:
    path = ".".join(word.lower() for word in packages)
    assert short_function(f"void {path}.{owner}.{method}({', '.join(parameters)})") == f"{owner}.{method}"
