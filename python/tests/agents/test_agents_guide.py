"""The guide on agents: its block of settings starts a server, and its table is the list of tools."""

import json
import re
import shlex
from pathlib import Path

import pytest

from steelyard.agents.tools import tools
from steelyard.agents.wire import MOST_BYTES
from steelyard.cli.main import parser_of
from tests.agents.client import Agent, converse
from tests.agents.test_tools import SERVERS
from tests.report.runs import write_run

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "agents.md"
TEXT = GUIDE.read_text()


def test_the_block_of_settings_starts_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "runs" / "run-1")
    (tmp_path / "servers.csv").write_text(SERVERS)
    (block,) = re.findall(r"^```json\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    server = json.loads(block)["mcpServers"]["steelyard"]
    assert (server["command"], server["args"][0]) == ("steelyard", "mcp")
    monkeypatch.chdir(tmp_path)

    async def say(agent: Agent) -> None:
        assert (await agent.data("list_runs"))["total"] == 1
        assert (await agent.data("choose", table="servers.csv"))["figures"]

    converse(*server["args"][1:], say=say)


def test_the_table_names_every_tool() -> None:
    named = re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)
    assert named == list(dict.fromkeys(named))
    assert set(named) == set(tools(allow_run=True))
    assert MOST_BYTES == 1 << 20


def test_its_commands_are_understood() -> None:

    (line,) = [line.strip() for line in TEXT.splitlines() if line.startswith("    steelyard ")]
    words = shlex.split(line)
    parser_of().commands["mcp"].make_context("mcp", words[2:])
