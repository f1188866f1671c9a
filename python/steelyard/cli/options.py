"""Options that several commands have: one word for one thing, declared once.

``--out DIR`` is where a run, a check or a profile goes; ``--runs DIR`` is where earlier ones are looked for;
``--report FILE.html`` is a page; ``--rows N`` bounds a table; ``--json`` prints one document. A test holds
every command to the table in ``python/tests/cli/test_flags.py``.

Not here: options that one command has, those of requests (``bench.options``), and those of a fleet's queries
(``fleet.options``).
"""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Out = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", help="Folder of runs; each run gets a new folder in it."),
]
Runs = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Folder of earlier runs.")]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="FILE.html", help="Write a self-contained page.")
]
Rows = Annotated[int, typer.Option("--rows", min=1, metavar="N", help="Maximum rows of a table.")]
RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Id or folder of a run, a suite, an experiment or the like, or `latest` run or suite.",
    ),
]
Baseline = Annotated[str | None, typer.Option(metavar="NAME", help="Baseline machine to score against.")]

EVENT_HELP = (
    "Event by its name; by default CPU time or, of a file, the first that was recorded (of pprof the one it"
    " shows)."
)
"""What ``--event`` is, of recordings, files and stores."""
