"""Two hosts side by side, over a real sshd: roles change, and what a host has more of is no effect."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.calling import call
from tests.experiment.test_experiment import COUNT, STEELYARD, record, start, steelyard, until
from tests.ssh_server import SshServer, serving

RATE = (
    f"{COUNT};import os;fast=2 if 'SSH_CONNECTION' in os.environ else 1;"
    "print('rate', 100*fast*float(sys.argv[2])*random.Random(sys.argv[2]+str(k)).gauss(1,.005))"
)
"""A program that does twice as much on the host that ssh leads to."""


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with serving(tmp_path_factory.mktemp("sshd") / "keys") as server:
        yield server


def program(text: str, *words: str) -> str:
    return f'{sys.executable} -c "{text}" {" ".join(words)}'


def hosts(ssh: SshServer, *names: str) -> list[str]:
    return ["--hosts", ",".join(names), "--ssh", ssh.ssh]


def test_a_host_that_is_twice_as_fast_is_no_effect(ssh: SshServer, tmp_path: Path) -> None:
    # One numbers file for each arm: both run at once.
    files = [str(tmp_path / name) for name in "ab"]
    arms = ["--a", program(RATE, files[0], "1"), "--b", program(RATE, files[1], "1.1")]
    words = [*hosts(ssh, "localhost", f"root@{ssh.address}"), *arms, "--blocks", "8", "--to-the-end"]
    words += ["--metric", r"rate=rate (\S+)", "--least-effect", "5%"]
    document = steelyard(tmp_path / "runs", *words)
    (answer,) = document["answers"]
    assert answer["outcome"] == "better"
    assert answer["ratio"] == pytest.approx(1.1, rel=0.02)
    # Pairs of blocks: in each of these, either arm was on either host.
    assert answer["blocks"] == 4
    assert answer["high"] - answer["low"] < 0.05
    made = record(document)["trials"]
    for block in range(0, 8, 2):
        where = {
            (one["arm"], one["block"] - block): one["host"] for one in made if one["block"] // 2 * 2 == block
        }
        assert where["a", 0] == where["b", 1] != where["a", 1] == where["b", 0]
    by_host = {
        host: [one["value"] for one in made if one["host"] == host] for host in record(document)["hosts"]
    }
    assert min(by_host[f"root@{ssh.address}"]) > 1.5 * max(by_host["localhost"])


def test_both_arms_of_a_block_run_at_once_and_take_their_own_time(ssh: SshServer, tmp_path: Path) -> None:
    # Each waits for the other: one after the other, neither would ever end.
    meet = (
        "import pathlib,sys,time;p=pathlib.Path(sys.argv[1]);me,you=sys.argv[2:];n=len(list(p.glob(me+'*')));"
        "(p/(me+str(n))).touch();e=time.monotonic()+60;\n"
        "while not (p/(you+str(n))).exists() and time.monotonic()<e: time.sleep(.01)\n"
        "sys.exit(time.monotonic()>=e)"
    )
    (tmp_path / "meet").mkdir()
    (tmp_path / "meet.py").write_text(meet)
    run = [sys.executable, str(tmp_path / "meet.py"), str(tmp_path / "meet")]
    arms = ["--a", " ".join([*run, "a", "b"]), "--b", " ".join([*run, "b", "a"])]
    words = [*hosts(ssh, ssh.address, f"root@{ssh.address}"), *arms, "--blocks", "8", "--budget", "1s"]
    document = steelyard(
        tmp_path / "runs", *words, "--metric", "cpu_s", "--guard", "elapsed_s=50%", code=None
    )
    made = record(document)["trials"]
    assert len(made) >= 2
    assert all(one["value"] is not None and 0 < one["value"] < 5 for one in made), made
    assert all(0 < one["readings"]["elapsed_s"] < 60 for one in made)


def test_a_benchmark_is_run_by_the_steelyard_of_the_host(ssh: SshServer, tmp_path: Path) -> None:
    words = [*hosts(ssh, "localhost", ssh.address), "--remote-command", str(STEELYARD)]
    settings = [
        word
        for name in ("measure=1", "warmup_min=0.5", "warmup_max=0.5", "connections=4")
        for word in ("--set", name)
    ]
    arms = ["tao", "--tier", "smoke", "--a", "memory=8MiB", "--b", "memory=32MiB", *settings]
    document = steelyard(
        tmp_path / "runs",
        *arms,
        *words,
        "--blocks",
        "8",
        "--budget",
        "1s",
        "--guard",
        "response_p99_ns=50%",
        code=None,
    )
    made = record(document)["trials"]
    assert {one["host"] for one in made} == {"localhost", ssh.address}
    given = [one for one in made if one["value"] is not None]
    assert given, [one["reason"] for one in made]
    assert all(one["run_id"] and one["readings"]["response_p99_ns"] > 0 for one in given)
    runs = Path(f"/tmp/steelyard-{record(document)['experiment_id']}")
    assert {one["run_id"] for one in given} <= {path.name for path in runs.iterdir()}
    shutil.rmtree(runs)
    assert record(document)["metric"]["unit"] == "1/s"


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_nothing_runs_on_when_the_experiment_is_stopped(
    ssh: SshServer, tmp_path: Path, kill: signal.Signals
) -> None:
    marker = f"30.1{os.getpid()}{kill.value}"
    arms = ["--a", f"sleep {marker}1", "--b", f"sleep {marker}2"]
    process = start(tmp_path / "runs", *hosts(ssh, "localhost", ssh.address), *arms)
    until(lambda: len(_running(marker)) == 2)
    process.send_signal(kill)
    process.communicate(timeout=60)
    until(lambda: not _running(marker))
    (folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((folder / "experiment.json").read_text())["trials"] == []


def _running(marker: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"sleep" and words[1].startswith(marker.encode()):
            found.append(str(path))
    return found


def test_a_command_that_fails_on_a_host_says_where(ssh: SshServer, tmp_path: Path) -> None:
    arms = ["--a", "true", "--b", "sh -c 'echo no licence >&2; exit 3'"]
    done = call("experiment", "--out", str(tmp_path), *hosts(ssh, "localhost", ssh.address), *arms)
    assert done.returncode == 4
    assert "arm b gave no value 3 times in a row" in done.stderr
    assert "sh exited with code 3: no licence" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--hosts", "one"], "--hosts one: not two different hosts"),
        (["--hosts", "localhost,localhost"], "not two different hosts"),
        (["--hosts", "localhost,-oProxyCommand=x"], "'-oProxyCommand=x' is no host"),
        (["--hosts", "localhost,b", "--blocks", "9"], "--blocks 9: an even number is needed"),
        (["--hosts", "localhost,b", "--blocks", "6"], "--blocks 6: at least 8 are needed"),
        (["--hosts", "localhost,b", "--ssh", "false"], "host b: there is no setsid, or no login"),
        (["--hosts", "localhost,b", "--ssh", "no-such-ssh"], "host b: no-such-ssh: No such file"),
    ],
)
def test_what_are_no_two_hosts_is_refused(tmp_path: Path, words: list[str], message: str) -> None:
    done = call("experiment", "--out", str(tmp_path / "runs"), "--a", "true", "--b", "false", *words)
    assert done.returncode in (2, 3)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()
