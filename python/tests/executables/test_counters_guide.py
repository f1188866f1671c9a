"""The guide on counters: its commands work as they stand."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from steelyard.records import CounterPlan, parse

from .servers import ROOT, executable

GUIDE = ROOT / "docs" / "guides" / "counters.md"


def commands() -> list[list[str]]:
    """Return the commands of the guide, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines() if line.strip()]


def plan() -> str:
    """Return the plan of the guide."""
    [text] = re.findall(r"```json\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    return str(text)


def test_the_plan_of_the_guide_is_one() -> None:
    names = [event.name for event in parse(CounterPlan, plan(), where="guide").events]
    assert names == ["cycles", "instructions", "page-faults", "context-switches"]


@pytest.mark.parametrize("number", range(len(commands())))
def test_a_command_of_the_guide_works(number: int, tmp_path: Path) -> None:
    command = commands()[number]
    (tmp_path / "plan.json").write_text(plan())
    words = [str(executable(command[0])), *command[1:]]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    if "--check" in command:
        # 1 is an answer: this machine may have no hardware counters; 3, it may let nobody count.
        assert done.returncode in (0, 1, 3), done.stderr
        assert "page-faults" in (json.dumps(json.loads(done.stdout)) if "--json" in command else done.stdout)
        return
    assert done.returncode == 0, done.stderr
    telemetry = json.loads((tmp_path / command[command.index("--out") + 1] / "telemetry.json").read_text())
    [counters] = [source for source in telemetry["sources"] if source["name"] == "counters"]
    assert counters["rows"] > 0 or counters["reason"] or counters["missing_items"]
