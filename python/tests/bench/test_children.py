"""What the kernel counted of children that ended."""

import subprocess
import sys
from pathlib import Path

import pytest

from steelyard.bench.children import children_use

PROGRAM = "b = bytearray({size}); b[::4096] = b'1' * len(b[::4096])"


def faults_of(size: int) -> int:
    before = children_use()
    subprocess.run([sys.executable, "-c", PROGRAM.format(size=size)], check=True)
    used = children_use().since(before)
    assert used.cpu_s > 0
    return used.minor_faults


def test_bytes_of_a_child_are_those_that_it_wrote(tmp_path: Path) -> None:
    before = children_use()
    script = "import os, sys; f = open(sys.argv[1], 'wb', 0); f.write(bytes(8 << 20)); os.fsync(f.fileno())"
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "file")], check=True)
    written = children_use().since(before).written_bytes
    if written == 0:
        pytest.skip("this kernel, or the file system of the test, keeps no account of bytes written")
    assert 8 << 20 <= written < 16 << 20


def test_faults_of_a_child_are_its_own() -> None:
    assert faults_of(1 << 30) - faults_of(1 << 20) > 500, "a large page may hold 512 small ones"
