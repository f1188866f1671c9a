"""The Java that other people's servers run on.

In: the major versions that a stack accepts. Out: the path of such a Java, wherever it came from: that of
``$JAVA_HOME``, the first of the search path, or one of ``$STEELYARD_JVMS`` (``/usr/lib/jvm``); names of
packages that bring one.

Not here: installing it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from steelyard._base import EnvironmentLacksError

_VERSION = re.compile(r' version "([^"]*)"')
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Java:
    """The Java that a stack needs."""

    majors: tuple[int, ...]
    """Versions that it was seen to work with, the preferred one first."""
    needed_by: str
    """Which software says so, with its version."""
    compiles: bool = False
    """Whether its installation needs the compiler, too."""

    @property
    def versions(self) -> str:
        """Return the versions, for people.

        >>> Java((17,), "x").versions, Java((17, 21), "x").versions
        ('Java 17', 'Java 17 or 21')
        """
        return f"Java {' or '.join(map(str, self.majors))}"

    def packages(self, manager: str) -> tuple[str, ...]:
        """Return the packages that bring one, in order of preference; which of them there are, differs."""
        if manager == "apt":
            kind = "jdk-headless" if self.compiles else "jre-headless"
            return tuple(f"openjdk-{major}-{kind}" for major in self.majors)
        kind = "devel" if self.compiles else "headless"
        return tuple(f"java-{major}-openjdk-{kind}" for major in self.majors)


def find_java(needed: Java, *, benchmark: str, compiler: bool = False) -> Path:
    """Return the path of a Java that fits, with its compiler beside it where that is asked for.

    Raises EnvironmentLacksError, naming the others that are here.
    """
    found, others = _look(needed, compiler=compiler)
    if found is not None:
        return found
    here = f"there is {', '.join(others)}" if others else "there is no Java"
    what = f"{needed.versions} with its compiler" if compiler else needed.versions
    raise EnvironmentLacksError(
        f"{needed.needed_by} needs {what}, and {here}", hint=f"steelyard install {benchmark}"
    )


def has_java(needed: Java, *, compiler: bool = False) -> bool:
    """Return whether a Java that fits is here."""
    return _look(needed, compiler=compiler)[0] is not None


def _look(needed: Java, *, compiler: bool) -> tuple[Path | None, list[str]]:
    """Return the first Java that fits, and the others before it, for people."""
    others: list[str] = []
    for java in _candidates():
        version = _version(java)
        if version is None:
            continue
        known = f"{version} ({java})"
        if _major(version) in needed.majors:
            if not compiler or (java_home(java) / "bin" / "javac").is_file():
                return java, others
            known = f"{version} without a compiler ({java})"
        if known not in others:
            others.append(known)
    return None, others


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
        state = java.stat()
    except OSError:
        return None
    return _asked(java, state.st_ino, state.st_mtime_ns)


@cache
def _asked(java: Path, inode: int, mtime_ns: int) -> str | None:
    """Ask the Java of this inode and time; starting one takes a tenth of a second."""
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
