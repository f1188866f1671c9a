"""The command that a comparison of profiles names runs as it stands."""

import shlex
from pathlib import Path

from tests.agents.client import Agent, converse
from tests.calling import call
from tests.folded import folded
from tests.report.runs import write_run


def test_the_command_of_a_comparison_runs(tmp_path: Path) -> None:
    for at, name in enumerate(("run-1", "run 2"), start=1):
        write_run(tmp_path / "runs" / name, index=at)
        folded(tmp_path / "runs" / name, {"web;main [web]": 100 * at}, name="profile.folded")
    said = {}

    async def say(agent: Agent) -> None:
        said.update(await agent.data("profile_diff", a="run-1", b="run 2"))

    converse(tmp_path / "runs", say=say)
    assert said["shown_by"] == "steelyard profile diff runs/run-1 'runs/run 2'"
    done = call(*shlex.split(said["shown_by"])[1:], folder=tmp_path)
    assert done.returncode in (0, 1), done.stderr
