"""``steelyard.run``: a real run, made and read by a program."""

from pathlib import Path

import pytest

import steelyard
from steelyard.bench import runs
from tests.bench.test_runs import SETTLED


def test_a_program_makes_a_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    settings = {**SETTLED, "rate": 1000, "warmup_max": 1}
    found = steelyard.run("tao", tier="smoke", settings=settings, out=tmp_path)
    assert found.folder.parent == tmp_path
    assert found.record == runs.load(found.folder)
    value = found.metrics["requests_per_s"].value
    assert value == pytest.approx(1000, rel=0.2)
    assert found.record.parameters["rate"].value == 1000
    assert found.verdict is not None
    assert capfd.readouterr().out == "", "what it tells goes to standard error"
