"""A cluster of Hadoop on this machine, and the command of the driver.

In: a session, settings, folders. Out: processes that end with the run; tasks descend from the cluster's.

Its services are bound to 127.0.0.1. Hadoop has no setting for where it serves map output and where an
application master listens: these are free ports of all addresses.

Not here: what the driver does (``workloads/hadoop/src``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from steelyard.bench.ports import HOST, check_port
from steelyard.bench.scratch import scratch_folder
from steelyard.bench.stack.java import java_home
from steelyard.bench.stack.recipe import payload_dir, payload_source
from steelyard.benchmarks.hadoop.parameters import CLUSTER_BYTES, DRIVER_BYTES, MIB, local_data
from steelyard.benchmarks.hadoop.profile import PAYLOAD

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.session import Session

READY_TIMEOUT_S = 180.0
"""Five seconds on an idle machine; a busy one may take as much longer as it is busy."""
GRACE_S = STOP_TIMEOUT_S = 30.0
"""Two seconds on an idle machine."""
_SHIPPED = ("lucene-core-", "jsoup-")
"""Jars that no cluster has."""
_JAVA = (
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "-XX:+UseSerialGC",
    # Services and driver pass messages: compiling them well would take CPUs of tasks.
    "-XX:TieredStopAtLevel=1",
)


@dataclass(frozen=True, slots=True)
class Folders:
    """Where a run's data are."""

    scratch: Path
    """Of the cluster: intermediate data, results."""
    configuration: Path
    logs: Path
    """Of the tasks."""
    data: str
    """URL of the data."""
    partial: str
    """URL where they are made."""
    output: str
    """URL of results."""


def place_folders(session: "Session", benchmark: str, data_name: str) -> Folders:
    """Make the folders of a run; those with data on this machine go when it ends, however it ends.

    Without ``data_name`` the data are not kept for later runs.
    """
    settings = session.settings
    scratch = scratch_folder(session, settings.text("directory"), "scratch")
    configuration, logs = session.directory / "hadoop", session.directory / "tasks"
    configuration.mkdir()
    logs.mkdir()
    parent = local_data(settings, benchmark)
    if not data_name:
        # Of this run only: they go with its results.
        own = (
            (scratch / "output").as_uri()
            if parent is not None
            else f"steelyard/{benchmark}/steelyard-{session.directory.name}-output"
        )
        return Folders(scratch, configuration, logs, f"{own}/data", f"{own}/partial", own)
    if parent is None:
        url = settings.text("data").rstrip("/") or f"steelyard/{benchmark}"
        own = f"{url}/steelyard-{session.directory.name}"
        return Folders(scratch, configuration, logs, f"{url}/{data_name}", f"{own}-partial", f"{own}-output")
    parent.mkdir(parents=True, exist_ok=True)
    own_data = scratch_folder(session, str(parent), "data")
    return Folders(
        scratch,
        configuration,
        logs,
        (parent / data_name).absolute().as_uri(),
        (own_data / "partial").as_uri(),
        (scratch / "output").as_uri(),
    )


def _site(path: Path, settings: Mapping[str, str]) -> None:
    lines = [
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    ]
    path.write_text(f'<?xml version="1.0"?>\n<configuration>\n{"".join(lines)}</configuration>\n')


def _addresses(port: int) -> dict[str, str]:
    free = f"{HOST}:0"
    return {
        "yarn.resourcemanager.hostname": HOST,
        "yarn.resourcemanager.bind-host": HOST,
        "yarn.resourcemanager.address": f"{HOST}:{port}",
        "yarn.resourcemanager.scheduler.address": free,
        "yarn.resourcemanager.resource-tracker.address": free,
        "yarn.resourcemanager.admin.address": free,
        "yarn.resourcemanager.webapp.address": free,
        "yarn.nodemanager.hostname": HOST,
        "yarn.nodemanager.bind-host": HOST,
        "yarn.nodemanager.address": free,
        "yarn.nodemanager.localizer.address": free,
        "yarn.nodemanager.collector-service.address": free,
        "yarn.nodemanager.webapp.address": free,
        "mapreduce.jobhistory.bind-host": HOST,
        "mapreduce.jobhistory.address": free,
        "mapreduce.jobhistory.admin.address": free,
        "mapreduce.jobhistory.webapp.address": free,
        "mapreduce.shuffle.port": "0",
    }


def _own_settings(folders: Folders, port: int) -> dict[str, str]:
    """Return addresses and folders of a cluster of this run."""
    scratch = folders.scratch
    classes = f"{payload_source(PAYLOAD) / 'conf'},{payload_dir(PAYLOAD) / 'lib'}/*"
    return _addresses(port) | {
        "fs.defaultFS": "file:///",
        "hadoop.tmp.dir": str(scratch / "tmp"),
        "yarn.node-attribute.fs-store.root-dir": str(scratch / "attributes"),
        "yarn.nodemanager.local-dirs": str(scratch / "local"),
        "yarn.nodemanager.log-dirs": str(folders.logs.absolute()),
        "yarn.app.mapreduce.am.staging-dir": str(scratch / "staging"),
        "mapreduce.jobhistory.intermediate-done-dir": str(scratch / "history/new"),
        "mapreduce.jobhistory.done-dir": str(scratch / "history/done"),
        "mapreduce.cluster.local.dir": str(scratch / "mapred"),
        "yarn.application.classpath": classes,
        "mapreduce.application.classpath": classes,
    }


def _java(java: Path, heap_bytes: int, folders: Folders, configuration: Path, *command: str) -> list[str]:
    temporary = folders.scratch / "java"
    temporary.mkdir(exist_ok=True)
    classes = [
        configuration.absolute(),
        payload_source(PAYLOAD) / "conf",
        f"{payload_dir(PAYLOAD) / 'lib'}/*",
    ]
    return [
        # Tasks run with the Java of this variable; nothing else of the caller's configuration counts.
        *("/usr/bin/env", "-u", "HADOOP_CONF_DIR", f"JAVA_HOME={java_home(java)}", str(java)),
        *(
            f"-Xmx{heap_bytes // MIB}m",
            f"-Djava.io.tmpdir={temporary}",
            *_JAVA,
            "-cp",
            ":".join(map(str, classes)),
            *command,
        ),
    ]


def start_cluster(
    session: "Session", java: Path, folders: Folders, settings: Mapping[str, str]
) -> tuple["Process", Path]:
    """Start a cluster with all CPUs; return it and its settings once it takes jobs."""
    port = session.settings.count("port")
    if port:
        check_port(port)
    every = {**_own_settings(folders, port), **settings}
    prefixes = {"mapred": ("mapreduce.", "yarn.app.mapreduce."), "yarn": ("yarn.",)}
    left = every
    for file, prefix in prefixes.items():
        _site(
            folders.configuration / f"{file}-site.xml",
            {name: value for name, value in left.items() if name.startswith(prefix)},
        )
        left = {name: value for name, value in left.items() if not name.startswith(prefix)}
    _site(folders.configuration / "core-site.xml", left)
    written = folders.configuration / "cluster.xml"
    command = _java(
        java,
        CLUSTER_BYTES,
        folders,
        folders.configuration,
        *("steelyard.hadoop.Cluster", str(written.absolute())),
    )
    process = session.start_process(
        "cluster", command, cpus=session.placement.server, comm="java", grace_s=GRACE_S
    )
    session.wait_for(
        written.is_file, READY_TIMEOUT_S, what="the start of the cluster", hint=f"see {process.log}"
    )
    return process, written


def settings_for_jobs(folders: Folders, settings: Mapping[str, str]) -> Path:
    """Write the settings of jobs for a cluster that is there; return the file."""
    jars = sorted((payload_dir(PAYLOAD) / "lib").glob("*.jar"))
    shipped = [jar.absolute().as_uri() for jar in jars if jar.name.startswith(_SHIPPED)]
    path = folders.configuration / "jobs.xml"
    _site(path, {**settings, "steelyard.shipped.jars": ",".join(shipped)})
    return path


def driver_command(
    java: Path, folders: Folders, written: Path, cluster: str, name: str, options: Mapping[str, object]
) -> list[str]:
    """Return the command of the driver; ``cluster`` is a configuration's folder, empty for this run's own."""
    given = {
        "settings": written.absolute(),
        "data": folders.data,
        "partial": folders.partial,
        "output": folders.output,
        **options,
    }
    words = [word for option, value in given.items() for word in (f"--{option}", str(value))]
    configuration = Path(cluster) if cluster else folders.configuration
    return _java(java, DRIVER_BYTES, folders, configuration, "steelyard.hadoop.Driver", name, *words)
