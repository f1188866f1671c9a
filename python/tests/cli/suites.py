"""Folders of suites with whole runs in them, as `steelyard run` leaves them."""

from collections.abc import Sequence
from pathlib import Path

from steelyard.bench.suites.suite import with_run
from steelyard.records import RunStatus, Suite, SuiteMember, read, write
from steelyard.records.run import Run
from tests.report.runs import load_result, run_record, write_run


def write_suite(
    folder: Path,
    benchmarks: Sequence[str] = ("tao",),
    *,
    scale: float = 1.0,
    repeats: int = 1,
    tier: str = "quick",
) -> Path:
    """Write a suite whose members all left the records of a tao run under their own name."""
    folder.mkdir(parents=True)
    members = []
    for name in benchmarks:
        member = SuiteMember(benchmark=name, runs=[], metric="requests_per_s")
        for index in range(1, repeats + 1):
            run_folder = folder / f"{name}-{index}"
            without = ("telemetry", "cache_stats")
            changes = {"benchmark": name, "tier": tier}
            write_run(run_folder, index=index, count=repeats, scale=scale, without=without, changes=changes)
            member = with_run(member, read(Run, run_folder / "run.json"))
        members.append(member)
    run = run_record(load_result(), folder)
    suite = Suite(
        suite_id=folder.name,
        suite="quick",
        tier=tier,
        repeats=repeats,
        status=RunStatus.COMPLETE,
        steelyard_version="0.1.0",
        command=["steelyard", "run", "quick"],
        clock=run.clock,
        end_ns=run.clock.monotonic_ns + 1,
        orchestrator=run.orchestrator,
        members=members,
    )
    write(suite, folder / "suite.json")
    return folder
