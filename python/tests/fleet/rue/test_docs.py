"""What ``docs/concepts/rue.md`` says is what the program does."""

import re
from pathlib import Path

from steelyard.cli.fleet.rue import rue
from steelyard.fleet.rue import strata as rue_strata
from tests.fleet.rue.test_usage import PUBLISHED

TEXT = (Path(__file__).resolve().parents[4] / "docs/concepts/rue.md").read_text()


def test_the_table_is_the_one_that_is_tested():
    for group, pairs in PUBLISHED.items():
        (share1, rue1), (share2, rue2) = pairs
        row = f"| {group} | {share1:.2f} % | {rue1:.0f} | {share2:.2f} % | {rue2:.0f} | {rue1 / rue2:.2f} |"
        assert row in TEXT, row


def test_numbers_and_options_are_those_of_the_program():
    words = {3: "three", 5: "five"}
    assert f"{words[rue_strata.FACTORS_AT_MOST]} at most" in TEXT
    assert f"({words[rue_strata.FOLDS]} folds)" in TEXT
    assert f"explain {rue_strata.LEAST_GAIN_RATIO * 100:g} % more" in TEXT
    known = {one.name.replace("_", "-") for one in rue.options}
    assert set(re.findall(r"`--([a-z-]+)", TEXT)) <= known
