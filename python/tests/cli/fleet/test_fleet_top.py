"""``steelyard fleet top``, ``diff``, ``numa``, ``pressure``, ``pair`` and ``symbols`` as people run them."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from steelyard._base import executable
from steelyard.cli.main import invoke
from steelyard.fleet.profiles.symbols import read_symbols
from steelyard.fleet.store.store import create_store, write_rows
from tests.fleet.simulated import simulated_store

MIDNIGHT = 1_767_225_600


def _profiles(store: Path, stacks: list[str]) -> None:
    count = len(stacks)
    columns = {
        "machine": [f"m{at}" for at in range(count)],
        "platform": ["skylake"] * count,
        "job": ["web"] * count,
        "task": ["web/0"] * count,
        "window_start_unix_s": [MIDNIGHT] * count,
        "window_s": [60.0] * count,
        "event": ["cycles"] * count,
        "hz": [99.0] * count,
        "stack": stacks,
        "samples": [10] * count,
        "weight": [1e8] * count,
        "sampled_ratio": [0.5] * count,
    }
    write_rows(str(store), "profiles", pa.table(columns), cluster="a", date="2026-01-01", machine="m0")


def test_symbols_of_a_real_program_name_its_offsets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = executable("steelyard-profile")
    listed = read_symbols(program, program)
    offset, size, name = max((row for row in listed["symbols"] if row[1] > 64), key=lambda row: row[1])
    frame = f"0x{offset + size // 2:x} [{listed['module']}@{listed['build_id']}]"
    _profiles(tmp_path, [f"web;{frame}", f"web;0x1 [{listed['module']}@{listed['build_id']}]"])
    line = ["fleet", "top", "--store", str(tmp_path), "--json"]
    assert invoke(line) == 0
    before = json.loads(capsys.readouterr().out)
    assert before["unknown_symbols_ratio"] == pytest.approx(1.0)
    assert invoke(["fleet", "symbols", "add", str(program), "--store", str(tmp_path)]) == 0
    assert listed["build_id"] in capsys.readouterr().out
    assert invoke(line) == 0
    after = json.loads(capsys.readouterr().out)
    assert after["unknown_symbols_ratio"] == pytest.approx(0.5)
    from steelyard.analyze.profiles.profile import plain_name

    assert plain_name(name.replace(";", ":")) in [row["key"] for row in after["rows"]]


@pytest.mark.parametrize(("flags", "shown"), [([], 30), (["--rows", "5"], 5), (["--rows", "200"], 45)])
def test_a_terminal_and_json_have_the_rows_that_were_asked_for(
    flags: list[str], shown: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _profiles(tmp_path, [f"web;function_{at:02}" for at in range(45)])
    line = ["fleet", "top", "--store", str(tmp_path), *flags]
    assert invoke([*line, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == shown
    assert invoke(line) == 0
    text = capsys.readouterr().out
    assert len({word.rstrip(":") for word in text.split() if word.startswith("function_")}) == shown
    assert "--json has all" not in text
    assert (f"{shown} of 45 functions; --rows 45 shows all." in text) == (shown < 45)


def test_a_file_that_is_no_program_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert invoke(["fleet", "symbols", "add", str(script), "--store", str(tmp_path / "store")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "no 64-bit little-endian ELF file" in said


@pytest.mark.parametrize(
    ("line", "key", "title"),
    [
        (["top", "--by", "category"], "rows", "Top by category"),
        (["diff"], "rows", "Differences by"),
        (["numa"], "effects", "NUMA locality"),
        (["pressure"], "jobs", "Pressure points"),
        (["pair"], "pairs", "Pairs"),
        (["smt"], "platforms", "Used capacity"),
        (["frequency"], "platforms", "Frequency"),
        (["cpi", "specs"], "specs", "CPI specs"),
        (["cpi", "incidents"], "incidents", "CPI incidents"),
    ],
)
def test_each_query_answers_in_json_and_writes_its_page(
    line: list[str], key: str, title: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    shutil.copytree(simulated_store(), store)
    if line[0] == "diff":
        folder = (store / "profiles").rglob("*.parquet")
        import pyarrow.parquet as pq

        names = sorted(
            {name for path in folder for name in pq.read_table(path)["platform"].unique().to_pylist()}
        )
        line = ["diff", f"platform={names[0]}", f"platform={names[1]}"]
    for table in ("task_samples", "profiles", "machine_samples"):
        (store / table / f"broken-{table}.parquet").write_bytes(b"PAR1 and no more")
    page = tmp_path / "page.html"
    assert invoke(["fleet", *line, "--store", str(store), "--report", str(page), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document[key]
    assert (document["store"], document["engine"], document["report"]) == (str(store), "duckdb", str(page))
    aside = [one["path"] for one in document["problems"]]
    assert aside
    assert all(Path(path).name.startswith("broken-") for path in aside)
    text = page.read_text()
    assert f"<title>{title}" in text
    assert all(path in text for path in ["Left out", *aside])
    assert invoke(["fleet", *line, "--store", str(store)]) == 0
    said = capsys.readouterr().err
    assert "put aside" in said
    assert [path.name for path in tmp_path.glob("*.js")] == [], "a page is one file"


def test_errors_are_one_line_with_their_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["fleet", "top", "--store", str(tmp_path)]) == 3
    _profiles(tmp_path, ["web;f [web]"])
    assert invoke(["fleet", "top", "--store", str(tmp_path), "--by", "colour"]) == 2
    assert invoke(["fleet", "top", "--store", str(tmp_path), "--job", "absent"]) == 1
    assert invoke(["fleet", "numa", "--store", str(tmp_path)]) == 1
    assert invoke(["fleet", "diff", "job", "job=web", "--store", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 5


@pytest.mark.parametrize(
    ("days", "asked"),
    [
        (["--from", "2026-03-09"], "from 2026-03-09 on"),
        (["--to", "2025-03-09"], "up to 2025-03-09"),
        (["--from", "2026-03-09", "--to", "2026-03-10"], "from 2026-03-09 to 2026-03-10"),
    ],
)
def test_a_period_without_profiles_is_no_empty_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], days: list[str], asked: str
) -> None:
    _profiles(tmp_path, ["web;main"])
    for words in (["top"], ["diff", "job=web", "job=other"]):
        assert invoke(["fleet", *words, "--store", str(tmp_path), *days]) == 1
        said = capsys.readouterr().err
        assert f"no profiles {asked}; the store has profiles of 2026-01-01 to 2026-01-01" in said
        if words == ["top"]:
            # A query of another table, which has no rows at all: its own answer stands.
            assert invoke(["fleet", "smt", "--store", str(tmp_path), *days]) == 1
            assert "the store has no machine samples" in capsys.readouterr().err
    empty = tmp_path / "empty"
    create_store(str(empty))
    assert invoke(["fleet", "top", "--store", str(empty), *days]) == 1
    assert "the store holds no profile" in capsys.readouterr().err
