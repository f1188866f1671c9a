"""A soft SKU with a misspelt knob is refused, and one without a knob of the machine is no agreement."""

from pathlib import Path

import pytest

from steelyard.cli.main import invoke
from tests.tune.machines import make_machine


@pytest.mark.parametrize("command", ["verify", "apply"])
def test_a_misspelt_knob_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    machine = make_machine(tmp_path / "machine")
    softsku = tmp_path / "softsku.toml"
    softsku.write_text('[[knob]]\nname = "dirty_rato"\nlevel = "40"\n')
    assert invoke(["tune", command, str(softsku), "--root", str(machine)]) == 2
    assert "unknown knob 'dirty_rato', did you mean dirty_ratio?" in capsys.readouterr().err
    softsku.write_text('[[knob]]\nname = "level"\nlevel = "6"\n')
    assert invoke(["tune", "verify", str(softsku), "--root", str(machine)]) == 1
    out = capsys.readouterr().out
    assert "has no knob of the machine" in out
    assert "the machine has the values" not in out
