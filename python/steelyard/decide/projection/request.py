"""What may be asked of ``steelyard project``.

In: typed by users. Out: a `ProjectRequest`, and the `Question` that it asks. It imports nothing heavy: the
help of the command is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from steelyard._base import UsageError
from steelyard._base.request import Option
from steelyard.decide.request import TableRequest

if TYPE_CHECKING:
    from steelyard.decide.projection.problem import Question


@dataclass(frozen=True, kw_only=True)
class ProjectRequest(TableRequest):
    """A projection."""

    target: Annotated[
        Sequence[str],
        Option("Result to project; several are projected as their geometric mean.", metavar="RESULT"),
    ] = ()
    weight: Annotated[
        Mapping[str, str],
        Option("Weight of a target in the mean, such as its power.", metavar="RESULT=NUMBER"),
    ] = field(default_factory=dict)
    use: Annotated[
        Sequence[str],
        Option("Project from these results only, such as 'geekbench6_*'.", metavar="PATTERN"),
    ] = ()
    without: Annotated[Sequence[str], Option("Leave out these results.", metavar="PATTERN")] = ()
    method: Annotated[
        str | None,
        Option("model or geomean; by default the model where 8 machines of 4 processors are known."),
    ] = None
    calibration: Annotated[
        str | None, Option("Machine that others are put in proportion to.", metavar="MACHINE")
    ] = None
    group_by: Annotated[
        str | None,
        Option(
            "Attribute whose machines are left out together; by default processor, family or generation.",
            metavar="ATTRIBUTE",
        ),
    ] = None
    forward: Annotated[
        bool, Option("Project each processor from those of earlier years only, and show the error by year.")
    ] = False
    each_group: Annotated[
        bool, Option("Leave out one processor at a time instead of a twelfth of all; this is slower.")
    ] = False
    confidence: Annotated[
        float,
        Option("Share of machines that intervals are to hold.", least=0.5, most=0.99, is_share=True),
    ] = 0.8
    suite: Annotated[
        Mapping[str, str],
        Option(
            "Compare suites of results; by default by the first word of results.",
            metavar="NAME=PATTERN[,PATTERN]",
        ),
    ] = field(default_factory=dict)
    explain: Annotated[bool, Option("Show what each result is worth, and where it misleads most.")] = False
    learning_curve: Annotated[bool, Option("Show the error by the number of processors measured.")] = False
    wanted_error: Annotated[
        float | None,
        Option(
            "Show how many processors must be measured for this median error, such as 10%.",
            least=0.001,
            most=1,
            is_share=True,
        ),
    ] = None


def question_of(request: ProjectRequest) -> Question:
    """Return what a request asks. Raises UsageError for a weight that is no positive number."""
    from steelyard.decide.projection.problem import GEOMEAN, MODEL, Question

    if request.method not in (None, MODEL, GEOMEAN):
        raise UsageError(
            f"--method {request.method}: neither {MODEL} nor {GEOMEAN}", hint=f"--method {GEOMEAN}"
        )
    twice = next((name for name in request.target if request.target.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"--target {twice} is given twice", hint="--weight RESULT=NUMBER makes it weigh more"
        )
    weights = {}
    for name, text in request.weight.items():
        try:
            weights[name] = float(text)
        except ValueError:
            weights[name] = 0.0
        if not 0 < weights[name] < float("inf"):
            raise UsageError(f"--weight {name}={text}: no positive number", hint=f"such as {name}=1.5")
        if not 1e-6 <= weights[name] <= 1e6:
            raise UsageError(f"--weight {name}={text}: not between 1e-6 and 1e6", hint="weights are shares")
        if name not in request.target:
            raise UsageError(f"--weight {name}: it is no --target", hint=f"add --target {name}")
    suites = {
        name: tuple(part.strip() for part in text.split(",") if part.strip())
        for name, text in request.suite.items()
    }
    return Question(
        targets=tuple(request.target),
        weights=weights,
        use=tuple(request.use),
        without=tuple(request.without),
        method=request.method or "",
        calibration=request.calibration or "",
        group_by=request.group_by or "",
        forward=request.forward,
        every_group=request.each_group,
        confidence=request.confidence,
        suites=suites,
        explain=request.explain,
        learning=request.learning_curve,
        wanted_error_ratio=request.wanted_error,
    )
