"""The page of a tuning: what it found stands there, and a name from outside is a text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from steelyard._base import schemas_dir
from steelyard.cli.main import invoke
from steelyard.report.answer.page import write_page
from steelyard.report.tune.answer import answer
from steelyard.report.tune.words import gain_text, heading
from tests.tune.surface import LEVELS, Surface, tune, tuning

HOSTILE = "<script>alert(1)</script>"


def text_of(path: Path) -> str:
    """Return what a reader sees of a page, without scripts and styles."""
    page = re.sub(r"<(script|style)\b.*?</\1>", "", path.read_text(), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", page).replace("&#39;", "'").split())


def test_the_page_has_every_level_with_its_gain(tmp_path: Path) -> None:
    known = {name: LEVELS[name] for name in ("thp_enabled", "code_data_ways", "governor")}
    record = tune(Surface(np.random.default_rng(1), 0.004), tuning(1, known=known))
    assert record.outcome == "better"
    shown = text_of(write_page(tmp_path / "page.html", answer(record)))
    assert heading(record) in shown
    for one in record.evidence:
        assert gain_text(one) in shown
        assert one.level is None or one.level in shown
    for title in ("Confirmation", "Ablation", "Search", "Knobs"):
        assert title in shown


def test_a_name_from_outside_is_a_text(tmp_path: Path) -> None:
    known = {HOSTILE: ("off", HOSTILE)}
    record = tune(
        Surface(np.random.default_rng(1), function=lambda _: 100.0), tuning(1, known=known, blocks=8)
    )
    evidence = [one.model_copy(update={"reason": HOSTILE, "outcome": "dropped"}) for one in record.evidence]
    record = record.model_copy(update={"evidence": evidence, "command": [HOSTILE], "benchmark": HOSTILE})
    page = write_page(tmp_path / "page.html", answer(record)).read_text()
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_show_writes_a_page_and_advice_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tuning.json").write_text((schemas_dir() / "golden/tuning.json").read_text())
    page = tmp_path / "page.html"
    assert invoke(["tune", "show", str(tmp_path), "--report", str(page)]) == 1
    assert f"report: {page}" in capsys.readouterr().out
    assert "Not decided: what won alone was not confirmed" in text_of(page)
    assert invoke(["tune", "run", "--advice", "--report", str(page), "--", "true"]) == 2
    assert "--advice tries nothing" in capsys.readouterr().err
