"""Recorded trees of real machines, when they are at hand, and a writer of small ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from steelyard.machine import recording
from tests.shared_folder import made_once

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "data" / "hwloc"


ARCHIVES = sorted(path.name.removesuffix(".tar.bz2") for path in RECORDED.glob("*.tar.bz2"))


def recorded(name: str) -> Path:
    """Return the root of the recorded tree ``name``, unpacked; skip the test where there is none."""
    archive = RECORDED / f"{name}.tar.bz2"
    if not archive.is_file():
        pytest.skip(f"no recorded machines in {RECORDED}")

    def unpack(folder: Path) -> None:
        with recording.unpacked(archive) as root:
            shutil.copytree(root, folder, symlinks=True)

    return made_once(f"tree-{name}", unpack)


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Write ``files`` (name -> text) below ``root``."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def memory_device(locator: str, size_gib: int, rated: int, configured: int) -> bytes:
    """Return one SMBIOS structure of type 17 (DSP0134, 7.18), as firmware writes it."""
    body = bytearray(0x22 - 4)

    def put(offset: int, value: int, size: int = 2) -> None:
        body[offset - 4 : offset - 4 + size] = value.to_bytes(size, "little")

    # Sizes from 32 GiB - 1 MiB on stand in the longer field.
    put(0x0C, 0x7FFF if size_gib >= 32 else size_gib << 10)
    put(0x1C, size_gib << 10 if size_gib >= 32 else 0, 4)
    put(0x10, 1, 1)
    put(0x12, 0x22 if size_gib else 0x02, 1)
    put(0x15, rated)
    put(0x1B, 2, 1)
    put(0x20, configured)
    return bytes([17, 0x22, 0, 0]) + bytes(body) + locator.encode() + b"\0\0"
