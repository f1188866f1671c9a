"""DjangoBench: the generated code, the network, the mix, what a worker's death means, and whole runs."""

import hashlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError, executable, workloads_dir
from steelyard.bench.ports import backlog_of
from steelyard.bench.stack.recipe import payload_dir
from steelyard.benchmarks.django.benchmark import DjangoBench
from steelyard.benchmarks.django.declaration import DECLARATION, VIEWS
from steelyard.benchmarks.django.stack import metrics as django_metrics
from steelyard.benchmarks.django.stack.load import mix_text
from steelyard.benchmarks.django.stack.servers import Servers, answers, dead_workers
from steelyard.records import Level, RunStatus

PAYLOAD = workloads_dir() / "django"
SHORT = ("users=100", "warmup_min=1", "warmup_max=3", "measure=3")


# The generated code


def generate(folder, seed=1, functions=120):
    command = [sys.executable, str(PAYLOAD / "generate"), "--functions", str(functions), "--seed", str(seed)]
    subprocess.run([*command, str(folder)], check=True, timeout=60)
    return folder / "generated"


def digest(package):
    texts = b"".join(path.read_bytes() for path in sorted(package.glob("*.py")))
    return hashlib.sha256(texts).hexdigest()


def test_the_same_seed_gives_the_same_code(tmp_path):
    first, second, other = (
        generate(tmp_path / "a"),
        generate(tmp_path / "b"),
        generate(tmp_path / "c", seed=2),
    )
    assert digest(first) == digest(second)
    assert digest(first) != digest(other)


WORK = """
import sys
sys.path.insert(0, sys.argv[1])
from generated import TABLE
text = "one two three four "
numbers = range(20)
items = [{"id": n, "author": n * 31 % 97, "likes": n * n % 977, "text": text * (n % 4 + 1)} for n in numbers]
more = [{**item, "likes": item["likes"] + 1} for item in items]
assert len({function.__name__ for function in TABLE}) == len(TABLE)
changed = sum(function(items, 12345) != function(more, 12345) for function in TABLE)
print(len(TABLE), changed, sum(function(items, 3) for function in TABLE))
"""


def test_each_generated_function_works_on_the_data_of_the_request(tmp_path):
    generate(tmp_path)
    command = [sys.executable, "-c", WORK, str(tmp_path)]
    done = [subprocess.run(command, check=True, capture_output=True, text=True, timeout=60) for _ in range(2)]
    # The same data give the same result in another process.
    assert done[0].stdout == done[1].stdout
    functions, changed, _ = done[0].stdout.split(maxsplit=2)
    assert functions == "120"
    # Other likes change what most functions return; some look only at texts.
    assert int(changed) > 60


def test_no_function_calls_one_after_it(tmp_path):
    package = generate(tmp_path)
    current, calls = -1, 0
    for path in sorted(package.glob("part_*.py")):
        for line in path.read_text().splitlines():
            if match := re.match(r"def handle_(\d+)", line):
                current = int(match[1])
            elif match := re.search(r"TABLE\[(\d+)\]", line):
                calls += 1
                assert int(match[1]) < current
    assert calls > 20


# The network


def network(users=400, seed=1):
    spec = importlib.util.spec_from_file_location("social_graph", PAYLOAD / "social" / "graph.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Graph(users, seed)


def test_the_network_is_skewed_and_follows_from_its_seed():
    graph, same, other = network(), network(), network(seed=2)
    followed = [0] * graph.users
    for user in range(graph.users):
        followees = graph.followees(user)
        assert followees == same.followees(user)
        assert user not in followees
        assert len(set(followees)) == len(followees)
        for followee in followees:
            followed[followee] += 1
    followed.sort(reverse=True)
    # The tenth that is followed most has far more than a tenth of the followers.
    assert sum(followed[: graph.users // 10]) > 0.2 * sum(followed)
    assert [other.followees(user) for user in range(5)] != [network().followees(user) for user in range(5)]


def test_texts_have_words_of_skewed_frequency():
    graph = network()
    words = " ".join(graph.text(20, 30) for _ in range(200)).split()
    most = max(words.count(word) for word in set(words))
    assert most > 5 * len(words) / len(set(words))


# The load


def test_the_mix_is_the_published_one():
    mix = tomllib.loads(mix_text(VIEWS, 500, "zipf:0.8"))
    weights = {operation["name"]: operation["weight"] for operation in mix["operation"]}
    assert weights == {"feed_timeline": 30, "timeline": 30, "seen": 5, "inbox": 20, "bundle_tray": 15}
    assert sum(weights.values()) == 100
    urls = (PAYLOAD / "social" / "urls.py").read_text()
    for operation in mix["operation"]:
        assert f'path("{operation["name"]}/<str:account>"' in urls
    assert [o["http"]["method"] for o in mix["operation"] if o["name"] == "seen"] == ["POST"]


def test_the_load_engine_accepts_the_mix(tmp_path):
    mix = tmp_path / "mix.toml"
    mix.write_text(mix_text(VIEWS, 500, "zipf:0.8"))
    command = [str(executable("steelyard-load")), "--protocol", "http", "--target", "127.0.0.1:1"]
    done = subprocess.run(
        [*command, "--mix", str(mix), "--duration", "1s"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    # Nobody listens there: the mix was read before that was noticed.
    assert "refused" in done.stderr
    assert "mix" not in done.stderr


# What the verdict says

LOG = """\
spawned uWSGI worker 1 (pid: 100, cores: 2)
DAMN ! worker 1 (pid: 100) died, killed by signal 9 :( trying respawn ...
Respawned uWSGI worker 1 (new pid: 102)
DAMN ! worker 2 (pid: 101) died :( trying respawn ...
"""


class Logged:
    def __init__(self, log):
        self.log = log


def test_a_dead_worker_makes_the_run_invalid(tmp_path):
    log = tmp_path / "uwsgi.log"
    log.write_text(LOG)
    assert dead_workers(log) == ["worker 1 was killed by signal 9", "worker 2 died"]
    check = django_metrics._workers(Servers(None, None, "", uwsgi=Logged(log)))
    assert check.level is Level.INVALID
    assert "2 workers of uWSGI died: worker 1 was killed by signal 9" in check.claim
    log.write_text(LOG.splitlines()[0])
    assert django_metrics._workers(Servers(None, None, "", uwsgi=Logged(log))).level is Level.VALID


def test_the_hit_ratio_is_that_of_the_phase():
    before = {"get_hits": "100", "get_misses": "100", "evictions": "0"}
    after = {"get_hits": "1000", "get_misses": "200", "evictions": "10"}
    found = django_metrics.cache_metrics([before, after], 10.0)
    assert found["hit_ratio"].value == 0.9
    assert found["lookups_per_s"].value == 100.0
    assert found["evictions_per_s"].value == 1.0
    missing = django_metrics.cache_metrics([before], 10.0)
    assert missing["hit_ratio"].value is None
    assert missing["hit_ratio"].missing == "memcached did not report it"
    assert django_metrics.cache_metrics([after, after], 1.0)["hit_ratio"].missing == "nothing was looked up"


def test_an_address_without_an_application_is_not_ready():
    assert answers("http://127.0.0.1:1/health") is False


def test_every_connection_may_wait_to_be_accepted(tmp_path):
    """uWSGI gets as many as the load has; what the kernel does not allow is refused before the run."""
    (tmp_path / "proc/sys/net/core").mkdir(parents=True)
    (tmp_path / "proc/sys/net/core/somaxconn").write_text("1024\n")
    assert backlog_of(700, root=tmp_path) == 700
    assert backlog_of(5, root=tmp_path) == 100
    with pytest.raises(EnvironmentLacksError, match="connections=2000 are more than the 1024") as raised:
        backlog_of(2000, root=tmp_path)
    assert "net.core.somaxconn=2000" in raised.value.hint
    stack = tmp_path / "stack"
    (stack / "venv/bin").mkdir(parents=True)
    (stack / ".installed").touch()
    (stack / "venv/bin/uwsgi").write_text('#!/bin/sh\necho "$@"\n')
    (stack / "venv/bin/uwsgi").chmod(0o755)
    words = {"port": 1, "processes": 2, "threads": 2, "users": 1, "calls": 1, "listen": 700}
    command = [str(PAYLOAD / "serve"), "--stack", str(stack), "--cassandra", "x:1", "--memcached", "x:2"]
    command += [part for name, value in words.items() for part in (f"--{name}", str(value))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--listen 700 " in done.stdout


def test_what_is_not_installed_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("STEELYARD_STACKS", str(tmp_path))
    monkeypatch.setattr("steelyard.benchmarks.django.stack.application.find_java", lambda name: "java")
    settings = {"warmup_min": 1, "warmup_max": 2, "connections": 2, "load_threads": 1, "data": "", "port": 0}
    with pytest.raises(EnvironmentLacksError) as raised:
        DjangoBench.checks(settings, machine=None)
    assert "the files of django" in raised.value.message
    assert raised.value.hint == "steelyard install django"


def test_the_lock_has_hashes_and_no_hosts():
    text = (PAYLOAD / "requirements.lock").read_text()
    assert "://" not in text
    pinned = re.findall(r"^[\w-]+==", text, re.MULTILINE)
    assert len(pinned) >= 5
    for requirement in re.split(r"\n(?=\S)", text.strip()):
        assert "--hash=sha256:" in requirement


# Whole runs


@pytest.fixture
def installed():
    if not (payload_dir(DECLARATION.recipe.payload) / ".installed").is_file():
        pytest.fail("Django is not installed: scripts/install-test-packages --slow")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_run(runner, installed):
    live = runner.start(benchmark="django", settings=SHORT)
    code, _, stderr = live.finish(400)
    assert code in (0, 1), stderr
    run = live.run()
    metrics = run.metrics
    # A view also counts that was under way when the phase ended: one of each connection at most.
    measured = next(phase for phase in run.phases if phase.name == "measure")
    under_way = run.parameters["connections"].value / ((measured.end_ns - measured.begin_ns) / 1e9)
    assert sum(metrics[f"{view.name}_per_s"].value for view in VIEWS) == pytest.approx(
        metrics["requests_per_s"].value, abs=under_way + 0.1
    )
    assert metrics["errors"].value == 0
    assert 0.3 < metrics["hit_ratio"].value <= 1
    assert 0 < metrics["server_cpu_ratio"].value <= 1.05
    shares = [metrics[f"{name}_cpu_share_ratio"].value for name in ("uwsgi", "cassandra", "memcached")]
    assert sum(shares) == pytest.approx(1.0)
    assert metrics["rows"].value > 100 * 60
    missing = {name: metric.missing for name, metric in metrics.items() if metric.value is None}
    assert all(missing.values())
    assert {check.id: check.level for check in run.verdict.checks}["workers"] is Level.VALID
    page = (live.directory / "report.html").read_text()
    assert "bundle tray" in page
    assert not (live.directory / "data").exists()
    assert live.left() == {}


def worker_of(live):
    """A worker of uWSGI: a child of its master, which is the child of its supervisor."""
    master = live.pid_of("uwsgi")
    if master is None:
        return None
    children = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    return int(children[0]) if children else None


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("victim", ["worker", "cassandra", "orchestrator"])
def test_kill_9_in_the_measure_phase(runner, installed, victim):
    lasting = "measure=8" if victim == "worker" else "measure=60"
    live = runner.start(benchmark="django", settings=(*SHORT, lasting))
    live.until(lambda: live.in_phase("measure"), 300)
    pid = {
        "worker": lambda: worker_of(live),
        "cassandra": lambda: live.pid_of("cassandra"),
        "orchestrator": lambda: live.process.pid,
    }[victim]()
    os.kill(pid, signal.SIGKILL)
    code, _, _ = live.finish(200)
    live.until(lambda: not live.left(), 100)
    run = live.run()
    if victim == "worker":
        # The master replaces it; the run ends, and its result does not count.
        assert code == 1
        assert run.status is RunStatus.COMPLETE
        assert run.verdict.level is Level.INVALID
        check = next(check for check in run.verdict.checks if check.id == "workers")
        assert "was killed by signal 9" in check.claim
        return
    assert code == (4 if victim == "cassandra" else -signal.SIGKILL)
    assert run.status is RunStatus.INCOMPLETE
    assert run.verdict is None
    assert run.metrics == {}
    assert f"{victim} " in run.status_reason
