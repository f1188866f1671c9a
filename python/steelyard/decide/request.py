"""Where the table of a decision is from, as every command of them is asked.

In: typed by users. Out: a `TableRequest`, which the requests of the commands extend.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from steelyard._base.request import Option


@dataclass(frozen=True, kw_only=True)
class TableRequest:
    """Sources of machines and results."""

    sources: Annotated[
        Sequence[str],
        Option(
            "CSV file, run, suite, folder of runs, or a fleet's store; NAME=PATH names the machine of runs.",
            metavar="SOURCE...",
            is_argument=True,
        ),
    ] = ()
    tier: Annotated[str | None, Option("Of runs, use only those of this tier.", metavar="TIER")] = None
    columns: Annotated[
        Path | None,
        Option("TOML file with units of columns and attributes of machines.", metavar="FILE.toml"),
    ] = None
    runs: Annotated[Path, Option("Folder of earlier runs.", metavar="DIR")] = Path("runs")
