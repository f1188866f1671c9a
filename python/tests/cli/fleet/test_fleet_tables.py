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
    "place": ["after", "(a machine more )?saves"],
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


@pytest.mark.parametrize("columns", [60, 76, 84, 95, 130])
def test_no_column_vanishes_without_a_word(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    store = simulated_store(machines=12, days=1, platforms=2, clusters=1, step_s=120)
    assert invoke(["fleet", "pair", "--store", str(store)]) in (0, 1)
    lines = capsys.readouterr().out.splitlines()
    rule = next(at for at, line in enumerate(lines) if set(line.strip()) == {"─"})
    head = [line for line in lines[rule - 3 : rule] if line.strip()]
    lost = " ".join(line for line in lines if line.startswith("no room here for"))
    for name in ("jobs", "verdict", "why", "first", "second"):
        shown = any(name in line.split() for line in head)
        assert shown or name in lost, (columns, name)
    # Each column that is shown has something in a row.
    last = head[-1]
    for name in last.split():
        at = last.rindex(name)
        cells = [line[at : at + len(name)].strip() for line in lines[rule + 1 : rule + 12]]
        assert any(cells), (columns, name)
