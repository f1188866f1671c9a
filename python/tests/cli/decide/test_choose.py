"""``steelyard choose`` as a user calls it: the guide, real runs, every format, and what is refused."""

import csv
import io
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from steelyard._base import RecordError, UsageError
from steelyard.cli.decide import sources
from steelyard.decide.request import TableRequest
from steelyard.records import Check, Level, Verdict
from tests.calling import call
from tests.cli.suites import write_suite
from tests.cli.test_documents import hold
from tests.report.runs import telemetry_tables, write_run
from tests.telemetry.recordings import table_of, write_recording

GUIDE = Path(__file__).resolve().parents[4] / "docs" / "guides" / "choose.md"
TEXT = GUIDE.read_text()
FILES = dict(re.findall(r"^```csv (\S+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
COMMANDS = [shlex.split(line.strip()) for line in TEXT.splitlines() if line.startswith("    steelyard ")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def document(*words: str, folder: Path, code: int = 0) -> dict[str, Any]:
    done = call("choose", *words, "--json", folder=folder)
    assert done.returncode == code, done.stderr
    made = json.loads(done.stdout)
    assert isinstance(made, dict)
    hold(made)
    return made


def shown(*words: str, folder: Path) -> str:
    done = call("choose", *words, folder=folder)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.replace("\u202f", " ").split())


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[2:4]))
def test_a_command_of_the_guide_works(words: list[str], folder: Path) -> None:
    made = document(*words[2:], folder=folder)
    assert made["kind"] == ("savings" if "--improvement" in words else "choice")


def test_the_guide_quotes_what_is_said(folder: Path) -> None:
    quoted = [
        part
        for part in TEXT.replace("\n", " ").split("`")
        if part.startswith(("SKU-", "batch mis", "total is"))
    ]
    assert len(quoted) == 4
    said = " ".join(shown(*words[2:], folder=folder) for words in COMMANDS[:3])
    for sentence in quoted:
        assert sentence in said


def test_the_page_has_the_charts(folder: Path) -> None:
    shown(*COMMANDS[0][2:], folder=folder)
    page = (folder / "choose.html").read_text()
    charts = ("perf", "perf-per-watt", "perf-per-cost", "tco", "front-cost", "front-power")
    for chart in charts:
        assert f'id="chart-{chart}"' in page


def test_every_format_has_the_scores(folder: Path) -> None:
    words = ("servers.csv", "--baseline", "SKU4")
    as_csv = call("choose", *words, "--format", "csv", folder=folder)
    rows = list(csv.DictReader(io.StringIO(as_csv.stdout)))
    assert [row["machine"] for row in rows] == ["SKU-A", "SKU4", "SKU-B"]
    markdown = call("choose", *words, "--format", "markdown", folder=folder)
    assert "| SKU-A" in markdown.stdout
    lines = call("choose", *words, "--format", "jsonl", folder=folder).stdout.splitlines()
    assert all(json.loads(line) for line in lines)


def test_a_demand_that_no_machine_meets_says_no(folder: Path) -> None:
    words = ("servers.csv", "--demand", "django_per_s=1e8", "--site-mw", "1")
    made = document(*words, folder=folder, code=1)
    assert made["demand"]["is_met"] is False
    done = call("choose", *words, folder=folder)
    assert done.returncode == 1
    assert done.stdout.startswith("No machine type meets the demand within the limits: SKU-A: ")
    assert "Raise the limit" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no machines"),
        (["nowhere.csv"], "nowhere.csv"),
        (["servers.csv", "--fleet", "10"], "--fleet is for --improvement"),
        (
            ["--improvement", "1%", "--order-by", "perf"],
            "--order-by is for the order of machines, not --improvement",
        ),
        (
            ["servers.csv", "--order-by", "price"],
            "--order-by 'price' is none of perf, perf-per-watt, perf-per-cost",
        ),
        (["servers.csv", "--order-by", "perf-per-cost"], "what is known: perf-per-watt, perf"),
        (["servers.csv", "--baseline", "SKU5"], "unknown machine 'SKU5' (machines: SKU4"),
        (["servers.csv", "--demand", "django"], "--demand"),
        (["servers.csv", "--weight", "django_per_s=lots"], "--weight 'lots': not a number"),
        (["servers.csv", "--headroom", "2000%"], "--headroom is for --demand"),
        (["servers.csv", "--demand", "django_per_s=9", "--headroom", "2000%"], "--headroom '2000%'"),
        (["--improvement", "x"], "--improvement 'x': not a share"),
        (["prices.csv", "--power-price", "0.1"], "no machine has a result"),
    ],
)
def test_wrong_arguments_are_one_line(words: list[str], said: str, folder: Path) -> None:
    done = call("choose", *words, folder=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr


def test_runs_of_two_machines_are_weighed_with_stated_prices(tmp_path: Path) -> None:
    for number in range(3):
        write_run(tmp_path / f"a-{number}", index=number + 1, count=3)
        write_run(tmp_path / f"b-{number}", index=number + 1, count=3, scale=1.2 + 0.01 * number)
    (tmp_path / "prices.csv").write_text("machine,price_usd,budgeted_power_w\nold,5000,250\nnew,5500,260\n")
    sources = [f"{name}={letter}-{n}" for name, letter in (("old", "a"), ("new", "b")) for n in range(3)]
    made = document(*sources, "prices.csv", "--power-price", "0.1", "--baseline", "old", folder=tmp_path)
    assert made["criterion"] == "perf-per-cost"
    assert [one["name"] for one in made["machines"]] == ["new", "old"]
    assert made["workloads"][0]["conditions"].startswith("tier ")
    assert made["orders"][0]["ratio"] > 1


@pytest.mark.parametrize(
    ("columns", "compared"),
    [
        ("web_per_s,db_per_s", "overall Perf"),
        ("web_per_s,db_per_s,price_usd", "overall Perf"),
        ("web_per_s,db_per_s,price_usd,power_w", "overall Perf, cost and power"),
    ],
)
def test_what_a_machine_is_better_in_is_named(tmp_path: Path, columns: str, compared: str) -> None:
    """A is not better in `db_per_s`: only the score, the cost and the power are compared."""
    best, other = "A,3000,900,4000,200", "B,1000,1000,5000,300"
    count = columns.count(",") + 2
    rows = [",".join(row.split(",")[:count]) for row in (best, other)]
    (tmp_path / "two.csv").write_text("\n".join([f"machine,{columns}", *rows, ""]))
    words = ("--order-by", "perf", "--baseline", "A", "--power-price", "0.1")
    done = call("choose", "two.csv", *words, "--format", "markdown", folder=tmp_path)
    assert f"| A is better in {compared} |" in done.stdout


def test_runs_of_one_tier_are_chosen(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a")
    write_run(tmp_path / "runs" / "b", changes={"tier": "smoke"})
    source = (str(tmp_path / "runs"),)
    with pytest.raises(UsageError) as refused:
        sources.table_of(TableRequest(sources=source))
    assert refused.value.hint == "--tier quick uses those of one tier"
    for tier in ("quick", "smoke"):
        (column,) = sources.table_of(TableRequest(sources=source, tier=tier)).results
        assert column.conditions.startswith(f"tier {tier},")
    with pytest.raises(UsageError, match="no run of tier 'full' in it") as refused:
        sources.table_of(TableRequest(sources=source, tier="full"))
    assert refused.value.hint == "there are runs of quick, smoke"


def test_runs_of_a_folder_that_cannot_be_read_are_left_out_and_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / "runs" / name)
    whole = sources.table_of(TableRequest(sources=(str(tmp_path / "runs"),)))
    assert not [note for note in whole.notes if "left out" in note]
    (tmp_path / "runs" / "b" / "machine.json").write_text('{"kind": "other"}')
    (note,) = [
        note
        for note in sources.table_of(TableRequest(sources=(str(tmp_path / "runs"),))).notes
        if note.startswith("1 run left out: ")
    ]
    assert "b/machine.json" in note
    # One that was named is missed.
    with pytest.raises(RecordError, match=r"machine\.json"):
        sources.table_of(TableRequest(sources=(str(tmp_path / "runs" / "b"),)))
    (tmp_path / "runs" / "a" / "machine.json").write_text('{"kind": "other"}')
    with pytest.raises(UsageError, match="no run in it can be read"):
        sources.table_of(TableRequest(sources=(str(tmp_path / "runs"),)))


def test_machines_whose_runs_are_all_invalid_are_refused_with_the_reason(tmp_path: Path) -> None:
    for name in ("a", "b"):
        invalid = Verdict.of([Check(id="x", level=Level.INVALID, claim="another program used the CPUs")])
        changes = {"run_id": name, "verdict": invalid}
        write_run(tmp_path / name, changes=changes)
    done = call("choose", "A=a", "B=b", folder=tmp_path)
    assert done.returncode == 2
    assert "no machine has a result: tao of A: the result is invalid: another program used" in done.stderr


def with_power(run: Path, watts: float) -> None:
    """Record energy of a package beside the other telemetry of a run, as counters of it would."""
    tables = telemetry_tables(2, 0.5, "steelyard-load")
    times = tables["cpu"].column("time_ns").unique().to_pylist()
    rows = [
        {
            "time_ns": time,
            "domain": "package-0",
            "energy_uj": round((time - times[0]) / 1e3 * watts),
            "power_uw": None,
            "energy_max_uj": 1 << 60,
        }
        for time in times
    ]
    shutil.rmtree(run / "telemetry")
    write_recording(run / "telemetry", {**tables, "power": table_of("power", rows)})


def test_power_of_runs_is_read_from_their_recordings(tmp_path: Path) -> None:
    for name, scale, watts in (("a", 1.0, 100.0), ("b", 1.2, 150.0)):
        with_power(write_run(tmp_path / name, scale=scale, changes={"run_id": name}), watts)
    made = document("A=a", "B=b", "--baseline", "A", folder=tmp_path)
    assert made["criterion"] == "perf-per-watt"
    powers = {one["name"]: one["power"]["watts"] for one in made["machines"]}
    assert powers == {"A": pytest.approx(100, rel=0.01), "B": pytest.approx(150, rel=0.01)}
    assert [one["name"] for one in made["machines"]] == ["A", "B"]
    assert any("not of whole servers" in note for note in made["notes"])


def test_suites_of_two_machines_are_weighed(tmp_path: Path) -> None:
    write_suite(tmp_path / "one", ("tao", "tax"))
    write_suite(tmp_path / "two", ("tao", "tax"), scale=2.0)
    for manifest in (tmp_path / "two").glob("*/run.json"):
        # A run of its own, not one run under two names.
        run = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**run, "run_id": f"{run['run_id']}-two"}))
    made = document("A=one", "B=two", folder=tmp_path)
    assert "tao" in [each["name"] for each in made["workloads"]]
    assert made["machines"][0]["name"] == "B"
    assert made["orders"][0]["probability"] is None
