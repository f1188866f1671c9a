"""The concept pages: their examples run, and their tables are the code's."""

import doctest
import re
from pathlib import Path

from steelyard.analyze.pressure.intensities import THRESHOLDS

CONCEPTS = Path(__file__).resolve().parents[3] / "docs" / "concepts"


def test_the_examples_of_the_iron_law_page_run() -> None:
    result = doctest.testfile(str(CONCEPTS / "iron-law.md"), module_relative=False)
    assert result.attempted >= 10
    assert result.failed == 0


def test_the_thresholds_of_the_pressure_points_page_are_the_codes() -> None:
    rows = re.findall(
        r"(?m)^\| `(\w+)` \|.*\| (\d\.\d+)[^|]*\|$", (CONCEPTS / "pressure-points.md").read_text()
    )
    assert {part: float(ratio) for part, ratio in rows} == THRESHOLDS
