"""Emulated machines: an initial file system of a first process and executables, booted by QEMU."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from steelyard._base import executable

ROOT = Path(__file__).resolve().parents[4]
KERNEL = ROOT / ".tools" / "kernel" / "vmlinuz"
BOOT_AT_MOST_S = 300


def needs() -> str | None:
    """Return what is missing for an emulated machine."""
    if platform.machine() != "x86_64":
        return "the emulated machines are x86-64 ones"
    for program in ("qemu-system-x86_64", "cc", "strip", "ldd"):
        if shutil.which(program) is None:
            return f"{program} is not installed: scripts/install-test-packages"
    return None if KERNEL.is_file() else f"{KERNEL} is absent: scripts/install-kernel"


def archive(files: dict[str, bytes]) -> bytes:
    """Return a cpio archive of executable files.

    Source: Linux, Documentation/driver-api/early-userspace/buffer-format.rst (newc).
    """
    entries = []
    folders = sorted(
        {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}, key=len
    )
    members = [(name, 0o040755, b"") for name in folders]
    members += [(name, 0o100755, text) for name, text in files.items()] + [("TRAILER!!!", 0, b"")]
    for number, (name, mode, text) in enumerate(members, start=1):
        numbers = (number, mode, 0, 0, 1, 0, len(text), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + "".join(f"{value:08x}" for value in numbers).encode() + name.encode() + b"\0"
        entries.append(head + b"\0" * (-len(head) % 4) + text + b"\0" * (-len(text) % 4))
    return b"".join(entries)


def file_system(folder: Path, source: Path, program: str, flags: Iterable[str] = ()) -> Path:
    """Write an initial file system: ``source``, compiled, is its first process; ``program`` is beside it.

    The program is one of the data plane's executables, with the libraries that it needs.
    """
    init, stripped = folder / "init", folder / program
    build = ["cc", "-O1", "-static", "-Wall", "-Wextra", "-Werror", *flags]
    subprocess.run([*build, str(source), "-o", str(init)], check=True)
    subprocess.run(["strip", "-o", str(stripped), str(executable(program).resolve())], check=True)
    files = {"init": init.read_bytes(), program: stripped.read_bytes()}
    needed = subprocess.run(["ldd", str(stripped)], capture_output=True, text=True, check=True).stdout
    for path in re.findall(r"(/\S+)", needed):
        files[path.lstrip("/")] = Path(path).read_bytes()
    # The emulated processor writes to a terminal, which /dev/console is.
    image = folder / "initrd"
    image.write_bytes(archive(files))
    return image


def run(machine: list[str], image: Path, *, options: str = "") -> list[tuple[str, str]]:
    """Boot a machine; return the lines that its first process marked with ``@NAME``, as (name, text)."""
    reason = needs()
    if reason is not None:
        pytest.skip(reason)
    command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]
    command += ["-accel", "tcg,thread=multi", "-cpu", "max", "-serial", "stdio"]
    command += ["-kernel", str(KERNEL), "-initrd", str(image), *machine]
    # What the kernel says is the console's last level; balancing would move what the test has placed. Beside
    # other work the emulated timer may be too late for the kernel's check of it.
    kernel = "console=ttyS0 quiet loglevel=1 panic=-1 hugepages=16"
    kernel += " numa_balancing=disable tsc=reliable no_timer_check"
    done = subprocess.run(
        [*command, "-append", f"{kernel} {options}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=BOOT_AT_MOST_S,
        check=True,
    )
    said = done.stdout.decode(errors="replace")
    lines = re.findall(r"^@(\S+) (.*?)\r*$", said, re.MULTILINE)
    assert lines, said[-2000:]
    assert "failed" not in dict(lines), dict(lines)["failed"]
    return lines


def two_nodes(distance: int = 21) -> list[str]:
    """Return QEMU's arguments for two nodes of two CPUs."""
    return [
        *("-machine", "q35", "-smp", "4,sockets=2,cores=2", "-m", "768M"),
        *("-object", "memory-backend-ram,id=m0,size=384M", "-object", "memory-backend-ram,id=m1,size=384M"),
        *("-numa", "node,nodeid=0,cpus=0-1,memdev=m0", "-numa", "node,nodeid=1,cpus=2-3,memdev=m1"),
        *("-numa", f"dist,src=0,dst=1,val={distance}"),
    ]
