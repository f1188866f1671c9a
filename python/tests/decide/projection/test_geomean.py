"""The projection of DCPerf's section 4.1, with the paper's own numbers and with numbers by hand."""

import numpy as np
import pytest

from steelyard._base import UsageError
from steelyard.decide.projection.problem import GEOMEAN, Question
from steelyard.decide.projection.project import project
from steelyard.decide.projection.result import Projection
from tests.decide.choice.tables import csv_table

WATTS = {"prod_web": 320.0, "prod_cache": 240.0, "prod_ranking": 280.0}
PAPER = {"DCPerf": 0.033, "SPEC 2006": 0.204, "SPEC 2017": 0.278}
"""Errors on SKU4, which is 4.5 times SKU1 (DCPerf, Figures 2 and 3)."""
SUITES = {"DCPerf": ("dcperf_*",), "SPEC 2006": ("spec2006_*",), "SPEC 2017": ("spec2017_*",)}


def paper() -> str:
    """Return SKU1 and SKU4: production of 4.5 times in its weighted mean, suites with the paper's errors."""
    share = {name: watts / sum(WATTS.values()) for name, watts in WATTS.items()}
    web, cache = 3.9, 5.4
    rest = (np.log(4.5) - share["prod_web"] * np.log(web) - share["prod_cache"] * np.log(cache)) / share[
        "prod_ranking"
    ]
    rows = {"machine": ["SKU1", "SKU4"]}
    for name, ratio in zip(WATTS, (web, cache, np.exp(rest)), strict=True):
        rows[name] = ["1000", repr(float(1000 * ratio))]
    for suite, off in PAPER.items():
        spread = 1.3
        for at, factor in enumerate((spread, 1 / spread)):
            name = f"{suite.lower().replace(' ', '')}_{at}_per_s"
            rows[name] = ["50", repr(50 * 4.5 * (1 + off) * factor)]
    return "\n".join([",".join(rows), *(",".join(cells) for cells in zip(*rows.values(), strict=True))])


def of_paper(**changes: object) -> Projection:
    fields = {
        "targets": tuple(WATTS),
        "weights": WATTS,
        "method": GEOMEAN,
        "calibration": "SKU1",
        "suites": SUITES,
    }
    return project(csv_table(paper()), Question(**fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_projects_sku4_with_the_error_of_dcperf_section_4_1(suite: str) -> None:
    found = of_paper(use=SUITES[suite], suites={})
    first, fourth = found.machines
    assert (first.error_ratio, first.over_calibration) == (pytest.approx(0), pytest.approx(1))
    assert fourth.actual == pytest.approx(4.5)
    assert fourth.projected == pytest.approx(4.5 * (1 + PAPER[suite]))
    assert fourth.error_ratio == pytest.approx(PAPER[suite])


def test_dcperf_is_the_nearest_of_three_suites() -> None:
    found = of_paper()
    named = [one for one in found.suites if one.name != "all"]
    assert [one.name for one in named] == ["DCPerf", "SPEC 2006", "SPEC 2017"]
    assert [one.scaled_median_error_ratio for one in named] == [pytest.approx(off) for off in PAPER.values()]


HAND = "machine,web_per_s,a_per_s,b_s\nbase,100,10,4\nfast,250,40,1\nnew,,20,2\npart,,20,\n"


def test_numbers_by_hand() -> None:
    found = project(csv_table(HAND), Question(("web_per_s",), method=GEOMEAN))
    base, fast, new, part = found.machines
    # fast: 4 times in a, a quarter of the time in b: 4 times. new: twice in both.
    assert [one.projected for one in (base, fast, new)] == [
        pytest.approx(100),
        pytest.approx(400),
        pytest.approx(200),
    ]
    assert fast.error_ratio == pytest.approx(0.6)
    assert (part.projected, part.missing) == (None, "b_s: the cell is empty")
    assert found.error is not None
    assert (found.error.machines, found.error.median_error_ratio) == (1, pytest.approx(0.6))


def test_a_target_of_which_less_is_better_is_inverted() -> None:
    table = csv_table("machine,page_latency_ms,a_per_s\nbase,80,10\nnew,,40\n")
    found = project(table, Question(("page_latency_ms",), method=GEOMEAN))
    assert found.machines[1].projected == pytest.approx(0.080 / 4)
    assert found.machines[1].over_calibration == pytest.approx(0.25)


def test_weights_move_the_mean_of_targets() -> None:
    text = "machine,x_per_s,y_per_s,a_per_s\nbase,1,1,1\nother,16,2,8\n"
    targets = ("x_per_s", "y_per_s")
    even = project(csv_table(text), Question(targets, method=GEOMEAN))
    heavy = project(csv_table(text), Question(targets, {"x_per_s": 3.0}, method=GEOMEAN))
    assert even.machines[1].actual == pytest.approx((16 * 2) ** 0.5)
    assert heavy.machines[1].actual == pytest.approx((16**3 * 2) ** 0.25)


@pytest.mark.parametrize(
    ("machine", "why"), [("part", "part has no web_per_s"), ("half", "half lacks b_s: it cannot calibrate")]
)
def test_a_machine_that_lacks_something_cannot_calibrate(machine: str, why: str) -> None:
    table = csv_table(HAND + "half,90,9,\n")
    with pytest.raises(UsageError, match=why) as caught:
        project(table, Question(("web_per_s",), method=GEOMEAN, calibration=machine))
    assert "--calibration" in str(caught.value.hint)


def test_few_machines_are_projected_by_the_mean_with_the_reason() -> None:
    found = project(csv_table(HAND), Question(("web_per_s",)))
    assert found.method == GEOMEAN
    assert found.notes[-1] == ("A model needs 8 machines with a known web_per_s; there are 2.")
