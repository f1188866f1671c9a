"""``steelyard fidelity`` as the parser has it, and the comparison of two workloads.

In: a request. Out: an answer or one JSON document. Not here: reading workloads (``sides``), calibrations
(``calibrate``).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import typer

from steelyard.cli.output import examples
from steelyard.cli.overview import ABOUT
from steelyard.cli.requests import command
from steelyard.tune.calibration.request import FidelityRequest

_EXAMPLES = (
    "steelyard fidelity latest production.toml",
    "steelyard fidelity RUN_A perf-stat.txt --report fidelity.html",
    "steelyard fidelity --calibrate tao production.toml --vary target_hit_ratio=0.5..0.98",
)
_ONLY_CALIBRATING = (
    "vary",
    "hold_out",
    "trials",
    "budget",
    "repeat",
    "chosen",
    "tier",
    "hooks",
    "seed",
    "out",
)


def add_fidelity(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    made = command(FidelityRequest, "steelyard.cli.decide.fidelity:fidelity_and_show", ABOUT["fidelity"])
    app.command("fidelity", epilog=examples(*_EXAMPLES))(made)


def fidelity_and_show(
    request: FidelityRequest, given: Collection[str], *, report: Path | None, as_json: bool
) -> int:
    """Compare two workloads, or calibrate a benchmark; return the exit code."""
    from steelyard._base import UsageError
    from steelyard._base.request import options

    if request.calibrate is not None:
        from steelyard.cli.decide.calibrate import calibrate_and_show

        return calibrate_and_show(request, report=report, as_json=as_json)
    known = options(FidelityRequest)
    only = [known[name].flag for name in _ONLY_CALIBRATING if name in given]
    if only:
        raise UsageError(
            f"{only[0]} is for --calibrate", hint="steelyard fidelity --calibrate BENCHMARK TARGET"
        )
    if len(request.words) != 2:
        raise UsageError(
            f"two workloads are compared, not {len(request.words)}", hint="steelyard fidelity A B"
        )
    return _compare_and_show(request, report, as_json=as_json)


def _compare_and_show(request: FidelityRequest, report: Path | None, *, as_json: bool) -> int:
    from steelyard._base.documents import Paged
    from steelyard.bench import declaration
    from steelyard.bench.parameters.ranges import moved_by
    from steelyard.cli.decide.sides import profile_named
    from steelyard.cli.output import command_line, page_of, print_json, show_answer
    from steelyard.decide.fidelity.comparison import compare
    from steelyard.report.decide.fidelity import answer

    a, b = (profile_named(name, request.runs) for name in request.words)
    benchmark = a.benchmark or b.benchmark
    ranges = () if benchmark is None else declaration.of_run(benchmark).search
    found = compare(a, b, moves=moved_by(ranges))
    said = answer(found, command=command_line(), source=" and ".join(request.words))
    if as_json:
        print_json(Paged(found, page_of(said, report)))
        return 0
    return show_answer(said, report)
