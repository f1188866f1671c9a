"""Where the kernel's configuration is found, and what it says of interrupts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from steelyard.machine.accounting import interrupts_in_process_time

from .trees import write_tree

APART = "CONFIG_X=y\nCONFIG_IRQ_TIME_ACCOUNTING=y\n"
TOGETHER = "CONFIG_X=y\n# CONFIG_IRQ_TIME_ACCOUNTING is not set\nCONFIG_HAVE_IRQ_TIME_ACCOUNTING=y\n"


@pytest.mark.parametrize(("text", "together"), [(APART, False), (TOGETHER, True)])
def test_both_places_are_read(text: str, together: bool, tmp_path: Path) -> None:
    boot = {"proc/sys/kernel/osrelease": "6.1.0-x\n", "boot/config-6.1.0-x": text}
    assert interrupts_in_process_time(write_tree(tmp_path / "boot", boot)) is together
    folder = tmp_path / "proc" / "proc"
    folder.mkdir(parents=True)
    (folder / "config.gz").write_bytes(gzip.compress(text.encode()))
    assert interrupts_in_process_time(tmp_path / "proc") is together


def test_without_a_configuration_it_is_not_known(tmp_path: Path) -> None:
    assert interrupts_in_process_time(tmp_path) is None
    files = {"proc/sys/kernel/osrelease": "../../etc/passwd\n", "proc/config.gz": "no gzip"}
    assert interrupts_in_process_time(write_tree(tmp_path, files)) is None
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_X=y\n" * 100)[:20])
    assert interrupts_in_process_time(tmp_path) is None
