"""A tuning belongs to a machine: nobody else changes that at once, and neither it nor its result goes on
elsewhere unnoticed."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.tune import session
from tests.cli.test_documents import hold
from tests.tune.machines import make_machine
from tests.tune.test_tune import RATIO, changed, everything, run, workload

NOBODY = 65534


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return make_machine(tmp_path / "machine")


SOFTSKU = '[[knob]]\nname = "dirty_ratio"\nlevel = "40"\n'


def test_two_tunings_of_one_machine_see_each_other_whatever_their_state_folders(
    tmp_path: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another state"))
    words = ["run", "--root", str(machine), "--knob", "sched_autogroup", "--", "true"]
    with session.alone(machine):
        refused = run(tmp_path, *words)
        assert refused.returncode == 3
        assert "another tuning is under way on this machine" in refused.stderr
    with pytest.raises(UsageError, match=r"--root .*absent"), session.alone(tmp_path / "absent"):
        pytest.fail("it is not there")
    # Another machine is nobody's business.
    other = make_machine(tmp_path / "other")
    with session.alone(other):
        assert run(tmp_path, *words, "--blocks", "4").returncode != 3


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may read: pytest's own are for one user."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("is_held", [True, False])
def test_two_users_see_each_other(
    open_folder: Path, is_held: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (open_folder / "machine").mkdir()
    (open_folder / "state").mkdir()
    os.chown(open_folder / "state", NOBODY, NOBODY)
    with session.alone(open_folder / "machine" if is_held else open_folder):
        child = os.fork()
        if child == 0:
            code = 9
            try:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                os.environ["XDG_STATE_HOME"] = str(open_folder / "state")
                with session.alone(open_folder / "machine"):
                    code = 0
            except EnvironmentLacksError:
                code = 3
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (3 if is_held else 0)


def test_restore_leaves_an_applied_soft_sku_to_the_tuning_under_way(
    tmp_path: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(machine)
    (tmp_path / "softsku.toml").write_text(SOFTSKU)
    assert run(tmp_path, "apply", "softsku.toml", "--root", str(machine)).returncode == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of another user"))
    with session.alone(machine):
        refused = run(tmp_path, "restore")
        assert refused.returncode == 3
        assert "a soft SKU stays applied: another tuning is under way" in refused.stderr
        assert (machine / RATIO).read_text() == "40"
        assert run(tmp_path, "apply", "softsku.toml", "--root", str(machine)).returncode == 3
    done = run(tmp_path, "restore")
    assert (done.returncode, "'20'" in done.stdout) == (0, True)
    assert changed(before, machine) == set()


def test_a_tuning_goes_on_with_the_same_version_on_the_same_machine_only(
    tmp_path: Path, machine: Path
) -> None:
    assert run(tmp_path, *workload(machine, "dirty_ratio=40", program="raise SystemExit(3)")).returncode == 4
    (folder,) = (tmp_path / "runs").iterdir()

    def resumed() -> str:
        done = run(tmp_path, "run", "--resume", str(folder))
        assert done.returncode == 2, done.stderr
        return done.stderr

    record = json.loads((folder / "tuning.json").read_text())
    (folder / "tuning.json").write_text(json.dumps({**record, "steelyard_version": "0.0.1"}))
    assert "it began with version 0.0.1" in resumed()
    (folder / "tuning.json").write_text(json.dumps(record))
    info = (machine / "proc/cpuinfo").read_text()
    (machine / "proc/cpuinfo").write_text(info.replace("Made-up 4000", "Made-up 5000"))
    assert "began on another machine: processor Made-up 4000, and here Made-up 5000" in resumed()
    (machine / "proc/cpuinfo").write_text(info)
    (folder / "machine.json").unlink()
    assert "it began on an unknown machine" in resumed()


def test_a_soft_sku_on_another_kind_of_machine_is_reported(tmp_path: Path, machine: Path) -> None:
    traits = '[machine]\n"cpu.model" = "Made-up 3000"\n"cpu.cores" = 2\n'
    (tmp_path / "softsku.toml").write_text(SOFTSKU + traits)
    here = ["softsku.toml", "--root", str(machine)]
    applied = run(tmp_path, "apply", *here, "--json")
    assert applied.returncode == 0
    why = "found with processor Made-up 3000, and here Made-up 4000"
    assert f"steelyard: another kind of machine: {why}" in applied.stderr
    document = json.loads(applied.stdout)
    hold(document)
    assert document["other_machine"] == [why]
    (tmp_path / "softsku.toml").write_text(SOFTSKU + traits.replace("3000", "4000"))
    assert run(tmp_path, "verify", *here).stderr == ""
    (tmp_path / "softsku.toml").write_text(SOFTSKU)
    assert "does not say on which machine it was found" in run(tmp_path, "verify", *here).stderr
    run(tmp_path, "restore")
