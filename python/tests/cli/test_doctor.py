"""``steelyard doctor`` as a user runs it, with the executables, without them, and with a probe that fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError, executable
from steelyard.cli.doctor import EXECUTABLES
from steelyard.cli.main import invoke

SOURCES = {"sources": [{"name": "cpu", "available": True, "about": "CPU time", "columns": []}]}


def programs(folder: Path, probe: str) -> Path:
    """Write executables that do nothing, and a probe that runs ``probe``."""
    for name in EXECUTABLES:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{probe if name == 'steelyard-probe' else 'exit 0'}\n", encoding="utf-8")
        path.chmod(0o755)
    return folder


def test_the_document_has_executables_capabilities_and_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = programs(tmp_path, f"echo '{json.dumps(SOURCES)}'")
    monkeypatch.setenv("STEELYARD_BIN_DIR", str(folder))
    assert invoke(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["sources"] == SOURCES["sources"]
    assert all(one["path"] for one in document["executables"])
    assert {"telemetry", "counters", "running", "conditions"} == {
        one["area"] for one in document["capabilities"]
    }


def test_without_executables_the_answer_is_3_and_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STEELYARD_BIN_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    assert invoke(["doctor"]) == 3
    output = capsys.readouterr().out
    assert "steelyard-load is missing: build it: make build" in output
    assert "steelyard-probe is missing" in output


def test_a_probe_that_fails_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for probe in ("exit 7", "echo nonsense", "echo '[]'", "echo '{}'"):
        monkeypatch.setenv("STEELYARD_BIN_DIR", str(programs(tmp_path, probe)))
        assert invoke(["doctor", "--json"]) == 4
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("steelyard: ")
        assert captured.err.count("\n") == 1


def test_the_real_probe_is_understood(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        executable("steelyard-probe")
    except EnvironmentLacksError as error:
        pytest.skip(f"{error.message}: {error.hint}")
    invoke(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    names = {one["name"] for one in document["sources"]}
    listed = {one["name"] for one in document["capabilities"] if one["area"] == "telemetry"}
    assert names == listed
    assert {"cpu", "memory", "disk", "network"} <= names


def test_a_pipe_gets_columns_as_wide_as_what_stands_in_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    invoke(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    head = next(line for line in lines if "how to enable" in line)
    below = lines[lines.index(head) + 1 :]
    assert len(head) <= max(map(len, below[: below.index("")]))
