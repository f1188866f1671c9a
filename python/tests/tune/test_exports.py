"""A soft SKU as a script: every kind of place is read, written and put back by a shell alone."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from steelyard.tune.cells import (
    BitsCell,
    CommandCell,
    EnvironmentCell,
    FileCell,
    GroupMemoryCell,
    SchemataCell,
    WholeFile,
)
from steelyard.tune.deploy import exports
from steelyard.tune.knobs.application import TemplateKnob
from tests.tune.machines import everything
from tests.tune.server import Server, knobs_of, server
from tests.tune.surface import LEVELS, tuning


def call(
    script: Path, *words: str, state: Path, programs: Path | None = None
) -> subprocess.CompletedProcess[str]:
    path = os.environ["PATH"] if programs is None else f"{programs}:{os.environ['PATH']}"
    environment = {"PATH": path, "SOFTSKU_STATE": str(state)}
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


MSR_TOOLS = """#!{python}
# rdmsr and wrmsr of msr-tools for a made-up machine: rdmsr -p CPU REG, wrmsr -p CPU REG VALUE.
import sys
cpu, register = sys.argv[2], int(sys.argv[3], 16)
with open(f"{root}/dev/cpu/{{cpu}}/msr", "r+b") as file:
    file.seek(register)
    if sys.argv[0].endswith("wrmsr"):
        file.write(int(sys.argv[4], 16).to_bytes(8, "little"))
    else:
        print(f"{{int.from_bytes(file.read(8), 'little'):x}}")
"""
WANTED = {
    "thp_enabled": "always",
    "huge_pages_2MiB": "100",
    "base_slice": "1500000",
    "prefetchers": "l2-stream",
    "core_frequency": "2000000",
    "uncore_frequency": "2200000",
    "code_data_ways": "6+5",
    "governor": "performance",
    "online_cpus": "2",
}
"""A level of every knob of the made-up server, none of them as found."""


@pytest.fixture
def made() -> Iterator[Server]:
    with server(np.random.default_rng(1)) as found:
        yield found


def test_the_script_sets_a_whole_server_and_gives_it_back_byte_for_byte(made: Server, tmp_path: Path) -> None:
    for name in ("rdmsr", "wrmsr"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(MSR_TOOLS.format(python=sys.executable, root=made.root))
        program.chmod(0o755)
    (made.root / "etc/service.conf").write_text("cache = 1g\n\n\n")
    cache = TemplateKnob("cache", "", made.root / "etc/service.conf", "cache = {value}\n\n", ("1g", "2g"))
    knobs = knobs_of(made.root)
    writes = [write for name, level in WANTED.items() for write in knobs[name].writes(level)]
    assert WANTED.keys() == LEVELS.keys()
    script, state = tmp_path / "softsku.sh", tmp_path / "state"
    script.write_text(exports.script([*writes, *cache.writes("2g")], tuning(1)))
    before = everything(made.root)
    for _ in range(2):
        done = call(script, "apply", state=state, programs=tmp_path / "bin")
        assert done.returncode == 0, done.stderr
        assert made.levels() == WANTED
        assert cache.read() == "2g"
        assert call(script, "verify", state=state, programs=tmp_path / "bin").returncode == 0
    done = call(script, "restore", state=state, programs=tmp_path / "bin")
    assert done.returncode == 0, done.stderr
    assert everything(made.root) == before
    # Without the tools of registers nothing is touched.
    assert call(script, "apply", state=state).returncode == 1
    assert everything(made.root) == before


EVIL = "8\nExecStartPre=/bin/evil\u2028x\r\x1b[31m\\"


def test_names_and_levels_begin_no_line_of_their_own() -> None:
    record = tuning(1).model_copy(update={"chosen": {f"knob{EVIL}": EVIL}, "benchmark": f"tao{EVIL}"})
    writes = [(EnvironmentCell("A"), EVIL), (GroupMemoryCell(Path("/sys/fs/cgroup/x"), "memory.max"), EVIL)]
    for text in (exports.drop_in(writes, record), exports.unit(record), exports.script([], record)):
        starts = [line.split("=")[0].strip() for line in text.splitlines()]
        assert "ExecStartPre" not in starts
        assert "\x1b" not in text
    # What TuneD's file cannot hold is left to the script.
    paths = (Path("/proc/sys/vm/swappiness"), Path("/sys/kernel/mm/x"), Path("/proc/sys/vm/stat_interval"))
    values = (EVIL, "${evil}", "5")
    profile = exports.tuned_profile([(FileCell(p), v) for p, v in zip(paths, values, strict=True)], record)
    assert "evil" not in profile
    assert "vm.stat_interval=5" in profile
    assert "2 values that TuneD has no plugin for" in profile


def test_a_tuned_profile_has_every_value_that_its_plugins_know(made: Server) -> None:
    knobs = knobs_of(made.root)

    def here(path: Path) -> Path:
        return Path("/") / path.relative_to(made.root)

    writes: list[tuple[FileCell | BitsCell | SchemataCell, str]] = []
    for name, level in WANTED.items():
        for cell, text in knobs[name].writes(level):
            if isinstance(cell, FileCell):
                writes.append((FileCell(here(cell.path)), text))
            elif isinstance(cell, BitsCell | SchemataCell):
                writes.append((cell, text))
    writes.append((FileCell(Path("/proc/sys/vm/dirty_ratio")), "40"))
    writes.append((FileCell(Path("/proc/sys/net/ipv4/tcp_rmem")), "4096 131072 6291456"))
    # Of a VLAN: sysctl(8) writes a dot for a slash, and a slash for a dot.
    writes.append((FileCell(Path("/proc/sys/net/ipv4/conf/eth0.100/rp_filter")), "2"))
    text = exports.tuned_profile(writes, tuning(1))
    profile = configparser.ConfigParser(delimiters="=", interpolation=None)
    profile.optionxform = str  # type: ignore[assignment,method-assign]
    profile.read_string(text)
    files = {str(cell.path): level for cell, level in writes if isinstance(cell, FileCell)}
    assert dict(profile["sysctl"]) == {
        "vm.dirty_ratio": files.pop("/proc/sys/vm/dirty_ratio"),
        "net.ipv4.tcp_rmem": files.pop("/proc/sys/net/ipv4/tcp_rmem"),
        "net.ipv4.conf.eth0/100.rp_filter": files.pop("/proc/sys/net/ipv4/conf/eth0.100/rp_filter"),
    }
    assert dict(profile["sysfs"]) == files
    assert len(files) == 15
    assert profile.sections() == ["main", "sysctl", "sysfs"]
    assert "# 6 values that TuneD has no plugin for are set by softsku.sh alone." in text


def test_the_units_are_ones_that_systemd_takes(tmp_path: Path) -> None:
    script = tmp_path / "softsku.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    text = exports.unit(tuning(1)).replace("/usr/local/sbin/softsku.sh", str(script))
    drop_in = exports.drop_in([(EnvironmentCell("A"), '100% "x"'), (EnvironmentCell("B"), "")], tuning(1))
    (tmp_path / "softsku.service").write_text(text)
    (tmp_path / "service.service").write_text(f"[Service]\nExecStart={script}\n")
    (tmp_path / "service.service.d").mkdir()
    (tmp_path / "service.service.d/softsku.conf").write_text(drop_in)
    unit = configparser.ConfigParser(delimiters="=", interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    assert dict(unit["Service"]) == {
        "Type": "oneshot",
        "RemainAfterExit": "yes",
        "ExecStart": f"{script} apply",
        "ExecStop": f"{script} restore",
    }
    if shutil.which("systemd-analyze") is None:
        return
    for name in ("softsku.service", "service.service"):
        words = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / name)]
        environment = {**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"}
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        assert str(tmp_path) not in done.stderr, done.stderr
        assert done.returncode == 0, done.stderr
