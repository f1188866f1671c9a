"""What ``steelyard profile`` does once its command line is read.

In: paths and choices. Out: tables or one JSON document on standard output, the page, an exit code. Not here:
flags (``commands``), counting (``analyze``), drawing (``report``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard._base import (
    ExitCode,
    RecordError,
    ResultSaysNoError,
    UsageError,
    WorkloadFailedError,
    executable,
)
from steelyard.analyze.profiles.diff import ProfileDiff, diff
from steelyard.analyze.profiles.profile import Profile
from steelyard.analyze.profiles.tax_map import TaxMap, classify
from steelyard.analyze.profiles.tax_rules import Rules, rules_with
from steelyard.analyze.profiles.times import TIMES, sample_times, write_between
from steelyard.cli.leftovers import put_back
from steelyard.cli.output import page_of, print_json, show_answer
from steelyard.cli.profile.reading import ALL, FOLDED, PROGRAM, Wanted, plain, read_profile

PPROF = "profile.pb.gz"
_KEY_S = 1.0
"""How long the sampler gets to end by itself: a key at the terminal has interrupted it, too."""
_WRITING_S = 30.0
"""How long it gets to resolve symbols and write."""


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
    force: bool = False
    """Whether a profile that is in ``out`` already is replaced."""
    event: str | None = None
    """Event to sample instead of CPU time."""
    lines: bool = False
    """Whether functions have the line of the source beside them."""

    def arguments(self, folder: Path) -> list[str]:
        """Return the executable's command line, which writes into ``folder``.

        Raises UsageError when it is not clear what to sample.
        """
        scopes = [bool(self.pids), self.cgroup is not None, self.everything]
        if sum(scopes) > 1 or not (self.command or any(scopes)):
            raise UsageError(
                "name what to sample: -- COMMAND, or one of --pid, --cgroup and --all",
                hint="steelyard profile record --all --duration 10s",
            )
        line = [str(executable(PROGRAM)), "record", "--hz", str(self.hz), "--call-graph", self.call_graph]
        if self.stack_bytes is not None:
            line += ["--stack-bytes", str(self.stack_bytes)]
        line += ["-o", str(folder / PPROF), "--folded", str(folder / FOLDED)]
        if self.event is None:
            line += ["--times", str((folder / FOLDED).with_suffix(TIMES))]
        else:
            # Its stacks count occurrences, of which times tell nothing.
            line += ["--event", self.event]
        line += ["--lines"] if self.lines else []
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
    recording: Recording, rules: Sequence[Path], *, rows: int, page: bool, as_json: bool, shown_by: str
) -> int:
    """Sample, and show what was sampled; the executable's exit code where it failed."""
    chosen = rules_with(rules)
    put_back()
    with new_folder(recording.out, force=recording.force) as (folder, publish):
        line = recording.arguments(folder)
        # The command's own output is not ours: it must not get into a JSON document.
        code = _run(line, stdout=sys.stderr.fileno() if as_json else None)
        folded = folder / FOLDED
        if code not in (ExitCode.OK, ExitCode.FAILED) or not folded.exists():
            if code < 0 or code == ExitCode.OK:
                raise WorkloadFailedError(f"{PROGRAM} ended with {code} and left no {FOLDED}")
            return code
        try:
            profile = read_profile(folded)
        except RecordError as error:
            # The sampler has reported that the command failed; an empty profile is no further error.
            if code:
                return code
            raise ResultSaysNoError(
                "no sample was taken",
                hint="nothing of it ran on a CPU, or not for long: see --hz and --duration",
            ) from error
        publish()
    folded = recording.out / FOLDED
    report = recording.out / "report.html" if page else None
    times = sample_times(folded) if page else None
    shown = _show(profile, folded, folded, chosen, rows, report, as_json, shown_by, times)
    return code or shown


@contextlib.contextmanager
def new_folder(out: Path, *, force: bool) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Yield a folder to write into, and what puts it in the place of ``out`` when it is complete.

    Whoever looks at ``out`` sees all or nothing, and of two that write to one place at once the second is
    refused. Raises UsageError where ``out`` has something in it and ``force`` was not given,
    WorkloadFailedError where no folder can be made.
    """
    _check_free(out, force=force)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".partial", dir=out.parent))
        folder.chmod(0o777 & ~_umask())
    except OSError as error:
        raise WorkloadFailedError(f"{out}: {error.strerror}") from error

    def publish() -> None:
        old = folder.with_suffix(".old")
        try:
            if force and out.exists():
                out.rename(old)
            # Onto an empty folder this succeeds, onto any other it does not.
            folder.rename(out)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                _check_free(out, force=False)
            raise WorkloadFailedError(f"{out}: {error.strerror}") from error
        finally:
            shutil.rmtree(old, ignore_errors=True)

    try:
        yield folder, publish
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_free(out: Path, *, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a folder", hint="give another with --out")
    if force or not out.is_dir() or not any(out.iterdir()):
        return
    raise UsageError(
        f"{out} has files in it, which would be replaced", hint="give another folder with --out, or --force"
    )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _run(line: list[str], stdout: int | None) -> int:
    """Run the sampler; an interrupt asks it to write what it has, a second one ends it at once."""
    try:
        with subprocess.Popen(line, stdout=stdout, stdin=None) as process:
            try:
                return process.wait()
            except KeyboardInterrupt:
                # The same key has interrupted it, or somebody has interrupted us alone: it takes one, and
                # writes what it has.
                return _ended(process)
    except OSError as error:
        raise WorkloadFailedError(f"{line[0]}: {error.strerror}") from error


def _ended(process: subprocess.Popen[bytes]) -> int:
    try:
        try:
            return process.wait(timeout=_KEY_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            return process.wait(timeout=_WRITING_S)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        process.kill()
        process.wait()
        raise KeyboardInterrupt from None


def show_profile(
    path: Path,
    rules: Sequence[Path],
    *,
    rows: int,
    wanted: Wanted,
    between: str | None,
    report: Path | None,
    as_json: bool,
    shown_by: str,
) -> int:
    """Show one profile, or its samples ``between`` two seconds, and write its page to ``report``; 0."""
    chosen = rules_with(rules)
    with plain(path / FOLDED if (path / FOLDED).exists() else path) as source:
        profile = read_profile(source, wanted) if between is None else _read_between(source, between, wanted)
        has_times = report is not None and source.is_file()
        times = sample_times(source, profile.facts.get("event")) if has_times else None
    return _show(profile, path, path, chosen, rows, report, as_json, shown_by, times)


def _read_between(path: Path, span: str, wanted: Wanted) -> Profile:
    try:
        begin_s, end_s = (float(part) for part in span.split(","))
    except ValueError:
        begin_s = end_s = 0.0
    if not 0 <= begin_s < end_s < 1e9:
        raise UsageError(f"--between {span}: not two seconds, the earlier first", hint="as --between 2,3.5")
    with tempfile.TemporaryDirectory(prefix="steelyard-") as folder:
        cut = Path(folder) / path.name
        # The first event of a part may be another than that of the whole.
        event = read_profile(path, wanted).facts.get("event")
        write_between(path, begin_s, end_s, cut, event)
        return read_profile(cut, replace(wanted, event=event))


def _show(
    profile: Profile,
    path: Path,
    name: Path,
    rules: Rules,
    rows: int,
    report: Path | None,
    as_json: bool,
    shown_by: str,
    times_ns: NDArray[np.int64] | None = None,
) -> int:
    from steelyard.report.profiles.answer import profile_answer
    from steelyard.report.profiles.words import top_functions
    from steelyard.report.template import page_path

    tax = classify(profile, rules)
    said = profile_answer(
        profile, tax, title=name.name, command=shown_by, rules=rules, times_ns=times_ns, rows=rows
    )
    report = None if report is None else page_path(report)
    if as_json:
        functions = [asdict(row) for row in top_functions(profile.busy(), rows)]
        print_json(_document(path, profile, tax, functions, page_of(said, report)))
        return int(ExitCode.OK)
    return show_answer(said, report)


def _document(
    path: Path, profile: Profile, tax: TaxMap, functions: list[dict[str, Any]], page: Path | None
) -> dict[str, Any]:
    return {
        "profile": str(path),
        "facts": dict(profile.facts),
        "unit": profile.unit,
        "samples": profile.in_unit(profile.total),
        "idle_samples": profile.in_unit(tax.idle_samples),
        "lost_samples": profile.lost,
        "whole_stacks_ratio": profile.whole_ratio,
        "distinct_stacks": len(profile.counts),
        "reading": asdict(profile.reading),
        "tax_ratio": tax.tax_ratio,
        "measured": profile.measured,
        "tax_map": _in_unit(asdict(tax), profile),
        "functions": _in_unit(functions, profile),
        "report": None if page is None else str(page),
    }


_COUNTED = ("samples", "idle_samples", "own", "total")


def _in_unit(value: Any, profile: Profile, name: str = "") -> Any:
    """Return a document with its counts in the profile's unit."""
    if profile.scale == 1:
        return value
    if isinstance(value, dict):
        counts = name in ("by_category", "unclassified_reasons")
        return {key: _in_unit(inner, profile, "samples" if counts else key) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_in_unit(inner, profile) for inner in value]
    return profile.in_unit(value) if name in _COUNTED and isinstance(value, int) else value


def show_diff(
    paths: tuple[Path, Path],
    rules: Sequence[Path],
    *,
    rows: int,
    wanted: Wanted,
    alpha: float,
    report: Path | None,
    exit_code: bool,
    as_json: bool,
    shown_by: str,
) -> int:
    """Show what changed from one profile to the other; 0, or 1 with ``exit_code`` when anything did."""
    from steelyard.cli.profile.sides import side_of

    chosen = rules_with(rules)
    # What a difference is held against is known of samples alone.
    sides = [side_of(path, replace(wanted, samples=True)) for path in paths]
    are_blocks = all(side.blocks for side in sides)
    units = [side.blocks if are_blocks else side.runs for side in sides]
    result = diff(units[0], units[1], chosen, alpha=alpha, are_blocks=are_blocks)
    a, b = (side.whole for side in sides)
    names = _names(paths)
    from steelyard.report.profiles.answer import diff_answer
    from steelyard.report.template import page_path

    maps = (classify(a, chosen), classify(b, chosen))
    said = diff_answer((a, b), names, maps, result, command=shown_by, rules=chosen, rows=rows)
    report = None if report is None else page_path(report)
    if as_json:
        print_json(_diff_document(paths, result, rows, page_of(said, report)))
    else:
        show_answer(said, report)
    return int(ExitCode.NO if exit_code and result.changed else ExitCode.OK)


def _names(paths: tuple[Path, Path]) -> tuple[str, str]:
    """Return short names that distinguish the profiles."""
    names = [path.stem if path.suffix == ".folded" else path.name for path in paths]
    if names[0] == names[1]:
        names = [path.resolve().parent.name for path in paths]
    return (names[0], names[1]) if names[0] != names[1] else ("A", "B")


def _diff_document(
    paths: tuple[Path, Path], result: ProfileDiff, rows: int, page: Path | None
) -> dict[str, Any]:
    return {
        "a": str(paths[0]),
        "b": str(paths[1]),
        "a_samples": result.a_samples,
        "b_samples": result.b_samples,
        "alpha": result.alpha,
        "confidence": result.confidence,
        "basis": result.basis,
        "runs": list(result.runs),
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
                "standing_out": len(table.standing_out),
                "rows": [asdict(row) for row in table.rows[: max(rows, len(table.standing_out))]],
            }
            for table in result.tables
        ],
        "report": None if page is None else str(page),
    }


def export_profile(path: Path, to: str | None, wanted: Wanted = ALL) -> int:
    """Print one profile in another format, without one as a JSON document; 0."""
    from steelyard.report.profiles.exports import folded, speedscope, stack_rows, trace_events

    profile = read_profile(path, wanted)
    if to is None:
        head = {"profile": str(path), "event": profile.facts.get("event"), "unit": profile.unit}
        print_json({**head, "facts": dict(profile.facts), "stacks": stack_rows(profile)})
        return int(ExitCode.OK)
    write = {"speedscope": speedscope, "perfetto": trace_events}.get(to)
    text = folded(profile) if write is None else write(profile, path.name)
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    return int(ExitCode.OK)
