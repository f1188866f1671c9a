"""Levels with commas, from a user's file: a tuning that was interrupted goes on with them."""

from __future__ import annotations

import shutil
from pathlib import Path

from steelyard.tune import session
from steelyard.tune.begin import begin, knobs_again
from steelyard.tune.request import TuneRequest
from tests.tune.machines import make_machine

KNOBS = """
[[knob]]
environment = "LISTED"
levels = ["0,1", "1,2"]

[[knob]]
name = "service_cpus"
file = "{file}"
template = "cpus = {{value}}\\n"
levels = ["0,1", "2,3"]
"""


def test_a_tuning_with_such_levels_goes_on(tmp_path: Path) -> None:
    machine, config = make_machine(tmp_path / "machine"), tmp_path / "service.conf"
    config.write_text("cpus = 0\n")
    mine = tmp_path / "mine.toml"
    mine.write_text(KNOBS.format(file=config))
    tuning, _ = begin(TuneRequest(command=["true"], user_file=mine, root=machine, risk="high"))
    tried = {one.name: list(one.levels) for one in tuning.knobs if one.reason is None}
    assert (tried["env:LISTED"], tried["service_cpus"]) == (["0,1", "1,2"], ["0,1", "2,3"])
    shutil.copyfile(mine, tmp_path / session.USER_FILE)
    knobs = knobs_again(tuning, tmp_path)
    for name in ("env:LISTED", "service_cpus"):
        assert set(tried[name]) <= set(knobs[name].levels)
        for level in tried[name]:
            knobs[name].check(level)
