"""Settings of SparkBench: what there is to set, what follows from the machine, and what cannot work.

In: a machine, a tier, a placement. Out: settings, or the reason why they cannot work here.
"""

import math
import os
import re
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.bench.memory_limit import available_memory_bytes
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.bench.scratch import check_parent
from steelyard.bench.spark.declaration import DECLARATION
from steelyard.bench.stack.recipe import prepared_dir

if TYPE_CHECKING:
    from steelyard.records import Machine

PAYLOAD = "spark"
STANDALONE = "standalone"
VERSION = 1
"""Of tables and query, as in ``workloads/spark/driver.py``: others give other results."""
BYTES_PER_ROW = 59
"""Of the fact table as Parquet, with all its columns, from tables of 1 to 8 million rows."""
MIB, GIB = 1 << 20, 1 << 30
DAEMON_BYTES = 256 * MIB
"""Heap of the master and of the worker, which only pass messages."""
DRIVER_BYTES = GIB
JVM_OVERHEAD_BYTES = 384 * MIB
"""What a JVM takes beside its heap, about: code, threads, network buffers."""
EXECUTOR_CORES = 4
"""As DCPerf has it."""
SHUFFLE_RATIO = 1.5
"""Bytes that a query shuffles over those of the fact table, amply: Parquet compresses better."""
OUTPUT_RATIO = 0.4
"""Bytes of a result over those of the fact table, amply."""
KEPT_SHUFFLES = 2
"""Shuffles on disk at once: those of a query are removed while the next one runs."""
PARTITION_BYTES = 64 * MIB
_SCALE = {"smoke": 20 * 10**6, "quick": 300 * 10**6, "standard": 3 * 10**9, "full": 110 * 10**9}
_QUERIES = {"smoke": 2, "quick": 2, "standard": 3, "full": 3}
_REACH_TIMEOUT_S = 5.0
_HOST = re.compile(r"spark://(?P<host>[^,:/]+):(?P<port>\d+)")

PARAMETERS = (
    Parameter(
        "scale",
        "bytes",
        "size of the fact table, as Parquet",
        derived="per tier: 20 MB, 300 MB, 3 GB, 110 GB",
        minimum=100_000,
        maximum=1e15,
    ),
    Parameter("data_seed", "count", "seed of the tables", default=1, minimum=0, maximum=2**53),
    Parameter("queries", "count", "measured queries", derived="per tier", minimum=1, maximum=1000),
    Parameter("warmups", "count", "queries before those", default=1, minimum=0, maximum=100),
    Parameter(
        "master",
        "text",
        "standalone, or a cluster: local[*], spark://HOST:PORT, yarn, k8s://URL",
        default=STANDALONE,
    ),
    Parameter("tables", "text", "folder or URL of the tables; empty for the stack's own folder", default=""),
    Parameter(
        "directory", "text", "folder of shuffled and spilled data; empty for the run's own", default=""
    ),
    Parameter(
        "memory",
        "bytes",
        "heap of all executors together",
        derived="half the machine's memory, at most 4 GiB for a CPU",
        minimum=512 * MIB,
        maximum=1e14,
    ),
    Parameter("executors", "count", "executors", derived="one for 4 CPUs", minimum=1, maximum=10_000),
    Parameter(
        "executor_cores",
        "count",
        "tasks of an executor at once",
        derived="CPUs per executor",
        minimum=1,
        maximum=1024,
    ),
    Parameter(
        "partitions",
        "count",
        "tasks of the comparison",
        derived="one for 64 MiB, at least 4 for a CPU",
        minimum=1,
        maximum=1_000_000,
    ),
    Parameter("conf", "text", "further settings of Spark, NAME=VALUE separated by spaces", default=""),
    Parameter(
        "seed", "count", "of the run; the tables have their own", derived="random", minimum=0, maximum=2**53
    ),
)


def suggest(
    chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
) -> dict[str, Setting]:
    """Return what follows from the machine and the tier."""
    cpus = len(placement.server)
    executors = int(chosen.get("executors", math.ceil(cpus / EXECUTOR_CORES)))
    cores = int(chosen.get("executor_cores", math.ceil(cpus / executors)))
    scale = int(chosen.get("scale", _SCALE[tier]))
    slots = executors * cores
    memory = min(available_memory_bytes(machine) // 2, 4 * GIB * slots)
    if tier == "smoke":
        memory = min(memory, GIB * executors)
    return {
        "scale": scale,
        "queries": _QUERIES[tier],
        "memory": max(memory, 512 * MIB),
        "executors": executors,
        "executor_cores": cores,
        "partitions": max(4 * slots, math.ceil(scale / PARTITION_BYTES)),
    }


def rows_of(scale_bytes: int) -> int:
    """Return the rows of a fact table of this size."""
    return max(1000, scale_bytes // BYTES_PER_ROW)


def local_folder(text: str) -> Path | None:
    """Return the folder that ``tables`` names, None for a URL of another file system."""
    if not text:
        return prepared_dir(DECLARATION.name)
    if text.startswith("file://"):
        return Path(text.removeprefix("file://"))
    return None if "://" in text else Path(text)


def table_name(settings: Mapping[str, Setting]) -> str:
    """Return the folder of the tables of one version, seed and size."""
    return f"v{VERSION}-seed{settings['data_seed']}-rows{rows_of(int(settings['scale']))}"


def memory_needed_bytes(settings: Mapping[str, Setting]) -> int:
    """Return the memory that a run takes on this machine, about; only the driver's with another cluster."""
    if str(settings["master"]).startswith("local"):
        return int(settings["memory"]) + DRIVER_BYTES + JVM_OVERHEAD_BYTES
    driver = DRIVER_BYTES + JVM_OVERHEAD_BYTES
    if settings["master"] != STANDALONE:
        return driver
    overhead = JVM_OVERHEAD_BYTES * int(settings["executors"])
    return driver + int(settings["memory"]) + overhead + 2 * DAEMON_BYTES


def needed_disk_bytes(settings: Mapping[str, Setting], *, have_tables: bool) -> tuple[int, int]:
    """Return the disk space, about, of results, with the tables unless they are there, and of shuffles."""
    scale = int(settings["scale"])
    results = OUTPUT_RATIO * scale * (int(settings["queries"]) + 1)
    tables = 0 if have_tables else 1.1 * scale
    return int(results + tables), int(SHUFFLE_RATIO * scale * KEPT_SHUFFLES)


def check(settings: Mapping[str, Setting], machine: "Machine") -> None:
    """Raise UsageError or EnvironmentLacksError where ``settings`` cannot work on ``machine``."""
    _check_master(str(settings["master"]))
    for text in str(settings["conf"]).split():
        if "=" not in text:
            raise UsageError(f"conf={text}: is not NAME=VALUE", hint="--set conf='spark.a=1 spark.b=2'")
    available = available_memory_bytes(machine)
    needed = memory_needed_bytes(settings)
    if needed > available:
        raise EnvironmentLacksError(
            f"memory={int(settings['memory']) >> 20}MiB needs about {needed >> 20} MiB with Spark's other"
            f" processes, more than the {available >> 20} MiB of this machine",
            hint="choose less with --set memory=...",
        )
    _check_disks(settings)


def _check_master(master: str) -> None:
    if master in (STANDALONE, "local") or re.fullmatch(r"local\[(\*|\d+)\]", master):
        return
    if master == "yarn":
        if not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
            raise EnvironmentLacksError(
                "master=yarn: HADOOP_CONF_DIR is not set", hint="point it at the cluster's configuration"
            )
        return
    if master.startswith("k8s://"):
        return
    match = _HOST.match(master)
    if match is None:
        raise UsageError(
            f"master={master}: is no master of Spark",
            hint="standalone, local[*], spark://HOST:PORT, yarn or k8s://URL",
        )
    try:
        # Spark itself tries for a minute.
        with socket.create_connection((match["host"], int(match["port"])), timeout=_REACH_TIMEOUT_S):
            pass
    except (OSError, OverflowError) as error:
        raise EnvironmentLacksError(
            f"no Spark master answers at {master}: {error}",
            hint="check that it runs and that this machine reaches it; standalone starts a cluster here",
        ) from error


def _check_disks(settings: Mapping[str, Setting]) -> None:
    """Raise EnvironmentLacksError where a disk of this machine has too little space."""
    directory = str(settings["directory"])
    check_parent(directory, "directory")
    folder = local_folder(str(settings["tables"]))
    have_tables = folder is None or (folder / table_name(settings) / "tables.json").is_file()
    beside, shuffled = needed_disk_bytes(settings, have_tables=have_tables)
    demands: list[tuple[Path, int, str]] = []
    if folder is not None:
        if str(settings["tables"]):
            check_parent(str(folder), "tables")
        demands.append((folder, beside, "tables"))
    if settings["master"] == STANDALONE or str(settings["master"]).startswith("local"):
        demands.append((Path(directory or "."), shuffled, "directory"))
    by_disk: dict[int, list[tuple[Path, int, str]]] = {}
    for path, needed, name in demands:
        there = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
        by_disk.setdefault(there.stat().st_dev, []).append((there, needed, name))
    for found in by_disk.values():
        needed = sum(amount for _, amount, _ in found)
        free = shutil.disk_usage(found[0][0]).free
        if free < needed:
            names = " or ".join(f"--set {name}=..." for _, _, name in found)
            raise EnvironmentLacksError(
                f"scale={int(settings['scale']) / 1e6:g}MB needs about {needed >> 20} MiB of disk space, and"
                f" {found[0][0]} has {free >> 20} MiB",
                hint=f"choose less with --set scale=..., or another disk with {names}",
            )
