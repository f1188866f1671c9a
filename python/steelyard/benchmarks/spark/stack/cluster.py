"""A standalone cluster on 127.0.0.1, and the settings of a driver.

In: a session, settings, folders. Out: processes of a master and a worker that end with the run; the worker's
executors are its children.

Not here: what the driver does (``workloads/spark``).
"""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import WorkloadFailedError
from steelyard.bench.parameters import Settings
from steelyard.bench.ports import HOST
from steelyard.bench.stack.recipe import payload_dir, payload_source
from steelyard.benchmarks.spark.stack.recipe import PAYLOAD
from steelyard.benchmarks.spark.stack.settings import DAEMON_BYTES, DRIVER_BYTES, MIB, is_here

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.session import Session

START_TIMEOUT_S = 180.0
"""Eight seconds on an idle machine; a busy one may take as much longer as it is busy."""
_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"


@dataclass(frozen=True, slots=True)
class Folders:
    """Where a run's data are."""

    scratch: Path
    """Of shuffled and spilled data, of the worker, and of what Java unpacks."""
    events: Path
    tables: str
    """URL of the tables."""
    partial: str
    """URL where they are made."""
    output: str
    """URL of results."""


def python() -> Path:
    """Return the Python that has PySpark."""
    return payload_dir(PAYLOAD) / "venv/bin/python"


def spark_home() -> Path:
    """Return the folder of Spark. Raises WorkloadFailedError where the installation has none."""
    homes = sorted(payload_dir(PAYLOAD).glob("venv/lib/python3*/site-packages/pyspark"))
    if not homes:
        raise WorkloadFailedError(
            f"{payload_dir(PAYLOAD)} has no PySpark", hint="steelyard install spark --force"
        )
    return homes[0]


def configuration(folder: Path, theirs: Path | None) -> Path:
    """Return the folder of Spark's configuration, ``folder`` where it is put together.

    Steelyard's own settings come after ``theirs``, the user's, and so win; its logging alone counts, since a
    run follows what is logged. Everything else of theirs stays, such as the addresses of file systems.
    """
    own = payload_source(PAYLOAD) / "conf"
    if theirs is None:
        return own
    folder.mkdir()
    for file in theirs.iterdir():
        if file.is_file():
            shutil.copy(file, folder / file.name)
    for file in own.iterdir():
        before = (folder / file.name).read_text() if (folder / file.name).is_file() else ""
        before = "" if file.name.startswith("log4j") else before
        (folder / file.name).write_text(f"{before}\n{file.read_text()}" if before else file.read_text())
    return folder


def environment(java_home: Path, scratch: Path, configured: Path, *, is_local: bool) -> dict[str, str]:
    """Return the variables of Spark's processes; ``is_local`` for a cluster that is this machine."""
    variables = {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(configured.absolute()),
        "SPARK_LOCAL_DIRS": str(scratch / "local"),
        # Of the driver, beside what the user's configuration gives it.
        "SPARK_SUBMIT_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {_temporary(scratch)}".strip(),
    }
    if is_local:
        variables |= {
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_JAVA_OPTS": _temporary(scratch),
            "SPARK_DAEMON_MEMORY": f"{DAEMON_BYTES // MIB}m",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "SPARK_NO_DAEMONIZE": "1",
        }
    return variables


def _temporary(scratch: Path) -> str:
    """Return the option of Java that has it put into ``scratch`` what it would leave in /tmp when killed."""
    return f'-Djava.io.tmpdir="{scratch / "tmp"}"'


def with_variables(variables: Mapping[str, str], *command: str) -> list[str]:
    """Return a command with more variables; ``env`` replaces itself by it."""
    return ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items()), *command]


def start_cluster(
    session: "Session", variables: Mapping[str, str], scratch: Path
) -> tuple[str, list["Process"]]:
    """Start a master and a worker with all CPUs; return the master's URL when the worker has found it."""
    settings, cpus = session.settings, session.placement.server
    launcher = str(spark_home() / "bin" / "spark-class")
    listen = ("--host", HOST, "--port", "0", "--webui-port", "0")
    deploy = "org.apache.spark.deploy"
    master = session.start_process(
        "master",
        with_variables(variables, launcher, f"{deploy}.master.Master", *listen),
        cpus=cpus,
        comm="java",
    )
    url = _wait_for(session, master, _STARTED)
    executors = settings.count("executors")
    worker = session.start_process(
        "worker",
        with_variables(
            variables,
            *(launcher, f"{deploy}.worker.Worker", *listen),
            *("--cores", str(executors * settings.count("executor_cores"))),
            *("--memory", f"{executors * _heap_mib(settings)}m"),
            *("--work-dir", str(scratch / "work"), url),
        ),
        cpus=cpus,
        comm="java",
    )
    _wait_for(session, worker, re.compile(f"({_REGISTERED})"))
    return url, [master, worker]


def _wait_for(session: "Session", process: "Process", pattern: re.Pattern[str]) -> str:
    """Return what ``pattern`` finds in the output of a process."""
    found: list[str] = []

    def is_printed() -> bool:
        found.extend(match[1] for _, line in process.lines() if (match := pattern.search(line)))
        return bool(found)

    session.wait_for(
        is_printed, START_TIMEOUT_S, what=f"the start of {process.name}", hint=f"see {process.log}"
    )
    return found[0]


def _heap_mib(settings: Settings) -> int:
    return settings.count("memory") // settings.count("executors") // MIB


def settings_of_spark(settings: Settings, master: str, folders: Folders) -> dict[str, str]:
    """Return Spark's settings that follow from the run; those of ``conf`` win."""
    is_local = master.startswith("local")
    found = {
        "spark.eventLog.dir": folders.events.absolute().as_uri(),
        "spark.driver.memory": f"{(settings.count('memory') if is_local else DRIVER_BYTES) // MIB}m",
        "spark.executor.memory": f"{_heap_mib(settings)}m",
        "spark.executor.cores": str(settings.count("executor_cores")),
        "spark.executor.instances": str(settings.count("executors")),
        "spark.cores.max": str(settings.count("executors") * settings.count("executor_cores")),
    }
    if is_here(settings.text("master")):
        found |= {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.executor.defaultJavaOptions": _temporary(folders.scratch),
        }
    return found | dict(text.split("=", 1) for text in settings.text("conf").split())
