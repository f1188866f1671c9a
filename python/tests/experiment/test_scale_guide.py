"""The guide on scaling: its commands work as they stand, and its names are the product's."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from steelyard.analyze.scaling.measured import COLUMNS
from tests.calling import call
from tests.cli.test_documents import hold

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "scale.md"
TEXT = GUIDE.read_text()
FILES = dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
LINES = [line.strip() for line in TEXT.splitlines() if line.startswith("    ")]
COMMANDS = [shlex.split(line) for line in LINES if line.split()[0] in ("cc", "db_bench", "steelyard")]


def run(words: list[str], folder: Path) -> str:
    if words[0] == "steelyard":
        at = words.index("--") if "--" in words else len(words)
        done = call(*words[1:at], "--json", *words[at:], folder=folder)
    else:
        done = subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=200)
    # Whether a curve is flat depends on who else has this machine's CPUs.
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_the_guide_scales_a_benchmark_commands_and_files() -> None:
    assert [" ".join(words[:3]) for words in COMMANDS] == [
        "steelyard scale tao",
        "cc -O2 -g",
        "steelyard scale --blocks",
        "steelyard scale --blocks",
        "db_bench --db=rocks --benchmarks=fillseq",
        "steelyard scale --blocks",
        *["steelyard scale --from"] * 4,
    ]


@pytest.mark.parametrize("program", ["cc", "db_bench", "curve"])
def test_the_commands_of_the_guide_work(program: str, tmp_path: Path) -> None:
    if program != "curve" and shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    chosen = {"cc": COMMANDS[1:4], "db_bench": COMMANDS[4:6], "curve": COMMANDS[6:]}[program]
    for words in chosen:
        text = run(words, tmp_path)
        if words[0] == "steelyard":
            document = json.loads(text)
            hold(document)
            assert document["status"] == "complete"
            assert all(step["ops_per_s"] for step in document["steps"])
            assert not any(step["lost"] for step in document["steps"])
    if program == "db_bench":
        assert all(step["readings"]["latency_p99_ns"] > 500 for step in document["steps"])
        assert document["loss"]["terms"]
    if program == "curve":
        assert document["loss"]["cause"].startswith("each instruction takes more clock cycles")
        assert (tmp_path / "page.html").stat().st_size > 10_000


def test_the_guide_names_every_column() -> None:
    listed = TEXT[TEXT.index("| column |") :]
    for column in COLUMNS:
        for name in column.names:
            assert f"`{name}`" in listed or (name.endswith("_ns") and f"`{name[:-3]}_us`" in listed), name
