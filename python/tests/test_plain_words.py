"""House rule: plain words in prose and in names.

`WORDS` holds only words that can be found without false alarms, each with better ones and the reason; `KEPT`
lists the exceptions. Not here: words whose sense depends on the sentence ("found", "said"): a reader judges.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
TREES = (
    *("python", "crates", "fuzz", "benches", "workloads", "scripts", "docs", "data/*.toml"),
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    ":!docs/journal",
    ":!python/tests/test_plain_words.py",
)
CODE = (".py", ".rs")
TEXT = (*CODE, ".md", ".toml", ".java", ".c", ".h", ".js", ".css", ".j2", ".html", ".sql", ".options", "")


class Word(NamedTuple):
    """A word to avoid, as a regular expression; ``kinds`` are the suffixes of the files to search."""

    pattern: str
    better: str
    why: str
    kinds: tuple[str, ...] = TEXT


WORDS = (
    Word(
        r"(?<![a-z])told(?![a-z])",
        "reported, shown, listed; distinguished, separated; as a name: message, error, event, expected, ...",
        "who told whom says less than what is so, and as a name it may be anything",
    ),
    Word(
        r"(?<![a-z])untold(?![a-z])",
        "not measured, unknown, not comparable",
        "a riddle: 'too many to count' in plain English",
    ),
    Word(
        r"(?<![a-z])heard(?![a-z])",
        "received, last_answer_ns",
        "programs receive; nobody listens",
    ),
    Word(
        r"\b(?:tells?|telling) (?:it|them)\b|\btell(?:s|ing)?\b.{0,30}\bapart\b|\bwhat tells\b",
        "reports it, shows it; distinguishes, separates",
        "data and kernels report; two things are distinguished",
    ),
    Word(
        r"\b(?:what|that|which)[ _](?:is|are)[ _]none(?![a-z]|[ _]of\b)",
        "malformed; name what it is not: is no number, rows without a value",
        "none of what? The reader has to guess the noun",
    ),
    Word(
        r"^\s*(?:let (?:mut )?|for )?\(?(?:\w+, )*_?drawn(?:, \w+)*\)?(?:: [^=]+)? (?:[-+*|]?=|in) "
        r"|\b(?:def|fn) _?drawn\b|\*\*drawn\b",
        "generator, draws, resampled, points: the noun",
        "a participle names no thing: a generator, a sample and a chart all were 'drawn'",
        CODE,
    ),
    Word(r"\bwhat (?:comes|came|becomes) of\b", "the outcome, the result", "a noun is shorter"),
    Word(r"\b(?:seam|trio)s?\b", "boundary, interface; three", "a metaphor for a thing that has a name"),
)

KEPT = {
    ("python/steelyard/machine/checks/rule.py", 'UNKNOWN = "untold"'): "outcome in `machine check --json`",
    ("docs/reference/schemas.md", "`untold`"): "the same in the page of its schema",
    ("python/steelyard/report/counters/document.py", '"told_by_perf": ['): "key of a report of counters",
}


def texts() -> Iterator[tuple[str, str]]:
    """Yield the tracked text files, by path from the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *TREES],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.splitlines():
        if Path(name).suffix in TEXT and (ROOT / name).is_file():
            yield name, (ROOT / name).read_text(encoding="utf-8", errors="replace")


def hits(name: str, text: str) -> Iterator[tuple[int, str, Word]]:
    """Yield the number and text of each line with a word of the list."""
    for word in WORDS:
        pattern = re.compile(word.pattern, re.IGNORECASE | re.MULTILINE)
        if Path(name).suffix in word.kinds:
            for match in pattern.finditer(text):
                begin, end = text.rfind("\n", 0, match.end()) + 1, text.find("\n", match.end())
                yield text.count("\n", 0, match.end()) + 1, text[begin : end if end >= 0 else None], word


def test_words_are_plain() -> None:
    riddles, used = [], set()
    for name, text in texts():
        for number, line, word in hits(name, text):
            kept = {each for each in KEPT if each[0] == name and each[1] in line}
            used |= kept
            if not kept:
                riddles.append(f"{name}:{number}: {line.strip()[:80]}: say {word.better} ({word.why})")
    assert not riddles, "\n".join(riddles)
    assert used == KEPT.keys(), "these exceptions are no longer needed"


@pytest.mark.parametrize(
    "line",
    [
        "# What is missing is told with its reason.",
        "    let told = error.to_string();",
        "def test_a_wrong_name_is_told():",
        "const UNTOLD: f64 = 0.3;",
        "class Untold:",
        "    heard_ns: u64,",
        "# Two bytes tell one from the other apart.",
        "# What is none is left out.",
        "    whole, drawn = derive(rows)",
        "def _drawn(count: int) -> list[int]:",
    ],
)
def test_a_riddle_is_found(line: str) -> None:
    assert [number for number, _, _ in hits("a.py", line)] == [1]


@pytest.mark.parametrize(
    "line",
    [
        "# A box is drawn for each; values drawn from a law.",
        "# A folder that is none of these is refused.",
        "# Ask the toldest: untoldable, overheard.",
        "drawn: what a chart shows",
    ],
)
def test_plain_english_passes(line: str) -> None:
    assert not list(hits("a.py", line))
