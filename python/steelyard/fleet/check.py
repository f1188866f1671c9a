"""What of a store counts and what does not: files put aside, rows that cannot be true, repeated rows, skewed
clocks, floods, renamed jobs.

In: an open store on DuckDB. Out: `Check`, counted and named. Reads every row of what footers cannot rule out,
and the keys of the rest. Nothing is changed.

Not here: moving rows away (``quarantine``), reading around them (``reading``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ibis

from steelyard.fleet.listing import Listing, Problem, StoreFile
from steelyard.fleet.reading import identity
from steelyard.fleet.rules import rules_of
from steelyard.fleet.schema import TABLES, TableSchema
from steelyard.fleet.store import Store
from steelyard.telemetry.engine import fetch_rows

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
        bad = any(one.bad_rows or one.doubtful_rows or one.repeated for one in self.tables)
        return not self.files and not bad

    def document(self) -> dict[str, Any]:
        """Return the check as ``--json`` prints it."""
        return {
            "store": self.url,
            "clean": self.clean,
            "tables": {one.table: _table_document(one) for one in self.tables},
            "problems": [{"path": one.path, "table": one.table, "reason": one.reason} for one in self.files],
            "renamed_count": self.renamed_count,
            "renamed": [
                {"machine": one.machine, "task": one.task, "jobs": list(one.jobs)} for one in self.renamed
            ],
        }


def _table_document(one: TableCheck) -> dict[str, Any]:
    repeated = one.repeated
    return {
        "files": one.files,
        "rows": one.rows,
        "replaced_files": one.replaced,
        "bad_rows": sum(problem.rows for problem in one.bad_rows),
        "bad": [
            {"reason": problem.reason, "machine": problem.machine or None, "rows": problem.rows}
            for problem in one.bad_rows
        ],
        "doubtful": [
            {"reason": problem.reason, "machine": problem.machine, "rows": problem.rows}
            for problem in one.doubtful_rows
        ],
        "repeated_rows": repeated.rows if repeated else 0,
        "repeated_by": list(repeated.machines) if repeated else [],
    }


def check_store(store: Store) -> Check:
    """Look at every table of ``store``."""
    check = Check(store.url)
    for name, schema in TABLES.items():
        listing = store.listing(name)
        one = TableCheck(name, len(listing.files), listing.rows, len(listing.replaced))
        check.tables.append(one)
        check.files += listing.problems
        if listing.files:
            one.bad_rows = bad_rows(store, listing)
            if name == "task_samples":
                one.doubtful_rows = _beyond_machine(store)
            one.repeated = _repeated(store, schema, listing)
    if store.listing("task_samples").files:
        check.renamed_count, check.renamed = _renamed(store)
    return check


def bad_rows(store: Store, listing: Listing) -> list[RowProblem]:
    """Return which rows of ``listing`` break a rule, by reason and machine, most first."""
    parts = []
    for files, rows in judged(store, listing, suspected_only=True):
        if files:
            machine = rows.machine if "machine" in listing.table.by_name else ibis.literal("")
            broken = rows.filter(rows._reason.notnull()).mutate(_machine=machine)
            parts.append(broken.group_by("_reason", "_machine").agg(rows=broken.count()))
    if not parts:
        return []
    together = ibis.union(*parts) if len(parts) > 1 else parts[0]
    summed = together.group_by("_reason", "_machine").agg(rows=together.rows.sum().cast("int64"))
    found = fetch_rows(summed.order_by(ibis.desc("rows"), "_reason", "_machine"))
    return [RowProblem(listing.table.name, row["_reason"], row["_machine"], row["rows"]) for row in found]


def judged(store: Store, listing: Listing, *, suspected_only: bool) -> Iterator[tuple[list[StoreFile], Any]]:
    """Yield groups of files, and their rows with ``_reason``: the rule that a row breaks, or null.

    With ``suspected_only`` files whose footers rule that out are left out.
    """
    schema = listing.table
    groups: dict[Any, list[StoreFile]] = {}
    for file in listing.files:
        rules = rules_of(schema.name, file.partition.date, file.written_unix_s)
        suspected = rules.suspects(file.extremes)
        if suspected or not suspected_only:
            groups.setdefault((frozenset(file.columns), rules if suspected else None), []).append(file)
    for (_, suspects), files in groups.items():
        rows = store.engine.source(store.place, schema, files)
        reason = ibis.null("string") if suspects is None else suspects.reason_of(rows)
        yield files, rows.mutate(_reason=reason)


def _beyond_machine(store: Store) -> list[RowProblem]:
    """Return task samples with more CPU time than their machine's threads have, where those are known."""
    rows, machines = store.table("task_samples"), store.table("machines")
    known = machines.group_by("cluster", "machine").agg(threads=machines.threads.max())
    joined = rows.inner_join(known, ["cluster", "machine"])
    beyond = joined.filter(joined.cpu_s > joined.window_s * joined.threads * 1.1 + 1.0)
    counted = beyond.group_by("machine").agg(rows=beyond.count())
    found = fetch_rows(counted.order_by(ibis.desc("rows"), "machine"))
    reason = "more CPU time than its machine has threads for"
    return [RowProblem("task_samples", reason, row["machine"], row["rows"]) for row in found]


def _repeated(store: Store, schema: TableSchema, listing: Listing) -> Repeated | None:
    """Count the rows beyond the first of each key, over all files, whatever their rows say."""
    sources = [rows for _, rows in judged(store, listing, suspected_only=False)]
    keys = [rows.select(*identity(schema)) for rows in sources]
    rows = ibis.union(*keys) if len(keys) > 1 else keys[0]
    counted = rows.group_by(identity(schema)).agg(_times=rows.count())
    extra = counted.filter(counted._times > 1)
    who = extra.machine if "machine" in schema.key else ibis.literal("")
    by_machine = extra.mutate(_machine=who).group_by("_machine")
    total = by_machine.agg(rows=(extra._times - 1).sum().cast("int64"))
    found = fetch_rows(total.order_by(ibis.desc("rows"), "_machine"))
    if not found:
        return None
    names = tuple(row["_machine"] for row in found[:NAMED] if row["_machine"])
    return Repeated(schema.name, sum(row["rows"] for row in found), names)


def _renamed(store: Store) -> tuple[int, list[Renamed]]:
    """Find tasks whose job's name changed while they ran."""
    rows = store.table("task_samples")
    jobs = rows.group_by("cluster", "machine", "task").agg(
        names=rows.job.nunique(), first_name=rows.job.min(), last_name=rows.job.max()
    )
    several = jobs.filter(jobs.names > 1)
    count = fetch_rows(several.agg(count=several.count()))[0]["count"]
    some = fetch_rows(several.order_by("cluster", "machine", "task").limit(NAMED))
    named = [Renamed(row["machine"], row["task"], (row["first_name"], row["last_name"])) for row in some]
    return count, named
