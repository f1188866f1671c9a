"""``steelyard baseline make``: a named machine that scores are over, from its runs.

In: runs and suites of one machine. Out: a baseline file. Not here: which runs are fit (``decide.baseline``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from steelyard.bench.options import RUNS
from steelyard.cli.options import Json, Runs
from steelyard.cli.output import examples
from steelyard.cli.overview import ABOUT

app = typer.Typer(help=ABOUT["baseline"], no_args_is_help=True)


@app.command(
    epilog=examples(
        'steelyard baseline make runs/*-quick-* --name lab --title "Lab machine"',
        'steelyard baseline make SUITE --name lab --title "Lab machine" --keep',
    )
)
def make(
    sources: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Complete runs, suites, or folders of them.")
    ],
    name: Annotated[str, typer.Option(metavar="NAME", help="How `--baseline` names it.")],
    title: Annotated[str, typer.Option(metavar="TEXT", help="How reports name the machine.")],
    provenance: Annotated[
        str, typer.Option(metavar="TEXT", help="How the figures were made, in one sentence.")
    ] = "made by steelyard baseline make",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of baselines; by default the one that `--baseline` reads."),
    ] = None,
    allow_suspect: Annotated[
        bool, typer.Option("--allow-suspect", help="Take suspect runs; the file says so.")
    ] = False,
    allow_few: Annotated[
        bool,
        typer.Option("--allow-few", help="Take fewer than 3 runs: scores over it have no interval then."),
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the file's results of other benchmarks and tiers.")
    ] = False,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> int:
    """Make a baseline from valid runs of one machine."""
    from steelyard import records
    from steelyard._base import UsageError
    from steelyard.bench import declaration
    from steelyard.cli.decide.sources import folders_of_runs
    from steelyard.cli.output import print_json, print_path
    from steelyard.decide.baseline import (
        Baseline,
        build,
        check_counts,
        summary,
        users_baselines,
        with_others,
    )
    from steelyard.records import Machine, Run

    folders = [folder for text in sources for folder in folders_of_runs(text, runs)]
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise UsageError(
            f"--name {name[:100]!r}: not a name", hint="letters, digits, - and _, as lab-machine"
        )
    if not folders:
        raise UsageError("no runs", hint="give complete runs of one machine")
    resolved = [folder.resolve() for folder in folders]
    twice = next((folder for folder in resolved if resolved.count(folder) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice.name} is given twice", hint="a run counts once")
    found = [
        (records.read(Run, folder / "run.json"), records.read(Machine, folder / "machine.json"))
        for folder in folders
    ]
    baseline = build(
        found,
        name=name,
        title=title,
        provenance=provenance,
        metrics=_metrics(run.benchmark for run, _ in found),
        parts={run.benchmark: declaration.find(run.benchmark).parts for run, _ in found},
        allow_suspect=allow_suspect,
    )
    if not allow_few:
        check_counts(baseline)
    path = (out or users_baselines()) / f"{name}.json"
    if keep:
        baseline = with_others(baseline, records.read(Baseline, path))
    path.parent.mkdir(parents=True, exist_ok=True)
    records.write(baseline, path)
    if as_json:
        print_json(baseline)
        return 0
    for line in summary(baseline):
        print(line)
    print_path("baseline", path)
    return 0


def _metrics(benchmarks: Iterable[str]) -> dict[str, str]:
    """Return the metric that each benchmark is scored by. Raises UsageError for one without any."""
    from steelyard._base import UsageError
    from steelyard.bench import declaration

    found = {name: declaration.find(name).headline for name in dict.fromkeys(benchmarks)}
    none = next((name for name, headline in found.items() if not headline), None)
    if none is not None:
        raise UsageError(f"{none} has no score", hint="give runs of a benchmark with a headline metric")
    return {name: headline[0] for name, headline in found.items()}
