"""``steelyard-load URL``, what it prints for people, and its live line on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.executables import backends, servers

SHORT = ("--warmup", "0s", "--duration", "500ms", "--connections", "2")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(servers.executable("steelyard-load")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_urls_reach_servers_of_each_protocol(tmp_path: Path) -> None:
    with backends.nginx(tmp_path) as nginx, backends.redis(tmp_path) as redis:
        for url, protocol in (
            (f"http://127.0.0.1:{nginx.server.port}/page/1?x=2", "http"),
            (f"redis://127.0.0.1:{redis.port}", "redis"),
        ):
            done = run(url, *SHORT, "--json", "--progress", "none")
            result = backends.result_of(done)
            assert result["settings"]["protocol"] == protocol
            assert result["requests"]["completed"] > 0
            assert result["requests"]["errors"] == 0
        assert backends.commands_of(redis)["get"] > 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["capcity"], "is not a URL"),
        (["ftp://127.0.0.1:1"], "is not a supported scheme"),
        (["redis://127.0.0.1:1/x"], "the number of a database"),
        (["memcache://127.0.0.1:1/7"], "only HTTP has a path"),
        (["memcache://me:word@127.0.0.1:1"], "memcached has no users"),
        (["http://127.0.0.1:1/a", "--target", "127.0.0.1:1"], "cannot be used with"),
        (["http://127.0.0.1:1/a", "--protocol", "redis"], "cannot be used with"),
        (["http://127.0.0.1:1/a", "--mix", "ycsb-a"], "the mix has the paths"),
        (["http://127.0.0.1:1/", "--tls-name", "a"], "needs --tls"),
        (["--target", "127.0.0.1:1", "--tls-ca", "a.pem"], "needs --tls"),
    ],
)
def test_what_is_no_url_of_a_server_is_refused_in_one_line(arguments: list[str], why: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_people_read_times_in_fitting_units_and_programs_in_ns(tmp_path: Path) -> None:
    with backends.redis(tmp_path) as redis:
        done = run(f"redis://127.0.0.1:{redis.port}", *SHORT, "--output", str(tmp_path / "load.json"))
    assert done.returncode in (0, 1)
    line = next(line for line in done.stdout.splitlines() if line.startswith("response"))
    times = re.findall(r"(?:p50|p99|p99\.9|max) +([0-9.]+) (ns|µs|ms|s)\b", line)
    # A percentile that too few requests stand behind is missing, as in the record.
    assert len(times) + line.count(" -") == 4, line
    # Three digits: a time of 1,000 of a unit and more is in the next one.
    assert all(float(value) < 1000 for value, _ in times)
    factor = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[times[0][1]]
    p50_ns = json.loads((tmp_path / "load.json").read_text())["latency"]["response"]["p50_ns"]
    assert float(times[0][0]) * factor == pytest.approx(p50_ns, rel=0.006)


@pytest.mark.parametrize(("term", "is_live"), [("xterm", True), ("dumb", False)])
def test_a_terminal_has_one_line_that_is_written_over(tmp_path: Path, term: str, is_live: bool) -> None:
    ours, its = pty.openpty()
    with backends.redis(tmp_path) as redis:
        process = subprocess.Popen(
            [str(servers.executable("steelyard-load")), f"redis://127.0.0.1:{redis.port}", *SHORT],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=its,
            env={**os.environ, "TERM": term},
        )
        os.close(its)
        said = b""
        try:
            while part := os.read(ours, 1 << 16):
                said += part
        except OSError:
            pass  # EIO: the last one at the other side has closed it.
        assert process.wait(60) in (0, 1)
    os.close(ours)
    assert b"requests/s" in said
    assert (b"\x1b[K" in said) == is_live
    assert (b"\n" in said) != is_live
    if is_live:
        # Nothing is left on the line for what is printed next.
        assert said.endswith(b"\r\x1b[?7l\x1b[K\x1b[?7h")


def test_without_a_terminal_there_is_a_line_for_each_interval(tmp_path: Path) -> None:
    with backends.redis(tmp_path) as redis:
        done = run(f"redis://127.0.0.1:{redis.port}", *SHORT)
    assert "\x1b" not in done.stderr
    assert [line for line in done.stderr.splitlines() if "requests/s" in line]
