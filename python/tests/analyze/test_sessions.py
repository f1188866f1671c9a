"""Which earlier sessions are comparable, and what they change in a comparison of suites."""

from pathlib import Path

import pytest

from steelyard.analyze.sessions import member_spreads
from steelyard.bench.suites import suite as suite_files
from steelyard.records import Level, Parameter, Run, Verdict
from tests.analyze.test_suite_comparison import RUN, suites_compared
from tests.cli.suites import write_suite

METRIC = "requests_per_s"


def run(value: float, **changes: object) -> Run:
    metric = RUN.metrics[METRIC].model_copy(update={"value": value})
    made = RUN.model_copy(
        update={"metrics": {METRIC: metric}, "verdict": Verdict(level=Level.VALID, checks=[])}
    )
    return made.model_copy(update=changes)


def test_sessions_that_measured_something_else_are_left_out() -> None:
    mine = [run(100.0)]
    sessions = [[run(100.0 + index)] for index in range(3)]
    known = member_spreads(mine, sessions, {RUN.benchmark: METRIC})
    assert known[RUN.benchmark].sessions == 3
    other = RUN.orchestrator.model_copy(update={"hostname": "elsewhere"})
    chosen = {**RUN.parameters, "connections": Parameter(value=7, source="flag")}
    seeded = {**RUN.parameters, "seed": Parameter(value=7, source="flag")}
    for changes in (
        {"orchestrator": other},
        {"parameters": chosen},
        {"tier": "another"},
        {"steelyard_version": "9.9.9"},
        {"verdict": Verdict(level=Level.INVALID, checks=[])},
    ):
        more = [*sessions, [run(500.0, **changes)]]
        assert member_spreads(mine, more, {RUN.benchmark: METRIC}) == known
    # A seed moves no result, and another boot is another session of the same machine.
    boot = RUN.orchestrator.model_copy(update={"boot_id": "another"})
    for changes in ({"parameters": seeded}, {"orchestrator": boot}):
        more = [*sessions, [run(104.0, **changes)]]
        assert member_spreads(mine, more, {RUN.benchmark: METRIC})[RUN.benchmark].sessions == 4


def test_a_comparison_says_that_days_are_not_known_or_has_their_spread() -> None:
    values = [([100.0, 100.5, 99.5], [103.0, 103.4, 102.8])]
    alone = suites_compared(values)
    assert alone.members[0].better is True
    assert "one session each" in alone.cautions[0]
    known = suites_compared(values, earlier=[[[100.0]], [[106.0]], [[95.0]]])
    assert known.members[0].better is None
    assert not any("one session each" in caution for caution in known.cautions)


def test_suites_of_the_same_folder_are_found_and_the_compared_ones_are_not(tmp_path: Path) -> None:
    folders = [write_suite(tmp_path / f"suite-{index}", ("tao",)) for index in range(4)]
    (tmp_path / "suite-9").mkdir()
    (tmp_path / "suite-9" / "suite.json").write_text("{")
    assert len(suite_files.beside(folders[:2])) == 2
    assert len(suite_files.beside([folders[0]])) == 3


@pytest.mark.parametrize("many", [20])
def test_a_folder_of_many_suites_is_not_read_whole(tmp_path: Path, many: int) -> None:
    folders = [write_suite(tmp_path / f"suite-{index:02}", ("tao",)) for index in range(many)]
    assert len(suite_files.beside([folders[0]])) == suite_files.SESSIONS_AT_MOST
