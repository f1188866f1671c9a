"""Knobs of this machine, tried by real benchmarks, and put back: the machine is afterwards as it was.

Pages, CPUs and the scheduler are there in virtual machines too; frequencies, prefetchers and cache ways have
a made-up server (``test_server``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.bench import undo
from steelyard.tune.changes import applied, apply_and_keep
from steelyard.tune.knobs import Knob, find

STEELYARD = Path(sys.executable).with_name("steelyard")
AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")
PLACES = (
    Path("/sys/kernel/mm/transparent_hugepage/enabled"),
    Path("/sys/kernel/mm/transparent_hugepage/defrag"),
    Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"),
    Path("/sys/devices/system/cpu/online"),
    AUTOGROUP,
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An undo journal of its own; whatever a test does, the places have their values afterwards."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = seen()
    yield tmp_path / "state"
    undo.undo_kept()
    assert seen() == before


def seen() -> dict[Path, str]:
    return {path: path.read_text() for path in PLACES if path.exists()}


def knob_of(name: str) -> Knob:
    """Return a knob of this machine; skip where it lacks it, with its own reason."""
    knobs, lacking = find()
    for knob in knobs:
        if knob.name == name:
            return knob
    pytest.skip(next((f"{name}: {one.reason}" for one in lacking if one.name == name), f"no {name}"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thp_enabled", "thp_defrag", "huge_pages_2MiB", "sched_autogroup", "cpus"])
def test_every_level_is_taken_by_the_kernel_and_put_back(name: str) -> None:
    knob = knob_of(name)
    found = knob.read()
    for level in knob.levels[:3]:
        with applied(knob.writes(level), name="live"):
            if name == "cpus":
                assert len(os.sched_getaffinity(0)) == int(level)
            else:
                assert knob.read() == level
        assert knob.read() == found
    assert not list(undo.journal_dir().glob("*.json"))


@pytest.mark.slow
def test_a_cpu_is_unplugged_and_comes_back() -> None:
    knob = knob_of("online_cpus")
    found = knob.read()
    online = Path("/sys/devices/system/cpu/online").read_text()
    with applied(knob.writes("1"), name="live"):
        assert knob.read() == "1"
        assert os.sysconf("SC_NPROCESSORS_ONLN") == 1
    assert knob.read() == found
    assert Path("/sys/devices/system/cpu/online").read_text() == online
    apply_and_keep(knob.writes("1"), name="live", root=Path("/"))
    assert os.sysconf("SC_NPROCESSORS_ONLN") == 1
    undo.undo_kept()
    assert knob.read() == found


def call(folder: Path, *words: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
    command = [str(STEELYARD), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, cwd=folder)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("benchmark", ["tao", "tax"])
def test_a_benchmark_tries_the_knobs_of_this_machine_and_leaves_it_as_it_was(
    tmp_path: Path, benchmark: str
) -> None:
    wanted = {
        "thp_enabled": "always",
        "huge_pages_2MiB": "64",
        "cpus": "1",
        "sched_autogroup": None,
    }
    words = []
    for name, level in wanted.items():
        knob = next((one for one in find()[0] if one.name == name), None)
        if knob is not None and knob.read() != level:
            words += ["--knob", name if level is None else f"{name}={level}"]
    if len(words) < 4:
        pytest.skip("this machine has less than two of these knobs")
    machines = [tmp_path / "before.json", tmp_path / "after.json"]
    machines[0].write_text(call(tmp_path, "machine", "show", "--json").stdout)
    done = call(
        tmp_path,
        *("tune", "run", "--benchmark", benchmark, "--tier", "smoke", *words, "--least-effect", "20%"),
        *("--blocks", "5", "--confirm-blocks", "4", "--budget", "90s", "--seed", "1", "--json"),
    )
    machines[1].write_text(call(tmp_path, "machine", "show", "--json").stdout)
    diff = call(tmp_path, "machine", "diff", *map(str, machines), "--json")
    assert diff.returncode == 0, diff.stdout
    assert json.loads(diff.stdout)["differences"] == []
    if done.returncode == 4 and "times in a row: invalid" in done.stderr:
        pytest.skip("other programs leave no run of this benchmark valid; the machine is as it was")
    assert done.returncode in (0, 1), done.stderr
    record = json.loads(done.stdout)
    assert record["status"] == "complete"
    assert record["outcome"] in ("better", "none", "undecided")
    # Every knob gave values, or stands there as one that time was too short for.
    raced = {one["knob"] for one in record["evidence"] if one["purpose"] == "search"}
    assert raced == {words[index].partition("=")[0] for index in range(1, len(words), 2)}
    values = [
        one["gain_ratio"] for one in record["evidence"] if one["outcome"] not in ("not-tried", "dropped")
    ]
    assert values
    assert all(value is not None for value in values)
