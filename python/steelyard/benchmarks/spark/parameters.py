"""Settings of SparkBench: what there is to set, what follows from the machine, and what cannot work.

In: a machine, a tier, a placement. Out: settings, or the reason why they cannot work here.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.bench.scratch import check_parent
from steelyard.bench.stack.recipe import prepared_dir
from steelyard.bench.stack.space import Demand, require_space
from steelyard.benchmarks.spark.declaration import DECLARATION
from steelyard.benchmarks.spark.stack import far
from steelyard.benchmarks.spark.stack.settings import (
    CLUSTER_PARAMETERS,
    MIB,
    check_cluster,
    cluster_settings,
    is_here,
)

if TYPE_CHECKING:
    from steelyard.records import Machine

VERSION = 1
"""Of tables and query, as in ``workloads/spark/driver.py``: others give other results."""
BYTES_PER_ROW = 59
"""Of the fact table as Parquet, with all its columns, from tables of 1 to 8 million rows."""
SHUFFLE_RATIO = 1.5
"""Bytes that a query shuffles over those of the fact table, amply: Parquet compresses better."""
TABLES_RATIO = 1.1
"""Bytes of all tables over those of the fact table, amply."""
OUTPUT_RATIO = 0.4
"""Bytes of a result over those of the fact table, amply."""
KEPT_SHUFFLES = 2
"""Shuffles on disk at once: those of a query are removed while the next one runs."""
PARTITION_BYTES = 64 * MIB
_SCALE = {"smoke": 20 * 10**6, "quick": 300 * 10**6, "standard": 3 * 10**9, "full": 110 * 10**9}
_QUERIES = {"smoke": 2, "quick": 2, "standard": 3, "full": 3}

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
    *CLUSTER_PARAMETERS,
    *far.PARAMETERS,
    Parameter("warmups", "count", "queries before those", default=1, minimum=0, maximum=100),
    Parameter("tables", "text", "folder or URL of the tables; empty for the stack's own folder", default=""),
    Parameter(
        "partitions",
        "count",
        "tasks of the comparison",
        derived="one for 64 MiB, at least 4 for a CPU",
        minimum=1,
        maximum=1_000_000,
    ),
    Parameter(
        "seed", "count", "of the run; the tables have their own", derived="random", minimum=0, maximum=2**53
    ),
)


def suggest(
    chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
) -> dict[str, Setting]:
    """Return what follows from the machine and the tier."""
    cluster = cluster_settings(chosen, machine=machine, tier=tier, placement=placement)
    scale = int(chosen.get("scale", _SCALE[tier]))
    slots = cluster["executors"] * cluster["executor_cores"]
    return {
        **cluster,
        "scale": scale,
        "queries": _QUERIES[tier],
        "partitions": max(4 * slots, math.ceil(scale / PARTITION_BYTES)),
    }


def rows_of(scale_bytes: int) -> int:
    """Return the rows of a fact table of this size."""
    return max(1000, scale_bytes // BYTES_PER_ROW)


def local_folder(text: str) -> Path | None:
    """Return the folder that ``tables`` names, None for a URL of another file system."""
    if not text:
        return prepared_dir(DECLARATION.name)
    if text.startswith("file:/"):
        return Path(re.sub("^file:/+", "/", text))
    return None if "://" in text else Path(text)


def table_name(settings: Mapping[str, Setting]) -> str:
    """Return the folder of the tables of one version, seed and size."""
    return f"v{VERSION}-seed{settings['data_seed']}-rows{rows_of(int(settings['scale']))}"


def needed_disk_bytes(settings: Mapping[str, Setting], *, have_tables: bool) -> tuple[int, int]:
    """Return the disk space, about, of results, with the tables unless they are there, and of shuffles."""
    scale = int(settings["scale"])
    results = OUTPUT_RATIO * scale * (int(settings["queries"]) + 1)
    tables = 0 if have_tables else TABLES_RATIO * scale
    return int(results + tables), int(SHUFFLE_RATIO * scale * KEPT_SHUFFLES)


def new_tables_bytes(settings: Mapping[str, Setting]) -> int:
    """Return the size of the tables that the run makes and leaves, 0 where they are there."""
    return 0 if have_tables(settings) else int(TABLES_RATIO * int(settings["scale"]))


def check(settings: Mapping[str, Setting], machine: "Machine") -> None:
    """Raise UsageError or EnvironmentLacksError where ``settings`` cannot work on ``machine``."""
    check_cluster(settings, machine)
    _check_disks(settings)
    far.FarHosts.of(settings).check()


def have_tables(settings: Mapping[str, Setting]) -> bool:
    """Return whether the tables are there, or on another file system, of which nothing is known."""
    folder = local_folder(str(settings["tables"]))
    return folder is None or (folder / table_name(settings) / "tables.json").is_file()


def disk_demands(settings: Mapping[str, Setting]) -> list[Demand]:
    """Return folders of this machine with the space, about, that a run takes there."""
    folder = local_folder(str(settings["tables"]))
    beside, shuffled = needed_disk_bytes(settings, have_tables=have_tables(settings))
    demands = []
    if folder is not None:
        demands.append(Demand(folder, beside, "tables"))
    if is_here(str(settings["master"])):
        demands.append(Demand(Path(str(settings["directory"]) or "."), shuffled, "directory"))
    return demands


def _check_disks(settings: Mapping[str, Setting]) -> None:
    """Raise EnvironmentLacksError where a disk of this machine has too little space."""
    check_parent(str(settings["directory"]), "directory")
    folder = local_folder(str(settings["tables"]))
    if folder is not None and str(settings["tables"]):
        check_parent(str(folder), "tables")
    size = f"scale={int(settings['scale']) / 1e6:g}MB"
    require_space(disk_demands(settings), size=size, size_parameter="scale")
