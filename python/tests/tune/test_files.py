"""Knobs whose level is the content of files: those on disk are put back to the byte, or refused."""

from pathlib import Path

import pytest

from steelyard._base import WorkloadFailedError
from steelyard.tune.cells import is_ordinary
from steelyard.tune.changes import RefusedError, applied
from steelyard.tune.knobs.application import TextKnob

MOUNTS = (
    "22 1 0:20 / / rw - ext4 /dev/vda rw\n"
    "23 22 0:21 / /proc rw - proc proc rw\n"
    "24 22 0:22 / /sys rw - sysfs sysfs rw\n"
    "25 24 0:23 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup rw\n"
    "26 22 0:24 / {folder} rw - tmpfs tmpfs rw\n"
)


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def _knob(path: Path) -> TextKnob:
    return TextKnob("mine", "a file", (path,), ("25", "40"))


@pytest.mark.parametrize(
    "content",
    [b"  40 # with blanks \n\n", b"25", b"25\r\n", b"caf\xe9 \xff\n", b"[always] madvise\n", b"\n"],
)
def test_an_ordinary_file_is_put_back_to_the_byte(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "value"
    path.write_bytes(content)
    path.chmod(0o640)
    knob = _knob(path)
    with applied(knob.writes("40"), name="t"):
        assert path.read_text().strip() == "40"
        assert path.read_text().endswith("\n") == content.endswith(b"\n")
    assert path.read_bytes() == content
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("content", [b"a = 1\nb = 2\n", b"x\n" * 40_000, b"x" * (1 << 17)])
def test_a_file_without_a_single_value_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "value"
    path.write_bytes(content)
    refused = pytest.raises((OSError, RefusedError, WorkloadFailedError))
    with refused, applied(_knob(path).writes("40"), name="t"):
        raise AssertionError("it was changed")
    assert path.read_bytes() == content


def test_files_of_the_kernel_are_distinguished_from_files_on_disk(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    (tmp_path / "file").write_text("1\n")
    mounts.write_text(MOUNTS.format(folder=tmp_path))
    assert is_ordinary(tmp_path / "file", mounts)
    mounts.write_text(MOUNTS.format(folder=tmp_path).replace("tmpfs tmpfs", "sysfs sysfs"))
    assert not is_ordinary(tmp_path / "file", mounts)
    assert not is_ordinary(Path("/proc/sys/vm/swappiness"))
    assert not is_ordinary(tmp_path / "absent", mounts)
