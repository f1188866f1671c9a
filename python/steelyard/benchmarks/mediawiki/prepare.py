"""The data of the wiki: a database that holds the generated pages, made once and copied for each run.

In: the content's seed and size, versions of the programs. Out: a folder with the database's files and
MediaWiki's compiled messages, under a name that follows from all of these.

Invariant: a folder under its name is complete. A partial one has another name and goes with its run.

Not here: what the pages hold (``content``), and the servers of a run (``benchmark``).
"""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import EnvironmentLacksError, RecordError, format_cpu_list, read_regular, replacing
from steelyard.bench.scratch import scratch_folder
from steelyard.bench.stack.recipe import prepared_dir
from steelyard.benchmarks.mediawiki import content, servers
from steelyard.benchmarks.mediawiki.content import Wiki
from steelyard.benchmarks.mediawiki.dump import write_dump
from steelyard.benchmarks.mediawiki.servers import Places, Programs

if TYPE_CHECKING:
    from steelyard.bench.session import Session

EMPTY_BYTES = 120 << 20
"""An empty wiki, with the database's own logs."""
ARTICLE_BYTES = 200 << 10
"""An article with its talk page and history, in the database and in the file that is imported: twice what was
measured."""
SPARE_BYTES = 256 << 20
"""Disk that is to stay free: logs, recordings, and what the database writes during a run."""
STEP_TIMEOUT_S = 3600.0
START_TIMEOUT_S = 60.0
DATABASE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared wiki."""

    folder: Path
    articles: int
    seed: int

    @property
    def database(self) -> Path:
        """Files of the database."""
        return self.folder / "database"

    @property
    def messages(self) -> Path:
        """MediaWiki's compiled messages."""
        return self.folder / "messages"

    @property
    def facts(self) -> dict[str, object]:
        """What is known of it."""
        facts: dict[str, object] = json.loads(read_regular(self.folder / "prepared.json"))
        return facts


def prepared(programs: Programs, *, seed: int, articles: int) -> Prepared:
    """Return where the data of this wiki is, or will be."""
    kept = ("mediawiki", "mariadb", "php")
    key = {
        "seed": seed,
        "articles": articles,
        "content": content.VERSION,
        "versions": {name: programs.versions[name] for name in kept},
    }
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
    return Prepared(prepared_dir("mediawiki").absolute() / f"wiki-{articles}-{digest}", articles, seed)


def is_ready(wanted: Prepared) -> bool:
    """Whether the data is there and whole."""
    try:
        return "pages" in wanted.facts and wanted.database.is_dir() and wanted.messages.is_dir()
    except (RecordError, ValueError):
        return False


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below ``folder``."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def check_disk(folder: Path, needed_bytes: int) -> None:
    """Raise EnvironmentLacksError when the disk of ``folder`` has less room than is needed."""
    there = folder
    while not there.exists():
        there = there.parent
    free_bytes = shutil.disk_usage(there).free
    if free_bytes < needed_bytes + SPARE_BYTES:
        raise EnvironmentLacksError(
            f"{there}: {free_bytes >> 20} MiB are free, and the wiki needs"
            f" {(needed_bytes + SPARE_BYTES) >> 20} MiB there",
            hint="free some, choose a smaller wiki with --set articles=..., or other disks with --out and"
            " STEELYARD_STACKS",
        )


def prepare(session: "Session", programs: Programs, wanted: Prepared) -> None:
    """Make the data unless it is there. Another run that makes it at the same time is waited for."""
    if is_ready(wanted):
        return
    try:
        wanted.folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentLacksError(
            f"{wanted.folder.parent}: cannot be written: {error.strerror}",
            hint="choose another folder with STEELYARD_STACKS",
        ) from error
    with _locked(session, wanted.folder.parent / f".{wanted.folder.name}.lock"):
        if is_ready(wanted):
            return
        check_disk(wanted.folder.parent, EMPTY_BYTES + wanted.articles * ARTICLE_BYTES)
        session.progress.note(
            f"mediawiki: making a wiki of {wanted.articles} articles in {wanted.folder} (once)"
        )
        partial = scratch_folder(session, str(wanted.folder.parent), "partial")
        partial.chmod(0o700)
        _Preparation(session, programs, wanted, partial).run()
        shutil.rmtree(wanted.folder, ignore_errors=True)
        partial.rename(wanted.folder)


@contextmanager
def _locked(session: "Session", path: Path) -> Iterator[None]:
    """Hold a lock that ends with this process at the latest."""
    with path.open("wb") as file:

        def is_held() -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        session.wait_for(is_held, STEP_TIMEOUT_S, what="waiting for another run that makes the same wiki")
        yield


class _Preparation:
    """The steps from an empty folder to a wiki's data."""

    def __init__(self, session: "Session", programs: Programs, wanted: Prepared, folder: Path) -> None:
        self.session = session
        self.programs = programs
        self.wanted = wanted
        self.folder = folder
        self.work = folder / "work"
        self.cpus = sorted({*session.placement.server, *session.placement.load})
        self.places = Places(
            config=self.work / "config",
            run=socket_folder(session, self.work / "run", "prepare-sockets"),
            data=folder / "database",
            messages=folder / "messages",
        )

    def run(self) -> None:
        """Take all steps; raises WorkloadFailedError for one that fails."""
        for folder in (self.places.config, self.places.data, self.places.messages, self.work / "installed"):
            folder.mkdir(parents=True)
        servers.write_configuration(
            self.places,
            port=1,
            cache_port=1,
            cores=1,
            workers=4,
            database_bytes=DATABASE_BYTES,
            cache_bytes=0,
            preparing=True,
        )
        self._step("prepare-database", servers.database_install_command(self.programs, self.places))
        database = self.session.start_process(
            "prepare-mariadb",
            servers.database_command(self.programs, self.places),
            cpus=self.cpus,
            grace_s=STEP_TIMEOUT_S,
        )
        socket = self.places.run / "database.sock"
        self.session.wait_for(
            socket.is_socket, START_TIMEOUT_S, what="the start of MariaDB", hint=f"see {database.log}"
        )
        self._fill()
        self.session.stop_process(database, STEP_TIMEOUT_S)
        for path in self.places.data.glob("*"):
            # Temporary tables, which the server makes anew, and what it says of its shutdown.
            if path.name in ("ibtmp1", "ib_buffer_pool"):
                path.unlink()
        shutil.rmtree(self.work)

    def _fill(self) -> None:
        grant = "CREATE USER wiki@localhost; GRANT ALL ON wiki.* TO wiki@localhost;"
        self._step("prepare-user", servers.client_command(self.programs, self.places, f"--execute={grant}"))
        installer = servers.script_command(self.programs, self.places, "install.php")
        # The installer refuses to run where a wiki is configured.
        installer = [part for part in installer if not part.startswith("MW_CONFIG_FILE=")]
        self._step(
            "prepare-tables",
            [
                *installer,
                f"--confpath={self.work / 'installed'}",
                "--dbtype=mysql",
                f"--dbserver=localhost:{self.places.run}/database.sock",
                *("--dbname=wiki", "--dbuser=root", "--dbpass="),
                *("--server=http://127.0.0.1", "--scriptpath=", "--lang=en", "--pass=generated-wiki"),
                *("Steelyard", "Admin"),
            ],
        )
        wiki = Wiki(self.wanted.seed, self.wanted.articles)
        pages = revisions = 0
        dump = self.work / "dump.xml"

        def counted() -> Iterator[content.Page]:
            nonlocal pages, revisions
            for page in wiki.pages():
                pages += 1
                revisions += len(page.revisions)
                self.session.check()
                yield page

        digest = write_dump(counted(), dump)
        # Links are made from the last revision of each page alone, in a third of the time.
        self._script("importDump.php", "--quiet", "--no-updates", str(dump))
        self._script("refreshLinks.php", "--quiet")
        self._script("rebuildtextindex.php", "--quiet")
        self._script("rebuildrecentchanges.php", "--quiet")
        self._script("initSiteStats.php", "--update", "--quiet")
        self._script("runJobs.php", "--quiet")
        self._script("rebuildLocalisationCache.php", "--lang=en", "--quiet")
        facts = {
            "seed": self.wanted.seed,
            "articles": self.wanted.articles,
            "pages": pages,
            "revisions": revisions,
            "dump_bytes": dump.stat().st_size,
            "dump_sha256": digest,
            "versions": dict(self.programs.versions),
            "cpus": format_cpu_list(self.cpus),
        }
        with replacing(self.folder / "prepared.json") as path:
            path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")

    def _script(self, script: str, *arguments: str) -> None:
        name = "prepare-" + script.removesuffix(".php").lower()
        self._step(name, servers.script_command(self.programs, self.places, script, *arguments))

    def _step(self, name: str, command: list[str]) -> None:
        comm = Path(self.programs.php).resolve().name if "env" in command[:1] else None
        process = self.session.start_process(name, command, cpus=self.cpus, comm=comm)
        self.session.join(process, STEP_TIMEOUT_S, what=name)


def socket_folder(session: "Session", folder: Path, name: str) -> Path:
    """Return a new folder for sockets that only its user may enter: ``folder``, if its path is short enough.

    Otherwise it is one called after ``name``, elsewhere, which goes with the run.
    """
    if len(os.fsencode(folder)) + len("/database.sock") <= servers.SOCKET_PATH_BYTES:
        folder.mkdir(parents=True)
    else:
        folder = scratch_folder(session, os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir(), name)
    folder.chmod(0o700)
    return folder
