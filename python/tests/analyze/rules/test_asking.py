"""How rules are found, registered and asked."""

from importlib.metadata import EntryPoint

import pytest

from steelyard.analyze.rules import explain as asking


def test_rules_of_others_come_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("good", "string:Template", asking.GROUP),
        EntryPoint("bad", "no_such_module_here", asking.GROUP),
    ]
    monkeypatch.setattr(asking, "entry_points", lambda group: points)
    (problem,) = asking.load_rules.__wrapped__()
    assert "rules bad (no_such_module_here) cannot be loaded" in problem
