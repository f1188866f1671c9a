"""How the kernel charges CPU time, which decides what of /proc/stat may be set against processes' times.

In: a root. Out: whether time in interrupts is part of the interrupted process's time.
"""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path

from steelyard._base import RecordError, open_regular
from steelyard.machine.tree import Tree

_BYTES_AT_MOST = 16 << 20
"""A kernel's configuration has some 300 kB."""


def interrupts_in_process_time(root: Path | str = "/") -> bool | None:
    """Return whether processes are charged for interrupts that are served while they run.

    They are unless the kernel was built with CONFIG_IRQ_TIME_ACCOUNTING: then irq and softirq of /proc/stat
    are beside what processes used, otherwise part of it. ``None`` where the kernel's configuration is neither
    in proc/config.gz nor in boot/config-RELEASE.
    """
    tree = Tree(root)
    text = _configuration(tree)
    if text is None:
        return None
    return re.search(r"^CONFIG_IRQ_TIME_ACCOUNTING=y$", text, flags=re.MULTILINE) is None


def _configuration(tree: Tree) -> str | None:
    try:
        with open_regular(tree.path("proc/config.gz")) as packed, gzip.GzipFile(fileobj=packed) as text:
            return text.read(_BYTES_AT_MOST).decode("utf-8", "replace")
    except (OSError, EOFError, zlib.error, RecordError):
        pass
    release = tree.text("proc/sys/kernel/osrelease")
    # The release is a file name here: nothing in it may lead elsewhere.
    if not release or "/" in release:
        return None
    return tree.text(f"boot/config-{release}")
