"""Every check that can object says what to do."""

import re
from pathlib import Path

import pytest

from steelyard.analyze.advice import ADVICE

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ("analyze/verdict.py", "bench/feed/metrics.py", "bench/characterize/metrics.py")
RUST = ("crates/load/src/verdict.rs", "crates/tax/src/verdict.rs")
SEARCH = "crates/load/src/capacity/report.rs"


def ids_in_rust(source: str) -> set[str]:
    source = source.partition("#[cfg(test)]")[0]
    return set(re.findall(r'\bcheck\(\s*"([a-z-]+)"', source)) | set(re.findall(r'\bid: "([a-z-]+)"', source))


def test_every_check_of_the_control_plane_has_advice() -> None:
    for name in PYTHON:
        source = (ROOT / "python/steelyard" / name).read_text()
        ids = set(re.findall(r'\bid="([a-z-]+)"', source)) | set(
            re.findall(r'_share\(\s*"([a-z-]+)"', source)
        )
        assert ids, name
        assert ids <= ADVICE.keys(), name


@pytest.mark.parametrize("name", RUST)
def test_every_check_of_the_data_plane_has_advice(name: str) -> None:
    ids = ids_in_rust((ROOT / name).read_text())
    assert len(ids) >= 4
    assert ids <= ADVICE.keys()


def test_every_check_of_a_search_has_advice() -> None:
    ids = ids_in_rust((ROOT / SEARCH).read_text())
    assert len(ids) >= 4
    assert {f"search-{one}" for one in ids} <= ADVICE.keys()


def test_advice_is_one_short_sentence() -> None:
    for name, text in ADVICE.items():
        assert len(text) < 110, name
        assert "\n" not in text
        assert text.endswith("...") or not text.endswith("."), name
