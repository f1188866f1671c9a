"""Two suites member by member: medians, their ratio, and when one is called better."""

import pytest

from steelyard import records
from steelyard._base import schemas_dir
from steelyard.analyze.suite_comparison import MemberComparison, SuiteComparison, compare_suites
from steelyard.records import Level, Metric, Run, RunStatus, Suite, Verdict
from steelyard.report.compare.table import ratio_text

GOLDEN = records.read(Suite, schemas_dir() / "golden" / "suite.json")
RUN = records.read(Run, schemas_dir() / "golden" / "run.json")


def compared(a: list[float], b: list[float], better: str = "higher") -> SuiteComparison:
    name, metric = GOLDEN.members[0].benchmark, GOLDEN.members[0].metric
    suites, runs = [], []
    for values in (a, b):
        suites.append(GOLDEN.model_copy(update={"members": GOLDEN.members[:1], "repeats": len(values)}))
        runs.append(
            [
                RUN.model_copy(
                    update={
                        "benchmark": name,
                        "run_id": f"run-{index}",
                        "status": RunStatus.COMPLETE,
                        "verdict": Verdict(level=Level.VALID, checks=[]),
                        "metrics": {metric: Metric(value=value, unit="1/s", better=better)},
                    }
                )
                for index, value in enumerate(values)
            ]
        )
    return compare_suites(suites[0], runs[0], suites[1], runs[1])


def member(a: list[float], b: list[float], better: str = "higher") -> MemberComparison:
    return compared(a, b, better).members[0]


def test_what_noise_may_have_made_is_not_called_better() -> None:
    noisy = member([100.0, 104.0, 96.0], [103.0, 99.0, 108.0])
    assert noisy.ratio == pytest.approx(1.03)
    assert noisy.ratio_low is not None
    assert noisy.ratio_high is not None
    assert noisy.ratio_low < 1 < noisy.ratio_high
    assert noisy.better is None
    far = member([100.0, 104.0, 96.0], [203.0, 199.0, 208.0])
    assert far.better is True
    assert ratio_text(far).startswith("2.03 (1.")
    assert member([100.0, 104.0, 96.0], [203.0, 199.0, 208.0], "lower").better is False


def test_few_runs_have_a_direction_and_a_caution() -> None:
    found = compared([100.0, 101.0], [105.0, 106.0])
    assert (found.members[0].ratio_low, found.members[0].better) == (None, True)
    assert ratio_text(found.members[0]) == "1.05"
    assert any("fewer than 3 runs of each member" in one for one in found.cautions)
