"""`steelyard-probe watch` beside real programs."""

import json
import subprocess
import sys
from pathlib import Path

from steelyard import telemetry
from steelyard._base import executable
from steelyard.analyze.pressure.thread_readings import read_looks
from steelyard.analyze.pressure.threads import OWN_THREADS, observe_target

PROGRAM = """
import threading, time
end = time.monotonic() + 0.8
asleep = threading.Event()
threading.Thread(target=asleep.wait, args=(0.8,)).start()
print("ready", flush=True)
while time.monotonic() < end:
    pass
"""


def watch(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(executable("steelyard-probe")), "watch", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_it_ends_with_the_program_and_tells_running_from_sleeping(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        done = watch("--pid", str(program.pid), "--interval", "50ms", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "telemetry.json").read_text())["end_reason"] == "target"
    with telemetry.open(tmp_path) as recording:
        assert recording.sources == ["target", "target_process", "target_thread"]
        found = observe_target(read_looks(recording, 0, 2**62))
    assert found is not None
    assert found.threads_high == 2
    assert found.busiest_wanted_ratio.value is not None
    assert found.busiest_wanted_ratio.value > 0.7
    # One of two threads sleeps in one long wait, which is a rest and no contention for a lock.
    assert found.wait("lock") < 0.1
    assert 0.2 < found.wait(OWN_THREADS) < 0.6
    assert found.rss_high_bytes.value is not None
    assert found.rss_high_bytes.value > 1 << 20


def test_what_is_not_there_is_reported_in_one_line(tmp_path: Path) -> None:
    for named in (("--pid", "4194304"), ("--cgroup", "/sys/fs/cgroup/no-such-group")):
        done = watch(*named, "--out", str(tmp_path / "out"))
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert "does not exist: nothing to watch" in done.stderr
    assert watch("--out", str(tmp_path / "out")).returncode == 2
    assert not list(tmp_path.iterdir())
