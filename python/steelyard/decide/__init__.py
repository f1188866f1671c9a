"""What results mean beside others: scores against a named baseline machine.

In: run manifests and the baselines shipped in ``data/baselines/``. Out: scores, or a refusal with its reason.

Invariants: only like is compared with like (benchmark, tier, version, parameters); an invalid result has no
score; a mean over benchmarks is withheld when one of them has none.

Not here: running anything, and drawing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard.decide.baseline import Baseline, find_baseline, load_baselines
    from steelyard.decide.score import Overall, Refusal, RunScore, Score, SuiteScore, overall
    from steelyard.decide.suite import weigh

__all__ = [
    "Baseline",
    "Overall",
    "Refusal",
    "RunScore",
    "Score",
    "SuiteScore",
    "find_baseline",
    "load_baselines",
    "overall",
    "weigh",
]

_HOMES = {
    **dict.fromkeys(("Baseline", "find_baseline", "load_baselines"), "baseline"),
    **dict.fromkeys(
        ("Overall", "Refusal", "RunScore", "Score", "SuiteScore", "overall"),
        "score",
    ),
    "weigh": "suite",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is asked for (PEP 562): requests, of which help is made, need no records."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
