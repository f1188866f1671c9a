"""The load of a run on other hosts, with a real sshd: on the loopback, and in a network namespace."""

import contextlib
import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from steelyard._base import EnvironmentLacksError, UsageError, executable
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.load.settings import check_load
from steelyard.bench.placement.request import live_layout, placement_of
from steelyard.benchmarks.mediawiki.benchmark import MediaWiki
from steelyard.cli.main import invoke
from steelyard.records import LoadResult, read
from tests.ssh_server import serving

MIX = (
    'schema_version = "1.0"\nkind = "mix"\ndescription = "one page"\n\n[keys]\ncount = 10\nsizes = 2\n\n'
    '[[operation]]\nname = "page"\nweight = 1\nhttp = { path = "/{key}" }\n'
)


class Page(BaseHTTPRequestHandler):
    """Answers every request, and notes where it is from."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.clients.add(self.client_address[0])
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"hi")

    def log_message(self, *words):
        pass


@contextlib.contextmanager
def pages(address):
    server = ThreadingHTTPServer((address, 0), Page)
    server.daemon_threads = True
    server.clients = set()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def asked(host, **changed):
    remote = str(executable("steelyard-load"))
    return {"hosts": host, "ssh": "ssh", "remote_load": remote, "address": "", **changed}


@contextlib.contextmanager
def session(folder):
    with contextlib.ExitStack() as endings:
        yield SimpleNamespace(directory=folder, endings=endings)


@pytest.mark.parametrize("namespace", [False, True])
def test_the_load_comes_from_the_other_host(tmp_path, namespace):
    folder = tmp_path / f"run-{namespace}"
    folder.mkdir()
    mix = folder / "mix.toml"
    mix.write_text(MIX)
    with serving(tmp_path / "ssh", namespace=namespace) as far, contextlib.ExitStack() as ending:
        chosen = {} if namespace else {"address": far.here}
        hosts = LoadHosts.of(asked(far.address, ssh=far.ssh, **chosen))
        # The kernel knows the way to the host, and with it the address that the host reaches.
        assert hosts.address == far.here
        server = ending.enter_context(pages(hosts.address))
        run = ending.enter_context(session(folder))
        flags = hosts.arguments(run, mix)
        copy = Path(flags[1])
        assert copy.read_text() == MIX
        assert copy.parent.stat().st_mode & 0o777 == 0o700
        command = [str(executable("steelyard-load")), "--protocol", "http", *flags]
        command += ["--target", f"{far.here}:{server.server_address[1]}", "--connections", "2"]
        command += ["--duration", "2s", "--warmup", "200ms", "--hold", "--progress", "json"]
        command += ["--hlog", str(folder / "latency.hlog"), "--output", str(folder / "load.json")]
        done = subprocess.run(
            command, input="measure\n", capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode in (0, 1), done.stderr
        load = read(LoadResult, folder / "load.json")
        assert load.requests.completed > 10
        assert [host.name for host in load.hosts] == [far.address]
        assert server.clients == {far.address}
        events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        phases = {event["name"]: event["begin_ns"] for event in events if event["event"] == "phase"}
        assert list(phases) == ["warmup", "measure", "drain"]
        # By the clock here, as the record says it.
        assert abs(phases["measure"] - load.begin_ns) < 50_000_000
        assert phases["drain"] - phases["measure"] == 2_000_000_000
        assert load.begin_ns <= phases["measure"]
        # Its CPU time is not this machine's.
        assert hosts.own_cpu_s(load) == 0.0
        assert far.address in hosts.share(load, 1.0, "why").missing
    assert not copy.parent.exists()


def test_a_host_that_does_not_answer_is_named(tmp_path):
    mix = tmp_path / "mix.toml"
    mix.write_text(MIX)
    with session(tmp_path / "gone") as run, pytest.raises(EnvironmentLacksError) as refused:
        LoadHosts.of(asked("127.0.0.1", ssh="ssh -F /dev/null -p 1")).arguments(run, mix)
    assert refused.value.message.startswith("host 127.0.0.1: ssh: connect to host")
    assert not Path("/tmp/steelyard-gone").exists()
    missing = LoadHosts.of(asked("127.0.0.1", ssh="no-such-ssh"))
    with session(tmp_path / "gone") as run, pytest.raises(EnvironmentLacksError, match="no-such-ssh"):
        missing.arguments(run, mix)


def test_what_cannot_work_is_refused_before_anything_starts(capsys):
    settings = {"warmup_min": 1.0, "warmup_max": 2.0, "connections": 2, "load_threads": 1}
    check_load({**settings, **asked("a b", address="10.0.0.1")})
    with pytest.raises(UsageError, match="load_threads=1 on 3 hosts"):
        check_load({**settings, **asked("a b c", address="10.0.0.1")})
    with pytest.raises(UsageError, match="'-oProxyCommand=x' is not a host"):
        check_load({**settings, **asked("-oProxyCommand=x", address="10.0.0.1")})
    with pytest.raises(UsageError, match="other hosts do not reach the loopback address"):
        LoadHosts.of(asked("far", address="127.0.0.1")).check()
    with pytest.raises(UsageError, match="no address of this machine is known to lead to no-such-host"):
        LoadHosts.of(asked("user@no-such-host.invalid")).check()
    assert invoke(["run", "tax", "--host", "far"]) == 2
    assert "tax has no parameter 'hosts'" in capsys.readouterr().err


def test_without_hosts_everything_stays_here(tmp_path):
    here = LoadHosts.of({})
    assert here.address == "127.0.0.1"
    assert here.arguments(SimpleNamespace(), tmp_path / "mix.toml") == ["--mix", str(tmp_path / "mix.toml")]
    here.check()


def test_a_load_elsewhere_leaves_all_cpus_to_the_servers():
    layout = live_layout()
    beside = placement_of(MediaWiki, layout, {})
    elsewhere = placement_of(MediaWiki, layout, {"hosts": "far"})
    assert elsewhere.load == ()
    assert len(elsewhere.server) == len(layout.cpus)
    assert set(beside.server) | set(beside.load) == set(elsewhere.server)
