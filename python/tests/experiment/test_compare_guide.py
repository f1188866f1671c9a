"""The guide on comparing variants: its commands work as they stand."""

import json
import shlex
from pathlib import Path

import pytest

from steelyard.bench.operations.sources import parse_all
from tests.calling import call
from tests.cli.test_documents import hold
from tests.experiment.test_curves import wide

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "compare.md"
LINES = [
    line.strip() for line in GUIDE.read_text().splitlines() if line.startswith("    steelyard experiment ")
]
COMMANDS = [shlex.split(line) for line in LINES]


def test_the_guide_compares_a_benchmark_and_commands() -> None:
    # The benchmark is tried in test_experiment.py, with shorter runs.
    assert [words[2] for words in COMMANDS].count("tao") == 1
    assert len(COMMANDS) == 8


def test_the_file_of_the_guide_works(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("\n".join(f"word {number}" for number in range(50_000)))
    wide(tmp_path / "curves.csv")
    text = GUIDE.read_text().partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "two.toml").write_text(text)
    done = call("experiment", "--json", "two.toml", folder=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    hold(document)
    assert sorted(document["by_factor"]) == ["file", "level"]
    assert all(not any(answer["lost"].values()) for answer in document["answers"])


@pytest.mark.parametrize(
    "words",
    [words for words in COMMANDS if words[2] not in ("tao", "--pilot")],
    ids=lambda words: words[3],
)
def test_a_command_of_the_guide_works(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "words").write_text("\n".join(f"word {number}" for number in range(50_000)))
    wide(tmp_path / "curves.csv")
    (tmp_path / "steps.py").write_text(
        "import random\nfor i in range(40): print('rate', (100 - 60 * 0.7**i) * random.gauss(1, 0.01))\n"
    )
    done = call("experiment", "--json", *words[2:], folder=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    hold(document)
    assert document["status"] == "complete"
    assert all(
        answer["ratio"] is not None and not any(answer["lost"].values()) for answer in document["answers"]
    )


def test_the_pilot_of_the_guide_works(tmp_path: Path) -> None:
    (words,) = (words for words in COMMANDS if words[2] == "--pilot")
    (tmp_path / "words").write_text("\n".join(f"word {number}" for number in range(50_000)))
    done = call("experiment", "--json", *words[2:], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    hold(document)
    assert len(document["needs"]) == 4


def test_flags_of_the_longer_examples_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    text = GUIDE.read_text().replace("\\\n", " ")
    longer = [shlex.split(line) for line in text.splitlines() if line.startswith("steelyard experiment ")]
    assert len(longer) == 2
    monkeypatch.setenv("COLUMNS", "200")
    shown = call("experiment", "--help")
    flags = {word for words in longer for word in words if word.startswith("--")}
    assert flags >= {"--ops", "--hosts", "--guard"}
    assert not {flag for flag in flags if flag not in shown.stdout}
    for words in longer:
        sources = [words[at + 1] for at, word in enumerate(words) if word == "--ops"]
        assert {spec.name for spec in parse_all(sources)} == ({"requests", "p99_s"} if sources else set())
