"""Steelyard killed in the measure phase: no process stays, and the next start removes the data.

The wiki, Cassandra, Django and Hadoop have tests of their own for it.
"""

import signal
from pathlib import Path

import pytest

from steelyard.bench import undo
from steelyard.records import RunStatus
from tests.bench.conftest import linked_stacks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

CACHE = ("memory=64MiB", "measure=60")
CASES = {
    "redis": ("measure=60",),
    "memcached": CACHE,
    "caching": CACHE,
    "rocksdb": ("keys=20000", "step=60"),
    "social": ("users=100", "warmup_min=1", "warmup_max=2", "measure=60"),
    "spark": ("scale=1MB", "warmups=0", "queries=1000"),
    "als": ("ratings=20000", "warmups=0", "iterations=5", "fits=1000"),
}
"""Benchmark -> the shortest settings that lead to a long measure phase."""
PAYLOADS = {"social": ("cassandra", "django"), "spark": ("spark",), "als": ("spark",)}
WRITTEN_BEFORE = {"rocksdb": "readrandom_one"}
"""Benchmark -> process that begins when the data are there, where that is within the measure phase."""
KEPT = {"cassandra", "config", "counters", "logs", "redis", "spark-events", "target", "telemetry", "topdown"}
"""Folders of a run that hold no data of its servers: settings, logs, records."""


@pytest.mark.parametrize("name", CASES)
def test_a_killed_steelyard_leaves_no_process_and_no_data(runner, monkeypatch, tmp_path, name):
    stacks = linked_stacks(tmp_path, *PAYLOADS.get(name, ()))
    monkeypatch.setenv("STEELYARD_STACKS", str(stacks))
    monkeypatch.setenv("XDG_STATE_HOME", str(runner.state))
    live = runner.start(benchmark=name, settings=CASES[name])
    live.until(lambda: live.in_phase("measure"), 300)
    live.until(lambda: live.pid_of(WRITTEN_BEFORE[name]) if name in WRITTEN_BEFORE else live.left(), 60)
    if name in PAYLOADS:
        assert not live.unpacks_elsewhere()
    live.process.kill()
    assert live.finish()[0] == -signal.SIGKILL
    live.until(lambda: not live.left(), 60)
    run = live.run()
    assert (run.status, run.verdict, run.metrics) == (RunStatus.INCOMPLETE, None, {})
    assert "was killed in phase measure" in run.status_reason
    undo.replay()
    assert list(undo.journal_dir().glob("*")) == []
    assert {path.name for path in Path(live.directory).iterdir() if path.is_dir()} <= KEPT
    # What was prepared for all runs is whole; nothing is half made.
    assert not list((stacks / "prepared").glob("*/steelyard-*"))
