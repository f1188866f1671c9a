"""Settings of Spark that benchmarks on it share: its cluster, executors and memory, and what cannot work.

In: a machine, a tier, a placement. Out: settings, or the reason why they cannot work here.
"""

import math
import os
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.bench.limits.memory import available_memory_bytes
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.benchmarks.hadoop.parameters import check_cluster as check_yarn

if TYPE_CHECKING:
    from steelyard.records import Machine

STANDALONE = "standalone"
MIB, GIB = 1 << 20, 1 << 30
DAEMON_BYTES = 256 * MIB
"""Heap of the master and of the worker, which only pass messages."""
DRIVER_BYTES = GIB
JVM_OVERHEAD_BYTES = 384 * MIB
"""What a JVM takes beside its heap, about: code, threads, network buffers."""
EXECUTOR_CORES = 4
"""As DCPerf has it."""
START_S = 20.0
"""From the start of the cluster to the first job, and from the last one to the end of all processes."""
_REACH_TIMEOUT_S = 5.0
_MASTERS = re.compile(r"spark://[^,:/\s]+:\d+(,[^,:/\s]+:\d+)*")
_HTTPS, _HTTP = 443, 80

CLUSTER_PARAMETERS = (
    Parameter(
        "master",
        "text",
        "standalone, or a cluster: local[*], spark://HOST:PORT, yarn, k8s://URL",
        default=STANDALONE,
    ),
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
    Parameter("conf", "text", "further settings of Spark, NAME=VALUE separated by spaces", default=""),
    Parameter(
        "spark_conf",
        "text",
        "folder of a configuration that is read before Steelyard's; empty for SPARK_CONF_DIR's with another"
        " cluster, and none with one that the run starts",
        default="",
    ),
)


def cluster_settings(
    chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
) -> dict[str, int]:
    """Return executors and memory that follow from the machine."""
    cpus = len(placement.server)
    executors = int(chosen.get("executors", math.ceil(cpus / EXECUTOR_CORES)))
    cores = int(chosen.get("executor_cores", math.ceil(cpus / executors)))
    memory = min(available_memory_bytes(machine) // 2, 4 * GIB * executors * cores)
    if tier == "smoke":
        memory = min(memory, GIB * executors)
    return {"memory": max(memory, 512 * MIB), "executors": executors, "executor_cores": cores}


def check_cluster(settings: Mapping[str, Setting], machine: "Machine") -> None:
    """Raise UsageError or EnvironmentLacksError where the cluster cannot be had on ``machine``."""
    check_master(str(settings["master"]))
    folder = user_configuration(settings)
    if folder is not None and not folder.is_dir():
        raise UsageError(f"spark_conf={folder}: there is no such folder")
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


def is_here(master: str) -> bool:
    """Return whether the work is done on this machine alone."""
    return master == STANDALONE or master.startswith("local")


def slots_of(settings: Mapping[str, Setting]) -> int:
    """Return the tasks that all executors do at once."""
    return int(settings["executors"]) * int(settings["executor_cores"])


def memory_needed_bytes(settings: Mapping[str, Setting]) -> int:
    """Return the memory that a run takes on this machine, about; only the driver's with another cluster."""
    if str(settings["master"]).startswith("local"):
        return int(settings["memory"]) + DRIVER_BYTES + JVM_OVERHEAD_BYTES
    driver = DRIVER_BYTES + JVM_OVERHEAD_BYTES
    if settings["master"] != STANDALONE:
        return driver
    overhead = JVM_OVERHEAD_BYTES * int(settings["executors"])
    return driver + int(settings["memory"]) + overhead + 2 * DAEMON_BYTES


def check_master(master: str) -> None:
    """Raise UsageError for what names no master, EnvironmentLacksError where none answers."""
    if master in (STANDALONE, "local") or re.fullmatch(r"local\[(\*|\d+)\]", master):
        return
    if master == "yarn":
        folder = os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")
        if not folder:
            raise EnvironmentLacksError(
                "master=yarn: HADOOP_CONF_DIR is not set", hint="point it at the cluster's configuration"
            )
        check_yarn(folder, named="master=yarn")
    elif master.startswith("k8s://"):
        _reach("API server of Kubernetes", [_api_server(master)], master)
    elif _MASTERS.fullmatch(master):
        # Of several that stand in for each other one is enough.
        _reach("Spark master", master.removeprefix("spark://").split(","), master)
    else:
        raise UsageError(
            f"master={master}: is no master of Spark",
            hint="standalone, local[*], spark://HOST:PORT, yarn or k8s://URL",
        )


def _api_server(master: str) -> str:
    """Return host and port of the API server of Kubernetes that ``master`` names.

    >>> _api_server("k8s://10.0.0.1:6443"), _api_server("k8s://http://[::1]")
    ('10.0.0.1:6443', '[::1]:80')
    """
    address = master.removeprefix("k8s://")
    try:
        url = urlsplit(address if "://" in address else f"https://{address}")
        host, port = url.hostname, url.port
    except ValueError:
        host, port = None, None
    if not host or url.scheme not in ("http", "https"):
        raise UsageError(f"master={master}: names no API server", hint="k8s://https://HOST:PORT")
    port = port or (_HTTP if url.scheme == "http" else _HTTPS)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reach(what: str, addresses: Sequence[str], master: str) -> None:
    """Raise EnvironmentLacksError unless one of ``addresses`` answers; Spark itself tries for minutes."""
    problems = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_TIMEOUT_S):
                return
        except (OSError, OverflowError) as error:
            problems.append(f"{address}: {error}")
    raise EnvironmentLacksError(
        f"no {what} answers at {master}: {'; '.join(problems)}",
        hint="check that it runs and that this machine reaches it; standalone starts a cluster here",
    )


def user_configuration(settings: Mapping[str, Setting]) -> Path | None:
    """Return the folder of the user's own configuration of Spark that a run keeps, None for none."""
    if settings["spark_conf"]:
        return Path(str(settings["spark_conf"]))
    own = settings["master"] == STANDALONE or str(settings["master"]).startswith("local")
    theirs = os.environ.get("SPARK_CONF_DIR")
    return Path(theirs) if theirs and not own else None
