"""Machines by name, and archives that a stranger made."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from steelyard import records
from steelyard._base import RecordError, UsageError, schemas_dir
from steelyard.machine import recording, snapshot
from steelyard.machine.sources import machine_of

from .trees import write_tree

TREE = {
    "proc/cpuinfo": "processor : 0\nmodel name : Weigh 9000\nflags : lm\n",
    "sys/devices/system/cpu/online": "0-1",
}
GOLDEN = schemas_dir() / "golden" / "machine.json"


def packed(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:bz2") as tar:
        for member, content in members:
            member.size = len(content) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(content))
    return path


def file(name: str, text: str = "") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), text.encode()


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    return member, b""


def test_a_machine_is_found_by_each_kind_of_name(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "outer" / "tree", TREE)
    archive = packed(tmp_path / "it.tar.bz2", [file(f"it/{name}", text) for name, text in TREE.items()])
    for name in (tree, tree.parent, archive):
        assert machine_of(name).cpu.model == "Weigh 9000"
    run = tmp_path / "suite" / "run"
    run.mkdir(parents=True)
    (run / "machine.json").write_bytes(GOLDEN.read_bytes())
    for name in (run / "machine.json", run, run.parent):
        assert machine_of(name) == records.read(records.Machine, GOLDEN)
    assert machine_of("live").cpu.model == snapshot().cpu.model


def test_what_is_no_machine_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.txt").write_text("hello")
    (tmp_path / "bad.tar.bz2").write_bytes(b"BZh9 no")
    packed(tmp_path / "other.tar.bz2", [file("a/b", "c")])
    cut = (packed(tmp_path / "cut.tar.bz2", [file("x/proc/cpuinfo", os.urandom(9000).hex())])).read_bytes()
    (tmp_path / "cut.tar.bz2").write_bytes(cut[: len(cut) // 2])
    for name in ("empty", "absent", "bad.tar.bz2", "other.tar.bz2", "cut.tar.bz2"):
        with pytest.raises(UsageError) as caught:
            machine_of(tmp_path / name)
        assert "\n" not in caught.value.message
    with pytest.raises(RecordError, match="not JSON"):
        machine_of(tmp_path / "note.txt")


def test_nothing_of_an_archive_leads_out_of_its_folder(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("model name : stolen\n")
    archive = packed(
        tmp_path / "evil.tar.bz2",
        [
            file("m/sys/devices/system/cpu/online", "0"),
            link("m/proc/cpuinfo", str(secret)),
            link("m/proc/meminfo", "../../../../../../../../etc/passwd"),
            link("m/proc/version", "m/../../secret", tarfile.LNKTYPE),
            link("m/out", "/" + str(tmp_path).strip("/")),
            file("m/out/written", "by the archive"),
            # Each link alone leads inside, the first by the second one out; and one that is made twice.
            link("m/sys/up", "here/.."),
            link("m/sys/here", ".."),
            link("m/deep", "sys/devices/system"),
            link("m/twice", "deep/../../.."),
            link("m/deep", "."),
            # Folders that are links inside are entered, also round a loop.
            link("m/inside", "sys"),
            file("m/inside/written", "within"),
            link("m/sys/devices/up", "../.."),
            link("m/loop", "loop"),
            file("m/loop/written", "nowhere"),
            file("../escaped", "by the archive"),
            file("/absolute", "by the archive"),
            link("m/proc/null", "", tarfile.CHRTYPE),
            link("m/proc/pipe", "", tarfile.FIFOTYPE),
        ],
    )
    with recording.unpacked(archive) as root:
        assert snapshot(root).cpu.model is None
        assert not (root / "proc/meminfo").exists()
        assert not os.path.lexists(root / "proc/pipe")
        assert not os.path.lexists(root / "proc/null")
        ends = [Path(os.path.realpath(path)) for path in root.rglob("*")]
        assert [end for end in ends if not end.is_relative_to(root.resolve())] == []
        assert (root / "sys/written").read_text() == "within"
        assert (root / "sys/devices/up").resolve() == root.resolve()
        folder = root.parent
    assert not folder.exists()
    assert not (tmp_path / "written").exists()
    assert not (folder.parent / "escaped").exists()


def test_an_archive_that_would_fill_the_disk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = packed(tmp_path / "big.tar.bz2", [file(f"m/proc/{n}", "x" * 100) for n in range(20)])
    monkeypatch.setattr(recording, "MOST_BYTES", 1000)
    with pytest.raises(UsageError, match="too large"):
        machine_of(archive)
    monkeypatch.setattr(recording, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(recording, "MOST_FILES", 5)
    with pytest.raises(UsageError, match="too large"):
        machine_of(archive)


def test_unreadable_modes_of_a_recording_are_read(tmp_path: Path) -> None:
    members = [file(f"m/{name}", text) for name, text in TREE.items()]
    for member, _ in members:
        member.mode = 0o000
    assert machine_of(packed(tmp_path / "m.tar.bz2", members)).cpu.logical_cpus == 2
