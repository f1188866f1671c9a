"""A suite's mean: which members are in it."""

import pytest

from steelyard import records
from steelyard._base import schemas_dir
from steelyard.bench import declaration
from steelyard.decide import weigh
from steelyard.decide.baseline import build
from steelyard.decide.suite import BESIDE
from steelyard.records import Machine, Run, Suite, SuiteMember
from tests.decide.test_score import MACHINE, run


def _weighed(name: str, twice: str) -> tuple[Suite, dict[str, list[Run]]]:
    """Return the suite ``name`` of tao and tax, one of which is twice as fast as its baseline."""
    golden = records.read(Suite, schemas_dir() / "golden" / "suite.json")
    runs = {
        benchmark: [run(2000.0 if benchmark == twice else 1000.0, benchmark=benchmark)]
        for benchmark in ("tao", "tax")
    }
    pairs: list[tuple[Run, Machine]] = [(run(1000.0, benchmark=benchmark), MACHINE) for benchmark in runs]
    baseline = build(
        pairs, name="t", title="T", provenance="a test", metrics=dict.fromkeys(runs, "requests_per_s")
    )
    member = golden.members[0]
    members: list[SuiteMember] = [
        member.model_copy(update={"benchmark": benchmark, "metric": "requests_per_s"}) for benchmark in runs
    ]
    suite, _ = weigh(golden.model_copy(update={"suite": name, "members": members}), runs, baseline)
    return suite, runs


@pytest.mark.parametrize(
    ("suite", "twice", "mean"),
    [("dcperf", "tax", 1.0), ("dcperf", "tao", 2.0), ("quick", "tax", 2.0**0.5)],
)
def test_the_tax_explains_the_score_of_dcperf_and_is_not_in_it(suite: str, twice: str, mean: float) -> None:
    weighed, _ = _weighed(suite, twice)
    assert weighed.overall is not None
    assert weighed.overall.score == pytest.approx(mean)
    tax = next(member for member in weighed.members if member.benchmark == "tax")
    assert tax.score == pytest.approx(2.0 if twice == "tax" else 1.0)


def test_what_stands_beside_a_score_is_a_member_of_its_suite() -> None:
    for suite, names in BESIDE.items():
        for name in names:
            assert suite in declaration.of_run(name).suites
