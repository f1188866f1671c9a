"""What of a store counts and what does not: files put aside, rows that cannot be true, repeated rows, skewed
clocks, floods, renamed jobs.

In: an open store on DuckDB. Out: `Check`, counted and named. Reads every row of what footers cannot rule out,
and the keys of the rest. Nothing is changed.

Not here: moving rows away (``quarantine``), reading around them (``reading``).
"""

from dataclasses import dataclass, field
from typing import ClassVar

from steelyard._base.documents import INLINE, printed
from steelyard.fleet.store.listing import Listing, Problem
from steelyard.fleet.store.reading import identity, suspected
from steelyard.fleet.store.schema import TABLES, TableSchema
from steelyard.fleet.store.store import Store

NAMED = 20
"""How many of a kind are named; all are counted."""


@dataclass(frozen=True)
class RowProblem:
    """Rows of one machine that cannot be true for one reason."""

    reason: str
    """Why."""
    machine: str | None
    """Which machine, None where the table has none."""
    rows: int
    """How many."""


@dataclass(frozen=True)
class Repeated:
    """Rows of a table beyond the first of their key."""

    repeated_rows: int
    """How many."""
    repeated_by: tuple[str, ...]
    """Machines that sent most of them."""


@dataclass(frozen=True)
class Renamed:
    """A task that ran under several names of a job on one machine."""

    machine: str
    """Where it ran."""
    task: str
    """Which task."""
    jobs: tuple[str, ...]
    """The names of its job."""


@dataclass
class TableCheck:
    """One table: what counts, what is held twice, and what is not true."""

    files: int = 0
    """Files that count."""
    rows: int = 0
    """Rows that count."""
    replaced_files: int = 0
    """Files that compacted ones hold."""
    bad: list[RowProblem] = field(default_factory=list)
    """Rows that are not true, and do not count."""
    doubtful: list[RowProblem] = field(default_factory=list)
    """Rows that another table's word contradicts: they count."""
    repeated: Repeated = field(default=Repeated(0, ()), metadata=INLINE)

    @property
    @printed
    def bad_rows(self) -> int:
        """Return how many rows are not true."""
        return sum(problem.rows for problem in self.bad)


@dataclass
class Check:
    """The whole store: `steelyard fleet check --json`."""

    KIND: ClassVar[str] = "fleet_check"

    store: str
    """Where the store is."""
    tables: dict[str, TableCheck] = field(default_factory=dict)
    """Each table."""
    problems: list[Problem] = field(default_factory=list)
    """Files that are put aside."""
    renamed: list[Renamed] = field(default_factory=list)
    """The first tasks that ran under several names of a job."""
    renamed_count: int = 0
    """How many there are."""

    @property
    @printed
    def clean(self) -> bool:
        """Whether everything counts."""
        tables = self.tables.values()
        bad = any(table.bad or table.doubtful or table.repeated.repeated_rows for table in tables)
        return not self.problems and not bad


def check_store(store: Store) -> Check:
    """Look at every table of ``store``."""
    check = Check(store.url)
    for name, schema in TABLES.items():
        listing = store.listing(name)
        table = check.tables[name] = TableCheck(len(listing.files), listing.rows, len(listing.replaced))
        check.problems += listing.problems
        if listing.files:
            table.bad = bad_rows(store, listing)
            if name == "task_samples":
                table.doubtful = _beyond_machine(store)
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
    return [RowProblem(row["reason"], row["machine"] or None, row["rows"]) for row in broken.to_pylist()]


def _beyond_machine(store: Store) -> list[RowProblem]:
    """Return task samples with more CPU time than their machine's threads have, where those are known."""
    rows = store.fetch(
        f"SELECT machine, count(*) AS rows FROM {store.view('task_samples')} JOIN"
        f" (SELECT cluster, machine, max(threads) AS threads FROM {store.view('machines')} GROUP BY ALL)"
        " USING (cluster, machine) WHERE cpu_s > window_s * threads * 1.1 + 1.0"
        " GROUP BY machine ORDER BY rows DESC, machine"
    )
    reason = "more CPU time than its machine has threads for"
    return [RowProblem(reason, row["machine"], row["rows"]) for row in rows.to_pylist()]


def _repeated(store: Store, schema: TableSchema, listing: Listing) -> Repeated:
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
        return Repeated(0, ())
    names = tuple(row["machine"] for row in repeats[:NAMED] if row["machine"])
    return Repeated(sum(row["rows"] for row in repeats), names)


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
