"""``steelyard fleet smt`` and ``steelyard fleet frequency``: capacity that is left, and that power took.

In: flags. Out: tables, one JSON document, a page. Not here: figures (``fleet``), what is drawn (``report``).
"""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.fleet.options import (
    DUCKDB,
    Engine,
    From,
    Json,
    Report,
    StoreUrl,
    To,
    opened,
    show,
)
from steelyard.cli.output import EXIT_CODES

Uplifts = Annotated[
    list[str] | None,
    typer.Option(
        "--uplift",
        metavar="[PLATFORM=]RATIO",
        help="What the second thread of a core adds, as 0.25; may be repeated. Unknown gives bounds.",
    ),
]
Reference = Annotated[str, typer.Option("--reference", help="nominal or max: the frequency that was bought.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command("smt", epilog=EXIT_CODES)(smt)
    app.command("frequency", epilog=EXIT_CODES)(frequency)


def smt(
    store: StoreUrl,
    uplift: Uplifts = None,
    engine: Engine = DUCKDB,
    first: From = None,
    last: To = None,
    as_json: Json = False,
    report: Report = None,
) -> int:
    """Say how much of the cores' capacity is used and left, which utilisation does not tell."""
    from steelyard.fleet.capacity.smt import used_of_fleet
    from steelyard.report.fleet import capacity as words
    from steelyard.report.fleet.content import Answer

    uplifts = _uplifts(uplift)
    with opened(store, engine, first, last) as open_store:
        result = used_of_fleet(open_store.table("machine_samples"), uplifts=uplifts)
        answer = Answer(
            "Used capacity", words.smt_heading(result), words.smt_sections(result), result.document()
        )
        show(open_store, answer, as_json=as_json, report=report)
    return 0


def frequency(
    store: StoreUrl,
    reference: Reference = "nominal",
    engine: Engine = DUCKDB,
    first: From = None,
    last: To = None,
    as_json: Json = False,
    report: Report = None,
) -> int:
    """Say what frequency the fleet ran at, and what power capping took of it."""
    from steelyard.fleet.capacity.frequency import frequency_of_fleet
    from steelyard.report.fleet import capacity as words
    from steelyard.report.fleet.content import Answer

    with opened(store, engine, first, last) as open_store:
        result = frequency_of_fleet(
            open_store.table("machine_samples"), open_store.table("machines"), reference
        )
        answer = Answer(
            "Frequency", words.frequency_heading(result), words.frequency_sections(result), result.document()
        )
        show(open_store, answer, as_json=as_json, report=report)
    return 0


def _uplifts(texts: list[str] | None) -> dict[str, float]:
    """Return the uplifts by platform; ``*`` stands for all.

    >>> _uplifts(["0.2", "rome=0.28"])
    {'*': 0.2, 'rome': 0.28}
    """
    from steelyard._base import UsageError

    found = {}
    for text in texts or []:
        name, _, ratio = text.rpartition("=")
        try:
            found[name or "*"] = float(ratio)
        except ValueError as error:
            raise UsageError(f"--uplift {text!r} is not like 0.25 or PLATFORM=0.25") from error
    return found
