"""What results mean beside others: scores against a named baseline machine.

In: run manifests and the baselines shipped in ``data/baselines/``. Out: scores, or a refusal with its reason.

Invariants: only like is compared with like (benchmark, tier, version, parameters); an invalid result has no
score; a mean over benchmarks is withheld when one of them has none.

Not here: running anything, and drawing.
"""

from steelyard.decide.baseline import Baseline, find_baseline, load_baselines
from steelyard.decide.score import Overall, Refusal, RunScore, Score, SuiteScore, overall, score
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
    "score",
    "weigh",
]
