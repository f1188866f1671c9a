"""docs/scale.md says what its measured bytes and stated prices come to, to the digit."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def _scale():
    spec = importlib.util.spec_from_file_location("scale", ROOT / "benches" / "fleet" / "scale.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_document_holds_the_figures_of_the_measurements() -> None:
    text = (ROOT / "docs" / "scale.md").read_text()
    measured = json.loads((ROOT / "docs" / "scale.json").read_text())
    assert _scale().rendered(text, measured) == text


def _default(key: str) -> float:
    """The agent's default, from the reference that its own tests compare with its code."""
    row = re.search(
        rf"^\| `{re.escape(key)}` \| `([^`]+)` \|", (ROOT / "docs/reference/agent.md").read_text(), re.M
    )
    assert row is not None
    return float(row[1])


def test_the_document_states_the_rates_of_the_agent_and_of_the_simulation() -> None:
    from steelyard.fleet.simulate.profiles import HZ

    text = " ".join((ROOT / "docs" / "scale.md").read_text().split())
    assert (
        f"{_default('profiles.minutes_ratio'):.0%} of machine-minutes are profiled".replace("%", " %") in text
    )
    assert f"The agent's default is {_default('profiles.hz'):g} Hz" in text
    assert f"the simulated fleet was profiled at {HZ:g} Hz" in text


def test_a_day_of_a_million_machines_is_what_multiplication_says() -> None:
    scale = _scale()
    measured = json.loads((ROOT / "docs" / "scale.json").read_text())
    tasks = measured["tables"]["task_samples"]
    rows = next(line for line in scale.volume(measured) if line.startswith("| task_samples"))
    per_row = tasks["compacted_bytes_per_row"]
    assert "28.80 billion" in rows
    assert float(rows.split("|")[4]) == pytest.approx(1e6 * 20 * 1440 * per_row / 1e12, abs=0.006)
