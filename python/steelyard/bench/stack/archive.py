"""A folder of Debian packages that apt installs from without a network: packages with all their dependencies.

In: names of packages, a runner of commands. Out: a folder with the files, an index with their checksums, and
the names that it was made for; options of apt-get that make the folder its only source.

Invariants: whatever is installed on this machine, the folder has what another one may lack; of each package
it has one version; the index is written last.

Not here: installing (``packages``), and the caches of Maven and pip, which payloads keep.
"""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from steelyard._base import EnvironmentLacksError

Run = Callable[[Sequence[str], Mapping[str, str]], "subprocess.CompletedProcess[str]"]
INDEX = "Packages"
"""apt's name for the index of a source."""
NAMES = "names"
"""File with the packages that the folder was made for."""
_QUIET = ("apt-get", "-qq", "-o", "Dpkg::Use-Pty=0")


def holds(folder: Path, names: Sequence[str]) -> bool:
    """Return whether ``folder`` has ``names`` and all that they need."""
    try:
        made_for = (folder / NAMES).read_text(encoding="utf-8").split()
        files = [line.partition(": ")[2] for line in _lines(folder) if line.startswith("Filename: ")]
    except OSError:
        return False
    return set(names) <= set(made_for) and all((folder / file).is_file() for file in files)


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

    apt is told that nothing is installed, so that it leaves nothing out. What is there is not fetched again;
    what is of no use any more goes. Raises EnvironmentLacksError.
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
        told = _run([*wanted, "-o", f"Dir::Cache::archives={nowhere}/", "--print-uris", *names], run)
        _run([*wanted, "-o", f"Dir::Cache::archives={folder.resolve()}/", "--download-only", *names], run)
    files = _uris(told.stdout)
    for name, uri in files.items():
        if uri.startswith("file:") and not (folder / name).is_file():
            # apt takes packages of a local source from where they are.
            shutil.copyfile(unquote(uri.removeprefix("file:")), folder / name)
    for path in folder.glob("*.deb"):
        if path.name not in files:
            path.unlink()
    _write_index([folder / name for name in files], folder, run)
    (folder / NAMES).write_text("\n".join(names) + "\n", encoding="utf-8")


def _uris(text: str) -> dict[str, str]:
    """Return where each file comes from.

    >>> _uris("'http://host/pool/a_1%2b1_all.deb' a_1+1_all.deb 4584 MD5Sum:0\\n")
    {'a_1+1_all.deb': 'http://host/pool/a_1%2b1_all.deb'}
    """
    rows = (line.split() for line in text.splitlines() if line.startswith("'"))
    return {row[1]: row[0].strip("'") for row in rows}


def _write_index(files: Sequence[Path], folder: Path, run: Run) -> None:
    """Write what apt has to know of each file: what the package says of itself, and its checksum."""
    entries = []
    for path in sorted(files):
        fields = _run(["dpkg-deb", "--field", str(path)], run).stdout.strip()
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        own = f"Filename: {path.name}\nSize: {path.stat().st_size}\nSHA256: {digest}"
        entries.append(f"{fields}\n{own}\n")
    (folder / INDEX).write_text("\n".join(entries), encoding="utf-8")


@contextmanager
def as_source(folder: Path) -> Iterator[list[str]]:
    """Yield options of apt-get with which ``folder`` is its only source; `update` comes first."""
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
