"""`steelyard-agent` reads the specifications of CPI that `fleet cpi specs` publishes, and survives others."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from steelyard.fleet.cpi.spec_store import publish
from steelyard.fleet.store.store import create_store

from . import servers
from .test_hostile import tree

NOW = int(time.time())
PLATFORM = "Some CPU/2 v1.0~é"
"""Each kind of letter that a name in a store is encoded for."""


def specs(jobs: str, count: int) -> list[dict[str, Any]]:
    """Return specifications of ``count`` jobs whose names begin with ``jobs``."""
    spec = {"platform": PLATFORM, "built_unix_s": NOW, "cpi_source": "cycles/instructions", "samples": 1000}
    spec |= {"tasks": 10, "cpu_usage_mean": 1.0, "cpi_mean": 1.5, "cpi_sd": 0.25}
    spec |= {"threshold_sigmas": 2.0, "threshold_cpi": 2.0}
    return [{**spec, "job": f"{jobs} {number}"} for number in range(count)]


@contextmanager
def guard(folder: Path, store: Path) -> Iterator[Callable[[], dict[str, str]]]:
    """An agent; yields what waits for the state of its specifications after they were read."""
    config = folder / "agent.toml"
    config.write_text(
        f'platform = "{PLATFORM}"\nmetrics.listen = ""\nprofiles.minutes_ratio = 0\n'
        "sampling = { period_s = 1, window_s = 0.1 }\n"
    )
    places = ["--root", tree(folder), "--spool", folder / "spool", "--store", store, "--config", config]
    command = [servers.executable("steelyard-agent"), "run", *places]
    process = subprocess.Popen([*map(str, command)], stderr=subprocess.DEVNULL)

    def state() -> dict[str, str]:
        log = folder / "spool" / "guard" / "audit.jsonl"
        end = time.monotonic() + 60
        while time.monotonic() < end:
            assert process.poll() is None
            text = log.read_text() if log.exists() else ""
            for line in text.splitlines(keepends=True):
                said: dict[str, str] = json.loads(line) if line.endswith("\n") else {}
                if said.get("what") == "spec" and "not pulled yet" not in said["outcome"]:
                    return said
            time.sleep(0.02)
        raise AssertionError(f"no specifications were read: {text}")

    try:
        yield state
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    place = tmp_path / "store"
    create_store(str(place))
    return place


def test_what_is_published_is_read(tmp_path: Path, store: Path) -> None:
    other = {**specs("elsewhere", 1)[0], "platform": "another"}
    (path, _) = publish(str(store), [*specs("web", 3), other])
    (again,) = publish(str(store), specs("ads", 2))
    assert again == path
    # For this machine's cluster alone, which is `default`.
    publish(str(store), specs("own", 1), cluster="default")
    with guard(tmp_path, store) as state:
        said = state()
    assert said["why"] == ""
    assert said["outcome"].startswith("6 specifications, ")


def test_a_hostile_file_keeps_nobody_waiting(tmp_path: Path, store: Path) -> None:
    (path,) = publish(str(store), specs("web", 3))
    publish(str(store), specs("own", 1), cluster="default")
    (store / path).write_text('{"specs": ' + "[" * (8 << 20))
    with guard(tmp_path, store) as state:
        said = state()
    assert said["outcome"].startswith("1 specification, ")
    assert f"{path}: not a cpi_specs record: EOF while parsing" in said["why"]


def test_specs_of_long_ago_are_published_no_longer(tmp_path: Path, store: Path) -> None:
    (old, web) = specs("old", 1)[0], specs("web", 1)[0]
    publish(str(store), [{**old, "built_unix_s": NOW - 15 * 86_400}, {**web, "built_unix_s": NOW - 86_400}])
    (path,) = publish(str(store), [{**web, "cpi_mean": 1.75}])
    (kept,) = json.loads((store / path).read_text())["specs"]
    assert (kept["job"], kept["cpi_mean"], kept["built_unix_s"]) == ("web 0", 1.75, NOW)
    with guard(tmp_path, store) as state:
        assert state()["outcome"].startswith("1 specification, ")
