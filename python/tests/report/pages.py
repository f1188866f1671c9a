"""One page of each kind, with a name from outside wherever a page shows one."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from steelyard._base import schemas_dir
from steelyard.analyze.health.comparison import compare
from steelyard.analyze.profiles.diff import diff
from steelyard.analyze.profiles.tax_map import classify
from steelyard.cli.main import invoke
from steelyard.records import Check, Level, Suite, Verdict, read
from steelyard.report import html
from steelyard.report.answer.page import write_page
from steelyard.report.health.answer import answer as health_answer
from steelyard.report.model import gather
from steelyard.report.profiles.answer import diff_answer, profile_answer
from steelyard.report.suite.answer import answer as suite_answer
from steelyard.report.template import PAGE, page_path
from tests import health_samples as samples
from tests.fleet.simulated import simulated_store
from tests.folded import profile
from tests.report import pages_of_answers as answers
from tests.report.runs import write_run
from tests.report.test_operations import write_operations

FLEET = {
    "top": ["top"],
    "category": ["top", "--by", "category"],
    "job": ["top", "--by", "job"],
    "numa": ["numa"],
    "pressure": ["pressure"],
    "pair": ["pair"],
    "smt": ["smt"],
    "frequency": ["frequency"],
    "place": ["place"],
    "specs": ["cpi", "specs"],
    "outliers": ["cpi", "outliers"],
    "incidents": ["cpi", "incidents"],
    "distribution": ["cpi", "distribution"],
    "rue": ["rue", "--label", "config{name}"],
    "diff": ["diff", "to=2026-03-02T12:00", "from=2026-03-02T12:00"],
}
"""Queries of a fleet that have a page, by name, with arguments in which ``{name}`` is behind each name."""


def run(folder: Path, name: str) -> Path:
    """Write the page of a run, the first of two."""
    for index in (1, 2):
        found = write_run(
            folder / f"tao-{index}",
            index=index,
            count=2,
            comm=name,
            changes={
                "benchmark": f"tao{name}",
                "command": ["steelyard", "run", name],
                "hooks": {name: {name: [name, {name: name}]}},
                "verdict": Verdict.of([Check(id=f"x{name}", level=Level.INVALID, claim=name)]),
            },
        )
    return html.write(found)


def suite(folder: Path, name: str) -> Path:
    """Write the page of a suite."""
    record = read(Suite, schemas_dir() / "golden" / "suite.json")
    member = record.members[0].model_copy(update={"benchmark": f"tao{name}", "refused": name})
    record = record.model_copy(
        update={
            "suite": f"quick{name}",
            "status_reason": name,
            "command": [name],
            "members": [member, *record.members[1:]],
        }
    )
    return write_page(folder / PAGE, suite_answer(record, {}, {}, None))


def characterization(folder: Path, name: str) -> Path:
    """Write the page of a characterization, with operations and a profile."""
    where = write_operations(folder / "characterization")
    (where / "profile.folded").write_text(f"{name};main [{name}];{name.replace(';', ':')} [x] 100\n")
    data = gather(where)
    try:
        return html.write_data(data)
    finally:
        data.close()


def health(folder: Path, name: str) -> Path:
    """Write the page of a health check."""
    result = samples.with_curve(samples.golden())
    machine = result.machine.model_copy(update={"cpu_model": name})
    disk = result.disk and result.disk.model_copy(update={"directory": name, "device": name})
    result = result.model_copy(
        update={"machine": machine, "disk": disk, "missing": {"disk.x": name}, "command": [name]}
    )
    return write_page(
        folder / "report.html", health_answer(result, compare(result, [], against=name, notes=[name]))
    )


def stacks(folder: Path, name: str, more: Mapping[str, int]) -> Path:
    """Write the page of a profile."""
    one = profile(
        folder, {f"{name};main [{name}];{name} [x]": 90, "b;main [b]": 10, **more}, f"# reason: {name}\n"
    )
    return write_page(page_path(folder), profile_answer(one, classify(one), title=name, command=name))


def two_profiles(folder: Path, name: str) -> Path:
    """Write the page of the difference of two profiles."""
    one = profile(folder, {f"{name};main [{name}]": 900, "b;main [b]": 100})
    two = profile(folder, {f"{name};main [{name}]": 500, f"b;{name} [b]": 500})
    maps = (classify(one), classify(two))
    return write_page(
        page_path(folder), diff_answer((one, two), (name, "after"), maps, diff(one, two), command=name)
    )


KINDS: dict[str, Callable[[Path, str], Path]] = {
    "run": run,
    "suite": suite,
    "characterization": characterization,
    "health": health,
    "profile": lambda folder, name: stacks(folder, name, {}),
    "two profiles": two_profiles,
    **answers.KINDS,
}
"""How a page of each kind is written into a folder, from a name; fleets have their own (`FLEET`)."""


def hostile_store(folder: Path, name: str) -> Path:
    """Copy a small simulated store, with ``name`` behind every name in it and in every stack."""
    store = folder / "store"
    shutil.copytree(simulated_store(machines=12, days=1, platforms=2, clusters=1, step_s=120), store)
    engine = duckdb.connect()
    labels = "list_transform(map_entries(labels), lambda e: {'k': e.key || $name, 'v': e.value || $name})"
    for path in store.rglob("*.parquet"):
        rows = pq.read_table(path)
        named = set(rows.schema.names)
        changed = {
            column: f"{column} || $name"
            for column in ("job", "task", "machine", "platform", "vendor", "cpu_model", "name")
            if column in named
        }
        if "stack" in named:
            changed["stack"] = "stack || ';' || replace($name, ';', ':')"
        if "labels" in named:
            changed["labels"] = f"map_from_entries({labels})"
        columns = ", ".join(f"{made} as {column}" for column, made in changed.items())
        made = engine.sql(f"select * replace ({columns}) from rows", params={"name": name}).to_arrow_table()
        pq.write_table(made.cast(rows.schema), path)
    engine.close()
    return store


def fleet(store: Path, query: str, path: Path, name: str) -> int:
    """Write the page of a fleet's query in a store of `hostile_store`; return the exit code."""
    words = [word.replace("{name}", name) for word in FLEET[query]]
    return invoke(["fleet", *words, "--store", str(store), "--report", str(path)])
