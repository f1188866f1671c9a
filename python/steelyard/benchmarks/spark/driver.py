"""The driver of SparkBench: its folders and its command."""

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from steelyard.bench import undo
from steelyard.bench.parameters import Settings
from steelyard.bench.stack.recipe import payload_source
from steelyard.benchmarks.spark.parameters import local_folder, rows_of, table_name
from steelyard.benchmarks.spark.stack.cluster import Folders, python, settings_of_spark, with_variables
from steelyard.benchmarks.spark.stack.recipe import PAYLOAD

if TYPE_CHECKING:
    from steelyard.bench.session import Session

KIND = "remote-folders"
REMOVED = '{"event": "removed"'
"""What the driver prints when it has removed what was of this run only."""


def driver_command(
    settings: Settings, master: str, folders: Folders, variables: Mapping[str, str]
) -> list[str]:
    """Return the command of the driver."""
    command = [
        *(str(python()), str(payload_source(PAYLOAD) / "driver.py"), "--master", master),
        *("--tables", folders.tables, "--partial", folders.partial, "--output", folders.output),
        *("--rows", str(rows_of(settings.count("scale"))), "--data-seed", str(settings.count("data_seed"))),
        *("--partitions", str(settings.count("partitions"))),
        *("--warmups", str(settings.count("warmups")), "--queries", str(settings.count("queries"))),
    ]
    for name, value in settings_of_spark(settings, master, folders).items():
        command += ["--conf", f"{name}={value}"]
    return with_variables(variables, *command)


def _note(session: "Session", urls: list[str]) -> None:
    """Write down folders of another file system until the driver has removed them, which nobody else can."""
    details = {"urls": " ".join(urls)}
    change = undo.Change.begin(f"{session.directory.name}-remote", KIND, details)

    def forget() -> None:
        log = session.directory / "logs" / "driver.log"
        with contextlib.suppress(OSError):
            if not log.exists() or REMOVED in log.read_text(errors="replace"):
                details["removed"] = "yes"
                change.undo()

    session.endings.callback(forget)


def _tell(details: Mapping[str, str]) -> None:
    """Raise OSError for folders that nobody has removed: the next start tells of them."""
    if "removed" not in details:
        urls = details["urls"].replace(" ", " and ")
        raise OSError(f"a killed run may have left {urls}: remove them there, then this file")


undo.register(KIND, _tell, on_disk=True)


def place_folders(session: "Session") -> Folders:
    """Make the folders of a run; those on this machine go when it ends, however it ends."""
    from steelyard.bench.scratch import scratch_folder

    settings = session.settings
    scratch = scratch_folder(session, settings.text("directory"), "scratch")
    for name in ("local", "tmp", "work"):
        (scratch / name).mkdir()
    events = session.directory / "spark-events"
    events.mkdir()
    parent = local_folder(settings.text("tables"))
    if parent is None:
        url = settings.text("tables").rstrip("/")
        own = f"{url}/steelyard-{session.directory.name}"
        _note(session, [f"{own}-partial", f"{own}-output"])
        return Folders(scratch, events, f"{url}/{table_name(settings)}", f"{own}-partial", f"{own}-output")
    parent.mkdir(parents=True, exist_ok=True)
    data = scratch_folder(session, str(parent), "tables")
    return Folders(
        scratch,
        events,
        (parent / table_name(settings)).absolute().as_uri(),
        (data / "partial").as_uri(),
        (data / "output").as_uri(),
    )
