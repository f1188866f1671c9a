"""Recorded trees of real machines, when they are at hand, and a writer of small ones."""

from __future__ import annotations

import atexit
import functools
import re
import shutil
import tarfile
import tempfile
from pathlib import Path

import pytest

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "data" / "hwloc"


NOT_NEEDED = re.compile(
    r"/(msi_irqs|infiniband|firmware|hugepages|cpuidle|dimm|drivers|power)/|/(config|resource\d*)$"
)


@functools.cache
def recorded(name: str) -> Path:
    """Return the root of the recorded tree ``name``, unpacked; skip the test where there is none."""
    archive = RECORDED / f"{name}.tar.bz2"
    if not archive.is_file():
        pytest.skip(f"no recorded machines in {RECORDED}")
    folder = Path(tempfile.mkdtemp(prefix="steelyard-tree-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, (member for member in tar if not NOT_NEEDED.search(member.name)), filter="tar")
    (root,) = folder.iterdir()
    return root


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Write ``files`` (name -> text) below ``root``."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
