"""Tables of the fleet's queries at 80 columns: none is wider, each has the column that answers."""

import re

import pytest

from steelyard.cli.main import invoke
from tests.fleet.simulated import simulated_store

COLUMNS = 80
ANSWERS = {
    "cpi specs": ["threshold"],
    "cpi outliers --specs computed": ["threshold"],
    "cpi incidents --specs computed": ["to cap"],
    "cpi distribution": ["distance"],
    "top": ["own"],
    "top --by job": ["share"],
    "diff to=2026-03-02T12:00 from=2026-03-02T12:00": ["verdict"],
    "numa": ["at 0.5 over 1", "caution"],
    "pair": ["verdict"],
    "place": ["after", "saves"],
    "pressure": ["presses on"],
    "smt": ["used capacity", "left"],
    "frequency": ["capped"],
    "rue --label config": [r"speedup \(interval\)"],
}


@pytest.mark.parametrize("words", ANSWERS)
def test_tables_fit_a_terminal(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    store = simulated_store(machines=12, days=1, platforms=2, clusters=1, step_s=120)
    # A comparison that refuses its total ends with 1.
    assert invoke(["fleet", *words.split(), "--store", str(store)]) in (0, 1)
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    lines = out.splitlines()
    assert [line for line in lines if len(line) > COLUMNS] == []
    # The first table is the answer's. Its heads end above its rule; long ones begin some lines higher.
    rule = next(at for at, line in enumerate(lines) if re.fullmatch(r"─+", line.strip()))
    for answer in ANSWERS[words]:
        assert re.search(rf"(^|  ){answer}(  |$)", lines[rule - 1]), lines[rule - 1]
    assert len(lines) > rule + 1, "a table has rows"
    # A column that had no room is named, so that it can be asked for.
    for line in lines:
        if line.startswith("no room here for: "):
            assert all(name.strip() for name in line.removeprefix("no room here for: ").split("; "))
