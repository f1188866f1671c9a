"""``steelyard score`` of several machines as a user calls it: the guide, runs, stores, refusals."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from steelyard import records
from steelyard._base import schemas_dir
from steelyard.decide.tables.columns import ATTRIBUTES
from steelyard.records import Check, Level, Machine, Metric, Run, RunStatus, Verdict
from tests.calling import call
from tests.cli.test_documents import hold
from tests.fleet.half_empty import Shape, make

ROOT = Path(__file__).resolve().parents[4]
TEXT = (ROOT / "docs" / "guides" / "score.md").read_text()
FILES = dict(re.findall(r"^```(?:csv|toml) (\S+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
COMMANDS = [shlex.split(line.strip()) for line in TEXT.splitlines() if line.startswith("    steelyard ")]
MACHINES = ROOT.parent / "shared" / "data" / "servers" / "machines.csv"
needs_data = pytest.mark.skipif(not MACHINES.exists(), reason="../shared/data/servers is not here")


def write_run(folder: Path, value: float, at: int, **changes: Any) -> Path:
    """Write a run of ``tax`` without its recordings."""
    folder.mkdir(parents=True)
    run = records.read(Run, schemas_dir() / "golden" / "run.json")
    level = changes.pop("level", Level.VALID)
    clock = run.clock.model_copy(update={"realtime_ns": run.clock.realtime_ns + at})
    fields = {
        "run_id": f"20260101-00000{at}-tax",
        "benchmark": "tax",
        "tier": "smoke",
        "status": RunStatus.COMPLETE,
        "clock": clock,
        "metrics": {"operations_per_s": Metric(value=value, unit="1/s", better="higher")},
        "verdict": Verdict.of([Check(id="steady", level=level, claim="it drifts")]),
        **changes,
    }
    records.write(run.model_copy(update=fields), folder / "run.json")
    records.write(records.read(Machine, schemas_dir() / "golden" / "machine.json"), folder / "machine.json")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    for name, value in (("small", 1000.0), ("large", 2000.0), ("old", 700.0)):
        for at in range(3):
            number = {"small": 0, "large": 10, "old": 20}[name] + at
            write_run(tmp_path / "runs" / name / f"tax-{at}", value * (1 + 0.01 * at), number)
    return tmp_path


def ask(*words: object, folder: Path, **environment: str) -> CompletedProcess[str]:
    return call(*map(str, words), folder=folder, **environment)


def document(*words: object, folder: Path, code: int = 0, **environment: Any) -> dict[str, Any]:
    done = ask("score", *words, "--json", folder=folder, **environment)
    assert done.returncode == code, done.stderr
    made = json.loads(done.stdout)
    assert isinstance(made, dict)
    hold(made)
    return made


def error(*words: object, folder: Path, code: int = 2) -> str:
    """Return what a refusal says, which is one line with a hint."""
    done = ask("score", *words, folder=folder)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("steelyard: ")
    assert len(done.stderr) < 1000
    return done.stderr


def test_the_commands_of_the_guide_work(folder: Path) -> None:
    home: dict[str, Any] = {"XDG_DATA_HOME": str(folder / "home")}
    for words in COMMANDS:
        if words[1:] == ["score", "latest"]:
            continue  # One run: tests/decide/test_score.py.
        done = ask(*words[1:], folder=folder, **home)
        assert (done.returncode, done.stderr) == (0, ""), words
    assert (folder / "scores.html").stat().st_size > 10_000
    over = document("large=runs/large", "old=runs/old", "--baseline", "lab", folder=folder, **home)
    assert over["baseline"] == "lab"
    assert over["machines"][0]["ratio"] == pytest.approx(2)


def test_the_guide_quotes_what_is_said(folder: Path) -> None:
    quoted = re.findall(r"`(large is first[^`]*)`", TEXT)
    assert len(quoted) == 1
    assert quoted[0] in ask("score", "results.csv", "--baseline", "small", folder=folder).stdout


def test_a_baseline_that_is_first_is_said_to_be_so_and_a_folder_takes_the_page(folder: Path) -> None:
    done = ask("score", "results.csv", "--baseline", "large", "--report", ".", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("large, the baseline, is first\n")
    assert (folder / "report.html").is_file()


def test_the_guide_names_every_attribute() -> None:
    listed = TEXT.partition("prices a currency (`price_usd`):")[2].partition("Power measured")[0]
    assert re.findall(r"`([a-z0-9_]+)`", listed) == list(ATTRIBUTES)


def test_both_forms_and_the_declared_one_give_one_answer(folder: Path) -> None:
    found = document("long.csv", "--noise", "2%", folder=folder)
    assert found["units"] == {"web": "1/s", "copy": "bytes/s"}
    declared = document("plain.csv", "--columns", "columns.toml", folder=folder)
    assert declared["weights"] == {"web_per_s": 0.5, "wait": 0.5}
    assert declared["machines"][0]["ratio"] == pytest.approx((2 * 2.1 / 2.2) ** 0.5)


def test_runs_are_named_by_the_user_and_repeats_give_an_interval(folder: Path) -> None:
    found = document("small=runs/small", "large=runs/large", folder=folder)
    first = found["machines"][0]
    assert (first["name"], first["ratio"]) == ("large", pytest.approx(2))
    assert first["low"] < 2 < first["high"]
    assert first["better_than_next"] > 0.99
    assert list(found["conditions"]) == ["tax"]
    text = ask("score", "small=runs/small", "large=runs/large", folder=folder, COLUMNS="80").stdout
    assert text.startswith("large is first: 2x small (1.96 to 2.05)")
    assert max(map(len, text.splitlines())) <= 80


def test_a_run_beside_a_table_of_prices_is_one_machine(folder: Path) -> None:
    (folder / "prices.csv").write_text("machine,price_usd\nsmall,100\nlarge,300\n")
    found = document("small=runs/small", "large=runs/large", "prices.csv", folder=folder)
    assert len(found["machines"]) == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tier": "full"}, "one name, two workloads"),
        ({"steelyard_version": "99.0.0"}, "one name, two workloads"),
        ({"parameters": {}}, "differ: only one of the two has the parameter"),
    ],
)
def test_one_name_for_two_workloads_is_refused(changes: dict[str, Any], words: str, folder: Path) -> None:
    write_run(folder / "other", 1000, 5, **changes)
    assert words in error("small=runs/small", "other=other", folder=folder)


def test_invalid_runs_withhold_a_score_and_suspect_ones_are_named(folder: Path) -> None:
    write_run(folder / "bad", 1000, 5, level=Level.INVALID)
    write_run(folder / "so-so", 1500, 6, level=Level.SUSPECT)
    found = document("small=runs/small", "bad=bad", "so-so=so-so", folder=folder)
    last = found["machines"][-1]
    assert (last["name"], last["ratio"]) == ("bad", None)
    assert last["withheld"] == "tax: the result is invalid: it drifts"
    text = ask("score", "small=runs/small", "bad=bad", "so-so=so-so", folder=folder).stdout
    assert "! Suspect results: tax on so-so." in text
    assert "Without a score" in text
    assert "no machine has a result: bad: 20260101-000005-tax gives no" in error("bad=bad", folder=folder)


def test_the_answer_is_no_where_no_machine_has_a_score(folder: Path) -> None:
    (folder / "t.csv").write_text("machine,x,y\nA,1,\nB,,2\n")
    found = document("t.csv", folder=folder, code=1)
    assert [machine["ratio"] for machine in found["machines"]] == [None, None]
    assert ask("score", "t.csv", folder=folder).stdout.startswith("No machine has an overall score.")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing.csv"], "there is no file nothing.csv"),
        (["a=runs/nothing", "results.csv"], "nothing"),
        (["results.csv", "results.csv"], "results.csv is given twice"),
        (["a=results.csv"], "a file names its machines itself"),
        (["results.csv", "--baseline", "huge"], "machines: small, large, old; baselines: default"),
        (["results.csv", "--result", "web"], "unknown result 'web'"),
        (["results.csv", "--columns", "nothing.toml"], "nothing.toml"),
        (["one=runs/small"], "one machine only (one)"),
        (["a=runs/small", "b=runs/small"], "one machine, two names"),
        (["runs/small/tax-0", "--noise", "2%"], "--noise is for several machines"),
        (["home", "results.csv"], "home: no runs in it"),
    ],
)
def test_wrong_sources_are_refused(words: list[str], said: str, folder: Path) -> None:
    (folder / "home").mkdir()
    assert said in error(*words, folder=folder)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\0\0\0\0", b"\xff\xfe\x00\xd8", b"machine,x\nA,\xff\n", b"PK\x03\x04" + bytes(range(256)),
        b"machine,x\nA," + b"9" * 10_000_000 + b"\n", b"machine,x\nA,1\0\n", b"machine,x\n\"A,1\n",
        b"machine," + b"x" * 100_000 + b"\nA,1\n", b"\n\n\n", b"a\n" * 1000, b"machine;x,y\nA;1,2;3\n",
        b'machine,cpu,x\n"\x1b[31mA\n",P,1\n"\x1b[31mA\n",Q,2\n',
    ],
)  # fmt: skip
def test_hostile_files_are_refused_in_one_line(content: bytes, folder: Path) -> None:
    (folder / "t.csv").write_bytes(content)
    said = error("t.csv", folder=folder)
    assert "\x1b" not in said


def test_names_from_outside_move_no_cursor_and_start_no_formula(folder: Path) -> None:
    (folder / "t.csv").write_text('machine,"x\x1b[2J"\n=cmd(),1\n"\x1b[31mred\x07\n",2\n[bold]b[/bold],3\n')
    done = ask("score", "t.csv", folder=folder)
    assert done.returncode == 0
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", done.stdout)
    assert "[bold]b[/bold]" in done.stdout
    table = ask("score", "t.csv", "--format", "csv", folder=folder).stdout
    assert not re.search(r"^=cmd", table, re.MULTILINE)
    assert len(document("t.csv", folder=folder)["machines"]) == 3


def test_platforms_of_a_fleet_are_machines_and_its_jobs_results(tmp_path: Path) -> None:
    store = make(tmp_path / "store", Shape(machines=8, platforms=2, jobs=2))
    found = document(store, "--baseline", "p0", folder=tmp_path)
    assert [machine["name"] for machine in found["machines"]] in (["p0", "p1"], ["p1", "p0"])
    assert found["units"] == {"job-0_ops_per_cpu_s": "1/s", "job-1_ops_per_cpu_s": "1/s"}
    assert all(machine["low"] for machine in found["machines"] if machine["name"] != "p0")
    assert "is given twice" in error(store, f"{store}/", folder=tmp_path)
    without = make(tmp_path / "none", Shape(machines=4, platforms=2, missing=frozenset({"operations"})))
    assert "has operations: its samples have no operations" in error(without, folder=tmp_path)
    empty = make(tmp_path / "empty", Shape(samples=0))
    assert "has no samples of tasks" in error(empty, folder=tmp_path)
    wild = make(tmp_path / "wild", Shape(machines=6, platforms=2, wild=0.3, null=0.1))
    assert ask("score", wild, folder=tmp_path).returncode in (0, 1)


def test_many_notes_are_bounded_in_text_and_whole_in_the_document(folder: Path) -> None:
    names = [f"r{at}_per_s" for at in range(50)]
    rows = [",".join((machine, *("0" if machine == "C" else "5" for _ in names))) for machine in "ABC"]
    (folder / "t.csv").write_text("\n".join([",".join(("machine", *names)), *rows]))
    assert "31 more notes: --json has all." in ask("score", "t.csv", folder=folder).stdout
    assert len(document("t.csv", folder=folder)["notes"]) == 51


@needs_data
def test_the_data_of_two_cloud_vendors_is_ranked(tmp_path: Path) -> None:
    found = document(MACHINES, "--baseline", "aws/m7g.xlarge", folder=tmp_path)
    assert len(found["machines"]) == 1214
    withheld = [machine for machine in found["machines"] if machine["ratio"] is None]
    assert withheld
    assert all(machine["withheld"] for machine in withheld)
    text = ask("score", MACHINES, "--baseline", "aws/m7g.xlarge", folder=tmp_path, COLUMNS="80").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) < 130
