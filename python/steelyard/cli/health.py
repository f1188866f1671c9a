"""``steelyard health``: memory, caches, disk and loopback of this machine, held against earlier checks.

In: flags. Out: tables or one JSON document, and the check's folder with its page. Not here: measuring
(``bench.health.check``), judging (``analyze.health.comparison``), drawing (``report.health``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from steelyard._base import UsageError
from steelyard._base.documents import Paged
from steelyard.analyze.health.comparison import Alert, Comparison, compare
from steelyard.analyze.health.machine_changes import changes
from steelyard.bench.health import check as checks
from steelyard.cli.leftovers import put_back
from steelyard.cli.output import print_json, print_path, show_answer
from steelyard.cli.progress import shown


@dataclass(frozen=True)
class HealthRequest:
    """What the command line asks for."""

    quick: bool
    against: str | None
    parts: list[str]
    directory: Path | None
    accept: bool
    out: Path


def _judge(check: checks.Check, request: HealthRequest, identity: str) -> Comparison:
    """Compare a check with what was asked for: this machine's history, its last good check, or a file."""
    if request.against is not None and request.against != "last":
        baseline = checks.find_baseline(Path(request.against))
        return compare(
            check.result, [baseline.result], against=request.against, notes=_differences(check, baseline)
        )
    mode = check.result.settings.mode
    earlier = checks.history(request.out, identity, mode=mode)
    if not earlier:
        reason = f"no earlier good {mode} check of this machine in {request.out}"
        return compare(check.result, [], against=f"nothing: {reason}")
    alerts: list[Alert] = []
    notes: list[str] = []
    before = earlier[-1].machine
    if before is not None and check.machine is not None:
        alerts, notes = changes(check.machine, before)
    if request.against == "last":
        earlier = earlier[-1:]
    names = (
        f"its last {len(earlier)} good checks"
        if len(earlier) > 1
        else f"the check of {earlier[-1].folder.name}"
    )
    return compare(check.result, [run.result for run in earlier], against=names, changes=alerts, notes=notes)


def _differences(check: checks.Check, baseline: checks.Check) -> list[str]:
    """Return why figures may differ from a baseline's other than by health."""
    differences = []
    for noun, now, then in (
        ("processor", check.result.machine.cpu_model, baseline.result.machine.cpu_model),
        ("usable CPUs", check.result.machine.usable_cpus, baseline.result.machine.usable_cpus),
        ("mode", check.result.settings.mode, baseline.result.settings.mode),
    ):
        if now != then:
            differences.append(f"the baseline has another {noun}: {then} (here {now})")
    return differences


def show_health(request: HealthRequest, *, as_json: bool) -> int:
    """Check this machine and tell; 0 when it is as expected, 1 when an alert fires."""
    from steelyard.report.answer.page import write_page
    from steelyard.report.health.answer import answer
    from steelyard.report.template import PAGE

    checks.check_request(request.parts, request.directory)
    if request.against not in (None, "last"):
        # A wrong file is reported before minutes of measuring, not after.
        checks.find_baseline(Path(str(request.against)))
    identity = checks.machine_identity()
    if request.against == "last" and not checks.history(
        request.out, identity, mode="quick" if request.quick else "full"
    ):
        raise UsageError(
            f"no earlier good check of this machine in {request.out}",
            hint="run steelyard health once without --against",
        )
    put_back()
    folder = checks.new_folder(request.out, identity)
    with shown() as progress:
        check = checks.measure(
            folder,
            quick=request.quick,
            progress=progress,
            parts=request.parts,
            directory=request.directory,
        )
    comparison = _judge(check, request, identity)
    checks.save_comparison(folder, comparison, accepted=request.accept)
    said = answer(check.result, comparison)
    page = write_page(folder / PAGE, said)
    if as_json:
        print_json(Paged(checks.HealthCheck(check.folder, comparison, check.result), page))
    else:
        show_answer(said, None)
        print_path("report", page)
    return int(said.says_no)
