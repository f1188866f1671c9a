"""The load engine against Debian's redis-server: what it says it did is what the server counted."""

import csv
import io
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executables import backends, servers

KEYS = 2000
SHORT = ("--protocol", "redis", "--warmup", "0s", "--duration", "600ms", "--keys", str(KEYS))


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[servers.Server]:
    """Run a redis-server of the test's own."""
    with backends.redis(tmp_path) as server:
        yield server


def size_of(server: servers.Server, command: bytes) -> int:
    """Return the number that a command answers with."""
    with server.connect() as connection:
        connection.sendall(command + b"\r\nQUIT\r\n")
        return int(servers.read_all(connection).split(b"\r\n")[0].removeprefix(b":"))


def test_the_server_has_seen_every_request_once(redis: servers.Server) -> None:
    result = backends.load(
        redis.port, *SHORT, "--prefill", "--set-ratio", "0.3", "--depth", "8", "--threads", "2"
    )
    commands = backends.commands_of(redis)
    assert commands["get"] + commands["set"] == backends.answered(result) + KEYS
    # Only what was due in the measure phase is counted by operation; the rest bounds the difference.
    unmeasured = backends.answered(result) - result["requests"]["completed"]
    for name, prefilled in (("get", 0), ("set", KEYS)):
        difference = commands[name] - prefilled - result["operations"][name]["completed"]
        assert 0 <= difference <= unmeasured
    assert result["operations"]["get"]["misses"] == 0
    assert size_of(redis, b"DBSIZE") == KEYS


@pytest.mark.parametrize(
    ("mix", "sent"),
    [
        ("ycsb-a", {"read": "hgetall", "update": "hset"}),
        ("ycsb-d", {"read": "hgetall", "insert": "hset"}),
        ("ycsb-e", {"scan": "zrangebylex", "insert": "zadd"}),
    ],
)
def test_ycsb_does_what_it_says(redis: servers.Server, mix: str, sent: dict[str, str]) -> None:
    result = backends.load(redis.port, *SHORT, "--mix", mix, "--prefill", "--depth", "2")
    assert result["settings"]["mix"] == mix
    assert result["requests"]["errors"] == 0
    commands = backends.commands_of(redis)
    writing = "zadd" if mix == "ycsb-e" else "hset"
    commands[writing] -= KEYS
    assert sum(commands[name] for name in sent.values()) == backends.answered(result)
    unmeasured = backends.answered(result) - result["requests"]["completed"]
    for operation, command in sent.items():
        difference = commands[command] - result["operations"][operation]["completed"]
        assert 0 <= difference <= unmeasured, operation
    # Inserts make new keys, and no read asks for one that is not there yet.
    stored = size_of(redis, b"ZCARD ycsb" if mix == "ycsb-e" else b"DBSIZE")
    assert stored == KEYS + (commands[writing] if "insert" in sent else 0)
    reading = "scan" if mix == "ycsb-e" else "read"
    assert result["operations"][reading]["misses"] == 0


def test_read_modify_write_is_two_commands_and_one_request(redis: servers.Server) -> None:
    result = backends.load(redis.port, *SHORT, "--mix", "ycsb-f", "--prefill", "--depth", "4")
    commands = backends.commands_of(redis)
    assert commands["hgetall"] == backends.answered(result)
    unmeasured = backends.answered(result) - result["requests"]["completed"]
    modified = result["operations"]["read-modify-write"]
    assert 0 <= commands["hset"] - KEYS - modified["completed"] <= unmeasured
    # The response of the whole cannot be shorter than that of the read that it begins with.
    assert modified["response"]["p50_ns"] > result["operations"]["read"]["response"]["p50_ns"]


def test_a_trace_is_replayed_request_by_request(redis: servers.Server, tmp_path: Path) -> None:
    lines = ["time_us,operation,key,size"]
    lines += [f"{1_000_000 + 500 * i},set,key {i},{i}" for i in range(400)]
    lines += [f"{1_200_000 + 500 * i},get,key {i}," for i in range(400)]
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(lines) + "\n")
    arguments = ("--protocol", "redis", "--warmup", "0s", "--trace", str(trace), "--threads", "2")
    result = backends.load(redis.port, *arguments)
    assert backends.commands_of(redis) == {"set": 400, "get": 400}
    assert (result["requests"]["intended"], result["requests"]["completed"]) == (800, 800)
    assert result["settings"]["duration_s"] == pytest.approx(0.3995, abs=1e-6)
    assert [size_of(redis, b'STRLEN "key %d"' % i) for i in (0, 7, 399)] == [0, 7, 399]


@pytest.mark.slow
def test_redis_benchmark_finds_the_same(redis: servers.Server) -> None:
    """Closed loops of 16 connections, each program in turn; the tolerance and its reasons are `agree`'s."""

    def ours() -> tuple[float, float]:
        result = backends.load(
            redis.port, *SHORT, "--set-ratio", "1", "--value-sizes", "64", "--connections", "16"
        )
        return result["throughput_per_s"], result["latency"]["service"]["p50_ns"] / 1e6

    def theirs() -> tuple[float, float]:
        command = [servers.tool("redis-benchmark"), "-p", str(redis.port), "-c", "16", "-n", "40000"]
        command += ["-t", "set", "-d", "64", "-r", str(KEYS), "--csv"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        row = next(csv.DictReader(io.StringIO(done.stdout)))
        return float(row["rps"]), float(row["p50_latency_ms"])

    backends.agree(ours, theirs)
