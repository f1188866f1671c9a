"""``steelyard health``: memory, caches, disk and loopback of this machine, held against earlier checks.

In: flags. Out: tables or one JSON document, and the check's folder with its page. Not here: measuring
(``bench.health.check``), judging (``bench.health.judging``), drawing (``report.health``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from steelyard._base import UsageError
from steelyard._base.documents import Paged
from steelyard.bench.health import check as checks
from steelyard.bench.health import judging
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
    if request.against is not None and request.against != "last":
        comparison = judging.against_file(check, Path(request.against), request.against)
    else:
        comparison = judging.judged(check, request.out, identity, last_only=request.against == "last")
    checks.save_comparison(folder, comparison, accepted=request.accept)
    said = answer(check.result, comparison)
    page = write_page(folder / PAGE, said)
    if as_json:
        print_json(Paged(checks.HealthCheck(check.folder, comparison, check.result), page))
    else:
        show_answer(said, None)
        print_path("report", page)
    return int(said.says_no)
