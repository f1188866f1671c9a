"""What of a store counts and what does not: files put aside, rows that cannot be true, repeated rows, skewed
clocks, floods, renamed jobs.

In: an open store on DuckDB. Out: `Check`, counted and named. Reads every row of what footers cannot rule out,
and the keys of the rest. Nothing is changed.

Not here: moving rows away (``quarantine``), reading around them (``reading``).
"""

from dataclasses import dataclass, field
from typing import Any

from steelyard.fleet.store.listing import Listing, Problem
from steelyard.fleet.store.reading import identity, suspected
from steelyard.fleet.store.schema import TABLES, TableSchema
from steelyard.fleet.store.store import Store

NAMED = 20
"""How many of a kind are named; all are counted."""


@dataclass(frozen=True)
class RowProblem:
    """Rows of one machine that cannot be true for one reason. ``machine`` is "" where the table has none."""

    table: str
    reason: str
    machine: str
    rows: int


@dataclass(frozen=True)
class Repeated:
    """Rows of ``table`` beyond the first of their key, and the machines that sent most of them."""

    table: str
    rows: int
    machines: tuple[str, ...]


@dataclass(frozen=True)
class Renamed:
    """A task that ran under several names of a job on one machine."""

    machine: str
    task: str
    jobs: tuple[str, ...]


@dataclass
class TableCheck:
    """One table: what counts, what is held twice, and what is not true.

    ``doubtful_rows`` count, because what contradicts them is another table's word.
    """

    table: str
    files: int = 0
    rows: int = 0
    replaced: int = 0
    bad_rows: list[RowProblem] = field(default_factory=list)
    doubtful_rows: list[RowProblem] = field(default_factory=list)
    repeated: Repeated | None = None


@dataclass
class Check:
    """The whole store."""

    url: str
    tables: list[TableCheck] = field(default_factory=list)
    files: list[Problem] = field(default_factory=list)
    renamed: list[Renamed] = field(default_factory=list)
    renamed_count: int = 0

    @property
    def clean(self) -> bool:
        """Whether everything counts."""
        bad = any(table.bad_rows or table.doubtful_rows or table.repeated for table in self.tables)
        return not self.files and not bad

    def document(self) -> dict[str, Any]:
        """Return the check as ``--json`` prints it."""
        return {
            "store": self.url,
            "clean": self.clean,
            "tables": {table.table: _table_document(table) for table in self.tables},
            "problems": [
                {"path": problem.path, "table": problem.table, "reason": problem.reason}
                for problem in self.files
            ],
            "renamed_count": self.renamed_count,
            "renamed": [
                {"machine": task.machine, "task": task.task, "jobs": list(task.jobs)} for task in self.renamed
            ],
        }


def _table_document(table: TableCheck) -> dict[str, Any]:
    repeated = table.repeated
    return {
        "files": table.files,
        "rows": table.rows,
        "replaced_files": table.replaced,
        "bad_rows": sum(problem.rows for problem in table.bad_rows),
        "bad": [
            {"reason": problem.reason, "machine": problem.machine or None, "rows": problem.rows}
            for problem in table.bad_rows
        ],
        "doubtful": [
            {"reason": problem.reason, "machine": problem.machine, "rows": problem.rows}
            for problem in table.doubtful_rows
        ],
        "repeated_rows": repeated.rows if repeated else 0,
        "repeated_by": list(repeated.machines) if repeated else [],
    }


def check_store(store: Store) -> Check:
    """Look at every table of ``store``."""
    check = Check(store.url)
    for name, schema in TABLES.items():
        listing = store.listing(name)
        table = TableCheck(name, len(listing.files), listing.rows, len(listing.replaced))
        check.tables.append(table)
        check.files += listing.problems
        if listing.files:
            table.bad_rows = bad_rows(store, listing)
            if name == "task_samples":
                table.doubtful_rows = _beyond_machine(store)
            table.repeated = _repeated(store, schema, listing)
    if store.listing("task_samples").files:
        check.renamed_count, check.renamed = _renamed(store)
    return check


def bad_rows(store: Store, listing: Listing) -> list[RowProblem]:
    """Return which rows of ``listing`` break a rule, by reason and machine, most first."""
    schema = listing.table
    machine = "coalesce(machine, '')" if "machine" in schema.by_name else "''"
    parts = [
        f"SELECT {rules.reason_of()} AS reason, {machine} AS machine FROM {rows}"
        for rules, _, rows in suspected(store.engine, store.place, schema, listing.files)
        if rules is not None
    ]
    if not parts:
        return []
    broken = store.fetch(
        f"SELECT reason, machine, count(*) AS rows FROM ({' UNION ALL '.join(parts)})"
        " WHERE reason IS NOT NULL GROUP BY ALL ORDER BY rows DESC, reason, machine"
    )
    return [RowProblem(schema.name, row["reason"], row["machine"], row["rows"]) for row in broken.to_pylist()]


def _beyond_machine(store: Store) -> list[RowProblem]:
    """Return task samples with more CPU time than their machine's threads have, where those are known."""
    rows = store.fetch(
        f"SELECT machine, count(*) AS rows FROM {store.view('task_samples')} JOIN"
        f" (SELECT cluster, machine, max(threads) AS threads FROM {store.view('machines')} GROUP BY ALL)"
        " USING (cluster, machine) WHERE cpu_s > window_s * threads * 1.1 + 1.0"
        " GROUP BY machine ORDER BY rows DESC, machine"
    )
    reason = "more CPU time than its machine has threads for"
    return [RowProblem("task_samples", reason, row["machine"], row["rows"]) for row in rows.to_pylist()]


def _repeated(store: Store, schema: TableSchema, listing: Listing) -> Repeated | None:
    """Count the rows beyond the first of each key, over all files, whatever their rows say."""
    keys = ", ".join(identity(schema))
    parts = [
        f"SELECT {keys} FROM {rows}"
        for _, _, rows in suspected(store.engine, store.place, schema, listing.files)
    ]
    who = "machine" if "machine" in schema.key else "''"
    repeats = store.fetch(
        f"SELECT {who} AS machine, CAST(sum(times - 1) AS BIGINT) AS rows FROM"
        f" (SELECT {keys}, count(*) AS times FROM ({' UNION ALL '.join(parts)}) GROUP BY ALL"
        " HAVING times > 1)"
        " GROUP BY 1 ORDER BY rows DESC, machine"
    ).to_pylist()
    if not repeats:
        return None
    names = tuple(row["machine"] for row in repeats[:NAMED] if row["machine"])
    return Repeated(schema.name, sum(row["rows"] for row in repeats), names)


def _renamed(store: Store) -> tuple[int, list[Renamed]]:
    """Find tasks whose job's name changed while they ran."""
    several = (
        "SELECT cluster, machine, task, min(job) AS first_name, max(job) AS last_name"
        f" FROM {store.view('task_samples')} GROUP BY cluster, machine, task HAVING min(job) <> max(job)"
    )
    count = store.fetch(f"SELECT count(*) AS count FROM ({several})").to_pylist()[0]["count"]
    some = store.fetch(f"{several} ORDER BY cluster, machine, task LIMIT {NAMED}").to_pylist()
    named = [Renamed(row["machine"], row["task"], (row["first_name"], row["last_name"])) for row in some]
    return count, named
