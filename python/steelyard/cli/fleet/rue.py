"""``steelyard fleet rue``: which configuration to choose.

In: flags. Out: a table, one JSON document, a page. Not here: figures (``fleet``), views (``report``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.fleet.options import Jobs, numbers_by_name
from steelyard.cli.fleet.query import over, query

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.fleet.store.store import Store
    from steelyard.report.answer import Answer

Label = Annotated[
    str, typer.Option("--label", metavar="KEY", help="Label whose values are the configurations.")
]
Resource = Annotated[
    str,
    typer.Option("--resource", metavar="cpu|memory|storage|network|all", help="Resource to compare."),
]
Work = Annotated[str, typer.Option("--work", metavar="operations|instructions", help="Unit of work.")]
Baseline = Annotated[
    str | None,
    typer.Option(
        "--baseline", metavar="VALUE", help="Baseline configuration; by default the one with most samples."
    ),
]
Strata = Annotated[
    str | None,
    typer.Option(
        "--strata",
        metavar="A,B",
        help="Compare within groups of job, platform, cluster, load level or labels; none for no groups.",
    ),
]
Split = Annotated[
    str | None,
    typer.Option("--split", metavar="A=99,B=1", help="Declared split of machines, which is then tested."),
]
Replicate = Annotated[
    str, typer.Option("--replicate", metavar="machine|machine-day|task|task-day", help="Unit of assignment.")
]
ClusterBy = Annotated[
    str | None,
    typer.Option(
        "--cluster-by",
        metavar="NAME",
        help="Groups of similar machines: cluster, name (prefix), a label such as rack, or none; by"
        " default detected.",
    ),
]
Confidence = Annotated[
    float, typer.Option("--confidence", help="Confidence of intervals, between 0.5 and 1.")
]
Power = Annotated[
    float, typer.Option("--power", help="Probability of detecting a difference of --least-effect.")
]
LeastEffect = Annotated[
    float, typer.Option("--least-effect", metavar="RATIO", help="Smallest difference that matters.")
]
ExpectedEffect = Annotated[
    float,
    typer.Option(
        "--expected-effect",
        metavar="RATIO",
        help="Difference, set in advance, at which sequential intervals are narrowest.",
    ),
]
Once = Annotated[
    bool, typer.Option("--once", help="Use intervals for a single look, at a time set in advance.")
]


def _of_rollout(function: str) -> Callable[[Store], Any]:
    """Return the expression of the comparison that simulated fleets hold."""

    def expression(store: Store) -> Any:
        from steelyard.fleet.rue import usage

        settings = usage.RueSettings(label="config", resources=usage.RESOURCES, labels=("tenant",))
        return getattr(usage, function)(store.table("task_samples"), settings)

    return expression


@query(
    "rue",
    result="steelyard.fleet.rue.result:RueResult",
    expressions={
        "rue": _of_rollout("expression"),
        "rue assignments": _of_rollout("assignments"),
        "rue labels": over("steelyard.fleet.rue.usage:label_keys", "task_samples"),
    },
    examples=(
        "--label config",
        "--label config --baseline stock --split stock=99,candidate=1 --once",
        "--label config --resource all --report rue.html",
    ),
)
def rue(
    store: Store,
    label: Label,
    resource: Resource = "cpu",
    work: Work = "operations",
    baseline: Baseline = None,
    jobs: Jobs = None,
    strata: Strata = None,
    split: Split = None,
    replicate: Replicate = "machine",
    cluster_by: ClusterBy = None,
    confidence: Confidence = 0.95,
    power: Power = 0.8,
    least_effect: LeastEffect = 0.01,
    expected_effect: ExpectedEffect = 0.05,
    once: Once = False,
) -> Answer:
    """Compare the resource use of configurations for the same work; exit with 1 if totals mislead."""
    from steelyard.fleet.rue.compare import compare
    from steelyard.fleet.rue.usage import RESOURCES, RueSettings, other_labels
    from steelyard.report.fleet import rue as view

    tasks = store.table("task_samples")
    settings = RueSettings(
        label=label,
        resources=RESOURCES if resource == "all" else (resource,),
        work=work,
        baseline=baseline,
        jobs=tuple(jobs or ()),
        labels=other_labels(tasks, label),
        replicate=replicate,
        cluster_by=cluster_by,
        strata=_names(strata),
        split=_split(split),
        confidence=confidence,
        power=power,
        least_effect_ratio=least_effect,
        expected_effect_ratio=expected_effect,
        looks="once" if once else "any",
    )
    return view.rue(compare(tasks, settings))


def _names(text: str | None) -> tuple[str, ...] | None:
    """Return the factors of ``--strata``.

    >>> _names("job, load level"), _names("none"), _names(None)
    (('job', 'load level'), (), None)
    """
    if text is None:
        return None
    return () if text.strip() == "none" else tuple(part.strip() for part in text.split(",") if part.strip())


def _split(text: str | None) -> dict[str, float] | None:
    """Return the shares of ``--split``.

    >>> _split("old=99,new=1")
    {'old': 99.0, 'new': 1.0}
    """
    from steelyard._base import UsageError

    if text is None:
        return None
    like = "old=99,new=1"
    shares = numbers_by_name("--split", text.split(","), like, fits=lambda share: 0 < share < math.inf)
    if len(shares) < 2:
        raise UsageError(f"--split {text!r} is not like {like}")
    return shares
