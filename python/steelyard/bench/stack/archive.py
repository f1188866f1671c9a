"""A folder of Debian packages that apt installs from without a network: packages with all their dependencies.

In: names of packages, a runner of commands. Out: a folder with the files, an index with their checksums, and
the names that it was made for; options of apt-get that make the folder its only source.

Invariants: whatever is installed on this machine, the folder has what another one may lack; of each package
it has one version; the index is written last, of files whose checksums are those of apt's signed lists; a
folder that others may write is no source.

Not here: installing (``packages``), and the caches of Maven and pip, which payloads keep.
"""

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote

from steelyard._base import EnvironmentLacksError


class Run(Protocol):
    """Runs a command of the package manager and says how it ended, with its output.

    One that runs ``undisturbed`` comes to its end whatever happens to this process.
    """

    def __call__(
        self, command: Sequence[str], environment: Mapping[str, str], *, undisturbed: bool = False
    ) -> "subprocess.CompletedProcess[str]":
        """Run it."""


INDEX = "Packages"
"""apt's name for the index of a source."""
NAMES = "names"
"""File with the packages that the folder was made for."""
_QUIET = ("apt-get", "-qq", "-o", "Dpkg::Use-Pty=0")


def holds(folder: Path, names: Sequence[str]) -> bool:
    """Return whether ``folder`` has ``names`` and all that they need, with the checksums of its index."""
    try:
        made_for = (folder / NAMES).read_text(encoding="utf-8").split()
        lines = _lines(folder)
    except (OSError, UnicodeDecodeError):
        return False
    files, digests = (
        [line.removeprefix(field) for line in lines if line.startswith(field)]
        for field in ("Filename: ", "SHA256: ")
    )
    return (
        set(names) <= set(made_for)
        and len(files) == len(digests)
        and all(_digest(folder / file) == digest for file, digest in zip(files, digests, strict=True))
    )


def versions(folder: Path) -> dict[str, str]:
    """Return the packages of ``folder`` with their versions. Raises EnvironmentLacksError without any."""
    found: dict[str, str] = {}
    name = ""
    try:
        for line in _lines(folder):
            field, _, text = line.partition(": ")
            if field == "Package":
                name = text
            elif field == "Version":
                found[name] = text
    except OSError:
        found = {}
    if not found:
        raise EnvironmentLacksError(
            f"{folder} holds no packages", hint="fill it with --cache on a machine with a network"
        )
    return found


def _lines(folder: Path) -> list[str]:
    return (folder / INDEX).read_text(encoding="utf-8").splitlines()


def fetch(names: Sequence[str], folder: Path, run: Run) -> None:
    """Download ``names`` and all that they need into ``folder``; needs no root.

    apt works on an empty list of installed packages, so that it leaves nothing out. Files that are there are
    kept; those of no use any more are removed. Raises EnvironmentLacksError.
    """
    (folder / "partial").mkdir(parents=True, exist_ok=True)
    (folder / INDEX).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        empty, nowhere = Path(scratch) / "status", Path(scratch) / "archives"
        empty.touch()
        (nowhere / "partial").mkdir(parents=True)
        alone = ["-o", f"Dir::State::status={empty}", "-o", "Debug::NoLocking=true"]
        alone += ["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]
        alone += ["-o", "APT::Sandbox::User=root"]
        wanted = [*_QUIET, *alone, "install", "--yes", "--no-install-recommends"]
        # Of what is in its folder apt looks at the size alone.
        asked = ["-o", "Acquire::ForceHash=SHA256", "-o", f"Dir::Cache::archives={nowhere}/", "--print-uris"]
        files = _uris(_run([*wanted, *asked, *names], run).stdout)
        for path in folder.glob("*.deb"):
            if path.name not in files or not files[path.name].has_checksum(path):
                path.unlink()
        _run([*wanted, "-o", f"Dir::Cache::archives={folder.resolve()}/", "--download-only", *names], run)
    for name, file in files.items():
        if file.uri.startswith("file:") and not (folder / name).is_file():
            # apt takes packages of a local source from where they are.
            shutil.copyfile(unquote(file.uri.removeprefix("file:")), folder / name)
        if file.digest and not file.has_checksum(folder / name):
            (folder / name).unlink(missing_ok=True)
            raise EnvironmentLacksError(f"{folder / name}: its checksum is not that of apt's lists")
    _write_index([folder / name for name in files], folder, run)
    (folder / NAMES).write_text("\n".join(names) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _File:
    """A package's file, as apt's lists have it."""

    uri: str
    digest: str
    """SHA256, empty where the lists have none."""

    def has_checksum(self, path: Path) -> bool:
        return bool(self.digest) and _digest(path) == self.digest


def _uris(text: str) -> dict[str, _File]:
    """Return where each file comes from, and its checksum.

    >>> _uris("'http://host/pool/a_1%2b1_all.deb' a_1+1_all.deb 4584 SHA256:0a\\n")
    {'a_1+1_all.deb': _File(uri='http://host/pool/a_1%2b1_all.deb', digest='0a')}
    """
    rows = (line.split() for line in text.splitlines() if line.startswith("'"))
    return {
        row[1]: _File(row[0].strip("'"), row[3].removeprefix("SHA256:") if len(row) > 3 else "")
        for row in rows
    }


def _digest(path: Path) -> str | None:
    """Return the SHA256 of a file, None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _write_index(files: Sequence[Path], folder: Path, run: Run) -> None:
    """Write what apt has to know of each file: what the package says of itself, and its checksum."""
    entries = []
    for path in sorted(files):
        fields = _run(["dpkg-deb", "--field", str(path)], run).stdout.strip()
        own = f"Filename: {path.name}\nSize: {path.stat().st_size}\nSHA256: {_digest(path)}"
        entries.append(f"{fields}\n{own}\n")
    (folder / INDEX).write_text("\n".join(entries), encoding="utf-8")


def _check_owner(folder: Path) -> None:
    # Who became root by sudo may as well do all that root may.
    by_sudo = os.environ.get("SUDO_UID", "")
    trusted = {0, os.geteuid(), *([int(by_sudo)] if by_sudo.isdecimal() else [])}
    for path in (folder, folder / INDEX, *folder.glob("*.deb")):
        try:
            found = path.stat()
        except OSError as error:
            raise EnvironmentLacksError(f"{path}: {error.strerror}") from error
        others = stat.S_IWOTH if found.st_gid == os.getegid() else stat.S_IWOTH | stat.S_IWGRP
        if found.st_uid not in trusted or found.st_mode & others:
            raise EnvironmentLacksError(
                f"{path} may be written by others, and its packages would be installed as root",
                hint=f"where you trust what is there: sudo chown -R root {folder} && chmod -R go-w {folder}",
            )


@contextmanager
def as_source(folder: Path) -> Iterator[list[str]]:
    """Yield options of apt-get with which ``folder`` is its only source; `update` comes first.

    Raises EnvironmentLacksError for a folder in which others could have put a package.
    """
    _check_owner(folder)
    # What apt makes there by sudo is root's.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        lists = Path(scratch) / "lists"
        (lists / "partial").mkdir(parents=True)
        source = Path(scratch) / "sources.list"
        # The index was made from files whose signatures apt had checked.
        source.write_text(f"deb [trusted=yes] file:{quote(str(folder.resolve()))} ./\n", encoding="utf-8")
        options = [f"Dir::Etc::sourcelist={source}", "Dir::Etc::sourceparts=-", f"Dir::State::lists={lists}"]
        options += ["Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache=", "APT::Sandbox::User=root"]
        yield [word for option in options for word in ("-o", option)]


def _run(command: Sequence[str], run: Run) -> "subprocess.CompletedProcess[str]":
    done = run(command, {"LC_ALL": "C"})
    if done.returncode != 0:
        raise EnvironmentLacksError(f"{command[0]} failed: {last_line(done)}")
    return done


def last_line(done: "subprocess.CompletedProcess[str]") -> str:
    """Return the last complaint of a command."""
    lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E:", "Error"))]
    return (errors or lines or [f"it ended with {done.returncode}"])[-1].strip()
