"""`steelyard-agent` on this machine: windows that the fleet reads, kills, a store that is away."""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard._base import executable
from steelyard.fleet.store.store import open_store
from steelyard.telemetry.engine import fetch_rows

ROOT = Path(__file__).resolve().parents[3]
BUSY = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end:\n    sum(range(1000))\n"


def hierarchies() -> list[Path]:
    """Return where the hierarchies are that a task needs a folder in."""
    found, unified = [], None
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup2":
            unified = Path(point)
        elif kind == "cgroup" and {"cpu", "cpuacct", "memory", "blkio"} & set(options.split(",")):
            found.append(Path(point))
    return [*found, unified] if found and unified else found or [unified] if unified else found


@contextlib.contextmanager
def task(job: str) -> Iterator[str]:
    """A busy process in control groups of its own; yields the task's name."""
    folders = [place / "steelyard" / "batch" / job / "busy" for place in hierarchies()]
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cgroup.procs").write_text(str(process.pid))
        yield "busy"
    finally:
        process.kill()
        process.wait()
        for folder in folders:
            for each in (folder, *list(folder.parents)[:3]):
                with contextlib.suppress(OSError):
                    each.rmdir()


@pytest.fixture
def job() -> Iterator[str]:
    if os.geteuid() != 0:
        pytest.skip("control groups are made by root only")
    name = f"test-agent-{os.getpid()}"
    with task(name):
        yield name


def agent(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [str(executable("steelyard-agent")), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)  # type: ignore[call-overload, no-any-return]


def configuration(folder: Path, text: str) -> Path:
    path = folder / "agent.toml"
    path.write_text(text)
    return path


def rows_of(store: Path, table: str, job: str | None = None) -> list[dict[str, object]]:
    opened = open_store(str(store))
    rows = opened.table(table)
    assert not list(opened.problems)
    return list(fetch_rows(rows if job is None else rows.filter(rows.job == job)))


def test_one_window_is_read_by_the_fleet(tmp_path: Path, job: str) -> None:
    telemetry = tmp_path / "busy.prom"
    telemetry.write_text("requests_total 5\n")
    config = configuration(
        tmp_path,
        'labels = { rack = "7" }\n[sampling]\nwindow_s = 0.5\n[profiles]\nminutes_ratio = 1\nhz = 199\n'
        f'[[telemetry]]\njob = "{job}"\nfile = "{tmp_path}/${{task}}.prom"\noperations = "requests_total"\n',
    )
    store, spool = tmp_path / "store", tmp_path / "spool"
    # The store is named as a user in its folder does.
    given = {"--store": "store", "--spool": spool, "--config": config, "--cluster": "a b"}
    arguments = ("run", "--once", *(word for pair in given.items() for word in pair))
    refused = agent(*arguments, cwd=tmp_path)
    assert refused.returncode == 3
    assert "is no store" in refused.stderr
    assert "--create-store" in refused.stderr
    # What was sampled then waits, and goes with the next.
    done = agent(*arguments, "--create-store", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    samples = rows_of(store, "task_samples", job)
    assert len({row["window_start_unix_s"] for row in samples}) == len(samples) == 2
    row = samples[0]
    assert (row["task"], row["job_class"], row["cluster"]) == ("busy", "batch", "a b")
    assert 0.4 < row["window_s"] < 5
    # How much of a CPU it gets is the neighbours' choice; that it ran is not, and it has one thread.
    assert 0 < row["cpu_s"] <= row["window_s"] * 1.1
    assert row["operations"] == 0
    assert (row["cpi"] is None) == (row["cpi_source"] is None)
    machines = rows_of(store, "machines")
    assert machines[0]["labels"] in ({"rack": "7"}, [("rack", "7")])
    assert machines[0]["threads"] == os.cpu_count()
    whole = rows_of(store, "machine_samples")
    assert all(0 < row["cpu_s"] <= row["window_s"] * row["threads"] * 1.1 for row in whole)
    profiles = rows_of(store, "profiles", job)
    assert any("range" in row["stack"] or "[" in row["stack"] for row in profiles)
    assert all(row["sampled_ratio"] == 1 for row in profiles)
    assert not list((spool / "ready").iterdir()) + list((spool / "journal").iterdir())


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def windows_of(port: int) -> int:
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    line = next(line for line in page.splitlines() if line.startswith("steelyard_agent_windows_total "))
    return int(line.split()[1])


def test_kills_lose_and_double_nothing(tmp_path: Path, job: str) -> None:
    port = free_port()
    config = configuration(
        tmp_path,
        f'metrics.listen = "127.0.0.1:{port}"\n[sampling]\nperiod_s = 1\nwindow_s = 0.2\n'
        "[spool]\nbatch_minutes = 1\n[profiles]\nminutes_ratio = 0\n",
    )
    store, spool = tmp_path / "store", tmp_path / "spool"
    command = [str(executable("steelyard-agent")), "run", "--create-store", "--config", str(config)]
    command += ["--store", str(store), "--spool", str(spool)]
    randomly = random.Random(7)
    acknowledged = 0
    for _ in range(6):
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
            end = time.monotonic() + randomly.uniform(0.3, 2.5)
            known = 0
            while time.monotonic() < end:
                with contextlib.suppress(OSError):
                    known = windows_of(port)
                time.sleep(0.02)
            running.send_signal(signal.SIGKILL)
        acknowledged += known
    assert acknowledged >= 3
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as last:
        time.sleep(1.5)
        last.send_signal(signal.SIGTERM)
        assert last.wait(timeout=30) == 0
    starts = [row["window_start_unix_s"] for row in rows_of(store, "task_samples", job)]
    assert len(starts) == len(set(starts))
    assert len(starts) >= acknowledged
    machine = [row["window_start_unix_s"] for row in rows_of(store, "machine_samples")]
    assert len(machine) == len(set(machine)) >= acknowledged
    assert not (spool / "lost.json").exists()


def test_who_is_a_task_and_what_works(tmp_path: Path, job: str) -> None:
    tasks = [json.loads(line) for line in agent("tasks").stdout.splitlines()]
    mine = [one for one in tasks if one["job"] == job]
    assert [(one["task"], one["job_class"], one["rule"]) for one in mine] == [("busy", "batch", "steelyard")]
    config = configuration(tmp_path, 'metrics.listen = ""\n')
    checked = agent("check", "--json", "--config", config, "--store", tmp_path / "none", "--spool", tmp_path)
    assert checked.returncode == 1
    findings = {one["what"]: one for one in json.loads(checked.stdout)["findings"]}
    assert findings["store"]["state"] == "failed"
    assert findings["cpu time"]["state"] == "ok"
    assert all(one["reason"] for one in findings.values())
    assert agent("check", "--config", config).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("run",), 2, "--store names no store"),
        (
            ("run", "--store", "ftp://x", "--spool", "/tmp/x"),
            2,
            "no store is reached by this scheme",
        ),
        (("run", "--store", "/tmp/x"), 2, "--spool names no folder"),
        (("run", "--store", "/tmp/x", "--spool", "/tmp/x", "--root", "/nowhere"), 3, "no hierarchy"),
        (("tasks", "--config", "/nowhere.toml"), 2, "/nowhere.toml: No such file"),
        (("tasks", "--cluster", "x"), 2, "unexpected argument '--cluster'"),
        ((), 2, "a command is needed: run, tasks, check, undo"),
    ],
)
def test_what_does_not_fit_is_reported_in_one_line(arguments: tuple[str, ...], code: int, said: str) -> None:
    done = agent(*arguments)
    assert (done.returncode, len(done.stderr.splitlines())) == (code, 1)
    assert said in done.stderr


def test_a_configuration_that_does_not_fit_is_reported_with_its_line(tmp_path: Path) -> None:
    done = agent("tasks", "--config", configuration(tmp_path, "\n[sampling]\ncolour = 1\n"))
    assert done.returncode == 2
    assert "agent.toml: line 3: unknown field `colour`" in done.stderr


def test_the_manifests_are_what_their_readers_take(tmp_path: Path) -> None:
    deploy = ROOT / "deploy"
    program = "import sys, yaml, json; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))"
    command = ["/usr/bin/python3", "-c", program, str(deploy / "steelyard-agent.yaml")]
    documents = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    daemon = next(one for one in documents if one["kind"] == "DaemonSet")
    container = daemon["spec"]["template"]["spec"]["containers"][0]
    rights = container["securityContext"]["capabilities"]
    assert (rights["drop"], container["securityContext"]["allowPrivilegeEscalation"]) == (["ALL"], False)
    volumes = {one["name"] for one in daemon["spec"]["template"]["spec"]["volumes"]}
    assert {one["name"] for one in container["volumeMounts"]} == volumes
    text = next(one for one in documents if one["kind"] == "ConfigMap")["data"]["agent.toml"]
    assert agent("tasks", "--config", configuration(tmp_path, text)).returncode == 0
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here: this host has no systemd")
    unit = (deploy / "steelyard-agent.service").read_text()
    unit = unit.replace("/usr/bin/steelyard-agent", str(executable("steelyard-agent")))
    (tmp_path / "steelyard-agent.service").write_text(unit)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "steelyard-agent.service")]
    verified = subprocess.run(command, capture_output=True, text=True, check=False)
    ours = [line for line in verified.stderr.splitlines() if "steelyard-agent.service" in line]
    assert (verified.returncode, ours) == (0, []), verified.stderr
