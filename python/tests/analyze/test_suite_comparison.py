"""Two suites member by member: medians, their ratio, and when one is called better."""

from collections.abc import Sequence

import pytest

from steelyard import records
from steelyard._base import schemas_dir
from steelyard.analyze.suite_comparison import MemberComparison, SuiteComparison, compare_suites
from steelyard.records import Level, Metric, Run, RunStatus, Suite, Verdict

GOLDEN = records.read(Suite, schemas_dir() / "golden" / "suite.json")
RUN = records.read(Run, schemas_dir() / "golden" / "run.json")


def compared(a: list[float], b: list[float], better: str = "higher") -> SuiteComparison:
    return suites_compared([(a, b)], better)


def suites_compared(
    members: Sequence[tuple[Sequence[float], Sequence[float]]],
    better: str = "higher",
    earlier: Sequence[Sequence[Sequence[float]]] = (),
) -> SuiteComparison:
    """Compare two suites, whose members have these values in their runs of A and of B.

    ``earlier`` are other suites beside them: of each the values of every member.
    """
    named = [GOLDEN.members[0].model_copy(update={"benchmark": f"m{index}"}) for index in range(len(members))]

    def runs_of(values: Sequence[Sequence[float]]) -> list[Run]:
        return [
            RUN.model_copy(
                update={
                    "benchmark": member.benchmark,
                    "run_id": f"{member.benchmark}-{index}",
                    "status": RunStatus.COMPLETE,
                    "verdict": Verdict(level=Level.VALID, checks=[]),
                    "metrics": {member.metric: Metric(value=value, unit="1/s", better=better)},
                }
            )
            for member, each in zip(named, values, strict=True)
            for index, value in enumerate(each)
        ]

    a, b = ([pair[side] for pair in members] for side in range(2))
    suites = [GOLDEN.model_copy(update={"members": named, "repeats": len(values[0])}) for values in (a, b)]
    return compare_suites(suites[0], runs_of(a), suites[1], runs_of(b), [runs_of(each) for each in earlier])


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
    assert far.ratio == pytest.approx(2.03, rel=0.01)
    assert far.ratio_low is not None
    assert far.ratio_low > 1
    assert member([100.0, 104.0, 96.0], [203.0, 199.0, 208.0], "lower").better is False


def test_of_many_members_one_stands_out_by_more() -> None:
    values = ([100.0, 101.0, 99.0], [105.0, 104.0, 106.0])
    alone, many = (suites_compared([values] * count).members[0] for count in (1, 12))
    assert alone.ratio_low is not None
    assert many.ratio_low is not None
    assert many.ratio_low < alone.ratio_low
    assert alone.better is True


def test_few_runs_have_no_judgement_and_a_caution() -> None:
    found = compared([100.0, 101.0], [105.0, 106.0])
    assert (found.members[0].ratio_low, found.members[0].better) == (None, None)
    assert found.members[0].ratio == pytest.approx(1.05, rel=0.01)
    assert any("fewer than 3 runs of each member" in one for one in found.cautions)
