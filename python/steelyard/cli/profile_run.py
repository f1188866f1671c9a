"""What ``steelyard profile`` does once its command line is read.

In: paths and choices. Out: tables or one JSON document on standard output, the page, an exit code. Not here:
flags (``profile``), counting (``analyze``), drawing (``report``).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from steelyard._base import (
    ExitCode,
    RecordError,
    ResultSaysNoError,
    UsageError,
    WorkloadFailedError,
    executable,
)
from steelyard.analyze.profile import Profile, read_folded
from steelyard.analyze.profile_diff import ProfileDiff, diff
from steelyard.analyze.tax_map import TaxMap, classify
from steelyard.analyze.tax_rules import Rules, rules_with
from steelyard.cli.output import print_json

FOLDED = "profile.folded"
PPROF = "profile.pb.gz"
_PROGRAM = "steelyard-profile"
_FOREIGN = (b"\x1f\x8b", b"PERFILE2", b"2ELIFREP")
"""How gzip (pprof) and perf.data of either byte order begin."""


@dataclass(frozen=True)
class Recording:
    """What to sample, and how."""

    command: list[str]
    pids: list[int]
    cgroup: Path | None
    everything: bool
    hz: int
    duration: str | None
    call_graph: str
    out: Path
    stack_bytes: int | None = None

    def arguments(self) -> list[str]:
        """Return the executable's command line. Raises UsageError when it is not clear what to sample."""
        scopes = [bool(self.pids), self.cgroup is not None, self.everything]
        if sum(scopes) > 1 or not (self.command or any(scopes)):
            raise UsageError(
                "say what to sample: -- COMMAND, or one of --pid, --cgroup and --all",
                hint="steelyard profile record --all --duration 10s",
            )
        line = [str(executable(_PROGRAM)), "record", "--hz", str(self.hz), "--call-graph", self.call_graph]
        if self.stack_bytes is not None:
            line += ["--stack-bytes", str(self.stack_bytes)]
        line += ["-o", str(self.out / PPROF), "--folded", str(self.out / FOLDED)]
        for pid in self.pids:
            line += ["--pid", str(pid)]
        if self.cgroup is not None:
            line += ["--cgroup", str(self.cgroup)]
        if self.everything:
            line.append("--all")
        duration = self.duration or (None if self.command else "10s")
        if duration is not None:
            line += ["--duration", duration]
        return line + (["--", *self.command] if self.command else [])


def record_and_show(
    recording: Recording, rules: Sequence[Path], *, top: int, html: bool, as_json: bool, shown_by: str
) -> int:
    """Sample, and show what was sampled; the executable's exit code where it failed."""
    chosen = rules_with(rules)
    line = recording.arguments()
    folded = recording.out / FOLDED
    try:
        recording.out.mkdir(parents=True, exist_ok=True)
        folded.unlink(missing_ok=True)
    except OSError as error:
        raise WorkloadFailedError(f"{recording.out}: {error.strerror}") from error
    # The command's own output is not ours: it must not get into a JSON document.
    code = _run(line, stdout=sys.stderr.fileno() if as_json else None)
    if code not in (ExitCode.OK, ExitCode.FAILED) or not folded.exists():
        if code < 0 or code == ExitCode.OK:
            raise WorkloadFailedError(f"{_PROGRAM} ended with {code} and left no {folded}")
        return code
    try:
        shown = _show(folded, folded, chosen, top, recording.out if html else None, as_json, shown_by)
    except RecordError as error:
        # The sampler has told that the command failed; that it left nothing to show is no news then.
        if code:
            return code
        raise ResultSaysNoError(
            "no sample was taken", hint="nothing of it ran on a CPU, or not for long: see --hz and --duration"
        ) from error
    return code or shown


def _run(line: list[str], stdout: int | None) -> int:
    try:
        with subprocess.Popen(line, stdout=stdout, stdin=None) as process:
            while True:
                try:
                    return process.wait()
                except KeyboardInterrupt:
                    # It was interrupted too, by the same key, and is writing what it has.
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        return process.wait(timeout=10)
                    process.terminate()
    except OSError as error:
        raise WorkloadFailedError(f"{line[0]}: {error.strerror}") from error


def read_profile(path: Path) -> Profile:
    """Read a profile in any form, by ``steelyard-profile fold`` where it is not folded.

    Raises RecordError when there is none in it, EnvironmentLacksError when it needs the executable and there
    is none.
    """
    if path.is_dir():
        path /= FOLDED
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error
    if head.startswith(_FOREIGN):
        return _fold(path)
    try:
        profile = read_folded(path)
    except RecordError:
        # perf script text has no line that is a stack; the executable knows better why it is none.
        if not head.strip() or head.startswith(b"# unit:"):
            raise
        return _fold(path)
    return profile if profile.reading.bad_lines * 2 <= profile.reading.lines else _fold(path)


def _fold(path: Path) -> Profile:
    program = executable(_PROGRAM)
    handle, name = tempfile.mkstemp(prefix="steelyard-", suffix=".folded")
    os.close(handle)
    folded = Path(name)
    try:
        done = subprocess.run(
            [str(program), "fold", str(path), "-o", name],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise RecordError(f"{path}: neither folded stacks nor what {_PROGRAM} folds: {said}")
        return read_folded(folded)
    finally:
        folded.unlink(missing_ok=True)


def show_profile(
    path: Path,
    rules: Sequence[Path],
    *,
    top: int,
    output: Path | None,
    html: bool,
    as_json: bool,
    shown_by: str,
) -> int:
    """Show one profile; 0."""
    beside = path / "profile-report" if path.is_dir() else path.with_name(f"{path.stem}-report")
    return _show(path, path, rules_with(rules), top, (output or beside) if html else None, as_json, shown_by)


def _show(
    path: Path, name: Path, rules: Rules, top: int, folder: Path | None, as_json: bool, shown_by: str
) -> int:
    from steelyard.report.profile_page import top_functions, write

    profile = read_profile(path)
    tax = classify(profile, rules)
    functions = top_functions(profile.busy(), top)
    page = None
    if folder is not None:
        page = write(folder, profile, tax, title=name.name, command=shown_by, rules=rules)
    if as_json:
        print_json(_document(path, profile, tax, [asdict(row) for row in functions], page))
        return int(ExitCode.OK)
    from steelyard.report.profile_table import profile_summary

    Console().print(profile_summary(profile, tax, functions, report_path=page))
    return int(ExitCode.OK)


def _document(
    path: Path, profile: Profile, tax: TaxMap, functions: list[dict[str, Any]], page: Path | None
) -> dict[str, Any]:
    return {
        "profile": str(path),
        "facts": dict(profile.facts),
        "unit": profile.unit,
        "samples": profile.total,
        "idle_samples": tax.idle_samples,
        "lost_samples": profile.lost,
        "whole_stacks_ratio": profile.whole_ratio,
        "distinct_stacks": len(profile.counts),
        "reading": asdict(profile.reading),
        "tax_ratio": tax.tax_ratio,
        "tax_map": asdict(tax),
        "functions": functions,
        "report": None if page is None else str(page),
    }


def show_diff(
    paths: tuple[Path, Path],
    rules: Sequence[Path],
    *,
    top: int,
    alpha: float,
    output: Path,
    html: bool,
    exit_code: bool,
    as_json: bool,
    shown_by: str,
) -> int:
    """Show what changed from one profile to the other; 0, or 1 with ``exit_code`` when anything did."""
    chosen = rules_with(rules)
    a, b = (read_profile(path) for path in paths)
    result = diff(a, b, chosen, alpha=alpha)
    names = _names(paths)
    page = None
    if html:
        from steelyard.report.profile_page import write_diff

        maps = (classify(a, chosen), classify(b, chosen))
        page = write_diff(output, (a, b), names, maps, result, command=shown_by, rules=chosen)
    if as_json:
        print_json(_diff_document(paths, result, top, page))
    else:
        from steelyard.report.profile_table import diff_summary

        Console().print(diff_summary(result, names, count=top, report_path=page))
    return int(ExitCode.NO if exit_code and result.changed else ExitCode.OK)


def _names(paths: tuple[Path, Path]) -> tuple[str, str]:
    """Return short names that tell the profiles apart."""
    names = [path.stem if path.suffix == ".folded" else path.name for path in paths]
    if names[0] == names[1]:
        names = [path.resolve().parent.name for path in paths]
    return (names[0], names[1]) if names[0] != names[1] else ("A", "B")


def _diff_document(
    paths: tuple[Path, Path], result: ProfileDiff, top: int, page: Path | None
) -> dict[str, Any]:
    return {
        "a": str(paths[0]),
        "b": str(paths[1]),
        "a_samples": result.a_samples,
        "b_samples": result.b_samples,
        "alpha": result.alpha,
        "confidence": result.confidence,
        "changed": result.changed,
        "reason": result.reason,
        "cautions": list(result.cautions),
        # All changes, and the largest differences of the rest: a hundred thousand rows of noise help nobody.
        "tables": [
            {
                "by": table.by,
                "measure": table.measure,
                "rows_in_all": len(table.rows),
                "changes": len(table.changes),
                "rows": [asdict(row) for row in table.rows[: max(top, len(table.changes))]],
            }
            for table in result.tables
        ],
        "report": None if page is None else str(page),
    }
