"""``steelyard profile record|show|diff|export``: records, shows, compares and converts profiles.

In: flags, and files of ``steelyard-profile``. Out: tables or one JSON document, and a page. Not here:
sampling (the executable), counting (``analyze``), drawing (``report``).
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from steelyard._base import UsageError
from steelyard.cli.commands import Commands
from steelyard.cli.options import EVENT_HELP, Json, Report, Rows
from steelyard.cli.output import command_line, examples
from steelyard.cli.overview import ABOUT, EXIT_CODES

app = typer.Typer(
    cls=Commands,
    help=ABOUT["profile"],
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
)

RuleFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--rules", metavar="FILE", help="Tax map rules that come before the shipped ones; repeatable."
    ),
]
Input = Annotated[
    Path,
    typer.Argument(
        help="Folded stacks, a folder with profile.folded, or perf.data (also the folder of perf record"
        " --threads), perf script text or pprof."
    ),
]
Event = Annotated[str | None, typer.Option(metavar="EVENT", help=EVENT_HELP)]
Symfs = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder that stands for the root of the machine that perf.data is from: names come from the"
        " files below it.",
    ),
]
Lines = Annotated[
    bool,
    typer.Option("--lines", help="Name functions with their lines of the source, where they are known."),
]
Runs = Annotated[
    Path,
    typer.Argument(help="Profile as for `show`, or a folder with one profile per run."),
]


@app.command(
    epilog=examples(
        "steelyard profile record -- ./program --flag",
        "steelyard profile record --pid 4711 --duration 30s --out before",
        "steelyard profile record --all --hz 49 --out profile --force",
    ),
    context_settings={"allow_interspersed_args": False},
)
def record(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND...]", help="Command to run, and to sample unless a target is given."
        ),
    ] = None,
    pid: Annotated[list[int] | None, typer.Option(help="Sample this process; repeatable.")] = None,
    cgroup: Annotated[Path | None, typer.Option(help="Sample this cgroup.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Sample every process.")] = False,
    event: Event = None,
    lines: Lines = False,
    hz: Annotated[int, typer.Option(min=1, help="Samples per second on each busy CPU.")] = 99,
    duration: Annotated[
        str | None, typer.Option(help="Time to sample; by default until the command ends, else 10s.")
    ] = None,
    call_graph: Annotated[
        str, typer.Option(help="How to unwind stacks: fp (frame pointers), dwarf or none.")
    ] = "fp",
    stack_bytes: Annotated[
        int | None,
        typer.Option(min=1024, max=65_000, help="Bytes to copy of each stack for dwarf; 16384 by default."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="Folder for profile.folded, profile.pb.gz and report.html."
        ),
    ] = Path("profile"),
    force: Annotated[bool, typer.Option("--force", help="Replace the profile in --out.")] = False,
    rules: RuleFiles = None,
    rows: Rows = 15,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no page.")] = False,
    as_json: Json = False,
) -> int:
    """Record a profile, and show where the time went."""
    from steelyard.cli.profile.run import Recording, record_and_show

    recording = Recording(
        command or [],
        pid or [],
        cgroup,
        all_,
        hz,
        duration,
        call_graph,
        out,
        stack_bytes,
        force=force,
        event=event,
        lines=lines,
    )
    return record_and_show(
        recording, rules or [], rows=rows, page=not no_report, as_json=as_json, shown_by=command_line()
    )


@app.command(
    epilog=examples(
        "steelyard profile show profile", "steelyard profile show perf.data --report page.html --rows 30"
    )
)
def show(
    profile: Input,
    rules: RuleFiles = None,
    rows: Rows = 15,
    event: Event = None,
    symfs: Symfs = None,
    lines: Lines = False,
    between: Annotated[
        str | None,
        typer.Option(
            metavar="BEGIN,END",
            help="Use only the samples of these seconds since the first one (recordings with times, or"
            " perf script text).",
        ),
    ] = None,
    page: Report = None,
    as_json: Json = False,
) -> int:
    """Show a profile: tax map and top functions; --report adds a page with a flame graph."""
    from steelyard.cli.profile.reading import Wanted
    from steelyard.cli.profile.run import show_profile

    return show_profile(
        profile,
        rules or [],
        rows=rows,
        wanted=Wanted(event, symfs, lines),
        between=between,
        report=page,
        as_json=as_json,
        shown_by=command_line(),
    )


@app.command(
    epilog=examples(
        "steelyard profile diff before.folded after.folded",
        "steelyard profile diff runs-before/ runs-after/ --exit-code --report differences.html",
    )
)
def diff(
    a: Runs,
    b: Runs,
    rules: RuleFiles = None,
    rows: Rows = 12,
    event: Event = None,
    symfs: Symfs = None,
    lines: Lines = False,
    alpha: Annotated[
        float,
        typer.Option(
            min=1e-9,
            max=0.5,
            help="Largest share of false alarms: of comparisons of equal sides with any change reported.",
        ),
    ] = 0.05,
    page: Report = None,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code", help="Exit with 1 if something changed; needs at least three runs on each side."
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """Compare two profiles, or two folders of runs (three or more each to tell noise from change)."""
    from steelyard.cli.profile.reading import Wanted
    from steelyard.cli.profile.run import show_diff

    return show_diff(
        (a, b),
        rules or [],
        rows=rows,
        wanted=Wanted(event, symfs, lines),
        alpha=alpha,
        report=page,
        exit_code=exit_code,
        as_json=as_json,
        shown_by=command_line(),
    )


class ExportFormat(StrEnum):
    """The formats in which others read a profile."""

    SPEEDSCOPE = "speedscope"
    PERFETTO = "perfetto"
    FOLDED = "folded"


@app.command(
    epilog=examples(
        "steelyard profile export profile --as speedscope > profile.speedscope.json",
        "steelyard profile export perf.data --as perfetto > trace.json",
        "steelyard profile export perf.data --json > stacks.json",
    )
)
def export(
    profile: Input,
    form: Annotated[
        ExportFormat | None,
        typer.Option("--as", metavar="FORMAT", help="Format to write: speedscope, perfetto or folded."),
    ] = None,
    event: Event = None,
    symfs: Symfs = None,
    lines: Lines = False,
    as_json: Json = False,
) -> int:
    """Write a profile for speedscope.app or ui.perfetto.dev, as folded stacks, or as JSON."""
    if as_json is (form is not None):
        raise UsageError("profile export needs one of --as FORMAT and --json")
    from steelyard.cli.profile.reading import Wanted
    from steelyard.cli.profile.run import export_profile

    return export_profile(profile, form and str(form), Wanted(event, symfs, lines))
