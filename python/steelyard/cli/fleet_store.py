"""``steelyard fleet check``: what of a store counts, and what was put aside.

In: flags. Out: a table or one JSON document. Not here: the looking itself (``fleet``).
"""

from __future__ import annotations

import typer

from steelyard.cli.fleet_options import From, Json, StoreUrl, To, opened
from steelyard.cli.output import EXIT_CODES


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command("check", epilog=EXIT_CODES)(check)


def check(store: StoreUrl, first: From = None, last: To = None, as_json: Json = False) -> int:
    """Say which files of a store cannot be read, and why; 1 when there are any."""
    from rich.console import Console

    from steelyard._base import ExitCode
    from steelyard.cli.output import print_json
    from steelyard.fleet.schema import TABLES

    with opened(store, first=first, last=last) as open_store:
        open_store.look_at_all()
        listings = {name: open_store.listing(name) for name in TABLES}
        problems = open_store.problems
    if as_json:
        print_json(
            {
                "store": store,
                "tables": {
                    name: {"files": len(one.files), "rows": one.rows, "put_aside": len(one.problems)}
                    for name, one in listings.items()
                },
                "problems": [{"path": p.path, "table": p.table, "reason": p.reason} for p in problems],
            }
        )
    else:
        console = Console(highlight=False)
        for name, one in listings.items():
            console.print(f"{name:16} {len(one.files):8,} files {one.rows:15,} rows", markup=False)
        for problem in problems:
            console.print(f"{problem.path}: {problem.reason}", markup=False, soft_wrap=True)
    return int(ExitCode.NO if problems else ExitCode.OK)
