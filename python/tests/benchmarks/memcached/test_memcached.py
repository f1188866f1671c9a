"""The benchmark of memcached: its settings on machines of any size, the server's counters, and a real run."""

import contextlib
import json
import os
import signal
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import EnvironmentLacksError, UsageError, WorkloadFailedError, schemas_dir
from steelyard.bench.parameters import Settings
from steelyard.bench.placement import Placement
from steelyard.benchmarks.memcached.benchmark import MemcachedBench
from steelyard.benchmarks.memcached.stack.cache import (
    FILL_RATIO,
    KEY_BYTES,
    _connection_limit,
    _share,
    _shares,
    profile,
)
from steelyard.benchmarks.memcached.stack.stats import read_stats
from steelyard.records import Machine, RunStatus, read
from tests.executables.servers import memcached

MACHINE = read(Machine, schemas_dir() / "golden" / "machine.json")


def settings_on(*, cpus, memory_bytes, tier="full", **chosen):
    memory = MACHINE.memory.model_copy(update={"total_bytes": memory_bytes, "limit_bytes": None})
    machine = MACHINE.model_copy(update={"memory": memory})
    half = tuple(range(cpus // 2)), tuple(range(cpus // 2, cpus))
    placement = Placement(*half)
    settings = Settings.resolve(
        MemcachedBench.parameters,
        {name: str(value) for name, value in chosen.items()},
        lambda known: {
            "seed": 1,
            **MemcachedBench.suggest(known, machine=machine, tier=tier, placement=placement),
        },
        owner="memcached",
    )
    return settings, machine


@pytest.mark.parametrize("name", ["stock", "tuned"])
def test_a_large_machine_gets_the_papers_settings(name):
    settings, _ = settings_on(cpus=128, memory_bytes=128 << 30, profile=name)
    wanted = profile(name)
    assert settings["memory"] == wanted["memory_bytes"]
    assert settings["server_threads"] == wanted["server_threads"]
    assert settings["clients"] == wanted["clients"]
    assert settings["connections"] <= wanted["connections_max"]


@given(st.integers(2, 400), st.integers(1 << 30, 1 << 42), st.sampled_from(["stock", "tuned"]))
def test_settings_fit_any_machine(cpus, memory_bytes, name):
    settings, machine = settings_on(cpus=cpus, memory_bytes=memory_bytes, profile=name)
    assert settings["memory"] <= 0.75 * machine.memory.total_bytes
    assert settings["server_threads"] <= cpus // 2
    assert settings["connections"] >= settings["clients"]
    stored = settings["keys"] * (settings["value_size"] + KEY_BYTES)
    assert stored <= FILL_RATIO * settings["memory"] or settings["keys"] == 1


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 10_000))
def test_clients_share_cpus_and_connections(cpus, clients, connections):
    shares = _shares(tuple(range(cpus)), clients)
    assert len(shares) == clients
    assert {cpu for share in shares for cpu in share} == set(range(cpus))
    parts = [_share(connections, clients, number) for number in range(1, clients + 1)]
    assert sum(parts) == connections
    assert max(parts) - min(parts) <= 1


def test_what_cannot_work_is_refused():
    settings, machine = settings_on(cpus=4, memory_bytes=8 << 30, connections=1, clients=2)
    with pytest.raises(UsageError, match="every client needs one"):
        MemcachedBench.checks(settings, machine=machine)
    settings, machine = settings_on(cpus=4, memory_bytes=8 << 30, memory="16GiB")
    with pytest.raises(EnvironmentLacksError, match="more than the 8192 MiB"):
        MemcachedBench.checks(settings, machine=machine)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings, machine = settings_on(cpus=4, memory_bytes=8 << 30, port=port)
        with pytest.raises(EnvironmentLacksError, match=f"port {port}"):
            MemcachedBench.checks(settings, machine=machine)


def test_counters_of_a_real_server_are_read():
    with memcached() as server:
        target = f"127.0.0.1:{server.port}"
        before = read_stats(target)
        with server.connect() as connection:
            connection.sendall(b"get nothing\r\nquit\r\n")
            while connection.recv(100):
                pass
        after = read_stats(target)
    assert int(after["cmd_get"]) - int(before["cmd_get"]) == 1
    with pytest.raises(WorkloadFailedError, match="does not answer"):
        read_stats(target)


@pytest.mark.parametrize("threads", [1, 8])
def test_a_real_server_lets_every_connection_in(threads):
    settings, _ = settings_on(cpus=16, memory_bytes=8 << 30, connections=20, server_threads=threads)
    most = _connection_limit(settings)
    with memcached("-c", str(most), "-t", str(threads)) as server, contextlib.ExitStack() as opened:
        # One more than the load has: counters are read meanwhile.
        for _ in range(21):
            connection = opened.enter_context(server.connect())
            connection.sendall(b"version\r\n")
            assert connection.recv(100).startswith(b"VERSION")


@pytest.mark.slow
def test_a_smoke_run_finds_what_it_stored(runner):
    live = runner.start("--tier", "smoke", settings=("clients=2", "memory=64MiB"), benchmark="memcached")
    code, output, errors = live.finish(300)
    # Other work on the machine makes the verdict invalid: that is 1.
    assert code in (0, 1), errors
    run = live.run()
    assert run.metrics["requests_per_s"].value
    assert run.metrics["errors"].value == 0
    assert run.metrics["hit_ratio"].value > 0.999
    # 95 % of the requests are answered by 25 KB.
    moved = run.metrics["network_bytes_per_s"].value / run.metrics["requests_per_s"].value
    assert 24_000 < moved < 27_000
    assert run.metrics["server_cpu_ratio"].value
    assert {"load", "load_1", "load_2", "latency_1"} <= set(run.artifacts)
    assert json.loads(output)["runs"][0]["run_id"] == run.run_id


@pytest.mark.slow
def test_a_server_that_is_killed_makes_the_run_incomplete(runner):
    live = runner.start("--tier", "smoke", settings=("measure=60",), benchmark="memcached")
    live.until(lambda: live.in_phase("measure"), 120.0)
    os.kill(live.until(lambda: live.pid_of("server")), signal.SIGKILL)
    assert live.finish(60)[0] == 4
    assert "server was killed by SIGKILL in phase measure" in live.complaint()
    assert live.run().status is RunStatus.INCOMPLETE
