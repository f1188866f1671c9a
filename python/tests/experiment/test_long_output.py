"""Trials that print without end: the disk stays bounded, and the end of the output counts."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pytest

from steelyard._base.long_logs import release_middle, shorten
from steelyard.bench import executor
from steelyard.cli.main import invoke
from tests.calling import call

PRINTS = "import sys; [sys.stdout.write('x' * 1048575 + chr(10)) for _ in range(200)]; print('rate 7')"


def used_bytes(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def test_an_experiment_keeps_the_begin_and_the_end_of_what_trials_print(tmp_path: Path, capsys) -> None:
    words = ["experiment", "--metric", r"rate=rate (\S+)", "--blocks", "4", "--out", str(tmp_path / "runs")]
    most, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            most[0] = max(most[0], used_bytes(tmp_path))

    looking = threading.Thread(target=look)
    looking.start()
    program = f'{sys.executable} -c "{PRINTS}"'
    try:
        assert invoke([*words, "--a", program, "--b", f"{program} b", "--json"]) in (0, 1)
    finally:
        ended.set()
        looking.join()
    document = json.loads(capsys.readouterr().out)
    trials = json.dumps(document)
    assert "nothing that fits" not in trials
    logs = sorted((tmp_path / "runs").rglob("*.log"))
    assert len(logs) >= 8
    # 1.6 GB were printed, 200 MB by each.
    assert most[0] < 700 << 20
    assert used_bytes(tmp_path) < 300 << 20
    text = logs[0].read_bytes()
    assert text.startswith(b"xxx")
    assert b"bytes are left out here" in text
    assert text.endswith(b"rate 7\n")


def test_a_log_that_grows_gives_its_middle_back(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("ab", buffering=0) as file:
        for _ in range(100):
            file.write(b"y" * (1 << 20))
        os.fsync(file.fileno())
        release_middle(log)
        file.write(b"end\n")
    assert log.stat().st_size == (100 << 20) + 4
    assert log.stat().st_blocks * 512 < 40 << 20
    shorten(log)
    assert log.stat().st_size < 20 << 20
    assert log.read_bytes().endswith(b"yend\n")


def test_colours_of_a_trial_stay_in_its_log(tmp_path: Path) -> None:
    fails = "printf '\\033[31mred\\033[0m \\033]0;title\\007 word\\n' >&2; exit 3"
    done = call(
        *("experiment", "--blocks", "4"),
        *("--out", str(tmp_path / "runs"), "--a", f'sh -c "{fails}"', "--b", "true"),
    )
    said = done.stdout + done.stderr
    assert "\x1b" not in said
    assert "\x07" not in said
    assert "red" in said


def test_a_result_of_one_long_line_comes_whole_and_a_flood_does_not_pile_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "_MOST_WAITING", 20 << 20)
    prints = "print('y' * 9_000_000); [print('z' * 999) for _ in range(40_000)]; print('w' * 5_000_000)"
    process = executor.LocalExecutor().start("p", [sys.executable, "-c", prints], log=tmp_path / "log")
    process.popen.wait(60)
    process.finish_reading()
    lines = [line for _, line in process.lines()]
    assert process.stop(1.0).exit_code == 0
    assert lines[-1] == "w" * 5_000_000
    assert sum(map(len, lines)) < 21 << 20
    assert process.lines() == []
