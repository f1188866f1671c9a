"""The load engine against Debian's nginx, and mixes against memcached: counts that the servers agree with."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.executables import backends, servers

SHORT = ("--protocol", "http", "--warmup", "0s", "--duration", "600ms")

MIX = """
schema_version = "1.0"
kind = "mix"
[keys]
count = 100
[values]
sizes = [[0, 1], [1, 3000]]
[[operation]]
name = "page"
weight = 6
http = { path = "/page/{key}", headers = { Accept = "text/html" } }
[[operation]]
name = "head"
weight = 1
http = { method = "HEAD", path = "/page/{key}" }
[[operation]]
name = "post"
weight = 1
http = { method = "POST", path = "/post", body = "{text}" }
[[operation]]
name = "moved"
weight = 1
http = { path = "/moved" }
[[operation]]
name = "missing"
weight = 1
http = { path = "/missing?n={uniform:1:9}" }
[[operation]]
name = "broken"
weight = 1
http = { path = "/broken" }
"""


@pytest.mark.parametrize("depth", [1, 6])
def test_the_log_holds_every_request_by_class(tmp_path: Path, depth: int) -> None:
    mix = tmp_path / "mix.toml"
    mix.write_text(MIX)
    with backends.nginx(tmp_path) as nginx:
        result = backends.load(nginx.server.port, *SHORT, "--mix", str(mix), "--depth", str(depth))
        nginx.server.stop()
        logged = nginx.statuses()
    assert sum(logged.values()) == backends.answered(result)
    by_class, requests = result["requests"]["answers_by_class"], result["requests"]
    assert set(by_class) == {"2xx", "3xx", "4xx", "5xx"}
    assert by_class["2xx"] + by_class["3xx"] == requests["completed"]
    assert requests["errors_by_kind"] == {"status-4xx": by_class["4xx"], "status-5xx": by_class["5xx"]}
    unmeasured = backends.answered(result) - requests["completed"] - requests["errors"]
    for name, count in by_class.items():
        assert 0 <= logged[name] - count <= unmeasured, name


@pytest.mark.parametrize(
    "arguments", [("--depth", "1"), ("--depth", "8"), ("--depth", "4", "--rate", "3000")]
)
def test_a_server_that_ends_connections_in_order_costs_no_request(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    with backends.nginx(tmp_path, keepalive_requests=20) as nginx:
        result = backends.load(nginx.server.port, *SHORT, *arguments)
        nginx.server.stop()
        logged = nginx.statuses()
    assert result["requests"]["errors"] == 0
    assert logged == {"2xx": backends.answered(result)}
    checks = {check["id"]: check["level"] for check in result["verdict"]["checks"]}
    assert checks["connections"] == "valid"


def test_a_trace_of_paths_is_replayed(tmp_path: Path) -> None:
    lines = ["time_ms,operation,key"] + [f"{i / 2},get,page/{i % 7}" for i in range(300)]
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(lines) + "\n")
    with backends.nginx(tmp_path) as nginx:
        result = backends.load(
            nginx.server.port, "--protocol", "http", "--warmup", "0s", "--trace", str(trace)
        )
        nginx.server.stop()
        paths = [line.split()[2] for line in (tmp_path / "access.log").read_text().splitlines()]
    assert result["requests"]["completed"] == 300
    assert sorted(paths) == sorted(f"/page/{i % 7}" for i in range(300))


@pytest.mark.slow
def test_wrk_finds_the_same(tmp_path: Path) -> None:
    """Closed loops of 16 connections, each program in turn; the tolerance and its reasons are `agree`'s."""
    units = {"us": 1e-3, "ms": 1.0, "s": 1e3}
    with backends.nginx(tmp_path) as nginx:

        def ours() -> tuple[float, float]:
            result = backends.load(nginx.server.port, *SHORT, "--connections", "16")
            return result["throughput_per_s"], result["latency"]["service"]["p50_ns"] / 1e6

        def theirs() -> tuple[float, float]:
            command = [servers.tool("wrk"), "-t1", "-c16", "-d1s", "--latency"]
            command.append(f"http://127.0.0.1:{nginx.server.port}/")
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
            rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
            median = re.search(r"50%\s+([\d.]+)(us|ms|s)", done.stdout)
            assert rate, done.stdout
            assert median, done.stdout
            return float(rate[1]), float(median[1]) * units[median[2]]

        backends.agree(ours, theirs)


def test_ycsb_over_memcached_is_what_memcached_counts() -> None:
    with servers.memcached() as server:
        arguments = ("--mix", "ycsb-f", "--prefill", "--keys", "500", "--warmup", "0s", "--duration", "500ms")
        result = backends.load(server.port, *arguments)
        stats = server.stats()
    assert result["operations"]["read"]["misses"] == 0
    assert int(stats["cmd_get"]) == backends.answered(result)
    modified = result["operations"]["read-modify-write"]["completed"]
    unmeasured = backends.answered(result) - result["requests"]["completed"]
    assert 0 <= int(stats["cmd_set"]) - 500 - modified <= unmeasured


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--mix", "ycsb-e"), "operation scan cannot be done over memcached"),
        (("--mix", "ycsb-z"), "neither a file nor a shipped mix, which are feed-rank, http-pages, ycsb-a"),
        (("--mix", "ycsb-a", "--set-ratio", "0.5"), "cannot be used with"),
        (("--mix", "/"), "not a regular file"),
        (("--protocol", "http", "--path", "x"), "does not begin with /"),
        (("--trace", "/nowhere.csv"), "No such file"),
        (("--trace", "/dev/null"), "not a regular file"),
        (("--key-distribution", "latest"), "not one of uniform, zipf:EXPONENT"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_line(arguments: tuple[str, ...], said: str) -> None:
    done = backends.load_process(1, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
