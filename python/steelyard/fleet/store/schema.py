"""What a fleet's store holds: its tables, their columns, types, units and meanings, declared once.

Out: `TABLES`, from which come the Arrow schemas that Python writes with (`TableSchema.arrow`), the file
``schemas/store.json`` that the Rust agent's tests compare theirs with (``python -m
steelyard.fleet.store.schema``), and ``docs/reference/store.md``.

Invariants: a new column is nullable and raises the minor version of its table; anything else raises the
major version of the table, which gets folders of its own (``schema=2``), and of the store. Files of earlier
versions stay readable: `TableSchema.name_in` maps today's column names to those of a file. Times are Unix
seconds of UTC. ``date`` and ``cluster`` are columns of every table, but come from a file's path and are in no
file.

Not here: where files are (``layout``), which of them count (``listing``).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from steelyard._base import schemas_dir

MAJOR = 2
SCHEMA_VERSION = f"{MAJOR}.0"
"""The version of a store that is made today. Version 1 differs in two columns only (`TableSchema.former`)."""

KIND = "steelyard-store"

PARTITIONS = ("date", "cluster")
"""Columns that every table has from its files' paths: both are strings, ``date`` as YYYY-MM-DD."""

ARROW_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "list<int64>": pa.list_(pa.int64()),
    "list<double>": pa.list_(pa.float64()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
"""The types that columns have, by name."""


@dataclass(frozen=True)
class StoreColumn:
    """One column. ``unit`` is None for words, counts and truths; ``nullable`` says that null is "missing"."""

    name: str
    type: str
    nullable: bool
    unit: str | None
    meaning: str


@dataclass(frozen=True)
class TableSchema:
    """One table: its columns in the order of its files, and the order of rows in a compacted file.

    ``key`` says, with the cluster, which rows are the same: one of them counts. ``windowed`` says that
    ``date`` is the day of what the row tells of; a range of days then selects rows. The others hold what is
    true until replaced, and are read whole. ``former`` maps columns that were renamed in version
    ``major`` to the names that files of earlier versions have.
    """

    name: str
    meaning: str
    columns: tuple[StoreColumn, ...]
    key: tuple[str, ...]
    sort: tuple[str, ...]
    time: str | None
    windowed: bool
    major: int = 1
    former: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """The version that files are written in."""
        return f"{self.major}.0"

    def name_in(self, column: str, major: int) -> str:
        """Return what files of the version ``major`` call ``column``."""
        return column if major == self.major else self.former.get(column, column)

    def today(self, column: str) -> str:
        """Return today's name of a column that may have its former one, as in mapping files of users."""
        return next((name for name, former in self.former.items() if former == column), column)

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of a file, with the metadata that every file carries."""
        fields = [pa.field(c.name, ARROW_TYPES[c.type], nullable=c.nullable) for c in self.columns]
        return pa.schema(
            fields, metadata={"steelyard.table": self.name, "steelyard.schema_version": self.version}
        )

    @property
    def small(self) -> bool:
        """Whether the table is small enough to look for repeated rows at each reading.

        Its rows may be reported again with more in them, as an incident that has ended.
        """
        return self.name not in ("machine_samples", "task_samples", "profiles")

    @cached_property
    def by_name(self) -> dict[str, StoreColumn]:
        """The columns by name."""
        return {column.name: column for column in self.columns}


def _columns(*rows: tuple[str, str, str | None, str]) -> tuple[StoreColumn, ...]:
    """Return columns of (name, type, unit, meaning), where a ``?`` after the type says "may be null"."""
    return tuple(
        StoreColumn(name, kind.removesuffix("?"), kind.endswith("?"), unit, meaning)
        for name, kind, unit, meaning in rows
    )


_MACHINE = ("machine", "string", None, "The machine's name, unique in the fleet.")
_PLATFORM = ("platform", "string", None, "What kind of machine: a CPU type, as the fleet names it.")
_WINDOW_START = ("window_start_unix_s", "int64", "s", "When the window began, Unix time.")
_WINDOW = ("window_s", "double", "s", "How long the window was.")
_JOB = ("job", "string", None, "The job that the task belongs to: the same code on many machines.")
_TASK = ("task", "string", None, "The task: one instance of a job, unique in the fleet while it lives.")
_LABELS = ("labels", "map<string,string>", None, "What else is known, by name; empty where nothing is.")

_TABLES = (
    TableSchema(
        name="machines",
        meaning="Inventory of a machine. One row per reading; the newest counts.",
        key=("machine", "seen_unix_s"),
        sort=("platform", "machine", "seen_unix_s"),
        time="seen_unix_s",
        windowed=False,
        columns=_columns(
            _MACHINE,
            _PLATFORM,
            ("seen_unix_s", "int64", "s", "Time of the reading, Unix time."),
            ("vendor", "string?", None, "The processor's vendor."),
            ("cpu_model", "string?", None, "The processor's model, as it names itself."),
            ("sockets", "int64?", None, "Processor packages."),
            ("cores", "int64?", None, "Physical cores of all sockets."),
            ("threads", "int64?", None, "Logical CPUs that are online."),
            ("numa_nodes", "int64?", None, "NUMA nodes."),
            ("smt_on", "bool?", None, "Whether cores run more than one thread."),
            ("memory_bytes", "int64?", "bytes", "Memory of all nodes."),
            ("nominal_frequency_hz", "double?", "Hz", "Base frequency."),
            ("max_frequency_hz", "double?", "Hz", "Highest frequency of one core."),
            ("memory_bandwidth_limit_bytes_per_s", "double?", "bytes/s", "What memory can move at most."),
            ("disk_limit_bytes_per_s", "double?", "bytes/s", "What disks can move at most."),
            ("network_limit_bytes_per_s", "double?", "bytes/s", "Line rate of the network, one way."),
            ("node_distances", "list<double>?", None, "Distances between nodes, row by row; local is 10."),
            ("kernel", "string?", None, "The kernel's release."),
            _LABELS,
        ),
    ),
    TableSchema(
        name="machine_samples",
        meaning="What one machine did in one window.",
        key=("machine", "window_start_unix_s"),
        sort=("platform", "machine", "window_start_unix_s"),
        time="window_start_unix_s",
        windowed=True,
        major=2,
        former={"core_cycles": "cycles"},
        columns=_columns(
            _MACHINE,
            _PLATFORM,
            _WINDOW_START,
            _WINDOW,
            ("threads", "int64", None, "Logical CPUs online in the window."),
            ("cores", "int64?", None, "Physical cores online in the window."),
            ("cpu_s", "double", "s", "Busy time of all logical CPUs together."),
            ("core_busy_s", "double?", "s", "Time with a thread of a core busy, summed over cores."),
            ("core_cycles", "int64?", None, "Core cycles, at the frequency that they ran at."),
            ("reference_cycles", "int64?", None, "Cycles at the reference frequency while not halted."),
            ("instructions", "int64?", None, "Instructions retired."),
            ("frequency_hz", "double?", "Hz", "Effective frequency while busy."),
            ("power_w", "double?", "W", "Mean power of the processor packages (RAPL)."),
            ("power_cap_w", "double?", "W", "The power limit in force."),
            ("throttled_s", "double?", "s", "Time with the frequency held down by power or heat."),
            ("steal_s", "double?", "s", "Time that the hypervisor gave to others, of all logical CPUs."),
            ("memory_used_bytes", "int64?", "bytes", "Memory in use, without what can be dropped."),
            ("memory_bandwidth_bytes_per_s", "double?", "bytes/s", "Bytes moved to and from memory."),
            ("disk_busy_s", "double?", "s", "Time with a request in flight, of the busiest disk."),
            ("disk_read_bytes", "int64?", "bytes", "Bytes read from disks."),
            ("disk_write_bytes", "int64?", "bytes", "Bytes written to disks."),
            ("io_wait_s", "double?", "s", "CPU time idle with a request to a disk outstanding."),
            ("network_receive_bytes", "int64?", "bytes", "Bytes received."),
            ("network_send_bytes", "int64?", "bytes", "Bytes sent."),
            _LABELS,
        ),
    ),
    TableSchema(
        name="task_samples",
        meaning="What one task on one machine did in one window.",
        key=("machine", "task", "window_start_unix_s"),
        sort=("job", "platform", "window_start_unix_s", "machine", "task"),
        time="window_start_unix_s",
        windowed=True,
        major=2,
        former={"reference_cycles": "cycles"},
        columns=_columns(
            _MACHINE,
            _PLATFORM,
            _JOB,
            _TASK,
            ("job_class", "string", None, "`latency-sensitive`, `batch` or `best-effort`."),
            _WINDOW_START,
            _WINDOW,
            ("cpu_s", "double", "s", "CPU time that the task used in the window."),
            ("reference_cycles", "int64?", None, "Cycles at the reference frequency while not halted."),
            ("instructions", "int64?", None, "Instructions retired."),
            ("cpi", "double?", None, "Cycles per instruction, or what `cpi_source` names."),
            ("cpi_source", "string?", None, "`cycles/instructions`, or a substitute and its unit."),
            ("llc_misses", "int64?", None, "Misses of the last-level cache."),
            ("context_switches", "int64?", None, "Context switches."),
            ("page_faults", "int64?", None, "Page faults, minor and major."),
            ("memory_bytes", "double?", "bytes", "Mean resident memory."),
            ("storage_bytes", "double?", "bytes", "Bytes read from and written to storage."),
            ("network_bytes", "double?", "bytes", "Bytes received and sent."),
            ("cpu_s_per_node", "list<double>?", "s", "CPU time on each NUMA node."),
            ("pages_per_node", "list<int64>?", None, "Memory on each NUMA node, in base pages."),
            ("numa_score", "double?", None, "CPU-memory locality, above 0 to 1 (all local)."),
            ("operations", "double?", None, "Operations of the job's own kind that the task completed."),
            ("latency_mean_s", "double?", "s", "Mean latency of its operations."),
            ("latency_p99_s", "double?", "s", "99th percentile of their latency."),
            ("machine_cpu_ratio", "double?", None, "Busy share of the machine's logical CPUs, 0 to 1."),
            ("labels", "map<string,string>", None, "Configuration labels; empty where there are none."),
        ),
    ),
    TableSchema(
        name="profiles",
        meaning="Stacks sampled on one machine in one window: one row a stack of a task.",
        key=("machine", "job", "task", "window_start_unix_s", "event", "stack"),
        sort=("job", "platform", "window_start_unix_s", "machine", "task"),
        time="window_start_unix_s",
        windowed=True,
        columns=_columns(
            _MACHINE,
            _PLATFORM,
            _JOB,
            _TASK,
            _WINDOW_START,
            _WINDOW,
            ("event", "string", None, "Sampled event: `cycles`, `cpu-clock` or another event."),
            ("hz", "double", "Hz", "Requested samples per second and busy CPU."),
            (
                "stack",
                "string",
                None,
                "Frames from the root, joined by `;`: the command first, then `function [module]`, or"
                " `0xOFFSET [module@BUILDID]` until symbols are known.",
            ),
            ("samples", "int64", None, "Samples with this stack."),
            ("weight", "double", None, "Weight: cycles, or nanoseconds for `cpu-clock`."),
            ("sampled_ratio", "double", None, "Share of machine-minutes that are profiled."),
        ),
    ),
    TableSchema(
        name="symbols",
        meaning="Names of functions by build: what offsets in profiles are read with.",
        key=("build_id", "module", "start"),
        sort=("build_id", "start"),
        time=None,
        windowed=False,
        columns=_columns(
            ("build_id", "string", None, "The build of the module, in hexadecimal."),
            ("module", "string", None, "The module's file name."),
            ("start", "int64", "bytes", "Where the function begins, as an offset in the file."),
            ("size", "int64", "bytes", "How long it is."),
            ("name", "string", None, "Its name, demangled."),
        ),
    ),
    TableSchema(
        name="cpi_specs",
        meaning="What CPI a job has on a platform; the newest counts.",
        key=("job", "platform", "built_unix_s", "cpi_source"),
        sort=("job", "platform", "built_unix_s"),
        time="built_unix_s",
        windowed=False,
        columns=_columns(
            _JOB,
            _PLATFORM,
            ("built_unix_s", "int64", "s", "When the spec was built, Unix time."),
            ("cpi_source", "string", None, "Of which kind of CPI; see `task_samples`."),
            ("samples", "int64", None, "Samples that it was built from."),
            ("tasks", "int64", None, "Tasks that it was built from."),
            ("cpu_usage_mean", "double", "CPU-s/s", "Mean CPU use of a task."),
            ("cpi_mean", "double", None, "Mean CPI."),
            ("cpi_sd", "double", None, "Standard deviation of CPI."),
            ("gev_shape", "double?", None, "Shape of the fitted GEV, scipy's `c`."),
            ("gev_location", "double?", None, "Its location."),
            ("gev_scale", "double?", None, "Its scale."),
            ("threshold_sigmas", "double", None, "Standard deviations above the mean to the threshold."),
            ("threshold_cpi", "double", None, "CPI above which a sample is an outlier."),
        ),
    ),
    TableSchema(
        name="incidents",
        meaning="Findings and actions of a machine's guard: one row per incident.",
        key=("incident",),
        sort=("victim_job", "platform", "start_unix_s"),
        time="start_unix_s",
        windowed=True,
        columns=_columns(
            ("incident", "string", None, "The incident's id."),
            _MACHINE,
            _PLATFORM,
            ("victim_job", "string", None, "The job that suffered."),
            ("victim_task", "string", None, "Its task."),
            ("start_unix_s", "int64", "s", "When the task was found anomalous, Unix time."),
            ("end_unix_s", "int64?", "s", "When it was no longer."),
            ("threshold_cpi", "double", None, "The threshold."),
            ("victim_cpi", "double", None, "Its CPI at the start."),
            ("outliers", "int64", None, "Outliers that made it anomalous."),
            ("antagonist_job", "string?", None, "The job found guilty."),
            ("antagonist_task", "string?", None, "Its task."),
            ("antagonist_class", "string?", None, "Its class."),
            ("correlation", "double?", None, "Of its use with the victim's CPI, -1 to 1."),
            ("action", "string", None, "`none`, `dry-run` or `cap`."),
            ("reason", "string", None, "Why this action."),
            ("cap_cpu_ratio", "double?", "CPU-s/s", "CPU limit of the antagonist."),
            ("cap_start_unix_s", "int64?", "s", "When the cap was set, Unix time."),
            ("cap_end_unix_s", "int64?", "s", "When it was to end."),
            ("undone", "bool?", None, "Whether the cap was taken back."),
            ("victim_cpi_after", "double?", None, "The victim's CPI under the cap."),
        ),
    ),
)


def columns_of(table: TableSchema) -> pa.Schema:
    """Return the columns that queries see: those of the files and those of their paths."""
    fields = [pa.field(column.name, ARROW_TYPES[column.type]) for column in table.columns]
    return pa.schema([*fields, *(pa.field(name, pa.string()) for name in PARTITIONS)])


TABLES: dict[str, TableSchema] = {table.name: table for table in _TABLES}
"""Every table of a store, by name."""


def schema_document() -> dict[str, object]:
    """Return what ``schemas/store.json`` says."""
    return {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "partitions": list(PARTITIONS),
        "tables": {
            table.name: {
                "schema_version": table.version,
                "meaning": table.meaning,
                "former_names": dict(table.former),
                "key": list(table.key),
                "sort": list(table.sort),
                "columns": [
                    {
                        "name": column.name,
                        "type": column.type,
                        "nullable": column.nullable,
                        "unit": column.unit,
                        "meaning": column.meaning,
                    }
                    for column in table.columns
                ],
            }
            for table in TABLES.values()
        },
    }


def schema_text() -> str:
    """Return the text of ``schemas/store.json``."""
    return json.dumps(schema_document(), indent=2) + "\n"


def main() -> None:
    """Write ``schemas/store.json``."""
    (schemas_dir() / "store.json").write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
