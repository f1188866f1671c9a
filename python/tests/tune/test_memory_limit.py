"""The memory limit of a command as a knob: whoever is in its group has it, and nothing of it stays."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.bench import undo
from steelyard.bench.limits.control_group import parent_group
from steelyard.records.experiment import ExperimentArm
from steelyard.tune.cells import GroupMemoryCell, cell_at
from steelyard.tune.changes import applied
from steelyard.tune.knobs.application import MemoryLimitKnob
from tests.tune.machines import make_machine
from tests.tune.test_tune import run

MIB = 1 << 20
USE = f"import sys; held = bytearray(int(sys.argv[1]) * {MIB}); print('rate', 1000)"
"""A program that needs so much memory."""


def groups() -> list[Path]:
    parent, _ = parent_group("memory", "memory", noun="memory")
    return list(parent.glob("steelyard-memory_max-*"))


@pytest.fixture
def controlled() -> None:
    try:
        parent, _ = parent_group("memory", "memory", noun="memory")
    except EnvironmentLacksError as lacking:
        pytest.skip(lacking.message)
    if not os.access(parent, os.W_OK):
        pytest.skip("the memory group is not writable here")


@pytest.mark.usefixtures("controlled")
def test_a_command_beyond_its_limit_has_no_value_and_the_group_is_gone(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        *("sweep", "memory_max=48MiB,512MiB", "--blocks", "4", "--json"),
        *("--root", str(make_machine(tmp_path / "machine"))),
        *("--metric", r"rate=rate (\S+)", "--", sys.executable, "-c", USE, "128"),
    )
    document = json.loads(done.stdout)
    assert document["base"] == "48MiB"
    (record,) = tmp_path.glob("runs/*/experiment.json")
    trials = json.loads(record.read_text())["trials"]
    given = {arm: [trial for trial in trials if trial["arm"] == arm] for arm in ("48MiB", "512MiB")}
    assert all(trial["value"] == 1000 for trial in given["512MiB"])
    assert given["48MiB"]
    assert all("SIGKILL" in trial["reason"] for trial in given["48MiB"]), given["48MiB"]
    assert groups() == []
    assert list((tmp_path / "state/steelyard/undo").iterdir()) == []


@pytest.mark.usefixtures("controlled")
def test_a_killed_tuning_leaves_a_group_that_the_journal_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    knob = MemoryLimitKnob.of_this_process(("64MiB",))
    with applied(knob.writes("64MiB"), name="test"):
        assert knob.cell.read() == str(64 * MIB)
        assert cell_at(knob.cell.address) == knob.cell
        (entry,) = undo.journal_dir().iterdir()
        assert str(knob.cell.folder) in entry.read_text()
        assert groups() == [knob.cell.folder]
    assert groups() == []


@pytest.mark.usefixtures("controlled")
def test_levels_are_sizes_and_only_limited_arms_are_in_the_group() -> None:
    knob = MemoryLimitKnob.of_this_process(("64MiB", "1050001"))
    assert knob.levels == ("unlimited", "64MiB", "1050001")
    assert knob.read() == "unlimited"
    assert knob.writes("unlimited") == []
    # The kernel counts in pages, and tells what it keeps.
    assert int(knob.writes("1048577")[0][1]) % os.sysconf("SC_PAGESIZE") == 0
    arm = ExperimentArm(name="a", settings={}, command=["program", "a b"])
    assert knob.dress(arm, "unlimited").command == ["program", "a b"]
    dressed = knob.dress(arm, "64MiB")
    assert dressed.command[-2:] == ["program", "a b"]
    assert dressed.knobs == {"memory_max": "64MiB"}
    for level in ("many", "1", "-3MiB"):
        with pytest.raises(UsageError, match="memory_max"):
            knob.check(level)


def test_the_units_drop_in_has_the_limit() -> None:
    from steelyard.tune.deploy.exports import drop_in
    from tests.tune.surface import tuning

    cell = GroupMemoryCell(Path("/sys/fs/cgroup/steelyard-memory_max-1"), "memory.max")
    assert "MemoryMax=67108864\n" in drop_in([(cell, "67108864")], tuning(1))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--benchmark", "tao", "--knob", "memory_max=1GiB"], "memory_max: it is for a command"),
        (["run", "--knob", "memory_max", "--", "true"], "memory_max need levels"),
    ],
)
def test_what_cannot_be_limited_is_refused(tmp_path: Path, words: list[str], message: str) -> None:
    done = run(tmp_path, words[0], "--root", str(make_machine(tmp_path / "machine")), *words[1:])
    assert done.returncode == 2
    assert message in done.stderr
