"""The guide on fleets: its commands work as they stand, from an agent on this machine to the pages."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from steelyard.fleet.cpi.evidence import Bar
from steelyard.fleet.simulate.settings import Settings

from .servers import ROOT, executable
from .test_agent import task

GUIDE = ROOT / "docs" / "guides" / "fleet.md"


def commands() -> list[tuple[list[str], int]]:
    """Return the commands of the guide in order, each with the exit code that the guide says it has."""
    found = []
    for block in re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL):
        for line in block.splitlines():
            said = re.search(r"# exit code (\d)", line)
            found.append((shlex.split(line, comments=True), int(said[1]) if said else 0))
    return found


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(executable(words[0])), *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=100, check=False)


def test_the_fleet_of_the_guide_has_enough_windows_to_name_an_antagonist() -> None:
    words = next(words for words, _ in commands() if words[1:3] == ["fleet", "simulate"])
    step_s = int(words[words.index("--step-s") + 1]) if "--step-s" in words else Settings().step_s
    assert Bar().evidence_s / step_s >= Bar().fewest_windows


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_guide_works_from_an_agent_to_the_pages(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("control groups are made by root only")
    [configuration] = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    (tmp_path / "agent.toml").write_text(configuration)
    job = f"guide-{os.getpid()}"
    answers = {}
    with task(job):
        for words, code in commands():
            done = run(words, tmp_path)
            line = shlex.join(words)
            assert done.returncode == code, f"{line}: {done.returncode}\n{done.stdout}{done.stderr}"
            assert not done.stderr or "Traceback" not in done.stderr
            answers[line] = done.stdout
            if "--report" in words:
                page = (tmp_path / words[words.index("--report") + 1]).read_text()
                assert "</html>" in page, line
    assert f'"job":"{job}"' in answers["steelyard-agent tasks --config agent.toml"]
    counted = json.loads(run(["steelyard", "fleet", "check", "--store", "fleet", "--json"], tmp_path).stdout)
    assert counted, "the agent's store can be read"
    hottest = run(["steelyard", "fleet", "top", "--store", "fleet", "--job", job, "--json"], tmp_path)
    assert hottest.returncode == 0, hottest.stderr
    incidents = next(text for line, text in answers.items() if " cpi incidents " in line)
    named = re.search(r"an antagonist named by the rule in (\d+)", incidents)
    assert named is not None, incidents[:300]
    assert int(named[1]) > 50
    refused = next(text for line, text in answers.items() if " rue " in line)
    assert "refused" in refused
