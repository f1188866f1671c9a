"""What a benchmark needs that Steelyard does not bring: packages, programs, and a payload of its own.

In: the `Recipe` of a benchmark's declaration. Out: what is missing here, and folders of payloads.

A payload is a folder of ``workloads/`` with an executable ``install FOLDER``, which brings into FOLDER what
no package manager has (jars, Python packages, generated code), checks it against pinned checksums, and is
quick when it is there. ``$STEELYARD_CACHE`` names a folder where it keeps what it downloads; with
``$STEELYARD_OFFLINE=1`` it takes everything from there.

Not here: installing (``install``), and package managers (``packages``).
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steelyard._base import EnvironmentLacksError, users_dir, workloads_dir
from steelyard.bench.stack.java import Java, has_java

MARK = ".installed"
"""File of a payload's folder that its ``install`` writes last."""
_SERVERS = ("usr/local/sbin", "usr/sbin", "sbin", "usr/libexec")
"""Where servers are that the search path of an ordinary user leaves out; Fedora's mariadbd is in libexec."""


@dataclass(frozen=True, slots=True)
class Packages:
    """Names of packages, by package manager."""

    apt: tuple[str, ...] = ()
    dnf: tuple[str, ...] = ()

    def of(self, manager: str) -> tuple[str, ...]:
        """Return the names for ``manager``."""
        return {"apt": self.apt, "dnf": self.dnf}[manager]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What one benchmark needs. A benchmark without one needs nothing but Steelyard."""

    packages: Packages = field(default_factory=Packages)
    programs: tuple[str, ...] = ()
    """Programs that the packages bring, looked for in PATH and the folders of servers."""
    java: Java | None = None
    """The Java that it runs on, from a package or from elsewhere; None for none."""
    payload: str = ""
    """Folder of ``workloads/`` with its ``install``; empty where packages are all."""
    shared_payloads: tuple[str, ...] = ()
    """Payloads of other benchmarks that it uses too; they are installed before its own."""
    disk_bytes: int = 0
    """Disk space that packages and payloads take, about."""

    @property
    def payloads(self) -> tuple[str, ...]:
        """Return all payloads, in the order of their installation."""
        return (*self.shared_payloads, *([self.payload] if self.payload else []))


def stacks_dir() -> Path:
    """Return the folder of what stacks install: ``$STEELYARD_STACKS``, by default below the user's data."""
    chosen = os.environ.get("STEELYARD_STACKS")
    if chosen:
        return Path(chosen)
    return users_dir("XDG_DATA_HOME", ".local/share") / "steelyard" / "stacks"


def payload_dir(payload: str) -> Path:
    """Return where ``payload`` is installed; several benchmarks may share one."""
    return stacks_dir() / payload


def prepared_dir(benchmark: str) -> Path:
    """Return where ``benchmark`` keeps data that it prepares once, for all its runs."""
    return stacks_dir() / "prepared" / benchmark


def payload_source(payload: str) -> Path:
    """Return the folder that ``payload`` is installed from. Raises EnvironmentLacksError without one."""
    return workloads_dir() / payload


def find_program(
    name: str, environment: Mapping[str, str] = os.environ, *, root: Path = Path("/")
) -> str | None:
    """Return the path of a program, also of a server that only root's search path holds, or none."""
    folders = [environment.get("PATH", os.defpath), *(str(root / folder) for folder in _SERVERS)]
    return shutil.which(name, path=os.pathsep.join(folders))


def program(name: str, benchmark: str) -> str:
    """Return the path of a program that ``benchmark`` needs. Raises EnvironmentLacksError without it."""
    found = find_program(name)
    if found is None:
        raise EnvironmentLacksError(f"{name} is not installed", hint=f"steelyard install {benchmark}")
    return found


def missing(recipe: Recipe) -> list[str]:
    """Return what is not here of a recipe, in words; programs, Java and payloads count, not packages."""
    lacking = [name for name in recipe.programs if find_program(name) is None]
    if recipe.java is not None and not has_java(recipe.java):
        lacking.append(recipe.java.versions)
    lacking += [f"the files of {name}" for name in recipe.payloads if not is_installed(name)]
    return lacking


def is_installed(payload: str) -> bool:
    """Return whether the whole of ``payload`` is there."""
    return (payload_dir(payload) / MARK).is_file()


def require(recipe: Recipe, benchmark: str) -> None:
    """Raise EnvironmentLacksError, with the command that helps, where something of ``recipe`` is not here."""
    lacking = missing(recipe)
    if lacking:
        names = ", ".join(lacking)
        verb = "is" if len(lacking) == 1 and not lacking[0].startswith("the files") else "are"
        raise EnvironmentLacksError(
            f"{benchmark}: {names} {verb} not installed", hint=f"steelyard install {benchmark}"
        )
