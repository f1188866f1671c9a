"""House rule: files below 500 lines, functions below 70, so that one reads in one go.

Tests are lists of cases and may be as long as their cases are many; their files may not. What is longer has a
reason here; an entry that is no longer needed must go.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES, FUNCTION_LINES = 500, 70

LONG_FILES = {
    "crates/load/src/codec/cql/tests.rs": "recorded conversations in bytes",
    "python/tests/executables/test_cache_conversation.py": "one list of conversations, held by two servers",
    "python/tests/report/runs.py": "tables of the records of made-up runs",
}
LONG_FUNCTIONS = {
    ("crates/cache/src/report.rs", "general"): "a table: one line for each of memcached's statistics",
    ("crates/cache/src/server/mod.rs", "run"): "starts everything in the order in which it is stopped",
    ("crates/load/src/arrival.rs", "parse"): "a table: one arm for each kind of arrival",
    ("crates/load/src/codec/tls/mod.rs", "turn"): "one loop over rustls's states, which share its borrows",
    ("crates/load/src/engine/answers.rs", "answered"): "the hot path of an answer, inlined on purpose",
    ("crates/steelyard/src/bin/steelyard-load/settings.rs", "settings"): "a table: one line for each flag",
    ("crates/tax/src/concurrency.rs", "benchmarks"): "a table: one entry for each benchmark",
    ("crates/health/src/disk.rs", "built_in"): "one repeat, whose threads share its state",
    ("crates/tax/src/summary.rs", "score_of_rounds"): "one formula with its refusals",
    ("crates/tax/src/summary.rs", "summarize"): "a table: one field of the record after the other",
}

# Comments, strings and characters hold no code; brackets hold semicolons of array types.
_RUST = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | b?r(?P<hashes>\#*)".*?"(?P=hashes) | b?"(?:\\.|[^"\\])*"
    | b?'(?:\\.[^']*|[^'\\])' | \bfn\s+(?P<name>\w+) | (?P<test>\#\[(?:cfg\(test\)|test)\]) | [{}();\[\]]""",
    re.DOTALL | re.VERBOSE,
)


def _sources() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.py"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return sorted(path for path in set(listed.stdout.split()) if (ROOT / path).is_file())


def _is_test(path: str) -> bool:
    parts = Path(path)
    return "tests" in parts.parts or parts.name in ("tests.rs", "testing.rs")


def rust_functions(text: str) -> Iterator[tuple[str, int]]:
    """Yield the name and the lines of each function outside of test code."""
    line = [0] + [place.end() for place in re.finditer(r"\n", text)]

    def number(place: int) -> int:
        return next(index for index in range(len(line), 0, -1) if line[index - 1] <= place)

    open_blocks: list[tuple[str, int] | None] = []
    pending: tuple[str, int] | None = None
    depth, test_from = 0, None
    for token in _RUST.finditer(text):
        word = token[0]
        if token["name"]:
            pending = (token["name"], token.start())
        elif token["test"]:
            test_from = len(open_blocks) if test_from is None else test_from
        elif word in "([":
            depth += 1
        elif word in ")]":
            depth -= 1
        elif word == ";" and depth == 0:
            pending = None
        elif word == "{":
            open_blocks.append(pending)
            pending, depth = None, 0
        elif word == "}" and open_blocks:
            begun = open_blocks.pop()
            if begun is not None and test_from is None:
                yield begun[0], number(token.start()) - number(begun[1]) + 1
            if test_from == len(open_blocks):
                test_from = None


def python_functions(text: str) -> Iterator[tuple[str, int]]:
    """Yield the name and the lines of each function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_files_read_in_one_go() -> None:
    lines = {path: (ROOT / path).read_text().count("\n") for path in _sources()}
    long = {path: count for path, count in lines.items() if count >= FILE_LINES}
    assert long.keys() == LONG_FILES.keys(), long


def test_functions_read_at_a_glance() -> None:
    long = {}
    for path in _sources():
        if _is_test(path):
            continue
        functions = rust_functions if path.endswith(".rs") else python_functions
        for name, count in functions((ROOT / path).read_text()):
            if count >= FUNCTION_LINES:
                long[path, name] = count
    assert long.keys() == LONG_FUNCTIONS.keys(), long


def test_functions_are_found_whatever_stands_in_them() -> None:
    text = """
fn one(array: [u8; 4]) -> [u8; 2] {
    let brace = '{'; // }
    let text = r#"fn no() { "#;
}
trait T { fn declared(&self); }
impl T for U {
    fn two(&self) { if x { y() } }
}
#[cfg(test)]
mod tests {
    fn helper() { }
}
fn three() {
}
"""
    assert list(rust_functions(text)) == [("one", 4), ("two", 1), ("three", 2)]
