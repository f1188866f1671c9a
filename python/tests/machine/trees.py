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


# What a snapshot reads of a recording: unpacking all of its files takes most of a test's time.
NEEDED = re.compile(
    r"[^/]+/("
    r"proc/.*|sys/block/.*|sys/class/(net|block|dmi)/.*|sys/devices/virtual/.*"
    r"|sys/devices/system/cpu/(online|vulnerabilities/.*|cpufreq/.*|cpu0?|cpu[0-9]+/online)"
    r"|sys/devices/system/cpu/cpu[0-9]+/cpufreq/.*|sys/devices/system/cpu/cpu[0-9]+/microcode/version"
    r"|sys/devices/system/cpu/cpu[0-9]+/topology/(core_cpus_list|thread_siblings(_list)?|physical_package_id)"
    r"|sys/devices/system/cpu/cpu[0-9]+/cache/index[0-9]+/(level|type|size|shared_cpu_(list|map))"
    r"|sys/devices/system/node/node[0-9]+/(cpulist|cpumap|meminfo|distance)"
    r"|sys/devices/pci.*/(net|block)/.*|sys/devices/pci.*/(model|driver)"
    r")"
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
        tar.extractall(folder, (member for member in tar if NEEDED.fullmatch(member.name)), filter="tar")
    (root,) = folder.iterdir()
    return root


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Write ``files`` (name -> text) below ``root``."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
