"""The Java that other people's servers run on.

In: the major version that they need. Out: the path of such a Java: that of ``$JAVA_HOME``, the first of the
search path, or one of ``$STEELYARD_JVMS`` (``/usr/lib/jvm``).

Not here: installing it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from steelyard._base import EnvironmentLacksError

_VERSION = re.compile(r' version "([^"]*)"')
_TIMEOUT_S = 60.0


def find_java(major: int, *, needed_by: str, benchmark: str) -> Path:
    """Return the path of a Java of version ``major``. Raises EnvironmentLacksError, naming the others."""
    others: list[str] = []
    for java in _candidates():
        version = _version(java)
        if version is None:
            continue
        if _major(version) == major:
            return java
        known = f"{version} ({java})"
        if known not in others:
            others.append(known)
    here = f"there is {', '.join(others)}" if others else "there is no Java"
    raise EnvironmentLacksError(
        f"{needed_by} needs Java {major}, and {here}", hint=f"steelyard install {benchmark}"
    )


def java_home(java: Path) -> Path:
    """Return what ``JAVA_HOME`` has to be for programs that look for ``java`` there."""
    return java.resolve().parent.parent


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    first = shutil.which("java")
    if first:
        yield Path(first)
    folder = Path(os.environ.get("STEELYARD_JVMS") or "/usr/lib/jvm")
    yield from sorted(folder.glob("*/bin/java"))


def _version(java: Path) -> str | None:
    """Return what a Java says of its version, None where it is none."""
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stderr + done.stdout)
    return match[1] if match else None


def _major(version: str) -> int | None:
    """Return the major version.

    >>> _major("1.8.0_392"), _major("17.0.15"), _major("21")
    (8, 17, 21)
    """
    parts = re.findall(r"\d+", version)
    if not parts:
        return None
    return int(parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0])
