"""``steelyard fleet top``, ``diff``, ``symbols``: what a fleet spends its cycles on.

In: flags. Out: tables or one JSON document, and a page. Not here: finding it (``fleet``), drawing it
(``report``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.commands import Commands
from steelyard.cli.fleet.options import Jobs, Platforms, StoreUrl
from steelyard.cli.fleet.query import query
from steelyard.cli.options import EVENT_HELP, Json, Rows
from steelyard.cli.output import EXIT_CODES, examples

if TYPE_CHECKING:
    from steelyard.fleet.profiles.stacks import Selection
    from steelyard.fleet.store.store import Store
    from steelyard.report.answer import Answer

_SELECTION = "Selection FIELD=VALUE,...: from, to, platform, job, task, machine, cluster, label.NAME."

By = Annotated[
    str, typer.Option("--by", help="Group by function, binary, job, platform, cluster or category.")
]
Where = Annotated[str, typer.Option("--where", metavar="SELECTION", help=_SELECTION)]
Event = Annotated[str | None, typer.Option("--event", metavar="EVENT", help=EVENT_HELP)]
RulesFile = Annotated[
    list[Path] | None,
    typer.Option("--rules", metavar="FILE", help="Tax map rules that come before the shipped ones."),
]
_PART = {
    "part": ("text", "count"),
    "machines": "count",
    "shares": {"*": ({"ratio": "number", "low": "number", "high": "number"}, None)},
}
_TOP = {
    **dict.fromkeys(("by", "event", "unit"), "text"),
    **dict.fromkeys(("fleet_weight", "unknown_symbols_ratio", "other_stacks_ratio"), "number"),
    "rows": [
        {
            "key": "text",
            "module": "text?",
            **dict.fromkeys(("own_ratio", "own_low_ratio", "own_high_ratio", "fleet_weight"), "number"),
            **dict.fromkeys(("total_ratio", "total_low_ratio", "total_high_ratio"), "number"),
            **dict.fromkeys(("samples", "machines"), "count"),
            **dict.fromkeys(("more_machines", "least_machines"), "count?"),
        }
    ],
    **dict.fromkeys(("keys", "bucket_s"), "count"),
    "sample": {
        **dict.fromkeys(("machine_minutes", "machines", "samples", "functions"), "count"),
        **dict.fromkeys(("entropy_bits", "entropy_low_bits", "entropy_high_bits"), "number"),
        **dict.fromkeys(("sampled_entropy_bits", "unseen_ratio"), "number"),
        "entropy_missing": "text?",
        **dict.fromkeys(("manhattan_distance", "expected_manhattan_distance"), "number"),
        **dict.fromkeys(("least_machines", "precision_ratio"), "number"),
        "more_machines": "count?",
        "is_enough": "truth",
    },
    "by_platform": [_PART],
    "by_time": [_PART],
    "tax": {"categories": {"*": "number"}, "tax_ratio": "number", "unclassified_ratio": "number"},
    "unknown_symbols": [{"module": "text", "ratio": "number"}],
    "other_events": ["text"],
}
_DIFF = {
    **dict.fromkeys(("a", "b", "by", "event", "unit"), "text"),
    "machines": ["count"],
    "machine_minutes": ["count"],
    "samples": ["count"],
    "both_machines": "count",
    "fleet_weight": ["number"],
    **dict.fromkeys(("alpha", "least_machines"), "number"),
    "changes": "count",
    "jobs": [{"job": "text", **dict.fromkeys(("a_ratio", "b_ratio"), "number")}],
    "mix_distance": "number",
    "rows": [
        {
            "key": "text",
            "module": "text?",
            **dict.fromkeys(("a_ratio", "b_ratio", "difference_ratio"), "number"),
            **dict.fromkeys(("low_ratio", "high_ratio", "p_value"), "number"),
            **dict.fromkeys(("a_samples", "b_samples", "machines"), "count"),
            "is_change": "truth?",
        }
    ],
}


def register(app: typer.Typer) -> None:
    """Add the command that is no query to ``app``."""
    symbols = typer.Typer(
        cls=Commands,
        help="Manage the names of functions for profiles.",
        epilog=EXIT_CODES,
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    symbols.command(
        "add",
        epilog=examples(
            "steelyard fleet symbols add ./server --store STORE",
            "steelyard fleet symbols add ./server ./libcrypto.so --store STORE --json",
        ),
    )(add)
    app.add_typer(symbols, name="symbols")


@query(
    "top",
    result=_TOP,
    expressions="steelyard.fleet.profiles.expressions:TOP",
    examples=("", "--by category --job search", "--where label.config=candidate --report top.html"),
)
def top(
    store: Store,
    by: By = "function",
    platform: Platforms = None,
    job: Jobs = None,
    where: Where = "",
    event: Event = None,
    rows: Rows = 30,
    rules: RulesFile = None,
) -> Answer:
    """Show the top consumers of cycles: functions, binaries, jobs or tax categories."""
    from steelyard.analyze.profiles.tax_rules import rules_with
    from steelyard.fleet.profiles.top import top as find
    from steelyard.report.fleet import profiles

    found_rules = rules_with(rules or [])
    result = find(
        store.table("profiles"),
        store.table("symbols"),
        by=by,
        selection=_selection(where, platform, job),
        task_samples=store.table("task_samples"),
        event=event,
        rows=rows,
        rules=found_rules,
    )
    return profiles.top(result, rules=found_rules)


@query(
    "diff",
    result=_DIFF,
    expressions="steelyard.fleet.profiles.expressions:DIFF",
    examples=(
        "label.config=stock label.config=candidate",
        "to=2026-01-07 from=2026-01-08 --report diff.html",
    ),
)
def diff(
    store: Store,
    a: Annotated[str, typer.Argument(metavar="A", help=_SELECTION)],
    b: Annotated[str, typer.Argument(metavar="B", help="Selection to compare with, in the same form.")],
    by: By = "function",
    event: Event = None,
    rules: RulesFile = None,
) -> Answer:
    """Compare the profiles of two parts of the fleet, or of two periods."""
    from steelyard.analyze.profiles.tax_rules import rules_with
    from steelyard.fleet.profiles.diff import diff as find
    from steelyard.fleet.profiles.stacks import Selection
    from steelyard.report.fleet import profiles_diff

    found_rules = rules_with(rules or [])
    result = find(
        store.table("profiles"),
        store.table("symbols"),
        Selection.parse(a),
        Selection.parse(b),
        by=by,
        task_samples=store.table("task_samples"),
        event=event,
        rules=found_rules,
    )
    return profiles_diff.diff(result, rules=found_rules)


def add(
    binaries: Annotated[
        list[Path], typer.Argument(metavar="BINARY...", help="Unstripped programs or libraries.")
    ],
    store: StoreUrl,
    as_json: Json = False,
) -> int:
    """Add the functions of programs to the store, to name them in profiles of the same build."""
    from steelyard._base import executable
    from steelyard.cli.output import print_json, printable
    from steelyard.fleet.profiles.symbols import PROGRAM, SymbolsAdded
    from steelyard.fleet.profiles.symbols import add as put

    added = put(store, binaries, executable(PROGRAM))
    if as_json:
        print_json(SymbolsAdded(added))
    else:
        for entry in added:
            line = f"{entry.path}: {entry.symbols:,} functions of {entry.module}, build {entry.build_id}"
            print(printable(line))
    return 0


def _selection(where: str, platform: Sequence[str] | None, job: Sequence[str] | None) -> Selection:
    from dataclasses import replace

    from steelyard.fleet.profiles.stacks import Selection

    chosen = Selection.parse(where)
    return replace(chosen, platform=(*chosen.platform, *(platform or ())), job=(*chosen.job, *(job or ())))
