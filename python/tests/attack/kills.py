"""kill -9 of runs, characterizations and agents at any time: nothing may stay, no row be lost or doubled."""

import os
import random
import signal
import subprocess
import time
import uuid
from contextlib import suppress
from pathlib import Path

from .figures import Figures, executable, steelyard

MARK = "STEELYARD_ATTACK"
# What a killed starter's processes have to end in.
GRACE_S = 5.0


def marked(mark: str) -> list[int]:
    """Return the processes that have ``mark`` in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def started(command: list[str], folder: Path, mark: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, MARK: mark}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, env=environment, cwd=folder)


def kill_and_look(figures: Figures, process: "subprocess.Popen[bytes]", mark: str, what: str) -> None:
    """Kill a process, and count what of it is still there after the grace; that is killed too."""
    figures.tried += 1
    process.send_signal(signal.SIGKILL)
    process.wait()
    look_for_orphans(figures, mark, what)


def look_for_orphans(figures: Figures, mark: str, what: str) -> None:
    """Count what with this mark is still there after the grace; it is killed too."""
    end = time.monotonic() + GRACE_S
    while (left := marked(f"{MARK}={mark}")) and time.monotonic() < end:
        time.sleep(0.05)
    for pid in left:
        with suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            figures.note("orphaned", f"{name} of {what}")
            os.kill(pid, signal.SIGKILL)


def runs(figures: Figures, folder: Path, chosen: random.Random, seconds: float) -> None:
    """Kill runs of the control plane at random times, which are all of their phases."""
    commands = [steelyard("run", "smoke", "--out", folder / "runs")]
    commands += [steelyard("characterize", "--duration", "3s", "--out", folder / "runs", "--", "sleep", "30")]
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end or number < len(commands):
        command, mark = commands[number % len(commands)], uuid.uuid4().hex
        process = started(command, folder, mark)
        delay_s = chosen.uniform(0.2, min(20.0, max(3.0, seconds / 4)))
        with suppress(subprocess.TimeoutExpired):
            process.wait(delay_s)
        kill_and_look(figures, process, mark, f"{' '.join(command[3:5])} after {delay_s:.2f} s")
        number += 1


def machine(folder: Path) -> Path:
    """Return a machine with one control group, made of files."""
    files = {"proc/mounts": "c /c cgroup2 rw 0 0\n", "proc/stat": "cpu  1 0 0 0 0 0 0 0\ncpu0 1\n"}
    files |= {"proc/sys/kernel/hostname": "m1\n", "c/system.slice/a.service/cgroup.procs": "1\n"}
    files |= {"c/system.slice/a.service/cpu.stat": "usage_usec 5\n"}
    for name, text in files.items():
        path = folder / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "root"


def is_at(point: str, spool: Path, store: Path) -> bool:
    """Whether an agent has come to a point at which it is worth being killed."""
    where = {"journal": spool / "journal", "sealed": spool / "ready", "stored": store / "task_samples"}
    return any(path.is_file() and path.stat().st_size > 0 for path in where[point].rglob("*"))


def agents(figures: Figures, folder: Path, chosen: random.Random, seconds: float) -> None:
    """Kill agents at chosen points and random times, and count the rows of what they had written down."""
    from steelyard.fleet.store.store import open_store
    from steelyard.telemetry.engine import fetch_rows

    spool, store = folder / "agent-spool", folder / "agent-store"
    config = folder / "once.toml"
    config.write_text('metrics.listen = ""\n[sampling]\nwindow_s = 0.1\n[profiles]\nminutes_ratio = 0\n')
    command = [
        executable("steelyard-agent"),
        "run",
        "--once",
        "--config",
        str(config),
        "--root",
        str(machine(folder)),
    ]
    command += ["--spool", str(spool), "--store", str(store), "--create-store"]
    sealed: set[str] = set()
    ended = 0
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end or number < 6:
        mark, point = uuid.uuid4().hex, ["journal", "sealed", "stored", "random"][number % 4]
        process = started(command, folder, mark)
        limit = time.monotonic() + (chosen.uniform(0.05, 1.5) if point == "random" else 20)
        while process.poll() is None and time.monotonic() < limit:
            if point != "random" and is_at(point, spool, store):
                time.sleep(chosen.uniform(0, 0.01))
                break
        for path in (spool / "ready").glob("*,task_samples,*.parquet"):
            sealed.add(path.name.rsplit(",", 1)[1])
        ended += process.poll() == 0
        kill_and_look(figures, process, mark, f"an agent at {point}")
        number += 1
    last = subprocess.run(command, capture_output=True, timeout=120, check=False)
    if last.returncode != 0:
        figures.note(
            "lost", f"the agent after the kills ends with {last.returncode}: {last.stderr.decode().strip()}"
        )
        return
    rows = [
        (row["task"], row["window_start_unix_s"])
        for row in fetch_rows(open_store(str(store)).table("task_samples"))
    ]
    if doubled := len(rows) - len(set(rows)):
        figures.note("doubled", f"{doubled} of {len(rows)} rows", doubled)
    # What was sealed once is a file of the store, and each agent that ended well has a window there.
    stored = {path.name for path in (store / "task_samples").rglob("*.parquet")}
    if missing := sealed - stored:
        figures.note("lost", f"{len(missing)} sealed files: {sorted(missing)[0]}", len(missing))
    if len(rows) < ended + 1:
        figures.note(
            "lost",
            f"{ended + 1} windows were acknowledged, {len(rows)} rows are stored",
            ended + 1 - len(rows),
        )
    left = [path for name in ("journal", "ready") for path in (spool / name).iterdir()]
    if left:
        figures.note("lost", f"{len(left)} files stay in the spool", len(left))


def attack(folder: Path, seconds: float, seed: int) -> Figures:
    """Kill runs for half of the time and agents for the other."""
    figures, chosen = Figures(), random.Random(seed)
    runs(figures, folder, chosen, seconds / 2)
    agents(figures, folder, chosen, seconds / 2)
    return figures
