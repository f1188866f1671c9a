"""What the kernel counted of children that ended."""

import subprocess
import sys

from steelyard.bench.children import children_use

PROGRAM = "b = bytearray({size}); b[::4096] = b'1' * len(b[::4096])"


def faults_of(size: int) -> int:
    before = children_use()
    subprocess.run([sys.executable, "-c", PROGRAM.format(size=size)], check=True)
    used = children_use().since(before)
    assert used.cpu_s > 0
    return used.minor_faults


def test_faults_of_a_child_are_its_own() -> None:
    assert faults_of(1 << 30) - faults_of(1 << 20) > 500, "a large page may hold 512 small ones"
