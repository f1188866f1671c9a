"""``steelyard profile record|show|diff``: take a profile, say where its time goes, hold two against each
other.

In: flags, and files of ``steelyard-profile``. Out: tables or one JSON document, and a page. Not here:
sampling (the executable), counting (``analyze``), drawing (``report``).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.output import EXIT_CODES

app = typer.Typer(
    help="Take profiles, say where their time goes, and hold two against each other.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
RuleFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--rules", metavar="FILE", help="Rules of yours, asked before the shipped ones; repeatable."
    ),
]
Page = Annotated[bool, typer.Option("--html/--no-html", help="Write the page with charts and flame graph.")]
Input = Annotated[
    Path,
    typer.Argument(
        help="Folded stacks, a folder with profile.folded, or perf.data, perf script text or pprof."
    ),
]


@app.command(epilog=EXIT_CODES, context_settings={"allow_interspersed_args": False})
def record(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND...]", help="What to run, and sample unless something else is named."
        ),
    ] = None,
    pid: Annotated[list[int] | None, typer.Option(help="Sample this process; repeatable.")] = None,
    cgroup: Annotated[Path | None, typer.Option(help="Sample this cgroup.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Sample every process.")] = False,
    hz: Annotated[int, typer.Option(min=1, help="Samples a second on each busy CPU.")] = 99,
    duration: Annotated[
        str | None, typer.Option(help="As 10s; a command is sampled until it ends, all else 10s.")
    ] = None,
    call_graph: Annotated[str, typer.Option(help="fp (frame pointers), dwarf or none.")] = "fp",
    stack_bytes: Annotated[
        int | None,
        typer.Option(min=1024, max=65_000, help="Bytes of each stack that dwarf copies; 16384 by default."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for profile.folded, profile.pb.gz and the page.")] = Path(
        "profile"
    ),
    rules: RuleFiles = None,
    top: Annotated[int, typer.Option(min=1, help="Functions to show.")] = 15,
    html: Page = True,
    as_json: Json = False,
) -> int:
    """Sample stacks, and show where the time went."""
    from steelyard.cli.profile_run import Recording, record_and_show

    wanted = Recording(command or [], pid or [], cgroup, all_, hz, duration, call_graph, out, stack_bytes)
    return record_and_show(wanted, rules or [], top=top, html=html, as_json=as_json, shown_by=_shown_by())


@app.command(epilog=EXIT_CODES)
def show(
    profile: Input,
    rules: RuleFiles = None,
    top: Annotated[int, typer.Option(min=1, help="Functions to show.")] = 15,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the page; by default NAME-report beside the profile.")
    ] = None,
    html: Page = True,
    as_json: Json = False,
) -> int:
    """Show a profile: tax map, top functions, and the page with its flame graph."""
    from steelyard.cli.profile_run import show_profile

    return show_profile(
        profile, rules or [], top=top, output=output, html=html, as_json=as_json, shown_by=_shown_by()
    )


@app.command(epilog=EXIT_CODES)
def diff(
    a: Input,
    b: Input,
    rules: RuleFiles = None,
    top: Annotated[int, typer.Option(min=1, help="Rows of each table.")] = 12,
    alpha: Annotated[
        float,
        typer.Option(
            min=1e-9, max=0.5, help="Share of pairs of equal profiles in which a table shows a change."
        ),
    ] = 0.05,
    output: Annotated[Path, typer.Option(help="Folder of the page.")] = Path("profile-diff"),
    html: Page = True,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 when anything changed by more than noise.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Hold two profiles against each other: shares, with intervals, so that noise is not a change."""
    from steelyard.cli.profile_run import show_diff

    return show_diff(
        (a, b),
        rules or [],
        top=top,
        alpha=alpha,
        output=output,
        html=html,
        exit_code=exit_code,
        as_json=as_json,
        shown_by=_shown_by(),
    )


def _shown_by() -> str:
    import shlex

    return shlex.join(["steelyard", *sys.argv[1:]])
