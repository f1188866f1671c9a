"""The reference page is the code's."""

from pathlib import Path

from steelyard.bench.operations.sources import reference

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "operations.md"


def test_the_reference_page_is_generated() -> None:
    assert PAGE.read_text() == reference(), (
        "python -m steelyard.bench.operations.sources > docs/reference/operations.md"
    )
