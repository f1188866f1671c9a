"""``steelyard size`` as a user calls it: the guide, real experiments, every format, and what is refused."""

import csv
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.calling import call
from tests.cli.test_documents import hold

GUIDE = Path(__file__).resolve().parents[4] / "docs" / "guides" / "size.md"
TEXT = GUIDE.read_text()
FILES = dict(re.findall(r"^```csv (\S+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
COMMANDS = [shlex.split(line.strip()) for line in TEXT.splitlines() if line.startswith("    steelyard ")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def document(*words: str, folder: Path, code: int = 0) -> dict[str, Any]:
    done = call("size", *words, "--json", folder=folder)
    assert done.returncode == code, done.stderr
    made = json.loads(done.stdout)
    assert isinstance(made, dict)
    hold(made)
    return made


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[2:]))
def test_a_command_of_the_guide_works(words: list[str], folder: Path) -> None:
    made = document(*words[2:], folder=folder)
    best = made["recommended"]
    assert best["count"] * best["throughput"]["low"] >= made["demand_per_s"] * (1 + made["headroom_ratio"])
    assert best["is_assured"]


def test_the_guide_is_right_about_both_answers(folder: Path) -> None:
    first, second = (document(*words[2:], folder=folder) for words in COMMANDS[:2])
    assert (first["recommended"]["machine"], first["recommended"]["cpus"]) == ("large", 16)
    refused = next(one for one in second["sizes"] if one["cpus"] == 16)
    assert refused["refused"] == "p99 is 1.6 ms, the limit 1 ms"
    assert [edge["kind"] for edge in first["edges"]] == ["siblings"]
    page = (folder / "size.html").read_text()
    assert all(f'id="chart-{name}"' in page for name in ("cost", "throughput", "latency"))


def test_every_format_has_the_sizes(folder: Path) -> None:
    words = ("results.csv", "--rate", "2e6")
    as_csv = call("size", *words, "--format", "csv", folder=folder)
    rows = list(csv.DictReader(io.StringIO(as_csv.stdout)))
    assert [row["machine"] for row in rows] == ["c.xlarge", "m.xlarge"]
    assert "| c.xlarge" in call("size", *words, "--format", "markdown", folder=folder).stdout
    lines = call("size", *words, "--format", "jsonl", folder=folder).stdout.splitlines()
    assert all(json.loads(line) for line in lines)


def test_a_demand_that_nothing_serves_says_no(folder: Path) -> None:
    words = ("results.csv", "--rate", "2e6", "--memory", "1TiB")
    assert document(*words, folder=folder, code=1)["recommended"] is None
    done = call("size", *words, folder=folder)
    assert done.returncode == 1
    assert done.stdout.startswith("No size serves the workload: c.xlarge (4 CPUs): it has 8 GiB of memory")
    assert "Lower the rate or the limits" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing says what a machine does"),
        (["types.csv", "--curve", "nowhere"], "nowhere: no curve"),
        (["types.csv", "--curve", "types.csv"], "no columns cpus and ops_per_s"),
        (["types.csv", "--curve", "large=curves.csv"], "curves.csv has 2 machines"),
        (["types.csv", "--curve", "curves.csv", "--latency", "p50"], "--latency is for --latency-limit"),
        (["results.csv", "--sibling-worth", "0.3"], "--sibling-worth is for --curve"),
        (["results.csv", "--headroom", "9%"], "--headroom is for --rate"),
        (["types.csv", "--curve", "curves.csv", "--rate", "many"], "--rate 'many': not a number"),
        (["results.csv", "--workload", "nothing"], "unknown result 'nothing'"),
    ],
)
def test_wrong_arguments_are_one_line(words: list[str], said: str, folder: Path) -> None:
    done = call("size", *words, folder=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr


def experiment(folder: Path, name: str, script: str, *words: str) -> str:
    """Make an experiment of a script that prints figures; return its folder."""
    (folder / f"{name}.py").write_text(script)
    done = call("experiment", "--json", "--blocks", "4", "--to-the-end", *words, folder=folder)
    assert done.returncode in (0, 1), done.stderr
    return str(json.loads(done.stdout)["directory"])


def test_sweeps_of_load_and_of_memory_are_read_from_their_records(tmp_path: Path) -> None:
    load = experiment(
        tmp_path,
        "load",
        "import random, sys\nn = int(sys.argv[1])\nx = random.uniform(0.99, 1.01)\n"
        "print('rate', 1000 * min(n, 4) * x, 'p99', 900 + 300 * n)\n",
        *("--sweep", "clients=1,2,4,8", "--metric", r"rate=rate (\S+)"),
        *("--reading", r"latency_p99_us=p99 (\S+)", "--", "python3", "load.py", "{clients}"),
    )
    memory = experiment(
        tmp_path,
        "memory",
        "import random, sys\ng = int(sys.argv[1][:-3])\nx = random.uniform(0.99, 1.01)\n"
        "print('rate', 500 * min(g, 8) * x)\n",
        *("--sweep", "memory=1GiB,2GiB,4GiB,8GiB,16GiB,32GiB", "--metric", r"rate=rate (\S+)"),
        *("--", "python3", "memory.py", "{memory}"),
    )
    (tmp_path / "types.csv").write_text("machine,cpus,memory_gib,price_per_hour_usd\nm,4,16,0.2\n")
    words = ("types.csv", "--curve", f"m={load}", "--curve", f"m={memory}", "--rate", "1e5")
    made = document(*words, "--latency-limit", "2.2ms", folder=tmp_path)
    best = made["recommended"]
    assert best["throughput"]["basis"] == "the load of 4"
    assert best["latency_ns"] == pytest.approx(2.1e6)
    (edge,) = made["edges"]
    assert edge["kind"] == "memory"
    assert edge["at"]["value"] == pytest.approx(8 << 30, rel=0.15)
    assert made["memory_source"].startswith("the edge of ")


def test_a_record_of_scale_is_sized(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(
        "import random, sys\nprint('rate', 1000 * int(sys.argv[1]) * random.uniform(0.99, 1.01))\n"
    )
    done = call(
        *("scale", "--json", "--blocks", "2", "--no-profile", "--metric", r"rate=rate (\S+)"),
        *("--", "python3", "work.py", "{cpus}"),
        folder=tmp_path,
    )
    assert done.returncode in (0, 1), done.stderr
    (record,) = (tmp_path / "runs").glob("*/experiment.json")
    made = document("--curve", str(record.parent), "--rate", "1e5", folder=tmp_path)
    assert made["ranked_by"] == "cpus"
    assert made["recommended"] is None or made["recommended"]["cpus"] >= 1
