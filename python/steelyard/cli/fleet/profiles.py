"""``steelyard fleet top``, ``diff``, ``symbols``: what a fleet spends its cycles on.

In: flags. Out: tables or one JSON document, and a page. Not here: finding it (``fleet``), drawing it
(``report``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from steelyard.cli.options import Rows
from steelyard.cli.output import EXIT_CODES

if TYPE_CHECKING:
    from steelyard.fleet.profiles.stacks import Selection

_SELECTION = "FIELD=VALUE,...: from, to, platform, job, task, machine, cluster, label.NAME."

Platform = Annotated[list[str] | None, typer.Option("--platform", help="Only this platform; repeatable.")]
Job = Annotated[list[str] | None, typer.Option("--job", help="Only this job; repeatable.")]
Where = Annotated[str, typer.Option("--where", metavar="SELECTION", help=_SELECTION)]
Event = Annotated[
    str | None, typer.Option("--event", help="The event to show; cycles where they were counted.")
]
RulesFile = Annotated[
    list[Path] | None, typer.Option("--rules", metavar="FILE", help="Rules of the tax map to ask first.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command("top", epilog=EXIT_CODES)(top)
    app.command("diff", epilog=EXIT_CODES)(diff)
    symbols = typer.Typer(
        help="Names of functions, which offsets in profiles are read with.",
        epilog=EXIT_CODES,
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    symbols.command("add", epilog=EXIT_CODES)(add)
    app.add_typer(symbols, name="symbols")


def top(
    store: StoreUrl,
    by: Annotated[
        str, typer.Option("--by", help="function, binary, job, platform, cluster or category.")
    ] = "function",
    platform: Platform = None,
    job: Job = None,
    where: Where = "",
    event: Event = None,
    rows: Rows = 30,
    rules: RulesFile = None,
    engine: Engine = DUCKDB,
    first: From = None,
    last: To = None,
    report: Report = None,
    as_json: Json = False,
) -> int:
    """Say what the fleet's cycles are spent on: functions, binaries, jobs, datacenter tax; whether the sample
    is enough.
    """
    from steelyard.analyze.profiles.tax_rules import rules_with
    from steelyard.fleet.profiles.top import top as find
    from steelyard.report.fleet import profiles as drawn
    from steelyard.report.fleet.content import Answer

    found_rules = rules_with(rules or [])
    with opened(store, engine, first, last) as source:
        answer = find(
            source.table("profiles"),
            source.table("symbols"),
            by=by,
            selection=_selection(where, platform, job),
            task_samples=source.table("task_samples"),
            event=event,
            rows=rows,
            rules=found_rules,
        )
        told = Answer(
            f"Top by {by}",
            drawn.heading(answer),
            drawn.sections(answer, rules=found_rules),
            answer.document(),
            drawn.subline(answer),
            drawn.cautions(answer),
            drawn.tiles(answer),
        )
        show(source, told, as_json=as_json, report=report)
    return 0


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help=_SELECTION)],
    b: Annotated[str, typer.Argument(metavar="B", help="What to hold against it, in the same form.")],
    store: StoreUrl,
    by: Annotated[
        str, typer.Option("--by", help="function, binary, job, platform, cluster or category.")
    ] = "function",
    event: Event = None,
    rules: RulesFile = None,
    engine: Engine = DUCKDB,
    first: From = None,
    last: To = None,
    report: Report = None,
    as_json: Json = False,
) -> int:
    """Say what two parts of the fleet, or two times, spend their cycles on differently, beyond noise."""
    from steelyard.analyze.profiles.tax_rules import rules_with
    from steelyard.fleet.profiles.diff import diff as find
    from steelyard.fleet.profiles.stacks import Selection
    from steelyard.report.fleet import profiles_diff as drawn
    from steelyard.report.fleet.content import Answer

    found_rules = rules_with(rules or [])
    with opened(store, engine, first, last) as source:
        answer = find(
            source.table("profiles"),
            source.table("symbols"),
            Selection.parse(a),
            Selection.parse(b),
            by=by,
            task_samples=source.table("task_samples"),
            event=event,
            rules=found_rules,
        )
        told = Answer(
            f"Differences by {by}",
            drawn.heading(answer),
            drawn.sections(answer, rules=found_rules),
            answer.document(),
            drawn.subline(answer),
            drawn.cautions(answer),
        )
        show(source, told, as_json=as_json, report=report)
    return 0


def add(
    binaries: Annotated[
        list[Path], typer.Argument(metavar="BINARY...", help="Programs or libraries, not stripped.")
    ],
    store: StoreUrl,
    as_json: Json = False,
) -> int:
    """Put the functions of programs into the store, so that profiles of the same build have names."""
    from steelyard._base import executable
    from steelyard.cli.output import print_json, printable
    from steelyard.fleet.profiles.symbols import PROGRAM
    from steelyard.fleet.profiles.symbols import add as put

    added = put(store, binaries, executable(PROGRAM))
    if as_json:
        print_json([vars_of(one) for one in added])
    else:
        for one in added:
            line = f"{one.path}: {one.symbols:,} functions of {one.module}, build {one.build_id}"
            print(printable(line))
    return 0


def vars_of(one: Any) -> dict[str, Any]:
    """Return the fields of a plain dataclass."""
    from dataclasses import asdict

    return asdict(one)


def _selection(where: str, platform: Sequence[str] | None, job: Sequence[str] | None) -> Selection:
    from dataclasses import replace

    from steelyard.fleet.profiles.stacks import Selection

    chosen = Selection.parse(where)
    return replace(chosen, platform=(*chosen.platform, *(platform or ())), job=(*chosen.job, *(job or ())))
