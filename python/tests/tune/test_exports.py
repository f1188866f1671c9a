"""A soft SKU as a script: every kind of place is read, written and put back by a shell alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from steelyard.tune.cells import BitsCell, CommandCell, EnvironmentCell, FileCell, SchemataCell, WholeFile
from steelyard.tune.deploy import exports
from tests.tune.surface import tuning


def call(script: Path, *words: str, state: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "SOFTSKU_STATE": str(state)}
    return subprocess.run(["sh", str(script), *words], env=environment, capture_output=True, text=True)


def test_a_script_applies_verifies_and_restores(tmp_path: Path) -> None:
    number, whole, ways, store = (tmp_path / name for name in ("number", "it's whole", "schemata", "store"))
    number.write_text("always [madvise] never\n")
    whole.write_text("cache = 1g\nthreads = '4'\n")
    ways.write_text("L3:0=7ff\n")
    store.write_text("4")
    writes = [
        (FileCell(number), "always"),
        (WholeFile(whole), "cache = '2g'\nthreads = 8\n"),
        (SchemataCell(ways, "L3"), "0=3f"),
        (CommandCell(("cp", str(tmp_path / "{}"), str(store)), ("cat", str(store))), "eight"),
    ]
    (tmp_path / "eight").write_text("eight")
    (tmp_path / "4").write_text("4")
    script, state = tmp_path / "softsku.sh", tmp_path / "state"
    script.write_text(exports.script(writes, tuning(1)))
    assert call(script, "verify", state=state).returncode == 1
    done = call(script, "apply", state=state)
    assert done.returncode == 0, done.stderr
    assert [path.read_text() for path in (number, whole, ways, store)] == [
        "always",
        "cache = '2g'\nthreads = 8\n",
        "L3:0=3f\n",
        "eight",
    ]
    assert call(script, "verify", state=state).returncode == 0
    assert call(script, "restore", state=state).returncode == 0
    assert [path.read_text() for path in (number, whole, ways, store)] == [
        "madvise",
        "cache = 1g\nthreads = '4'\n",
        "L3:0=7ff\n",
        "4",
    ]
    assert not state.exists()


def test_a_script_that_is_refused_puts_everything_back(tmp_path: Path) -> None:
    number = tmp_path / "number"
    number.write_text("20\n")
    writes = [(FileCell(number), "40"), (CommandCell(("true", "{}"), ("echo", "old")), "new")]
    script, state = tmp_path / "softsku.sh", tmp_path / "state"
    script.write_text(exports.script(writes, tuning(1)))
    done = call(script, "apply", state=state)
    assert done.returncode == 1
    assert "everything was put back" in done.stderr
    assert number.read_text() == "20"


def test_registers_need_msr_tools_and_parse(tmp_path: Path) -> None:
    script = tmp_path / "softsku.sh"
    script.write_text(exports.script([(BitsCell(Path("/dev/cpu/3/msr"), 0x1A4, 0xF), "0xf")], tuning(1)))
    subprocess.run(["sh", "-n", str(script)], check=True)
    assert "wrmsr -p 3 0x1a4" in script.read_text()


def test_a_drop_in_quotes_the_environment() -> None:
    text = exports.drop_in([(EnvironmentCell("A"), '100% "x"'), (EnvironmentCell("B"), "")], tuning(1))
    assert 'Environment="A=100%% \\"x\\""' in text
    assert "UnsetEnvironment=B" in text


def test_a_value_that_cannot_be_read_is_never_restored(tmp_path: Path) -> None:
    number, gone = tmp_path / "number", tmp_path / "gone"
    number.write_text("20")
    writes = [(FileCell(number), "40"), (FileCell(gone), "1")]
    script, state = tmp_path / "softsku.sh", tmp_path / "state"
    script.write_text(exports.script(writes, tuning(1)))
    done = call(script, "apply", state=state)
    assert done.returncode == 1
    assert "a value cannot be read" in done.stderr
    assert not state.exists()
    # What appears in the meantime keeps its own value: there is nothing to restore it from.
    gone.write_text("7")
    assert "nothing to restore" in call(script, "restore", state=state).stdout
    assert (number.read_text(), gone.read_text()) == ("20", "7")


def test_one_value_that_cannot_be_put_back_does_not_keep_the_others(tmp_path: Path) -> None:
    first, last = tmp_path / "first", tmp_path / "last"
    first.write_text("20")
    last.write_text("7")
    script, state = tmp_path / "softsku.sh", tmp_path / "state"
    script.write_text(exports.script([(FileCell(first), "40"), (FileCell(last), "1")], tuning(1)))
    assert call(script, "apply", state=state).returncode == 0
    last.unlink()
    last.mkdir()
    done = call(script, "restore", state=state)
    assert done.returncode == 1
    assert f"file:{last} cannot be put back" in done.stderr
    assert first.read_text() == "20"
    # The values stay for another try.
    last.rmdir()
    assert call(script, "restore", state=state).returncode == 0
    assert last.read_text() == "7"
