"""Settings that benchmarks of Hadoop share: what follows from the machine, and what cannot work.

In: a machine, a placement, a profile. Out: parameters, their values, or the reason why they cannot work here.

Not here: sizes of data, which each benchmark has of its own.
"""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.bench.limits.memory import available_memory_bytes
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.bench.stack.recipe import prepared_dir
from steelyard.bench.stack.space import Demand
from steelyard.benchmarks.hadoop.profile import PROFILES, heap_bytes, load_settings

if TYPE_CHECKING:
    from steelyard.records import Machine

MIB, GIB = 1 << 20, 1 << 30
CLUSTER_BYTES = 512 * MIB
"""Heap of the cluster's services, which only pass messages."""
DRIVER_BYTES = GIB
"""Heap of the driver, which holds a model to check it."""
JVM_OVERHEAD_BYTES = 256 * MIB
"""What a Java virtual machine takes beside its heap, about: code, threads, network buffers."""
STOCK_CONTAINER_MIB, STOCK_MASTER_MIB, STOCK_NODE_MIB = 1024, 2048, 8192
"""Hadoop's defaults; an application master of 1536 MiB gets the next multiple of 1024."""
TUNED_MASTER_MIB = 768
MEMORY_RATIO = 0.8
"""Share of the memory that a run plans with: the page cache needs the rest."""
SPLITS_PER_SLOT = 4
MOST_SPLIT_BYTES, LEAST_SPLIT_BYTES = 128 * MIB, 8 * MIB
_RESOURCE_MANAGER = "yarn.resourcemanager.address"
_REACH_TIMEOUT_S = 5.0

PARAMETERS = (
    Parameter(
        "profile",
        "choice",
        "settings of workloads/hadoop/settings.toml: Hadoop's defaults, or the recommended ones",
        default="tuned",
        choices=PROFILES,
    ),
    Parameter("data_seed", "count", "seed of the data", default=1, minimum=0, maximum=2**53),
    Parameter(
        "rounds", "count", "how often the jobs are measured", derived="per tier", minimum=1, maximum=1000
    ),
    Parameter(
        "warmups",
        "count",
        "rounds before those",
        derived="per tier: 0 in smoke, else 1",
        minimum=0,
        maximum=100,
    ),
    Parameter(
        "cluster",
        "text",
        "folder with the configuration of a cluster; empty for one that the run starts here",
        default="",
    ),
    Parameter(
        "data",
        "text",
        "folder or URL of the data; empty for the stack's own folder, or the user's on another cluster",
        default="",
    ),
    Parameter(
        "directory",
        "text",
        "folder of intermediate data and results; empty for the run's own",
        default="",
    ),
    Parameter(
        "slots",
        "count",
        "tasks at once",
        derived="tuned: one per CPU; stock: what 8 GiB hold; as the memory allows",
        minimum=1,
        maximum=100_000,
    ),
    Parameter(
        "reduces",
        "count",
        "reduce tasks of a job",
        derived="tuned: one per slot; stock: 1",
        minimum=1,
        maximum=100_000,
    ),
    Parameter(
        "heap",
        "bytes",
        "heap of a task; profile tuned only",
        derived="per benchmark",
        minimum=128 * MIB,
        maximum=1e12,
    ),
    Parameter(
        "port",
        "count",
        "port of the resource manager; 0 for a free one",
        default=0,
        minimum=0,
        maximum=65_535,
    ),
    Parameter(
        "seed", "count", "of the run; the data have their own", derived="random", minimum=0, maximum=2**53
    ),
)
ROUNDS = {"smoke": 1, "quick": 2, "standard": 3, "full": 3}


def suggest(
    chosen: Mapping[str, Setting], benchmark: str, *, machine: "Machine", tier: str, placement: Placement
) -> dict[str, Setting]:
    """Return what follows from the machine and the tier."""
    is_stock = chosen.get("profile", "tuned") == "stock"
    heap = int(chosen.get("heap", heap_bytes(benchmark)))
    known = {**chosen, "heap": heap, "profile": "stock" if is_stock else "tuned"}
    spare = int(MEMORY_RATIO * available_memory_bytes(machine)) - _beside_bytes(known)
    held = max(1, spare // MIB // container_mib(known))
    most = (STOCK_NODE_MIB - STOCK_MASTER_MIB) // STOCK_CONTAINER_MIB if is_stock else len(placement.server)
    slots = int(chosen.get("slots", min(held, most)))
    return {
        "rounds": ROUNDS[tier],
        "warmups": 0 if tier == "smoke" else 1,
        "slots": slots,
        "reduces": 1 if is_stock else slots,
        "heap": heap,
    }


def container_mib(settings: Mapping[str, Setting]) -> int:
    """Return the memory of a task's container."""
    if settings["profile"] == "stock":
        return STOCK_CONTAINER_MIB
    return (int(settings["heap"]) + JVM_OVERHEAD_BYTES) // MIB


def master_mib(settings: Mapping[str, Setting]) -> int:
    """Return the memory of an application master's container."""
    return STOCK_MASTER_MIB if settings["profile"] == "stock" else TUNED_MASTER_MIB


def _beside_bytes(settings: Mapping[str, Setting]) -> int:
    """Return the memory of everything beside the tasks."""
    return CLUSTER_BYTES + DRIVER_BYTES + 2 * JVM_OVERHEAD_BYTES + master_mib(settings) * MIB


def memory_needed_bytes(settings: Mapping[str, Setting]) -> int:
    """Return the memory that a run takes on this machine, about; only the driver's with another cluster."""
    if settings["cluster"]:
        return DRIVER_BYTES + JVM_OVERHEAD_BYTES
    return _beside_bytes(settings) + int(settings["slots"]) * container_mib(settings) * MIB


def split_bytes(settings: Mapping[str, Setting], input_bytes: int) -> int:
    """Return the input of a map task, tuned."""
    wanted = input_bytes // (SPLITS_PER_SLOT * int(settings["slots"])) + 1
    return max(LEAST_SPLIT_BYTES, min(MOST_SPLIT_BYTES, wanted))


def hadoop_settings(
    settings: Mapping[str, Setting], input_bytes: int, places: tuple[str, ...]
) -> dict[str, str]:
    """Return Hadoop's settings for the cluster, or for jobs, as ``places`` say."""
    values = {
        "reduces": int(settings["reduces"]),
        "container_mib": container_mib(settings),
        "heap_mib": int(settings["heap"]) // MIB,
        "sort_mib": min(1024, int(settings["heap"]) // MIB // 4),
        "split_bytes": split_bytes(settings, input_bytes),
        "master_mib": master_mib(settings),
        "node_mib": master_mib(settings) + int(settings["slots"]) * container_mib(settings),
    }
    found = load_settings(str(settings["profile"]), values)
    return {setting.name: setting.value for setting in found if setting.where in places}


def local_data(settings: Mapping[str, Setting], benchmark: str) -> Path | None:
    """Return the folder of this machine with the data, None for another file system."""
    text = str(settings["data"])
    if not text:
        return None if settings["cluster"] else prepared_dir(benchmark)
    if text.startswith("file://"):
        return Path(text.removeprefix("file://"))
    return None if "://" in text or settings["cluster"] else Path(text)


def check_memory(settings: Mapping[str, Setting], machine: "Machine") -> None:
    """Raise EnvironmentLacksError where tasks and services ask for more memory than there is."""
    available = available_memory_bytes(machine)
    needed = memory_needed_bytes(settings)
    if needed > available:
        raise EnvironmentLacksError(
            f"slots={settings['slots']} of {container_mib(settings)} MiB need about {needed >> 20} MiB with"
            f" Hadoop's services, more than the {available >> 20} MiB of this machine",
            hint="choose fewer with --set slots=..., or less with --set heap=...",
        )


def disk_demands(
    settings: Mapping[str, Setting], data: Path | None, *, data_bytes: int, scratch_bytes: int
) -> list[Demand]:
    """Return folders of this machine with the space, about, that a run takes there."""
    demands = []
    if data is not None:
        demands.append(Demand(data, data_bytes, "data"))
    if not settings["cluster"]:
        demands.append(Demand(Path(str(settings["directory"]) or "."), scratch_bytes, "directory"))
    return demands


def check_parents(settings: Mapping[str, Setting], data: Path | None) -> None:
    """Raise UsageError where a folder that was named can lie nowhere."""
    from steelyard.bench.scratch import check_parent

    check_parent(str(settings["directory"]), "directory")
    if data is not None and settings["data"]:
        check_parent(str(data), "data")


def check_cluster(folder: str, *, named: str = "") -> None:
    """Raise where ``folder`` holds no configuration of YARN, or its resource manager does not answer.

    ``named`` is how the user named the cluster, by default by the folder.
    """
    named = f"{named} ({folder})" if named else f"cluster={folder}"
    path = Path(folder) / "yarn-site.xml"
    if not path.is_file():
        raise UsageError(f"{named}: has no yarn-site.xml", hint="name its configuration's folder")
    try:
        properties = {
            str(each.findtext("name")): str(each.findtext("value") or "")
            for each in ElementTree.parse(path).getroot().iter("property")  # noqa: S314
        }
    except (OSError, ElementTree.ParseError) as error:
        raise UsageError(f"{named}: yarn-site.xml cannot be read: {error}") from error
    addresses = _addresses(properties)
    problems = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=_REACH_TIMEOUT_S):
                return
        except (OSError, ValueError, OverflowError) as error:
            problems.append(f"{address}: {error}")
    raise EnvironmentLacksError(
        f"{named}: no resource manager answers at {'; '.join(problems)}",
        hint="check that it runs and that this machine reaches it; without cluster= one is started here",
    )


def _addresses(properties: Mapping[str, str]) -> list[str]:
    """Return where the resource managers may be; several where one stands in for another."""
    found = []
    suffixes = [
        f".{name.strip()}" for name in properties.get("yarn.resourcemanager.ha.rm-ids", "").split(",")
    ]
    for suffix in suffixes if suffixes != ["."] else [""]:
        host = properties.get(f"yarn.resourcemanager.hostname{suffix}", "")
        address = properties.get(f"{_RESOURCE_MANAGER}{suffix}", "") or (f"{host}:8032" if host else "")
        found.append(address.replace("${yarn.resourcemanager.hostname}", host) or "0.0.0.0:8032")
    return found
