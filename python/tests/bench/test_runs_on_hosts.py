"""Whole runs of stores whose load another host makes: a real sshd in a network namespace of its own."""

import json
from pathlib import Path

import pytest

from steelyard._base import UsageError, executable, schemas_dir
from steelyard.bench.parameters import Settings
from steelyard.bench.placement import Placement
from steelyard.bench.stack.recipe import find_program, payload_dir
from steelyard.benchmarks.cassandra.benchmark import CassandraBench
from steelyard.benchmarks.memcached.benchmark import MemcachedBench
from steelyard.benchmarks.redis.benchmark import COMMANDS, RedisBench
from steelyard.cli.main import invoke
from steelyard.records import LoadResult, Machine, read
from tests.ssh_server import serving

MACHINE = read(Machine, schemas_dir() / "golden" / "machine.json")
HERE = Placement((0, 1, 2, 3), ())
"""With a load elsewhere."""


def run_on(far, folder, capsys, benchmark, *chosen):
    """Run ``benchmark`` with the load on ``far``; return its run, and its directory."""
    words = ["run", benchmark, "--tier", "smoke", "--json", "--out", str(folder), "--host", far.address]
    for text in (f"ssh={far.ssh}", f"remote_load={executable('steelyard-load')}", *chosen):
        words += ["--set", text]
    code = invoke(words)
    captured = capsys.readouterr()
    # Other work on the machine makes the verdict invalid: that is 1.
    assert code in (0, 1), captured.err
    [run] = json.loads(captured.out)["runs"]
    [path] = folder.glob("*/run.json")
    return (
        json.loads(path.read_text()),
        {name: metric["value"] for name, metric in run["metrics"].items()},
        path.parent,
    )


def check_load(directory, far, name="load"):
    """Check that a load came from the other host, and that its files went with the run."""
    load = read(LoadResult, directory / f"{name}.json")
    assert [host.name for host in load.hosts] == [far.address]
    assert load.requests.completed == load.hosts[0].completed > 0
    assert load.requests.errors == 0
    assert not Path(f"/tmp/steelyard-{directory.name}").exists()


@pytest.mark.skipif(find_program("memcached") is None, reason="memcached is not installed")
def test_a_cache_is_loaded_by_another_host(tmp_path, capsys):
    with serving(tmp_path / "ssh", namespace=True) as far:
        run, metrics, directory = run_on(
            *(far, tmp_path / "runs", capsys, "caching", "memory=64MiB", "measure=1", "warmup_max=1")
        )
        check_load(directory, far)
    assert metrics["hit_ratio"] > 0.95
    assert run["parameters"]["clients"]["value"] == 1
    # All CPUs are the server's, which listens where the host reaches it and nowhere else.
    assert run["cpus"]["load"] is None
    [server] = [process for process in run["processes"] if process["name"] == "server"]
    assert far.here in server["command"]
    # What runs here for the load is ssh: no profile and no counts are the load's; the link is judged.
    assert "profile_load_folded" not in run["artifacts"]
    assert [check["id"] for check in run["verdict"]["checks"] if check["id"] == "link"] == ["link"]
    assert not [check for check in run["verdict"]["checks"] if check["id"] == "load-cpu"]


@pytest.mark.skipif(find_program("redis-server") is None, reason="Redis is not installed")
def test_redis_is_loaded_by_another_host(tmp_path, capsys):
    with serving(tmp_path / "ssh", namespace=True) as far:
        _, metrics, directory = run_on(
            *(far, tmp_path / "runs", capsys, "redis", "instances=1", "measure=1", "warmup=0.1")
        )
        for command in COMMANDS:
            assert metrics[f"{command}_per_s"] > 0
            check_load(directory, far, f"load-{command}")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_cassandra_is_loaded_by_another_host(tmp_path, capsys):
    if not (payload_dir("cassandra") / ".installed").is_file():
        pytest.fail("Cassandra is not installed: scripts/install-test-packages --slow")
    chosen = ("records=1000", "warmup_min=1", "warmup_max=3", "measure=3", "heap=512MiB", "workload=a")
    with serving(tmp_path / "ssh", namespace=True) as far:
        run, metrics, directory = run_on(far, tmp_path / "runs", capsys, "cassandra", *chosen)
        check_load(directory, far)
    assert metrics["read_per_s"] > 0
    assert metrics["update_per_s"] > 0
    assert run["cpus"]["load"] is None


def settings_of(benchmark, **chosen):
    def suggest(known):
        return {"seed": 1, **benchmark.suggest(known, machine=MACHINE, tier="quick", placement=HERE)}

    return Settings.resolve(benchmark.parameters, chosen, suggest, owner="a store")


def test_every_host_gets_a_client_with_connections():
    settings = settings_of(MemcachedBench, hosts="a b", address="10.0.0.1")
    assert settings["clients"] == 2
    assert settings["connections"] >= settings["clients"]
    settings = settings_of(CassandraBench, hosts="a b c", address="10.0.0.1", profile="stock")
    assert settings["connections"] >= 3 * settings["load_threads"]


def test_fewer_clients_or_connections_than_hosts_are_refused(monkeypatch):
    monkeypatch.setattr("steelyard.benchmarks.memcached.stack.cache.require", lambda *_: None)
    far = {"hosts": "a b", "address": "10.0.0.1"}
    with pytest.raises(UsageError, match="clients=1 is below the 2 hosts"):
        MemcachedBench.checks(settings_of(MemcachedBench, clients="1", **far), machine=MACHINE)
    with pytest.raises(UsageError, match="connections=1 is below 2 hosts"):
        RedisBench.checks(settings_of(RedisBench, connections="1", **far), machine=MACHINE)
    with pytest.raises(UsageError, match="do not reach the loopback address"):
        RedisBench.checks(settings_of(RedisBench, hosts="a", address="127.0.0.1"), machine=MACHINE)
