"""``steelyard fleet pressure`` and ``pair``: where jobs press, and which can share a machine.

In: flags. Out: tables or one JSON document, and a page. Not here: finding it (``fleet``), drawing it
(``report``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.cli.fleet.options import Jobs
from steelyard.cli.fleet.query import over, query

if TYPE_CHECKING:
    from steelyard.fleet.store.store import Store
    from steelyard.report.answer import Answer

_TABLES = ("task_samples", "machine_samples", "machines")


@query(
    "pressure",
    result="steelyard.fleet.pressure:FleetPressure",
    expressions={
        "pressure": over("steelyard.fleet.pressure:job_pressure", *_TABLES),
    },
    examples=("", "--job search --job ads --json"),
)
def pressure(store: Store, job: Jobs = None) -> Answer:
    """Show the pressure of jobs on CPU, DRAM capacity and bandwidth, disk and network."""
    from steelyard.fleet.pressure import pressure as find
    from steelyard.report.fleet import pressure as view

    tasks, samples, machines = (store.table(name) for name in _TABLES)
    return view.pressure(find(tasks, samples, machines, job or []))


@query(
    "pair",
    result="steelyard.fleet.placement.pair:PairAnswer",
    expressions={
        "pair whole": over("steelyard.fleet.placement.company:whole", "task_samples"),
        "pair jobs": over("steelyard.fleet.placement.company:numbered", "task_samples"),
        "pair beside": over("steelyard.fleet.placement.company:beside", "task_samples"),
    },
    examples=("", "--job search --job batch --report pair.html"),
)
def pair(store: Store, job: Jobs = None) -> Answer:
    """Show which jobs can share a machine, from their CPI next to each other."""
    from steelyard.fleet.placement.pair import pair as find
    from steelyard.fleet.pressure import pressure as press
    from steelyard.report.fleet import pressure as view

    tasks, samples, machines = (store.table(name) for name in _TABLES)
    return view.pair(find(tasks, press(tasks, samples, machines, job or []), job or []))
