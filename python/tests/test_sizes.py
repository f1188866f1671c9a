"""House rule: files below 500 lines, so that one reads in one go.

How long a function may be is for clippy (``too_many_lines``) and ruff (``PLR0915``). What is longer has a
reason here; an entry that is no longer needed must go.
"""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES = 500

LONG_FILES = {
    "crates/load/src/codec/cql/tests.rs": "recorded conversations in bytes",
    "python/tests/executables/test_cache_conversation.py": "one list of conversations, held by two servers",
    "python/tests/report/runs.py": "tables of the records of made-up runs",
}


def test_files_read_in_one_go() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.py"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = {path for path in listed.stdout.split() if (ROOT / path).is_file()}
    lines = {path: (ROOT / path).read_text().count("\n") for path in paths}
    long = {path: count for path, count in lines.items() if count >= FILE_LINES}
    assert long.keys() == LONG_FILES.keys(), long
