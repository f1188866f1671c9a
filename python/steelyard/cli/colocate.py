"""``steelyard colocate``: puts two workloads on one machine, and says what that costs each.

In: two workloads. Out: a table, a document or a page; the exit code.
"""

import sys
from pathlib import Path

from steelyard._base import ExitCode, UsageError
from steelyard.bench import hook as hooks
from steelyard.bench import tiers
from steelyard.bench.colocation.blocks import Colocated, Request, colocate
from steelyard.bench.colocation.manifest import load
from steelyard.bench.colocation.workload import pair_of
from steelyard.bench.hooks.disk_limit import DiskLimitHook
from steelyard.bench.hooks.network_limit import NetworkLimitHook
from steelyard.bench.limits.disk import DiskLimit
from steelyard.bench.limits.network import NetworkLimit
from steelyard.bench.parameters import Parameter
from steelyard.cli.matrix import hooks_of
from steelyard.cli.output import complain, page_of, print_json, show_answer
from steelyard.cli.progress import shown
from steelyard.records import Colocation, Level, RunStatus

DURATION = Parameter("duration", "seconds", "length of both measure phases", minimum=0.05, maximum=86_400.0)


def request_of(
    first: str,
    second: str,
    *,
    tier: str | None,
    repeats: int,
    duration: str | None,
    server_cpus: str | None,
    load_cpus: str | None,
    set_limit: list[str],
    seed: int | None,
    out: Path,
) -> Request:
    """Return the request that was typed. Raises UsageError."""
    if tier is not None and tier not in tiers.TIERS:
        raise UsageError(f"unknown tier {tier!r}", hint=f"tiers: {', '.join(tiers.TIERS)}")
    limits: list[NetworkLimit | DiskLimit] = []
    for text in hooks_of(set_limit):
        limits += [
            each.limit
            for _, each in hooks.create([text])
            if isinstance(each, NetworkLimitHook | DiskLimitHook)
        ]
    return Request(
        workloads=pair_of(first, second),
        tier=tier or tiers.DEFAULT_SUITE,
        repeats=repeats,
        measure_s=None if duration is None else float(DURATION.parse(duration)),
        server_cpus=server_cpus,
        load_cpus=load_cpus,
        limits=limits,
        limit_texts=set_limit,
        seed=seed,
        out=out,
        command=["steelyard", *sys.argv[1:]],
    )


def colocate_and_show(request: Request, *, report: Path | None, as_json: bool) -> int:
    """Make the runs and show what they say; return the exit code."""
    with shown() as progress:
        made = colocate(request, progress=progress)
    return show(made, report=report, as_json=as_json)


def show_again(directory: Path, *, report: Path | None, as_json: bool) -> int:
    """Show a co-location that was made before; return the exit code."""
    return show(Colocated(directory, load(directory)), report=report, as_json=as_json)


def show(made: Colocated, *, report: Path | None, as_json: bool) -> int:
    """Show a co-location; return the exit code."""
    from steelyard.report.colocation.answer import answer
    from steelyard.report.template import page_path

    if made.error is not None:
        complain(made.error)
    said = answer(made.record, made.directory)
    page = page_path(report) if report is not None and made.record.status is RunStatus.COMPLETE else None
    if as_json:
        page_of(said, page)
        print_json(
            {
                **made.record.model_dump(mode="json"),
                "directory": str(made.directory),
                "report": None if page is None else str(page),
            }
        )
    else:
        show_answer(said, page)
    return int(max(_code(made.record), made.error.exit_code if made.error is not None else ExitCode.OK))


def _code(record: Colocation) -> ExitCode:
    is_usable = record.status is RunStatus.COMPLETE and record.level is not Level.INVALID
    return ExitCode.OK if is_usable else ExitCode.NO
