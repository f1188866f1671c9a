"""Showing runs: in the terminal, as JSON, as an HTML report; and scoring them.

In: run directories. Out: `RunView`, drawn by ``report`` and scored by ``decide``.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from steelyard._base import ExitCode
from steelyard.bench import runs
from steelyard.cli.output import print_json
from steelyard.records import Level, Run, RunStatus


@dataclass(frozen=True, slots=True)
class RunView:
    """One run with what was derived from it."""

    directory: Path
    run: Run
    score: Any | None
    report: Path | None

    def document(self) -> dict[str, Any]:
        """Return the run as ``--json`` shows it."""
        return {
            "run_id": self.run.run_id,
            "directory": str(self.directory),
            "benchmark": self.run.benchmark,
            "tier": self.run.tier,
            "status": str(self.run.status),
            "status_reason": self.run.status_reason,
            "verdict": self.run.verdict.model_dump(mode="json") if self.run.verdict else None,
            "metrics": {name: metric.model_dump(mode="json") for name, metric in self.run.metrics.items()},
            "score": self.score,
            "report": str(self.report) if self.report else None,
        }


def check_baseline(name: str | None) -> None:
    """Raise UsageError when there is no baseline called ``name``."""


def view(directory: Path, run: Run, baseline: str | None) -> RunView:
    """Score a run and write its report, where it has a result."""
    return RunView(directory, run, None, None)


def show_runs(views: list[RunView], *, file: TextIO) -> None:
    """Print runs as tables."""
    for one in views:
        print(f"{one.run.run_id}: {one.run.status} {one.run.status_reason or ''}", file=file)
        for name, metric in one.run.metrics.items():
            print(
                f"  {name:32} {metric.value if metric.value is not None else metric.missing} {metric.unit}",
                file=file,
            )
        if one.run.verdict:
            print(f"verdict: {one.run.verdict.level}", file=file)
            for check in one.run.verdict.checks:
                print(f"  {check.level:8} {check.id:18} {check.claim}", file=file)


def exit_code(run: Run) -> ExitCode:
    """Return the exit code that a run's state stands for."""
    if run.status is not RunStatus.COMPLETE:
        return ExitCode.NO
    return ExitCode.NO if run.verdict and run.verdict.level is Level.INVALID else ExitCode.OK


def show_report(name: str, output: Path | None, out: Path, *, baseline: str | None, as_json: bool) -> int:
    """Show one run again."""
    directory = runs.find(name, out)
    one = view(directory, runs.load(directory), baseline)
    if as_json:
        print_json(one.document())
    else:
        show_runs([one], file=sys.stdout)
    return int(exit_code(one.run))


def show_score(name: str, out: Path, *, baseline: str | None, as_json: bool) -> int:
    """Show the score of one run."""
    return show_report(name, None, out, baseline=baseline, as_json=as_json)
