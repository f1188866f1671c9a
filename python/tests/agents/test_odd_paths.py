"""A path that ``list_runs`` gives opens its folder, whatever the folder is called."""

import os
import unicodedata
from pathlib import Path

import pytest

from tests.agents.client import Agent, converse
from tests.cli.suites import write_suite
from tests.folded import folded
from tests.report.runs import write_run
from tests.web.serving import many_runs

ODD = (
    "esc\x1b[31mred", "bidi\u202eder", "new\nline", " two  spaces ", "100%41", "a%1Bb", "\u2028", "l" * 250
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd") / "runs"
    for index, name in enumerate(ODD, start=1):
        run = write_run(folder / name, index=index, without=("telemetry", "cache_stats"))
        folded(run, {"web;main [web]": 10}, "# hz: 99\n", name="profile.folded")
    suite = "suite\x1b" + "s" * 200
    write_suite(folder / suite, ("tao", "feed"))
    os.rename(folder / suite / "tao-1", folder / suite / ("tao\x07" + "t" * 240))
    return folder


def test_paths_are_given_back_unchanged(runs: Path) -> None:
    async def say(agent: Agent) -> None:
        listed = (await agent.data("list_runs"))["folders"]
        paths = [one["path"] for one in listed]
        assert len(set(paths)) == len(ODD) + 1
        kinds = {unicodedata.category(letter) for path in paths for letter in path}
        assert not kinds & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
        assert {"esc%1B[31mred", "bidi%E2%80%AEder", "a%251Bb", "100%2541"} <= set(paths)
        for one in listed:
            assert (await agent.data("explain_run", path=one["path"]))["path"] == one["path"]
            for part in ("figures", "checks", "findings") if one["kind"] == "run" else ("figures",):
                found = await agent.data("explain_run", path=one["path"], part=part)
                assert found["path"] == one["path"]
            if one["kind"] == "run":
                await agent.call("profile_top", path=one["path"])
        good = [one["path"] for one in listed if one["kind"] == "run"]
        for other in good[1:]:
            await agent.call("compare_runs", paths=[good[0], other])
        await agent.call("profile_diff", a=good[0], b=good[1])
        (suite,) = (one["path"] for one in listed if one["kind"] == "suite")
        members = (await agent.data("explain_run", path=suite))["members"]
        in_list = {one["path"] for one in (await agent.data("list_runs", benchmark="tao"))["folders"]}
        assert {one["path"] for one in members if one["benchmark"] == "tao"} <= in_list
        for one in members:
            assert (await agent.data("explain_run", path=one["path"]))["path"] == one["path"]
        # One who types the name as it is gets the folder too.
        assert (await agent.data("explain_run", path="a%1Bb"))["path"] == "a%251Bb"

    for answer in converse(runs, say=say):
        assert str(runs) not in answer


def test_folders_that_are_not_looked_into_are_named(tmp_path: Path) -> None:
    many_runs(tmp_path / "runs" / "series", 2)

    async def say(agent: Agent) -> None:
        found = await agent.data("list_runs")
        assert found["total"] == 0
        assert found["not_read"] == "1 folder has no record and was not searched for runs: series"

    converse(tmp_path / "runs", say=say)


def test_a_summary_says_what_is_lacking(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    run = write_run(root / "run-1")
    (run / "machine.json").unlink()
    os.mkfifo(run / "machine.json")
    recording = run / "telemetry" / "telemetry.json"
    recording.write_bytes(recording.read_bytes()[:300])

    async def say(agent: Agent) -> None:
        said = (await agent.data("explain_run", path="run-1"))["not_measured"]
        assert said.startswith("machine inventory: machine.json: not a regular file but a named pipe; ")
        assert "telemetry: telemetry/telemetry.json: not JSON" in said

    for answer in converse(root, say=say):
        assert str(tmp_path) not in answer
