"""``scripts/attack`` in its short form: what is here withstands it, and it counts what does not."""

import os
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from . import fuzz
from .__main__ import PARTS
from .figures import ROOT, Figures, judge, run
from .folders import MUTATIONS, tampered
from .kills import kill_and_look, started

Mutation = Callable[[Path, random.Random], None]


SHORT = {
    "readers": 0.02,
    "conversations": 6.0,
    "agents": 6.0,
    "web": 8.0,
    "kills": 6.0,
    "phases": 6.0,
    "folders": 6.0,
}
SHORT |= dict.fromkeys(("packages", "journals", "knobs", "s3", "hosts"), 6.0)
"""Seconds of each part but the fuzz targets, which are built first."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", SHORT)
def test_a_short_attack_breaks_nothing(part: str) -> None:
    command = [
        str(ROOT / "scripts" / "attack"),
        "--parts",
        part,
        "--seconds",
        f"{SHORT[part]}",
        "--seed",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # Nothing but what was tried.
    (row,) = re.findall(rf"^{part} +(\d+)(?: +0){{6}}$", done.stdout, re.MULTILINE)
    assert int(row) > 0


def test_every_part_is_attacked_in_short() -> None:
    assert {*SHORT, "fuzz"} == set(PARTS)


def test_a_crash_a_hang_and_an_orphan_are_counted(tmp_path: Path) -> None:
    counted = Figures()
    judge(counted, run(["sh", "-c", "kill -SEGV $$"], tmp_path, 30), "a crash")
    judge(counted, run(["sh", "-c", "echo 'Traceback (most recent call last)'"], tmp_path, 30), "a traceback")
    judge(counted, run(["sleep", "600"], tmp_path, 0.2), "a hang")
    mark = f"{random.randrange(1 << 60)}"
    process = started(["sh", "-c", "sleep 600 & wait"], tmp_path, mark)
    while not Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().strip():
        pass
    kill_and_look(counted, process, mark, "a shell")
    others = {"lost": 0, "doubled": 0, "leaked": 0}
    assert counted.counts() == {"tried": 4, "crashed": 2, "hung": 1, "orphaned": 1, **others}
    assert counted.has_failed()


# Each of the first two targets waits for the other; the others find a crash, a hang, or do not build.
FUZZ = """#!/bin/sh
cd "$(dirname "$0")/.."
touch "started-$2"
wait_for() {
    for _ in $(seq 600); do test -e "$1" && return; sleep 0.05; done
    exit 9
}
case $2 in
a) wait_for started-b ;;
b) wait_for started-a ;;
crashes) touch fuzz/artifacts/crashes/crash-01 ;;
hangs) touch fuzz/artifacts/hangs/timeout-02 fuzz/artifacts/hangs/slow-unit-03; exit 1 ;;
broken) echo "no such target" >&2; exit 101 ;;
esac
echo "stat::number_of_executed_units: $1" >&2
"""


def test_as_many_fuzz_targets_run_at_once_as_there_are_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "crashes", "hangs", "broken"):
        (tmp_path / "fuzz" / "fuzz_targets").mkdir(parents=True, exist_ok=True)
        (tmp_path / "fuzz" / "fuzz_targets" / f"{name}.rs").touch()
        (tmp_path / "fuzz" / "artifacts" / name).mkdir(parents=True)
    # Found by an earlier attack.
    (tmp_path / "fuzz" / "artifacts" / "a" / "crash-00").touch()
    script = tmp_path / "scripts" / "fuzz"
    script.parent.mkdir()
    script.write_text(FUZZ)
    script.chmod(0o755)
    monkeypatch.setattr(fuzz, "ROOT", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    figures = fuzz.attack(tmp_path, 7.5, 1)
    assert figures.counts() == {
        "tried": 21,
        "crashed": 2,
        "hung": 2,
        "orphaned": 0,
        "lost": 0,
        "doubled": 0,
        "leaked": 0,
    }
    assert [note.partition(":")[0] for note in figures.notes] == ["crashed", "crashed", "hung", "hung"]
    assert "broken ended with 101: no such target" in figures.notes[0]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_each_mutation_changes_a_record(
    tmp_path: Path, mutation: Callable[[Path, random.Random], None]
) -> None:
    path = tmp_path / "run.json"
    for seed in range(20):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.unlink(missing_ok=True)
        path.write_text('{"kind": "run", "phases": [{"name": "measure", "begin_ns": 5}]}')
        before = path.read_bytes()
        mutation(path, random.Random(seed))
        is_small = path.is_file() and path.stat().st_size <= len(before)
        is_same = is_small and path.read_bytes() == before
        if not is_same:
            return
    raise AssertionError("nothing has changed")


def test_no_file_is_tampered_with_twice(tmp_path: Path) -> None:
    original = tmp_path / "original"
    original.mkdir()
    (original / "run.json").write_text('{"kind": "run", "phases": [{"name": "measure", "begin_ns": 5}]}')
    for seed in range(50):
        what = tampered(original, tmp_path / "copy", random.Random(seed))
        assert re.fullmatch(r"\w+ run\.json", what), what
